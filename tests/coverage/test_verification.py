"""Which merged texts the program accepts or refuses unasked, and which where nobody reads them."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage.verification import Belief, verify, verify_by_words
from tests.coverage import merged_texts

FAITHFUL = [*merged_texts.FAITHFUL, *merged_texts.REWORDED]
WRONG = [*merged_texts.WRONG, *merged_texts.WRONG_FACTS]
FAULTS = [
    ("Mia has a cat.", "Mia has a black cat.", "Mia has a black cat since 2019.", "2019"),
    ("Mia has a cat.", "Mia has a black cat.", "Mia has a black cat from Lisbon.", "Lisbon"),
    ("Mia has a cat.", "Mia has a black cat.", "Mia has a black cat. " * 10, "longer"),
    ("Mia has a cat.", "Mia has a black cat.", " ", "empty"),
    ("Mia pays rent.", "Mia pays rent in May.", "Mia pays rent.", "newest memory states: May"),
    ("Mia pays rent.", "Mia pays 900 euros.", "Mia pays rent.", "states: 900, euros"),
    ("Mia pays 800 euros.", "Mia pays 900 euros.", "Mia pays 800 euros.", "states: 900"),
    ("Mia met Jo.", "Mia met Jo on Friday.", "Mia met Jo on Sunday.", "no memory states: Sunday"),
    ("Mia rows.", "Mia rows with Jo.", "Mia rows.", "newest memory states: Jo"),
    ("ミアは猫を2匹飼う。", "ミアは猫を2匹飼っている。", "ミアは猫を3匹飼っている。", "3"),
]  # fmt: skip
FREE = [
    ("The firm made $11 million.", "The firm made $11M in May.", "In May the firm made $11M."),
    ("The firm made $11M.", "The firm made $11M in May.", "In May the firm made $11 million."),
    ("Mia said she sails.", "She sails at 6 am.", "Mia sails at six every morning."),
    ("Mia has a cat.", "Mia has one black cat.", "Mia has a black cat."),
    ("Lead the team, said Bo.", "Bo leads the team.", "Bo leads the team."),
    ("Mia met Mr. Lund.", "Mia met Mr. Lund in Rome.", "Mia met Lund in Rome."),
    ("It's raining, says Bo.", "Today's rain fell on Rome.", "Rain fell on Rome, says Bo."),
    ("Work is hard.", "Work is hard and long.", "The job is hard and long."),
    ("Der Hund schläft.", "Der Hund schläft im Haus.", "Im Gebäude schläft der Hund."),
]  # fmt: skip
"""Refused before, or easily refused, for a letter, a pronoun, an article or a capital."""


def belief(*told: str) -> Belief:
    """Of the last of these texts, made of the others."""
    return verify(told[-1], told[:-1]).belief


def by_words(*told: str) -> Belief:
    return verify_by_words(told[-1], told[:-1]).belief


# --- unasked --------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [*FAITHFUL, *FREE])
def test_a_faithful_text_is_never_refused_unasked(told: tuple[str, ...]) -> None:
    assert verify(told[-1], told[:-1]).reason == ""


@pytest.mark.parametrize("told", WRONG)
def test_a_wrong_text_is_never_accepted_unasked(told: tuple[str, ...]) -> None:
    assert belief(*told) is not Belief.BELIEVED


@pytest.mark.parametrize("told", FAITHFUL)
def test_only_a_member_that_covers_the_others_is_accepted_unasked(told: tuple[str, ...]) -> None:
    assert (belief(*told) is not Belief.BELIEVED) or told[-1].rstrip(".") in [
        one.rstrip(".") for one in told[:-1]
    ]


def test_a_member_that_covers_the_others_is_accepted_unasked() -> None:
    sources = ("Mia has a cat.", "Mia has a black cat.")
    assert belief(*sources, sources[1]) is Belief.BELIEVED
    assert belief(*sources, "A black cat is what Mia has.") is Belief.DOUBTFUL
    assert belief(*sources, sources[0]) is Belief.DOUBTFUL


@pytest.mark.parametrize(("older", "newer", "text", "fault"), FAULTS)
def test_a_refusal_names_its_fault(older: str, newer: str, text: str, fault: str) -> None:
    found = verify(text, (older, newer))
    assert found.belief is Belief.REFUSED
    assert fault in found.reason


@pytest.mark.parametrize(
    ("older", "newer", "text"),
    [
        ("Mia eats meat.", "Mia does not eat meat.", "Mia eats meat."),
        ("Mia moves to Oslo.", "Mia moves to Oslo if Leo does.", "Mia and Leo move to Oslo."),
        ("Tom owes Ann a beer.", "Ann owes Tom a beer.", "Tom owes Ann a beer."),
    ],
)
def test_what_the_newest_source_denies_conditions_or_says_otherwise_is_kept(
    older: str, newer: str, text: str
) -> None:
    found = verify(text, (older, newer))
    assert found.belief is Belief.REFUSED
    assert "does not say as the newest memory" in found.reason


def test_a_text_with_all_words_of_its_sources_needs_no_reader() -> None:
    sources = "Two dogs look at each other.", "Two dogs look angrily at each other in the street."
    assert by_words(*sources, sources[1]) is Belief.BELIEVED
    assert by_words("Mia's pin is Abc.", "Mia's pin is really abc.", "Mia's pin is abc.") is (
        Belief.REFUSED
    )


def test_a_detail_of_an_older_source_alone_needs_a_reader() -> None:
    sources = ("Mia pays 900 euros for her flat in May.", "Mia pays for her flat.")
    assert belief(*sources, "Mia pays for her flat.") is Belief.DOUBTFUL


# --- where nobody reads it ------------------------------------------------------------------------


@pytest.mark.parametrize("told", WRONG)
def test_a_wrong_text_is_refused_where_nobody_reads_it(told: tuple[str, ...]) -> None:
    assert by_words(*told) is Belief.REFUSED


LOSSES = [
    ("Mia is allergic to penicillin.", "Mia is allergic to peanuts.", "penicillin"),
    ("Mia lives in Rome with Jo.", "Mia lives in Porto with Jo.", "Rome"),
    ("The choir meets on Tuesday.", "The choir meets on Thursday.", "Tuesday"),
    ("Mia eats no meat.", "Mia eats fish.", "meat"),
    ("Mia pays 900 euros in May.", "Mia pays 950 euros.", "900"),
    ("Bo gave Mia 5 euros.", "Mia gave Bo 6 euros.", "5"),
    ("Mia has 2 cats and 3 dogs.", "Mia has 3 cats.", "2"),
    ("Mia has 2 cats.", "Mia has 3 dogs.", "2"),
    ("Mia's HbA1c should be <7.", "Mia's HbA1c should be >7.", "<"),
    ("Blood pressure ≤130", "Blood pressure ≥130", "≤"),
    ("Mia's blood type is A+.", "Mia's blood type is A-.", "A+"),
    ("The code is tulip-42-Moon.", "The code is tulip-42-moon.", "tulip-42-Moon"),
    ("Mia codes in C#.", "Mia codes in C.", "C#"),
]


@pytest.mark.parametrize(("older", "newer", "lost"), LOSSES)
def test_without_a_reader_no_value_of_an_older_memory_vanishes(
    older: str, newer: str, lost: str
) -> None:
    found = verify_by_words(newer, (older, newer))
    assert found.belief is Belief.REFUSED
    assert lost in found.reason


OUTDATED = [
    ("Mia pays 900 euros.", "Mia pays 950 euros.", "900"),
    ("Mia's rent is 900 euros.", "Mia's rent is 950 euros.", "900"),
    ("Mia ran 5 km on 3 May.", "Mia ran 6 km on 4 May.", "5, 3"),
]


@pytest.mark.parametrize(("older", "newer", "value"), OUTDATED)
def test_unless_a_newer_one_has_another_value_for_the_same_and_the_reason_says_so(
    older: str, newer: str, value: str
) -> None:
    found = verify_by_words(newer, (older, newer))
    assert found.belief is Belief.BELIEVED
    assert found.reason == f"a newer memory gives another value for {value}"
    assert by_words(newer, older, newer) is Belief.REFUSED


def test_the_newest_of_several_values_stays() -> None:
    sources = [f"Mia pays {rent} euros for her flat." for rent in (800, 900, 950)]
    assert verify_by_words(sources[2], sources).reason.endswith("800, 900")
    assert verify_by_words(sources[1], sources).belief is Belief.REFUSED


def test_without_a_reader_no_word_may_be_added() -> None:
    sources = ("Mia has a cat.", "Mia has a black cat.")
    found = verify_by_words("Mia has a black cat that she hates.", sources)
    assert found.belief is Belief.REFUSED
    assert "hates" in found.reason


# --- whatever the texts ---------------------------------------------------------------------------

TEXTS = st.sampled_from([text for told in FAITHFUL for text in told])
ENGLISH = st.sampled_from(
    "Mia has a cat.|Mia has a black cat.|Mia left Rome in 2021.|Mia pays 900 euros.|"
    "Mia lives in Porto with Jo.|Mia eats no meat.|Bo rows.".split("|")
)


@given(st.one_of(TEXTS, st.text(min_size=1).filter(lambda text: bool(text.strip()))))
def test_a_text_said_again_is_believed(text: str) -> None:
    assert belief(text, text, text) is Belief.BELIEVED


@given(ENGLISH, ENGLISH)
def test_one_text_after_the_other_states_what_both_state(older: str, newer: str) -> None:
    assert by_words(older, newer, f"{older.rstrip('.')}. {newer}") is Belief.BELIEVED


@given(st.text(), st.lists(st.text(), min_size=2, max_size=4))
def test_whatever_the_texts_there_is_an_answer_and_a_refusal_has_its_reason(
    text: str, sources: list[str]
) -> None:
    found, alone = verify(text, sources), verify_by_words(text, sources)
    assert (found.belief is Belief.REFUSED) == bool(found.reason)
    assert alone.belief is not Belief.DOUBTFUL
    assert alone.reason or alone.belief is Belief.BELIEVED


def test_a_word_of_90_000_letters_is_read_once() -> None:
    told = f"Mia keeps {'a' * 90_000}"
    assert belief(told, "Mia keeps bees.", told) is Belief.DOUBTFUL


@pytest.mark.parametrize("words", ["last Friday and two weeks ago ", "9-15 May ", "about 2019 "])
def test_more_times_than_can_be_compared_are_refused(words: str) -> None:
    """Each time of the text is compared with each of its memories: 20,000 characters took 38 s."""
    text, day = f"Mia rowed {words * 300}", datetime(2026, 5, 8)
    found = verify(f"{text} black", [text, f"{text} black"], [day, day])
    assert (found.belief, found.reason) == (Belief.REFUSED, "a text has more than 100 dates")
    assert verify_by_words(f"{text} black", [text], [day]).belief is Belief.REFUSED
