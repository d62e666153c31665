"""The scale of similarity: its fixed points, its inverse, and rounding at the thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memory.models.memory import LOWER, NEAR_COPY, PLAIN, Scale, scale_of

WORDLLAMA = scale_of("wordllama-l2_supercat-256/unit/nfkc-casefold")
MINILM = scale_of("chroma-all-MiniLM-L6-v2-384/unit/nfkc-casefold")
LATIN, JAPANESE = "Mia has a cat.", "ミアは猫を飼っている。"

scales = st.builds(
    lambda anchors: Scale(anchor=min(anchors), anchor_kana_han=max(anchors)),
    st.tuples(*[st.integers(50_000, 949_999).map(lambda n: n / 1e6)] * 2),
)
cosines = st.integers(-1_000_000, 1_000_000).map(lambda n: n / 1e6)
"""Of 6 places, as the index gives them."""


def at(scale: Scale, cosine: float, strict: bool = False) -> float:
    return scale.similarity(cosine, LATIN, JAPANESE if strict else LATIN)


@given(scales, cosines, cosines, st.booleans())
def test_more_cosine_is_never_less_similarity(
    scale: Scale, one: float, other: float, strict: bool
) -> None:
    low, high = sorted((one, other))
    assert at(scale, low, strict) <= at(scale, high, strict)


@given(scales, st.booleans())
def test_the_fixed_points_are_exact(scale: Scale, strict: bool) -> None:
    anchor = scale.cjk_anchor if strict else scale.anchor
    assert at(scale, anchor, strict) == LOWER
    assert scale.cosine(LOWER, JAPANESE if strict else LATIN) == anchor
    for fixed in (-1.0, -0.25, 0.0, NEAR_COPY, 0.98, 1.0):
        assert at(scale, fixed, strict) == scale.cosine(fixed) == fixed


@given(scales, cosines, st.floats(-1.0, 1.0), st.booleans())
def test_a_cosine_reaches_a_similarity_exactly_where_the_inverse_says(
    scale: Scale, cosine: float, threshold: float, strict: bool
) -> None:
    least = scale.cosine(threshold, JAPANESE if strict else LATIN)
    assert (cosine >= least) == (at(scale, cosine, strict) >= threshold)


@given(scales, st.sampled_from([0.5, 0.85, LOWER, 0.93, NEAR_COPY, 0.97]), st.integers(-3, 3))
def test_around_a_threshold_each_step_falls_on_its_side(
    scale: Scale, threshold: float, steps: int
) -> None:
    least = scale.cosine(threshold)
    near = round(least + steps / 1e6, 6)
    assert (at(scale, near) >= threshold) == (steps >= 0)


@given(scales, st.lists(st.tuples(cosines, st.booleans())))
def test_many_at_once_are_as_one_by_one(scale: Scale, pairs: list[tuple[float, bool]]) -> None:
    many = scale.similarities(
        np.array([cosine for cosine, _ in pairs]), np.array([strict for _, strict in pairs], bool)
    )
    assert list(many) == [at(scale, cosine, strict) for cosine, strict in pairs]


@given(scales, st.floats(-1.0, 1.0))
def test_a_similarity_has_six_places(scale: Scale, cosine: float) -> None:
    assert round(at(scale, cosine), 6) == at(scale, cosine)


@given(cosines)
def test_on_the_plain_scale_it_is_the_cosine(cosine: float) -> None:
    assert at(PLAIN, cosine) == cosine


def test_kana_or_han_in_either_text_makes_the_pair_strict() -> None:
    for a, b in [(LATIN, JAPANESE), (JAPANESE, LATIN), (JAPANESE, JAPANESE)]:
        assert WORDLLAMA.similarity(0.88, a, b) == LOWER
    assert WORDLLAMA.similarity(0.70, LATIN, LATIN) == LOWER
    assert WORDLLAMA.similarity(0.70, LATIN, JAPANESE) < 0.75


def test_for_an_unknown_text_the_index_is_asked_for_the_looser_cosine() -> None:
    assert WORDLLAMA.cosine(LOWER) == WORDLLAMA.cosine(LOWER, LATIN) == 0.70
    assert WORDLLAMA.cosine(LOWER, JAPANESE) == 0.88


def test_each_embedder_has_its_own_and_an_unknown_one_the_cosine() -> None:
    assert MINILM.similarity(0.77, LATIN, LATIN) == LOWER
    assert scale_of("gemini-embedding-2-768/unit") == scale_of("somebody's") == PLAIN


def test_a_float_a_hair_below_a_threshold_is_on_it() -> None:
    assert at(PLAIN, float(np.float32(0.95))) == NEAR_COPY
    assert at(WORDLLAMA, float(np.float32(0.70))) == LOWER


@pytest.mark.parametrize(
    ("anchor", "kana_han"), [(0.0, None), (0.95, None), (1.2, None), (0.8, 0.7), (0.8, 0.95)]
)
def test_an_anchor_that_makes_no_curve_is_refused(anchor: float, kana_han: float | None) -> None:
    with pytest.raises(ValidationError):
        Scale(anchor=anchor, anchor_kana_han=kana_han)
