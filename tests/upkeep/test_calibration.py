"""Calibration: what is asked first, what is counted, what is suggested."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from memory.models import Scale
from memory.upkeep.calibration import (
    EDGES,
    AlikePair,
    Answer,
    Upper,
    answers_about,
    by_band,
    fit_anchor,
    most_informative,
    suggest_scale,
    suggest_upper,
)
from tests.conftest import MakeMemory

NOW = Scale(anchor=0.70, anchor_kana_han=0.88)
SAME, MERGE, APART = Answer
Answers = dict[str, Answer]


def pairs(make_memory: MakeMemory, *cosines: float) -> list[AlikePair]:
    return [
        AlikePair(
            make_memory(f"Mia has fed {n} cats."),
            make_memory(f"Mia has gladly fed {n} cats."),
            cosine,
        )
        for n, cosine in enumerate(cosines)
    ]


def judged(made: Sequence[AlikePair], crossing: float, seed: int = 7) -> dict[str, Answer]:
    """Answers that grow likelier to say the same around a cosine, as a reader's would."""
    rng = np.random.default_rng(seed)
    odds = [1 / (1 + np.exp(-(pair.cosine - crossing) * 20)) for pair in made]
    return {
        pair.key: (SAME if rng.random() < 0.5 else MERGE) if rng.random() < chance else APART
        for pair, chance in zip(made, odds, strict=True)
    }


@pytest.fixture
def near_copies(make_memory: MakeMemory) -> Callable[..., tuple[list[AlikePair], Answers]]:
    """Return twenty covered pairs of each band from 0.95 on, of which some are (asked, same)."""

    def made(*said: tuple[int, int]) -> tuple[list[AlikePair], Answers]:
        lows = [low for low in EDGES[:-1] if low >= 0.95]
        found, answers = list[AlikePair](), Answers()
        made = iter(pairs(make_memory, *[low for low in lows for _ in range(20)]))
        for asked, same in said:
            band = [next(made) for _ in range(20)]
            found += band
            answers |= {
                pair.key: SAME if n < same else APART for n, pair in enumerate(band[:asked])
            }
        return found, answers

    return made


# --- what is asked ------------------------------------------------------------------------------


def test_a_few_of_every_band_are_asked_first_and_the_same_ones_every_time(
    make_memory: MakeMemory,
) -> None:
    made = pairs(make_memory, *np.linspace(0.4, 1.0, 200).tolist())
    first = most_informative(made, {}, 60)
    assert most_informative(made[::-1], {}, 60) == first
    assert min(map(len, by_band(first))) >= 3


def test_after_that_the_pairs_around_the_anchor_are_asked(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, *np.linspace(0.4, 0.89, 300).tolist())
    answers = {pair.key: SAME if pair.cosine > 0.66 else APART for pair in made[::3]}
    known = fit_anchor(made, answers)
    assert known is not None
    assert known == pytest.approx(0.66, abs=0.02)
    asked = most_informative(made, answers, 10)
    assert all(abs(pair.cosine - known) < 0.03 for pair in asked)


def test_kana_and_han_and_others_take_turns(make_memory: MakeMemory) -> None:
    japanese = [
        AlikePair(make_memory(f"ミアは猫を{n}匹飼う"), make_memory(f"ミアは{n}匹の猫"), 0.8)
        for n in range(40)
    ]
    asked = most_informative([*japanese, *pairs(make_memory, *[0.6] * 40)], {}, 20)
    assert sum(pair.has_cjk for pair in asked) == 10


def test_near_copies_that_rules_would_replace_are_asked_about_first(
    make_memory: MakeMemory,
) -> None:
    differ = [
        AlikePair(make_memory(f"Mia has {n} dogs."), make_memory(f"Mia has {n + 1} dogs."), 0.96)
        for n in range(20)
    ]
    [covered] = pairs(make_memory, 0.96)
    assert covered in most_informative([*differ, covered], {}, 3)


def test_nothing_is_asked_twice_and_nothing_that_was_passed_over(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, 0.6, 0.7, 0.8)
    answers = {made[0].key: APART}
    assert most_informative(made, answers, 9, {made[1].key}) == [made[2]]


# --- what was said ------------------------------------------------------------------------------


def test_a_band_begins_at_its_own_edge(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, 0.95, 0.949999, 1.0, 0.399999)
    counted = {low: len(band) for low, band in zip(EDGES, by_band(made), strict=False) if band}
    assert counted == {0.90: 1, 0.95: 1, 0.99: 1}


def test_only_answers_about_the_given_pairs_are_counted(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, 0.96, 0.97, 0.98)
    said = {made[0].key: SAME, made[1].key: APART, "another": APART}
    assert answers_about(made, said) == {SAME: 1, APART: 1}


def test_a_key_does_not_depend_on_the_order_and_holds_no_text(make_memory: MakeMemory) -> None:
    a, b = make_memory("Mia has a cat."), make_memory("Mia has a dog.")
    assert AlikePair(a, b, 0.9).key == AlikePair(b, a, 0.9).key
    assert "Mia" not in AlikePair(a, b, 0.9).key


# --- what follows -------------------------------------------------------------------------------


