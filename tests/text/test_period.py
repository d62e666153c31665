"""When two periods are the same time, may be, or one holds the other; and their column."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text import dated_key, periods, text_key, text_of
from memory.text.period import TABLES_VERSION, Period, compatible, to_json


def said(text: str, day: str) -> tuple[Period, ...]:
    return periods(text, datetime.fromisoformat(f"{day}T12:00:00+01:00"))


SAME = [
    # each with the day on which it was said
    ("Mia flies tomorrow.", "2026-01-20", "Mia flies tomorrow.", "2026-01-20"),
    ("Mia flew yesterday.", "2026-01-21", "Mia flew on 20 January.", "2026-03-01"),
    ("Mia flies next month.", "2025-12-31", "Mia flies this month.", "2026-01-02"),
    ("Mia flew this year.", "2025-06-01", "Mia flew last year.", "2026-06-01"),
    ("Mia flew on Monday.", "2026-01-21", "Mia flew two days ago.", "2026-01-21"),
    ("Mia flies next Friday.", "2026-01-20", "Mia flies next Friday.", "2026-01-21"),
    ("Kofi is 36 years old.", "2026-01-10", "Kofi is 36 years old.", "2026-03-10"),
    ("Kofi is 36.", "2026-01-10", "Kofi is 36.", "2026-03-10"),
    ("Kofi is 36 years old.", "2025-01-10", "Kofi is 37 years old.", "2026-01-12"),
    ("Mia has sung for 3 years.", "2022-06-10", "Mia has sung for 5 years.", "2024-06-12"),
    ("Mia has sung since 2019.", "2024-03-05", "Mia has sung for five years.", "2024-03-20"),
    ("Mia has sung for half a year.", "2025-01-15", "Mia has sung for a year.", "2025-07-15"),
    ("Mia fell two years ago.", "2023-05-10", "Mia fell four years ago.", "2025-05-12"),
    ("Mia sold it two weeks ago.", "2025-09-22", "Mia sold it three weeks ago.", "2025-09-29"),
    ("Mia recently bought a bike.", "2026-01-03", "Mia recently bought a bike.", "2026-01-30"),
    ("Mia recently bought a bike.", "2026-01-03", "Mia lately bought a bike.", "2026-01-30"),
    ("The next day Mia left.", "2025-01-03", "The next day Mia left.", "2026-01-30"),
    ("Mia has choir on Fridays.", "2025-01-03", "Mia has choir on Fridays.", "2026-01-30"),
    ("Mia loves The Day After Tomorrow.", "2025-01-03",
     "Mia loves The Day After Tomorrow.", "2026-01-30"),
    ("Mia ging gisteren naar huis.", "2026-01-20", "Mia ging gisteren naar huis.", "2026-01-20"),
    ("Mia is 34 weeks pregnant.", "2026-01-20", "Mia is 36 weeks pregnant.", "2026-02-03"),
]  # fmt: skip

APART = [
    ("Mia flies tomorrow.", "2026-01-20", "Mia flies tomorrow.", "2026-03-20"),
    ("Mia flies tonight.", "2026-01-20", "Mia flies this morning.", "2026-01-20"),
    ("Mia took a pill 2 hours ago.", "2026-01-20", "Mia took a pill 4 hours ago.", "2026-01-20"),
    ("Mia flies this Friday.", "2026-01-19", "Mia flies next Friday.", "2026-01-19"),
    ("Mia flew this month.", "2026-01-19", "Mia flew last month.", "2026-01-19"),
    ("Mia flew last month.", "2025-04-02", "Mia flew last month.", "2025-05-02"),
    ("The team meets on Wednesday.", "2025-04-04", "The team meets on Wednesday.", "2025-04-11"),
    ("Mia flies next Friday.", "2026-01-07", "Mia flies next Friday.", "2026-03-11"),
    ("Mia flew last summer.", "2024-11-20", "Mia flew last summer.", "2025-11-20"),
    ("Mia flew in summer.", "2024-11-20", "Mia flew in summer.", "2025-11-20"),
    ("Mia flew at Christmas.", "2025-01-20", "Mia flew at Christmas.", "2026-01-20"),
    ("Mia fell a few days ago.", "2026-01-20", "Mia fell a few days ago.", "2026-03-20"),
    ("Mia recently bought a bike.", "2026-01-03", "Mia recently bought a bike.", "2026-02-03"),
    ("Tom said that Mia flies tomorrow.", "2026-01-20",
     "Tom said that Mia flies tomorrow.", "2026-03-20"),
    ("Mia flew in January.", "2026-02-20", "Mia flew on 5 January.", "2026-02-20"),
    ("Mia flew tomorrow.", "2026-01-20", "Mia flew.", "2026-01-20"),
    ("Kofi is 36 years old.", "2025-01-10", "Kofi is 36 years old.", "2027-01-12"),
    ("Mia has sung since 2019.", "2024-03-05", "Mia has sung for three years.", "2024-03-20"),
    ("Mia ging gisteren naar huis.", "2026-01-20", "Mia ging gisteren naar huis.", "2026-01-21"),
    ("Mia was ill in 2020.", "2026-01-20", "Mia was ill six years ago.", "2025-01-20"),
    ("Mia fell a year ago.", "2026-01-20", "Mia fell nine months ago.", "2026-01-20"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "on", "b", "later"), SAME)
def test_the_same_time_in_whatever_words_is_compatible(a: str, on: str, b: str, later: str) -> None:
    assert compatible(said(a, on), said(b, later))
    assert compatible(said(b, later), said(a, on))


@pytest.mark.parametrize(("a", "on", "b", "later"), APART)
def test_another_time_is_not(a: str, on: str, b: str, later: str) -> None:
    assert not compatible(said(a, on), said(b, later))
    assert not compatible(said(b, later), said(a, on))


def test_without_times_of_saying_the_same_words_are_the_same() -> None:
    unknown = periods("Mia flies tomorrow.", None)
    assert compatible(unknown, periods("Mia flies tomorrow!", None))
    assert not compatible(unknown, periods("Mia flies today.", None))
    assert not compatible(unknown, said("Mia flies tomorrow.", "2026-01-20"))


def test_periods_are_compared_in_their_order() -> None:
    there = said("Mia flew to Rome yesterday, and flies back tomorrow.", "2026-01-20")
    back = said("Mia flies back tomorrow, and flew to Rome yesterday.", "2026-01-20")
    assert not compatible(there, back)


@pytest.mark.parametrize(
    ("wide", "narrow", "held"),
    [
        ("in January 2026", "on 5 January 2026", True), ("in 2026", "in January 2026", True),
        ("today", "this morning", True), ("in January 2026", "on 5 February 2026", False),
        ("on 5 January 2026", "in January 2026", False), ("today", "today", False),
        ("this morning", "this evening", False), ("last week", "next Friday", False),
        ("two weeks ago", "on 6 January 2026", True), ("since 2026", "in January 2026", False),
    ],
)  # fmt: skip
def test_a_period_holds_a_finer_one(wide: str, narrow: str, held: bool) -> None:
    [a], [b] = (said(f"Mia was ill {words}.", "2026-01-20") for words in (wide, narrow))
    assert a.contains(b) is held


@given(st.sampled_from(SAME + APART))
def test_a_column_holds_the_dates_with_the_version_of_the_tables(
    row: tuple[str, str, str, str],
) -> None:
    found = said(row[0], row[1])
    column = to_json(found)
    assert column.isascii()
    version, *rows = json.loads(column)
    assert version == TABLES_VERSION
    assert [(one[0], one[5]) for one in rows] == [
        (period.words, str(period.first or "")) for period in found
    ]


def test_the_key_of_a_text_differs_from_day_to_day_if_the_text_means_dates() -> None:
    def key(text: str, day: str | None) -> str:
        moment = datetime.fromisoformat(day) if day else None
        return dated_key(text_key(text), to_json(periods(text, moment)))

    tomorrow, cat = "Mia has a dentist appointment tomorrow.", "Mia has a cat."
    assert key(tomorrow, "2026-01-20T09:00") == key(tomorrow, "2026-01-20T21:00")
    assert key(tomorrow, "2026-01-20T09:00") != key(tomorrow, "2026-03-20T09:00")
    assert text_of(key(tomorrow, "2026-01-20T09:00")) == text_key(tomorrow)
    assert key(tomorrow, None) == text_key(tomorrow)
    assert key(cat, "2026-01-20T09:00") == key(cat, "2026-03-20T09:00") == text_key(cat)
