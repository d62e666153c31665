"""Dates beside a text, in it, and in its place."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dating import dated, undated, when_field, with_dates


@pytest.mark.parametrize("text", ["Set retries [= true].", "An array [= 12]", "[Tue 2026-01-20]"])
def test_brackets_of_a_users_own_stay(text: str) -> None:
    assert undated(text) == text


TUESDAY = datetime.fromisoformat("2026-01-20T09:00:00+01:00")


def test_a_model_gets_each_clear_relative_word_with_its_dates() -> None:
    text = (
        "Mia was ill last week, flies next Friday, and has sung since March; on 5 May 2025 she won."
    )
    assert when_field(text, TUESDAY) == {
        "last week": "2026-01-12/2026-01-18", "since march": "since 2025-03",
    }  # fmt: skip


def test_a_bot_reads_the_day_and_the_dates_in_the_text() -> None:
    assert dated("Mia flies tomorrow morning.", TUESDAY) == (
        "[Tue 2026-01-20] Mia flies tomorrow morning [= 2026-01-21 morning]."
    )
    assert dated("Mia reads yesterday's paper.", TUESDAY) == (
        "[Tue 2026-01-20] Mia reads yesterday's [= 2026-01-19] paper."
    )
    assert (
        dated("ミアは昨日帰った。", TUESDAY) == "[Tue 2026-01-20] ミアは昨日 [= 2026-01-19]帰った。"
    )
    assert dated("Mia flies tomorrow.", None) == "Mia flies tomorrow."


PIECES = st.sampled_from(
    "Mia flies tomorrow . yesterday's last week is 36 years old , (since) 2019 three days ago 昨日 "
    "next month at Christmas for".split()
)


@given(st.lists(PIECES, max_size=12))
def test_the_marks_of_a_dated_text_can_be_taken_away(pieces: list[str]) -> None:
    text = " ".join(pieces)
    assert undated(dated(text, TUESDAY)) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Mia went to the dentist yesterday.", "Mia went to the dentist on 19 January 2026."),
        ("Yesterday Mia left.", "On 19 January 2026 Mia left."),
        ("Mia left last night.", "Mia left on the night of 19 January 2026."),
        ("Mia left on last Thursday.", "Mia left on 15 January 2026."),
        ("Mia left last week.", "Mia left in the week of 12 January 2026."),
        ("Mia will rest this weekend.", "Mia will rest on the weekend of 24 January 2026."),
        ("Mia moves next month.", "Mia moves in February 2026."),
        ("Mia has sung since last year.", "Mia has sung since 2025."),
        ("Mia left last summer.", "Mia left in summer 2025."),
        ("Mia left three days ago.", "Mia left on 17 January 2026."),
        ("Mia left six months ago.", "Mia left around July 2025."),
        ("The shop is closed until tomorrow.", "The shop is closed until 21 January 2026."),
        ("Mia went last year and yesterday.", "Mia went in 2025 and on 19 January 2026."),
        ("Mia is coming over next month.", "Mia is coming over next month."),
        ("Mia is coming over in June.", "Mia is coming over in June 2026."),
        ("Mia is coming over tomorrow.", "Mia is coming over on 21 January 2026."),
        ("Mia moved in on Monday.", "Mia moved in on 19 January 2026."),
        ("Mia signed on last month.", "Mia signed on in December 2025."),
        ("Mia rested over the weekend.", "Mia rested over the weekend of 17 January 2026."),
        ("ミアは昨日歯医者に行った。", "ミアは2026年1月19日に歯医者に行った。"),
        ("ミアは明日、歯医者に行く。", "ミアは2026年1月21日、歯医者に行く。"),
        ("会議は明日だ。", "会議は2026年1月21日だ。"),
        ("今朝パンを食べた。", "2026年1月20日の朝にパンを食べた。"),
        ("先週の金曜日に行った。", "2026年1月16日に行った。"),
        ("来月引っ越す。", "2026年2月に引っ越す。"),
        ("2年前に結婚した。", "2024年ごろに結婚した。"),
    ],
)
def test_clear_words_become_dates_in_english_and_japanese(text: str, written: str) -> None:
    assert with_dates(text, TUESDAY) == written


@pytest.mark.parametrize(
    "text",
    [
        "Mia flies next Friday.", "Mia fell a few days ago.", "Mia read yesterday's paper.",
        "Tomorrow is Mia's birthday.", "Mia left about ten years ago.", "Mia is 36 years old.",
        "Mia has sung for 3 years.", "Tom said Mia flies tomorrow.", "Mia has four cats.",
        "Mia took a pill 2 hours ago.", "Mia geht morgen zum Zahnarzt.", "The next day Mia left.",
        "Mia's lease ends on 5 May 2027.", "ミアは明日来ると言った。",
        "3年前から京都に住んでいる。",
    ],
)  # fmt: skip
def test_all_others_stay_as_they_are(text: str) -> None:
    assert with_dates(text, TUESDAY) == text
