"""Whether the times of a merged text follow from its sources, each said on its own day."""

from __future__ import annotations

from datetime import datetime

import pytest

from memory.coverage.verification import Belief, Verification, verify, verify_by_words

JANUARY = datetime.fromisoformat("2026-01-20T09:00:00+01:00")
FEBRUARY = datetime.fromisoformat("2026-02-17T09:00:00+01:00")
TALK = "Mia saw the dentist {}."


def checked(
    older: str, newer: str, text: str, said: tuple[datetime | None, ...] = (JANUARY, FEBRUARY)
) -> Verification:
    return verify(text, (older, newer), said)


@pytest.mark.parametrize(
    ("words", "date"),
    [
        ("yesterday", "on 19 January 2026"), ("yesterday", "on Jan 19, 2026"),
        ("yesterday", "on 2026-01-19"), ("yesterday", "in January 2026"), ("yesterday", "in 2026"),
        ("last night", "on the night of 19 January 2026"), ("last month", "in December 2025"),
        ("last week", "in the week of 12 January 2026"),
        ("last week", "between 12 and 18 January 2026"),
        ("last week", "from 2026-01-12 to 2026-01-18"),
        ("three days ago", "on 17 January 2026"), ("2 years ago", "in 2024"),
        ("2 years ago", "around 2024"), ("on 5 January", "on 5 January 2026"),
        ("last year", "last year (2025)"), ("last summer", "last summer (2025)"),
        ("last month", "last month (2025-12)"), ("yesterday", "yesterday (2026-01-19)"),
        ("last week", "last week (2026-01-12/2026-01-18)"),
        ("last week", "last week (12-18 January 2026)"), ("last week", "January 12-18, 2026"),
        ("last week", "last week (12 to 18 January)"), ("last week", "the week 12–18 January 2026"),
        ("last weekend", "on the weekend of 17-18 January 2026"),
        ("last weekend", "on 17/18 January 2026"), ("2 weeks ago", "around 6 January 2026"),
        ("last week", "in January 2026"), ("yesterday", "in the week of 19 January 2026"),
        ("last week", "in the week of 2026-01-12/2026-01-18"),
    ],
)  # fmt: skip
def test_a_date_that_follows_from_a_source_and_its_day_is_no_invention(
    words: str, date: str
) -> None:
    said = (JANUARY, JANUARY) if words in date else (JANUARY, FEBRUARY)  # else the word is moved
    told = checked(TALK.format(words), "Mia saw the dentist by bus.", TALK.format(date), said)
    assert (told.belief, told.reason) == (Belief.DOUBTFUL, "")
    newest = verify(TALK.format(date), ["Mia saw a dentist.", TALK.format(words)], [JANUARY] * 2)
    assert newest.belief is not Belief.BELIEVED
    assert "invent" not in newest.reason
    assert "no memory states" not in newest.reason


@pytest.mark.parametrize(
    ("words", "date", "fault"),
    [
        ("yesterday", "on 20 January 2026", "20"), ("yesterday", "in February 2026", "February"),
        ("last month", "on 3 December 2025", "December"), ("last week", "on 12 January 2026", "12"),
        ("last week", "between 5 and 11 January 2026", "5"), ("last year", "in May 2025", "May"),
        ("next Friday", "on 23 January 2026", "23"), ("last year", "last year (2024)", "2024"),
        ("last year", "last year (2025-05)", "05"), ("last month", "last month (2026-01)", "01"),
        ("yesterday", "yesterday (2026-01-18)", "18"), ("yesterday", "on 16 February 2026", "16"),
        ("last week", "last week (2026-02-09/2026-02-15)", "02"),
        ("last week", "in the week of 2026-01-12/2026-01-19", "19"),
        ("last week", "in the week of 2026-01-13/2026-01-18", "13"),
        ("last week", "from 2026-01-11 to 2026-01-17", "11"), ("last week", "12-17 January", "12"),
        ("last week", "last week (13 to 18 January 2026)", "13"),
        ("last week", "on the weekend of 17 January 2026", "17"),
        ("last year", "in the week of 5 May 2025", "May"),
        ("last Friday", "on Thursday, 16 January 2026", "16"),
        ("2 weeks ago", "around 7 January 2026", "7"), ("2 weeks ago", "on 6 January 2026", "6"),
    ],
)  # fmt: skip
def test_another_or_a_finer_date_is_one(words: str, date: str, fault: str) -> None:
    said = (JANUARY, JANUARY) if words in date else (JANUARY, FEBRUARY)
    found = checked(TALK.format(words), "Mia saw the dentist.", TALK.format(date), said)
    assert found.belief is Belief.REFUSED
    assert "states what no memory states" in found.reason
    assert fault in found.reason


@pytest.mark.parametrize(
    ("words", "right", "wrong"),
    [
        ("Mia war letzte Woche in Rom.", "vom 12. bis 18. Januar 2026", "vom 13. bis 18. Januar"),
        ("Mia war letztes Jahr in Rom.", "letztes Jahr (2025)", "letztes Jahr (2024)"),
        ("Mia estuvo en Roma la semana pasada.", "del 12 al 18 de enero", "del 5 al 11 de enero"),
        ("Mia était à Rome l'année dernière.", "l'année dernière (2025)", "en 2024"),
        ("ミアは先週ローマにいた。", "2026年1月12日から18日に", "2026年1月12日から17日に"),
    ],
)
def test_the_ends_of_a_range_and_a_year_in_brackets_in_other_languages(
    words: str, right: str, wrong: str
) -> None:
    for date, refused in (right, False), (wrong, True):
        found = verify(f"{words[:-1]} {date}.", [words, words[:3]], [JANUARY, JANUARY])
        assert (found.belief is Belief.REFUSED) is refused, found.reason


