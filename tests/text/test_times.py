"""The calendar's arithmetic and the tables of time words."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.period import (
    Grain,
    around,
    birth,
    day_of_year,
    holiday_of,
    season_of,
    unit_at,
    window_of,
)
from memory.text.time_finder import code_of
from memory.text.time_words import LANGUAGES, SORTS

DAYS = st.dates(date(1950, 1, 1), date(2090, 12, 31))
UNITS = st.sampled_from(["day", "week", "month", "year", "fiscal year"])


@given(DAYS, UNITS, st.integers(-30, 30))
def test_the_units_of_a_calendar_follow_each_other_without_a_gap(
    day: date, unit: str, offset: int
) -> None:
    this = unit_at(day, unit, 0)
    assert this.first <= day < this.after
    assert unit_at(day, unit, offset + 1).first == unit_at(day, unit, offset).after


def test_the_month_after_december_is_the_january_of_the_next_year() -> None:
    assert unit_at(date(2025, 12, 31), "month", 1)[:2] == (date(2026, 1, 1), date(2026, 2, 1))


def test_the_week_of_new_year_begins_on_a_monday_of_the_old_year() -> None:
    assert unit_at(date(2026, 1, 1), "week", 0)[:2] == (date(2025, 12, 29), date(2026, 1, 5))


def test_a_winter_ends_in_the_year_after_it_began() -> None:
    assert season_of(2023, 3)[:2] == (date(2023, 12, 1), date(2024, 3, 1))


@given(st.datetimes(datetime(1950, 1, 1), datetime(2090, 1, 1)), st.integers(0, 40))
def test_a_counted_day_is_exact_and_a_longer_unit_is_a_window_around_it(
    said: datetime, number: int
) -> None:
    assert window_of(said, "day", -number).first == said.date() - timedelta(days=number)
    week = window_of(said, "week", -number)
    middle = said.date() - timedelta(weeks=number)
    assert week.first <= middle < week.after
    assert (week.after - week.first).days == 7
    assert (
        window_of(said, "year", -number).after - window_of(said, "year", -number).first
    ).days >= 365


@given(DAYS, st.integers(1, 110))
def test_whoever_is_so_old_was_born_within_the_year_that_the_age_means(day: date, age: int) -> None:
    born = birth(day, "year", age)
    for birthday in (born.first, born.after - timedelta(days=1)):
        had = (day.month, day.day) >= (birthday.month, birthday.day)
        assert day.year - birthday.year - (not had) == age


def test_29_february_comes_only_in_leap_years() -> None:
    days = around(date(2026, 1, 20), lambda year: day_of_year(year, 2, 29), reach=8)
    assert [span.first.year for span in days] == [2020, 2024, 2028, 2032]


@pytest.mark.parametrize(
    ("name", "year", "first", "days"),
    [
        ("easter sunday", 2024, date(2024, 3, 31), 1),
        ("easter sunday", 2038, date(2038, 4, 25), 1),
        ("easter sunday", 2285, date(2285, 3, 22), 1),
        ("easter monday", 2026, date(2026, 4, 6), 1),
        ("good friday", 2026, date(2026, 4, 3), 1), ("pentecost", 2025, date(2025, 6, 8), 2),
        ("christmas", 2025, date(2025, 12, 24), 3), ("new year's eve", 2025, date(2025, 12, 31), 1),
    ],
)  # fmt: skip
def test_a_holiday_has_its_days(name: str, year: int, first: date, days: int) -> None:
    span = holiday_of(year, name)
    assert span is not None
    assert (span.first, (span.after - span.first).days) == (first, days)
    assert span.grain == (Grain.DAY if days == 1 else Grain.WEEKEND)


@pytest.mark.parametrize("code", sorted({*LANGUAGES} - {"ja"}))
def test_a_table_uses_known_sorts_and_words_that_a_text_can_hold(code: str) -> None:
    """A phrase is found by its words, so it holds letters and single spaces only."""
    table = LANGUAGES[code]
    assert set(table.table) <= set(SORTS)
    for meanings in table.table.values():
        for _, words in meanings:
            assert all(re.fullmatch(r"[^\W\d_]+(?: [^\W\d_]+)*", word) for word in words)
            assert words == [word.lower() for word in words]


def test_each_sort_has_a_letter_of_its_own() -> None:
    assert len(set(SORTS.values())) == len(SORTS)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Mia eats fish once a week.", "en"), ("Mia ran.", "en"), ("Mia wohnt hier.", "de"),
        ("Hier, Mia a cuisiné.", "fr"), ("Mia cumple 40 el mes que viene.", "es"),
        ("ミアは元気だ。", "ja"), ("米娅有一只猫。", "zh"), ("미아는 고양이를 키운다.", "ko"),
        ("Mia è andata dal dentista ieri.", "it"), ("A Mia foi ao dentista ontem.", "pt"),
        ("Mia ging gisteren naar de tandarts.", "nl"),
    ],
)  # fmt: skip
def test_the_language_of_a_short_text_is_recognised(text: str, code: str) -> None:
    assert code_of(text) == code
