"""Two memories cover each other only if their words mean the same times, each in its place."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from memory.coverage import compare_memories, only_times_differ, states
from memory.models import Memory


def told(text: str, said: str | None) -> Memory:
    moment = None if said is None else datetime.fromisoformat(said)
    return Memory(content=text, timestamp=moment or datetime.fromisoformat(NOON), said=moment)


NOON = "2026-05-01T12:00+00:00"
JANUARY, MARCH = "2026-01-06T12:00+00:00", "2026-03-06T12:00+00:00"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Mia has a dentist appointment tomorrow.", "Mia has a dentist appointment tomorrow."),
        ("Ben flies to Oslo this Friday.", "Ben flies to Oslo next Friday."),
        ("Rita moves this month.", "Rita moves last month."),
        ("Jonas hat morgen Probe.", "Jonas hat morgen Probe."),
        ("葵は明日、面接がある。", "葵は明日、面接がある。"),
        ("Léa part demain.", "Léa part demain."),
        ("Pablo sale mañana.", "Pablo sale mañana."),
        ("Mia had a fever.", "Mia had a fever yesterday."),
    ],
)
def test_what_was_said_about_another_time_covers_nothing(text: str, other: str) -> None:
    a, b = told(text, JANUARY), told(other, MARCH)
    found = compare_memories(a, b)
    assert (found.a_covers_b, found.b_covers_a) == (False, False)


@pytest.mark.parametrize(
    ("text", "said", "other", "later"),
    [
        ("Ida ran a marathon yesterday.", JANUARY, "Ida ran a marathon on 5 January 2026.", MARCH),
        ("Omar is 36 years old.", JANUARY, "Omar is 36 years old.", MARCH),
        ("Lea sails.", JANUARY, "Lea sails.", MARCH),
        ("Lea sails now.", JANUARY, "Lea sails now.", MARCH),
    ],
)
def test_words_for_the_same_time_are_the_same_words(
    text: str, said: str, other: str, later: str
) -> None:
    a, b = told(text, said), told(other, later)
    assert states(a, b)
    assert states(b, a)


def test_with_an_unknown_time_of_saying_the_words_are_compared() -> None:
    a, b = told("Ada moved yesterday.", None), told("Ada moved yesterday.", None)
    assert states(a, b)
    assert not states(a, told("Ada moved yesterday.", JANUARY))


def test_the_day_of_the_speaker_counts() -> None:
    """At eight in Tokyo it is still yesterday in UTC."""
    tokyo = timezone(timedelta(hours=9))
    morning = datetime(2026, 1, 6, 8, tzinfo=tokyo)
    today = Memory(content="蓮は今日、引っ越した。", timestamp=morning, said=morning)
    dated = told("蓮は2026年1月6日に引っ越した。", MARCH)
    assert today.timestamp.day == 5
    assert states(today, dated) == states(dated, today)
    [period] = today.periods
    assert period.first is not None
    assert period.first.isoformat() == "2026-01-06"


def test_only_the_time_differs_if_the_words_are_equal() -> None:
    a, b = (told("Mia sees a dentist tomorrow.", said) for said in (JANUARY, MARCH))
    assert only_times_differ(a, b)
    assert not only_times_differ(a, a)
    assert not only_times_differ(a, told("Mia sees a doctor tomorrow.", MARCH))