def test_nothing_follows_if_the_day_is_unknown() -> None:
    found = checked(TALK.format("yesterday"), "Mia rows.", TALK.format("on 19 January 2026"), ())
    assert found.belief is Belief.REFUSED


@pytest.mark.parametrize(
    ("older", "text", "advice"),
    [
        ("Mia left yesterday.", "Mia left Porto yesterday.", 'write "on 19 January 2026"'),
        ("Mia left last month.", "Mia left Porto last month.", 'write "in December 2025"'),
        ("Mia reads yesterday's mail.", "Mia reads yesterday's mail in Porto.",
         'write "2026-01-19"'),
        ("Mia left next Friday.", "Mia left Porto next Friday.", "leave these memories apart"),
        ("ミアは昨日出た。", "ミアは昨日ポルトを出た。", 'write "2026年1月19日に"'),
    ],
)  # fmt: skip
def test_a_kept_word_that_means_another_day_is_refused_with_the_words_to_write(
    older: str, text: str, advice: str
) -> None:
    newer = "ミアはポルトを出た。" if "ミア" in older else "Mia knows Porto."
    found = checked(older, newer, text)
    assert found.belief is Belief.REFUSED
    assert "means another time there than on Tue 2026-01-20" in found.reason
    assert advice in found.reason
    assert checked(older, newer, text, (JANUARY, JANUARY)).belief is Belief.DOUBTFUL
    assert checked(older, newer, text, (None, None)).belief is Belief.DOUBTFUL


def test_a_word_of_the_newest_may_stay_once() -> None:
    older, newer = "Mia saw a dentist yesterday.", "Mia bought a car yesterday."
    once = "Mia saw a dentist on 19 January 2026 and bought a car yesterday."
    assert checked(older, newer, once).belief is Belief.DOUBTFUL
    twice = checked(older, newer, "Mia saw a dentist yesterday and bought a car yesterday.")
    assert 'write "on 19 January 2026"' in twice.reason


def test_a_text_that_stays_keeps_its_own_day() -> None:
    older, newer = "Mia gladly saw the dentist yesterday.", "Mia saw the dentist yesterday."
    assert checked(older, newer, older, (JANUARY, JANUARY)).belief is Belief.BELIEVED


def test_the_same_words_of_two_days_are_two_facts_for_who_reads_words_alone() -> None:
    visit = TALK.format("yesterday")
    for check in (verify, verify_by_words):
        assert check(visit, (visit, visit), (JANUARY, FEBRUARY)).belief is not Belief.BELIEVED
        assert check(visit, (visit, visit), (JANUARY, JANUARY)).belief is Belief.BELIEVED


def test_a_text_with_the_date_states_the_source_word_by_word() -> None:
    sources = TALK.format("yesterday"), "Mia saw the dentist."
    found = verify_by_words(TALK.format("on 19 January 2026"), sources, (JANUARY, FEBRUARY))
    assert found.belief is Belief.BELIEVED
    coarser = verify_by_words(TALK.format("in January 2026"), sources, (JANUARY, FEBRUARY))
    assert "does not state: yesterday" in coarser.reason


def test_a_shorter_time_is_no_date_of_a_longer_one() -> None:
    text = "Mia has rowed for four months."
    found = checked(text, "Mia has rowed for five months.", text, (JANUARY, JANUARY))
    assert "drops what the newest memory states: five" in found.reason


@pytest.mark.parametrize(
    ("newest", "text"),
    [
        ("The two met in Rome.", "Mia and Leo met in Rome."),
        ("Mia and Leo met in Rome.", "Mia and Leo met, the two of them, in Rome."),
        ("Mia and Leo both met in Rome.", "Mia and Leo met in Rome."),
        ("Mia and Leo have 2 boats.", "Mia and Leo have both boats."),
    ],
)
def test_the_two_and_both_count_nothing(newest: str, text: str) -> None:
    assert checked("Mia and Leo met.", newest, text).belief is not Belief.REFUSED


@pytest.mark.parametrize("newest", ["二人はローマにいる。", "ミアとレオは二人ともローマにいる。"])
def test_both_counts_nothing_in_japanese(newest: str) -> None:
    told = checked("ミアとレオは医者だ。", newest, "ミアとレオは医者で、ローマにいる。")
    assert told.belief is not Belief.REFUSED


def test_two_counts() -> None:
    assert "drops" in checked("Mia has boats.", "Mia has two boats.", "Mia has boats.").reason
    japanese = "ミアには子供がいる。", "ミアには子供が二人いる。", "ミアには子供がいる。"
    assert "drops" in checked(*japanese).reason


@pytest.mark.parametrize(
    ("older", "newest", "text"),
    [
        (
            "Ana trabajó en Lugo la semana pasada.",
            "Ana trabajó en Lugo con Leo.",
            "Ana trabajó en Lugo con Leo del 12 al 18 de enero.",
        ),
        (
            "Ana went to Lugo on Saturday evening.",
            "Ana went to Lugo by bus.",
            "Ana went to Lugo on Saturday evening, 17 January, by bus.",
        ),
    ],
)
def test_a_week_told_by_its_ends_and_a_day_with_its_evening_are_right(
    older: str, newest: str, text: str
) -> None:
    assert checked(older, newest, text).belief is not Belief.REFUSED


def test_a_relative_word_that_is_the_time_of_no_memory_is_refused() -> None:
    older, newest = "Ana was in Lugo the week before last.", "Ana was in Lugo and saw a whale."
    found = checked(
        older, newest, "Ana was in Lugo last week and saw a whale.", (FEBRUARY, FEBRUARY)
    )
    assert 'says "last week", which is the time of no memory' in found.reason
