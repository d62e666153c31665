"""Nomination: pairs below the lower threshold whose words say much the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.decide.nominate import FLOOR, NOMINATED, OwnedText, overlaps, scores
from memory.models import Vectors
from memory.providers import WordLlamaEmbedder
from memory.text import telling_words

POTTERY = OwnedText("Mia has taken up pottery to calm down after work.", "Mia")
CALM = OwnedText("Mia mentioned that pottery calms her.", "Mia")
SHIP = OwnedText("Mia's brother repairs ships in Porto.", "Mia")
JAPANESE = OwnedText("ミアは陶芸で心を落ち着かせている。", "ミア")


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def one_axis_each(words: Sequence[str]) -> Vectors:
    """Every word is like itself alone."""
    return np.eye(len(words), dtype=np.float32)


def overlap(a: OwnedText, b: OwnedText, embedder: WordLlamaEmbedder) -> float:
    return float(overlaps([a, b], np.array([0]), np.array([1]), embedder.embed)[0])


def test_texts_that_share_their_words_overlap_more(wordllama: WordLlamaEmbedder) -> None:
    assert overlap(POTTERY, CALM, wordllama) > overlap(POTTERY, SHIP, wordllama) + 0.1


def test_words_of_like_meaning_count_too(wordllama: WordLlamaEmbedder) -> None:
    ceramics, boats = OwnedText("Mia likes ceramics."), OwnedText("Mia likes boats.")
    pottery = OwnedText("Mia likes pottery.")
    assert overlap(pottery, ceramics, wordllama) > overlap(pottery, boats, wordllama)


def test_who_told_it_does_not_count(wordllama: WordLlamaEmbedder) -> None:
    framed = OwnedText("Mia said that the harbour is closed.", "Mia")
    assert overlap(framed, OwnedText("The harbour is closed.", "Jo"), wordllama) == pytest.approx(
        1.0
    )


def test_kana_and_han_are_never_nominated(wordllama: WordLlamaEmbedder) -> None:
    found = scores(
        [JAPANESE, JAPANESE], np.array([0]), np.array([1]), np.array([0.8999]), wordllama.embed
    )
    assert (found.overlap[0], found.nominated[0]) == (0.0, False)


@given(st.lists(st.sampled_from("red blue green tall small".split()), max_size=6), st.data())
def test_with_words_alike_to_themselves_alone_it_is_the_mean_share(
    left: list[str], data: st.DataObject
) -> None:
    """Against plain sets."""
    right = data.draw(st.lists(st.sampled_from("red blue green tall small".split()), max_size=6))
    told = [OwnedText(" ".join(left)), OwnedText(" ".join(right)), OwnedText("Jo sees ships.")]
    a, b = (set(telling_words(one.text)) for one in told[:2])
    shares = [len(a & b) / len(one) for one in (a, b) if one]
    expected = sum(shares) / 2
    found = overlaps(told, np.array([0, 1]), np.array([1, 0]), one_axis_each)
    assert found == pytest.approx([expected, expected])


def test_one_against_many_is_as_pair_by_pair(wordllama: WordLlamaEmbedder) -> None:
    told = [POTTERY, CALM, SHIP, JAPANESE]
    i, j, alike = np.zeros(3, np.int64), np.arange(1, 4), np.array([0.8, 0.5, 0.4])
    many = scores(told, i, j, alike, wordllama.embed)
    for n in range(3):
        pair = [told[0], told[n + 1]]
        one = scores(pair, np.array([0]), np.array([1]), alike[n : n + 1], wordllama.embed)
        assert one.score[0] == pytest.approx(many.score[n])


def test_more_than_one_piece_is_as_one(wordllama: WordLlamaEmbedder) -> None:
    told = [POTTERY, CALM, SHIP]
    i, j = np.tile([0, 0, 1], 400), np.tile([1, 2, 2], 400)
    found = overlaps(told, i, j, wordllama.embed).reshape(400, 3)
    assert np.allclose(found, found[0])


def test_below_the_floor_nothing_is_nominated_and_at_it_a_perfect_overlap_is() -> None:
    told = [OwnedText("Red ships."), OwnedText("Ships, red.")]
    at = np.array([0, 0]), np.array([1, 1])
    found = scores(told, *at, np.array([FLOOR - 1e-6, FLOOR + 1e-6]), one_axis_each)
    assert list(found.nominated) == [False, True]
    assert found.score[1] == pytest.approx(NOMINATED, abs=1e-5)


def test_no_pairs_and_no_words_are_no_fault() -> None:
    none = np.zeros(0, np.int64)
    assert len(overlaps([POTTERY], none, none, one_axis_each)) == 0
    silent = [OwnedText("..."), OwnedText("!")]
    assert list(overlaps(silent, np.array([0]), np.array([1]), one_axis_each)) == [0.0]


def test_a_very_long_text_costs_no_more_than_its_first_words() -> None:
    long = OwnedText(" ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(500)))
    embedded: list[str] = []

    def counting(words: Sequence[str]) -> Vectors:
        embedded.extend(words)
        return one_axis_each(words)

    overlaps([long, POTTERY], np.array([0]), np.array([1]), counting)
    assert len(embedded) < 80
