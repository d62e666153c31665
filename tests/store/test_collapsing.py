"""Anybody's hits: what states the same is folded, what contradicts stays and is marked."""

from __future__ import annotations

from typing import Any

import pytest

from memory import collapse
from memory.errors import InputError


def shown(*texts: str) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    return [(one.position, one.also, one.contradicts) for one in collapse(texts)]


def test_what_states_the_same_is_folded_at_the_better_rank() -> None:
    assert shown("Mia has a cat.", "Omar plays chess.", "mia really has a cat") == [
        (0, (2,), ()),
        (1, (), ()),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Rolf has a gun.", "Rolf has a water gun."),
        ("Rolf has a horse.", "Rolf has a wooden horse."),
    ],
)
def test_a_text_that_adds_a_word_stays(one: str, other: str) -> None:
    assert shown(one, other) == shown(other, one) == [(0, (), ()), (1, (), ())]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mia has a cat.", "Mia has no cat."),
        ("Mia smokes.", "Mia does not smoke."),
        ("Mia has two dogs.", "Mia has three dogs."),
        ("Mia lives in Porto.", "Mia lives in Lisbon."),
        ("Mia was born on 3 May 1990.", "Mia was born on 4 May 1990."),
        ("健太は32歳だ。", "健太は23歳だ。"),
    ],
)
def test_contradictions_stay_apart_and_are_marked(one: str, other: str) -> None:
    assert shown(one, other, one) == [(0, (2,), (1,)), (1, (), (0,))]


def test_what_contradicts_a_folded_text_is_marked() -> None:
    texts = "Mia is at home.", "Mia is really at home.", "Mia is not really at home."
    assert shown(*texts) == [(0, (1,), (2,)), (2, (), (0,))]


def test_other_facts_are_no_contradictions() -> None:
    texts = ["Mia likes tea.", "Mia likes coffee.", "Omar paid 30 euros.", "Mia flew to Porto."]
    assert shown(*texts) == [(n, (), ()) for n in range(4)]


def test_whatever_cannot_be_a_memory_is_returned_as_it_is() -> None:
    long = "word " * 40_000
    assert [one.text for one in collapse(["", long, "Mia has a cat.", ""])] == [
        "", long, "Mia has a cat.", "",
    ]  # fmt: skip
    assert collapse([]) == []


@pytest.mark.parametrize("texts", ["Mia has a cat.", [None], [1]])
def test_what_is_not_a_list_of_texts_is_named(texts: Any) -> None:
    with pytest.raises(InputError, match="texts"):
        collapse(texts)
