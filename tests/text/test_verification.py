"""Which merged texts are believed, which are doubtful, which are refused, and in what words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.outdating import outdated
from memory.text.verification import Belief, Lost, verify
from memory.text.wording import wordings
from tests.text import merged_texts

SMALL = [
    ("Mia has a cat.", "Mia has a tabby cat.", "Mia has a tabby cat."),
    ("Mia has a cat named Pip.", "Mia's cat is a tabby.", "Mia has a tabby cat named Pip."),
    ("Mia left Rome in 2021.", "Mia left Rome in May.", "Mia left Rome in May 2021."),
    ("Mia pays 900 euros.", "Mia pays 950 euros.", "Mia pays 950 euros."),
    ("Mia lives in Rome with Jo.", "Mia lives in Porto with Jo.", "Mia lives in Porto with Jo."),
    ("Mia eats no meat.", "Mia eats fish.", "Mia eats fish and eats no meat."),
    ("ミアは猫を飼っている。", "ミアは黒い猫を飼っている。", "ミアは黒い猫を飼っている。"),
]  # fmt: skip
FAULTS = [
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
    ("Mia was never in Rome.", "Mia likes maps.", "Mia was in Rome, likes maps.", "negation"),
    ("ミアは肉を食べない。", "ミアは茶が好きだ。", "ミアは肉を食べて、茶が好きだ。", "negation"),
    ("ミアは犬を飼わず、猫を飼う。", "ミアは茶を飲む。", "ミアは犬を飼い、茶を飲む。", "negation"),
    ("Mia met her boss.", "Mia met her new boss.", "Mia met his new boss.", "no source states: he"),
    ("Jo saw Bela.", "Jo saw Mia.", "Mia saw Jo.", "who does what"),
    ("Mia may sail.", "Mia may sail to Kos.", "Mia will sail to Kos.", "no source states: will"),
]  # fmt: skip


def belief(*told: str) -> Belief:
    """Of the last of these texts, made of the others."""
    return verify(told[-1], told[:-1]).belief


@pytest.mark.parametrize("told", [*SMALL, *merged_texts.BELIEVED])
def test_what_states_everything_and_nothing_else_is_believed(told: tuple[str, ...]) -> None:
    assert verify(told[-1], told[:-1]).reason == ""
    assert belief(*told) is Belief.BELIEVED


@pytest.mark.parametrize("told", merged_texts.DOUBTFUL)
def test_what_only_a_reader_can_tell_is_doubtful_with_its_words(told: tuple[str, ...]) -> None:
    found = verify(told[-1], told[:-1])
    assert found.belief is Belief.DOUBTFUL
    assert found.lost or found.new
    assert all(repr(words) in found.reason for words in found.new)
    assert all(one.words in told[one.source] for one in found.lost)


@pytest.mark.parametrize("told", merged_texts.REFUSED)
def test_what_gets_a_hard_fact_wrong_is_refused(told: tuple[str, ...]) -> None:
    found = verify(told[-1], told[:-1])
    assert found.belief is Belief.REFUSED
    assert (found.lost, found.new) == ((), ())


@pytest.mark.parametrize(("older", "newer", "text", "fault"), FAULTS)
def test_a_refusal_names_its_fault(older: str, newer: str, text: str, fault: str) -> None:
    found = verify(text, (older, newer))
    assert found.belief is Belief.REFUSED
    assert fault in found.reason


@pytest.mark.parametrize("told", merged_texts.WRONG)
def test_what_is_subtly_wrong_is_never_believed(told: tuple[str, ...]) -> None:
    assert belief(*told) is not Belief.BELIEVED


def test_a_doubt_names_what_is_lost_of_which_source_and_what_is_new() -> None:
    found = verify("Mia has a cat named Pip.", ("Mia has a cat called Pip.", "Mia has a kind cat."))
    assert found.lost == (Lost(0, "called"), Lost(1, "kind"))
    assert found.new == ("named",)
    assert (
        found.reason == "the merged text may have lost 'called', 'kind' and may have added 'named'"
    )


# --- what is no invention, and no loss ------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Mia has a tabby cat!!!",
        "Mia  has a tabby cat .",
        "mia has a tabby cat",
        '"Mia has a tabby cat."',
        "“Mia has a tabby cat”",
        "Mia has a (tabby) cat.",
    ],
)
def test_spaces_case_quotes_and_full_stops_state_nothing(text: str) -> None:
    assert belief("Mia has a tabby cat", "Mia has a tabby cat", text) is Belief.BELIEVED


def test_a_mark_and_a_space_between_two_texts_are_not_longer_than_both() -> None:
    assert belief("Mia sails", "Bo rows", "Mia sails. Bo rows.") is Belief.BELIEVED


def test_what_a_newer_source_contradicts_may_go_whichever_it_is() -> None:
    sources = [f"Mia pays {rent} euros for her flat." for rent in (800, 900, 950)]
    assert belief(*sources, "Mia pays 950 euros for her flat.") is Belief.BELIEVED
    assert "drops" in verify("Mia pays 900 euros for her flat.", sources).reason


def test_an_added_word_changes_nobody_s_deeds() -> None:
    told = ("Bo met Mia.", "Bo met Mia in Rome.", "Bo really met Mia in Rome.")
    assert belief(*told) is Belief.BELIEVED


def test_a_text_equal_to_one_source_is_measured_like_any_other() -> None:
    assert belief("Mia has a dog.", "Mia has 2 cats.", "Mia has 2 cats.") is not Belief.BELIEVED
    assert belief("Mia has 2 cats.", "Mia has a dog.", "Mia has a dog.") is Belief.REFUSED


TEXTS = st.sampled_from([text for told in merged_texts.BELIEVED for text in told])
ENGLISH = st.sampled_from([text for told in SMALL for text in told if text.isascii()])


@given(st.one_of(TEXTS, st.text(min_size=1).filter(lambda text: bool(text.strip()))))
def test_a_text_said_again_is_believed(text: str) -> None:
    assert belief(text, text, text) is Belief.BELIEVED


def test_a_word_of_90_000_letters_is_read_once() -> None:
    told = f"Mia keeps {'a' * 90_000}"
    assert belief(told, "Mia keeps bees.", told) is Belief.DOUBTFUL


@given(st.text(), st.lists(st.text(), min_size=2, max_size=4))
def test_whatever_the_texts_there_is_an_answer_with_its_reason(
    text: str, sources: list[str]
) -> None:
    found = verify(text, sources)
    assert (found.belief is Belief.BELIEVED) == (found.reason == "")
    assert (found.belief is Belief.DOUBTFUL) == bool(found.lost or found.new)


@given(ENGLISH, ENGLISH)
def test_one_text_after_the_other_states_what_both_state(older: str, newer: str) -> None:
    assert verify(f"{older.rstrip('.')}. {newer}", (older, newer)).reason == ""


def test_of_texts_that_repeat_themselves_thousands_of_times_nothing_is_outdated() -> None:
    """To tell what stands in whose place would take minutes; so all that is told has to stay."""
    for times, gone in ((2, {"three"}), (2_000, set[str]())):
        older, newer = wordings(["red " * times + f"and {sort}" for sort in ("three", "four")])
        assert {term.surface for term in older.terms if term.key in outdated(older, newer)} == gone
