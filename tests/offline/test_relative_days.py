"""Days told relative to now become dates where they are plain."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.offline.third_person import with_dates

FRIDAY = datetime(2026, 5, 8, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "dated"),
    [
        ("Yesterday Mia left.", "On 7 May 2026 Mia left."),
        ("Mia left last night.", "Mia left on the night of 7 May 2026."),
        ("Mia leaves tomorrow morning.", "Mia leaves on the morning of 9 May 2026."),
        ("Mia left the day before yesterday.", "Mia left on 6 May 2026."),
        ("Mia left last Friday.", "Mia left on 1 May 2026."),
        ("Mia left on last Thursday.", "Mia left on 7 May 2026."),
        ("Mia left last week.", "Mia left in the week before 8 May 2026."),
        ("Mia moves next month.", "Mia moves in June 2026."),
        ("Mia moved last year.", "Mia moved in 2025."),
        ("Mia has sung since last year.", "Mia has sung since 2025."),
        ("Mia left three days ago.", "Mia left on 5 May 2026."),
        ("Mia left six months ago.", "Mia left in November 2025."),
        ("Mia left about ten years ago.", "Mia left around 2016."),
        ("Mia left two weeks ago.", "Mia left two weeks before 8 May 2026."),
        ("Mia left a few days ago.", "Mia left a few days before 8 May 2026."),
        ("Mia leaves next Tuesday.", "Mia leaves next Tuesday (said on 8 May 2026)."),
        ("Mia left last summer.", "Mia left last summer (said on 8 May 2026)."),
        ("Mia read yesterday's news.", "Mia read yesterday's (said on 8 May 2026) news."),
        ("Mia went last year and yesterday.", "Mia went in 2025 and on 7 May 2026."),
        ("Mia has four cats.", "Mia has four cats."),
    ],
)
def test_a_relative_day_becomes_a_date(said: str, dated: str) -> None:
    assert with_dates(said, FRIDAY) == dated
