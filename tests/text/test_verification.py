"""Why a merged text is rejected: each way of inventing, dropping or turning around."""

from __future__ import annotations

import pytest

from memory.text.verification import Belief, verify

BELIEVED = [
    ("Mia has a cat.", "Mia has a tabby cat.", "Mia has a tabby cat."),
    (
        "Mia moved to Porto in 2021.",
        "Mia moved to Porto in May.",
        "Mia moved to Porto in May 2021.",
    ),
    ("Mia pays 900 euros.", "Mia pays 950 euros.", "Mia pays 950 euros."),
    ("Mia lives in Rome with Jo.", "Mia lives in Porto with Jo.", "Mia lives in Porto with Jo."),
    ("Mia eats no meat.", "Mia eats fish.", "Mia eats fish and eats no meat."),
    ("ミアは猫を飼っている。", "ミアは黒い猫を飼っている。", "ミアは黒い猫を飼っている。"),
]
REFUSED = [
    ("Mia has a cat.", "Mia has a tabby cat.", "Mia has a tabby cat since 2019.", "2019"),
    ("Mia has a cat.", "Mia has a tabby cat.", "Mia has a tabby cat from Lisbon.", "Lisbon"),
    ("Mia has a cat.", "Mia has a tabby cat.", "Mia has no tabby cat.", "negation"),
    ("Mia has a cat.", "Mia has a tabby cat.", "Mia has a tabby cat. " * 10, "longer"),
    ("Mia has a cat.", "Mia has a tabby cat.", " ", "empty"),
    ("Mia pays 900 euros in May.", "Mia pays rent in May.", "Mia pays rent in May.", "900"),
    ("Mia has a cat, Pip.", "Mia has a tabby cat.", "Mia has a tabby cat.", "one states: Pip"),
    ("Mia has 2 cats.", "Mia has 3 dogs.", "Mia has 3 cats and 2 dogs.", "counts"),
    ("Mia eats fish.", "Mia does not eat meat.", "Mia eats meat, does not eat fish.", "negation"),
    ("Mia likes tea.", "Mia drinks no coffee.", "Mia does not like tea.", "negation"),
    ("Mia met her boss.", "Mia met her new boss.", "Mia met his new boss.", "no source states: he"),
    ("Jo saw Bela.", "Jo saw Mia.", "Mia saw Jo.", "who does what"),
]  # fmt: skip


@pytest.mark.parametrize(("older", "newer", "text"), BELIEVED)
def test_what_keeps_everything_and_invents_nothing_is_believed(
    older: str, newer: str, text: str
) -> None:
    assert verify(text, (older, newer)).belief is Belief.BELIEVED


@pytest.mark.parametrize(("older", "newer", "text", "fault"), REFUSED)
def test_what_invents_drops_or_turns_around_is_refused_with_its_fault(
    older: str, newer: str, text: str, fault: str
) -> None:
    found = verify(text, (older, newer))
    assert found.belief is Belief.REFUSED
    assert fault in found.reason


def test_what_a_newer_source_contradicts_may_go_whichever_it_is() -> None:
    sources = [f"Mia pays {rent} euros for her flat." for rent in (800, 900, 950)]
    assert verify("Mia pays 950 euros for her flat.", sources).belief is Belief.BELIEVED
    assert "drops" in verify("Mia pays 900 euros for her flat.", sources).reason