@pytest.mark.parametrize("crossing", [0.55, 0.7, 0.82])
def test_the_anchor_is_where_every_second_pair_is_worth_asking(
    make_memory: MakeMemory, crossing: float
) -> None:
    made = pairs(make_memory, *np.linspace(0.4, 0.99, 800).tolist())
    assert fit_anchor(made, judged(made, crossing)) == pytest.approx(crossing, abs=0.02)


def test_sides_that_part_cleanly_are_parted_between_them(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, *np.linspace(0.5, 0.9, 40).tolist())
    said = {pair.key: SAME if pair.cosine > 0.7 else APART for pair in made}
    assert fit_anchor(made, said) == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("answer", Answer)
def test_answers_that_are_all_the_same_fit_nothing(make_memory: MakeMemory, answer: Answer) -> None:
    made = pairs(make_memory, *np.linspace(0.5, 0.9, 40).tolist())
    said = {pair.key: answer for pair in made}
    assert fit_anchor(made, said) is None


def test_few_answers_and_a_curve_that_falls_fit_nothing(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, *np.linspace(0.5, 0.9, 40).tolist())
    falling = {pair.key: SAME if pair.cosine < 0.7 else APART for pair in made}
    few = {pair.key: SAME if pair.cosine > 0.7 else APART for pair in made[::8]}
    assert fit_anchor(made, falling) is fit_anchor(made, few) is None


def test_an_anchor_stays_within_what_was_asked_and_below_a_near_copy(
    make_memory: MakeMemory,
) -> None:
    made = pairs(make_memory, *np.linspace(0.90, 0.999, 60).tolist())
    anchor = fit_anchor(made, judged(made, 0.99))
    assert anchor is not None
    assert Scale(anchor=anchor).anchor < 0.95


def test_an_anchor_that_cannot_be_fitted_stays(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, *np.linspace(0.5, 0.94, 60).tolist())
    said = {pair.key: SAME if pair.cosine > 0.92 else APART for pair in made}
    found = suggest_scale(made, said, NOW)
    assert found is not None
    assert found.anchor == pytest.approx(0.92, abs=0.02)
    assert found.cjk_anchor == max(found.anchor, 0.88)
    assert suggest_scale(made, {}, NOW) is None


def test_kana_and_han_are_fitted_by_themselves(make_memory: MakeMemory) -> None:
    latin = pairs(make_memory, *np.linspace(0.5, 0.9, 60).tolist())
    japanese = [
        AlikePair(make_memory(f"ミアは猫を{n}匹飼う"), make_memory(f"ミアは{n}匹の猫"), cosine)
        for n, cosine in enumerate(np.linspace(0.7, 0.94, 60).tolist())
    ]
    said = {pair.key: SAME if pair.cosine > 0.65 else APART for pair in latin}
    said |= {pair.key: MERGE if pair.cosine > 0.85 else APART for pair in japanese}
    found = suggest_scale([*latin, *japanese], said, NOW)
    assert found is not None
    assert found.anchor == pytest.approx(0.65, abs=0.02)
    assert found.cjk_anchor == pytest.approx(0.85, abs=0.02)


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize(
    ("said", "wanted", "threshold"),
    [
        ([(9, 9), (9, 9), (9, 9), (9, 9)], 0.99, 0.95),
        # a band below what is wanted is carried by better ones above it
        ([(9, 8), (9, 9), (9, 9), (9, 9)], 0.95, 0.95),
        # not even the most similar are right often enough
        ([(9, 9), (9, 9), (9, 9), (19, 5)], 0.95, 1.0),
        # nobody was asked: nothing is known
        ([(0, 0)] * 4, 0.95, None),
        # a few answers say nothing either
        ([(0, 0), (0, 0), (0, 0), (5, 5)], 0.95, None),
        # an unknown band ends the walk
        ([(9, 9), (0, 0), (9, 9), (9, 9)], 0.95, 0.98),
    ],
)
def test_the_upper_threshold_is_the_lowest_that_keeps_what_is_wanted(
    near_copies: Callable[..., tuple[list[AlikePair], Answers]],
    said: list[tuple[int, int]],
    wanted: float,
    threshold: float | None,
    guard: bool,
) -> None:
    found = suggest_upper(*near_copies(*said), wanted, guard=guard)
    assert (found and found.threshold) == threshold
    assert found is None or found.precision is None or found.precision >= wanted


def test_what_is_worth_merging_is_not_right_to_replace(make_memory: MakeMemory) -> None:
    made = pairs(make_memory, *[0.96] * 14)
    said = {pair.key: MERGE if n % 2 else SAME for n, pair in enumerate(made)}
    assert suggest_upper(made, said, 0.9, guard=True) == Upper(1.0, None)


def test_with_the_guard_only_what_is_covered_counts(make_memory: MakeMemory) -> None:
    covered = pairs(make_memory, *[0.96] * 12)
    differ = [
        AlikePair(make_memory(f"Mia has {n} dogs."), make_memory(f"Mia has {n + 1} dogs."), 0.96)
        for n in range(20)
    ]
    said = {pair.key: SAME for pair in covered} | {pair.key: APART for pair in differ}
    assert suggest_upper([*covered, *differ], said, 0.95, guard=True) == Upper(0.95, 1.0)
    assert suggest_upper([*covered, *differ], said, 0.95, guard=False) == Upper(1.0, None)
