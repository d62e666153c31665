"""Rewordings that change nothing read the same; those that change something do not."""

from __future__ import annotations

import pytest

from memory.coverage.parse import parse
from memory.text import FILLERS, GOVERNING, NEGATIONS, NUMBERS, PRONOUNS, SAME_AS, TURNING


def stated(text: str) -> list[str]:
    return list(parse(text).stated)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The ball is being thrown by Mia.", "Mia is throwing the ball."),
        ("The bridge was built by Jo.", "Jo built the bridge."),
        ("Mia was really inspired by Jo.", "Mia was inspired by Jo."),
        ("Mia sits next to Jo.", "Mia sits close to Jo."),
        ("Mia has a few friends.", "Mia has several friends."),
        ("Mia's favourite colour is grey.", "Mia's favorite color is gray."),
        ("MIA LIKES TEA.", "mia likes tea"),
        ("ミアは走っています。", "ミアは走っている。"),
        ("ミアは肉を食べません。", "ミアは肉を食べない。"),
    ],
)
def test_a_rewording_reads_the_same(a: str, b: str) -> None:
    assert stated(a) == stated(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Mia has few friends.", "Mia has a few friends."),
        ("Mia used to climb.", "A rope is used for climbing by Mia."),
        ("The ball was thrown by Mia.", "Mia throws the ball."),
        ("Mia was seen by Jo.", "Jo was seen by Mia."),
        ("May I go?", "I go in May?"),
        ("Mia works in IT.", "Mia works in it."),
        ("ミアは肉を食べる。", "ミアは肉を食べた。"),
    ],
)
def test_texts_with_other_meanings_parse_differently(a: str, b: str) -> None:
    assert stated(a) != stated(b)


def test_the_role_of_each_word_is_known() -> None:
    found = parse("Mia flew from Porto to Rome with Jo.")
    assert {word.surface: word.role for word in found.words} == {
        "Mia": "", "flew": "", "Porto": "from", "Rome": "to", "Jo": "with",
    }  # fmt: skip
    japanese = parse("ミアは京都から東京へ行く。")
    assert [word.role for word in japanese.words][:3] == ["は", "から", "に"]


@pytest.mark.parametrize(
    "text",
    [],
)
def test_the_file_of_a_language_says_what_denies(text: str) -> None:
    assert parse(text).negations == 1


def test_no_word_is_in_two_closed_classes() -> None:
    classes = [FILLERS, set(GOVERNING), NEGATIONS, set(NUMBERS), set(PRONOUNS)]
    for place, one in enumerate(classes):
        for other in classes[place + 1 :]:
            assert not set(one) & set(other)


def test_no_word_of_the_thesaurus_says_no_counts_or_stands_for_a_person() -> None:
    for word in SAME_AS:
        assert word not in NEGATIONS
        assert word not in NUMBERS
        assert word not in PRONOUNS


def test_nothing_that_turns_a_statement_is_the_same_as_something_that_does_not() -> None:
    for word, group in SAME_AS.items():
        if word in TURNING:
            assert group in TURNING
