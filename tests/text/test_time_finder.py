"""What a text says about time, in five languages: found, resolved, or left as words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text import fails
from memory.text.dating import written
from memory.text.period import Grain, Period, Role
from memory.text.time_finder import periods
from memory.text.time_words import LANGUAGES, japanese_row

WEDNESDAY = datetime.fromisoformat("2026-01-21T08:00:00+09:00")


def dates(text: str, said: datetime = WEDNESDAY) -> list[str]:
    """What a reader sees: dates, "?" with the words where two readings fit, "=" for words alone."""
    return [_seen(period) for period in periods(text, said)]


def _seen(period: Period) -> str:
    if period.first is None:
        return f"= {period.words}"
    return written(period) if period.certain else f"? {period.words}"


RESOLVED = [
    # English
    ("Mia flies to Rome tomorrow.", ["2026-01-22"]),
    ("Mia flies to Rome tomorrow morning.", ["2026-01-22 morning"]),
    ("Mia has an exam the day after tomorrow at 9.", ["2026-01-23"]),
    ("Mia slept badly last night.", ["2026-01-20 night"]),
    ("MIA FLIES TO ROME TOMORROW.", ["2026-01-22"]),
    ("Mia loves yesterday's soup.", ["2026-01-20"]),
    ("Mia's train broke down on Friday.", ["2026-01-16"]),
    ("Mia is playing chess on Friday.", ["2026-01-23"]),
    ("Mia will fly on Friday.", ["2026-01-23"]),
    ("Mia flew last Friday.", ["2026-01-16"]),
    ("Mia flies this Friday.", ["2026-01-23"]),
    ("Mia flies this coming Friday.", ["2026-01-23"]),
    ("Mia takes next Monday off.", ["2026-01-26"]),
    ("Mia moved last weekend.", ["2026-01-17/2026-01-18"]),
    ("Mia flew to Rome the week before last.", ["2026-01-05/2026-01-11"]),
    ("Mia read four books last month.", ["2025-12"]),
    ("Mia moves next month.", ["2026-02"]),
    ("Mia is on leave until the end of the month.", ["2026-01"]),
    ("Mia hat bis Monatsende Urlaub.", ["2026-01"]),
    ("Mia est en vacances jusqu'à la fin du mois.", ["2026-01"]),
    ("Mia tiene vacaciones hasta fin de mes.", ["2026-01"]),
    ("ミアは月末まで休みだ。", ["2026-01"]),
    ("Mia woont sinds vorig jaar in Gent.", ["? vorig"]),
    ("A Mia parte na semana que vem.", ["? vem"]),
    ("Mia will retire in December next year.", ["2027-12"]),
    ("Mia broke her arm on the 5th of last month.", ["? 5th of last month"]),
    ("Mia plans a tournament later in the month.", ["2026-01"]),
    ("Mia moved out later in the month.", ["? month"]),
    ("Mia moved out in autumn 2024.", ["autumn 2024"]),
    ("Mia was ill in the week of 14 January 2026.", ["2026-01-12/2026-01-18"]),
    ("Mia was away the week of 3 December.", ["2025-12-01/2025-12-07"]),
    ("Mia was ill in the week of 11 January 2026.", ["? week of 11 january 2026"]),
    ("Mia sailed on the weekend of 10 January 2026.", ["2026-01-10/2026-01-11"]),
    ("Mia war in der Woche vom 12. Januar 2026 krank.", ["2026-01-12/2026-01-18"]),
    ("Mia était malade la semaine du 12 janvier 2026.", ["2026-01-12/2026-01-18"]),
    ("Mia estuvo enferma la semana del 12 de enero de 2026.", ["2026-01-12/2026-01-18"]),
    ("ミアは2026年1月12日の週に病気だった。", ["2026-01-12/2026-01-18"]),
    ("Mia a déménagé il y a un an.", ["about 2025"]),
    ("Mia fell ten days ago.", ["2026-01-11"]),
    ("Mia fell two weeks ago.", ["about 2026-01-07"]),
    ("Mia's operation is in two weeks.", ["about 2026-02-04"]),
    ("Mia's operation is a week from today.", ["2026-01-28"]),
    ("Mia has played the cello for 3 years.", ["since about 2023"]),
    ("Mia has worked at the zoo since 2019.", ["since 2019"]),
    ("Mia has been using it since June.", ["since 2025-06"]),
    ("Mia has been ill since yesterday.", ["since 2026-01-20"]),
    ("Mia is 34 weeks pregnant.", ["since about 2025-05-25"]),
    ("Mia's sister is 12 and plays chess.", ["born 2013-01-22/2014-01-21"]),
    ("Mia is a 41-year-old.", ["born 1984-01-22/1985-01-21"]),
    ("Mia slipped on 5 January.", ["2026-01-05"]),
    ("Mia's wedding is on 14 June.", ["2026-06-14"]),
    ("Mia's wedding is on June 14th, 2027.", ["2027-06-14"]),
    ("It expires on 2026-02-03.", ["2026-02-03"]),
    ("Mia was in Rome at Christmas.", ["2025-12-24/2025-12-26"]),
    ("Mia took a pill 3 hours ago.", ["2026-01-21 05"]),
    ("Mia ran in 2025 and last year.", ["2025", "2025"]),
    # German
    ("Mia geht morgen zum Zahnarzt.", ["2026-01-22"]),
    ("Morgen geht Mia zum Zahnarzt.", ["2026-01-22"]),
    ("Mia geht heute Morgen schwimmen.", ["2026-01-21 morning"]),
    ("Mia war letzten Freitag in Rom.", ["2026-01-16"]),
    ("Mia ist am Freitag nach Rom geflogen.", ["2026-01-16"]),
    ("Mia wird am Freitag nach Rom fliegen.", ["2026-01-23"]),
    ("Vor drei Tagen hat Mia Tom getroffen.", ["2026-01-18"]),
    ("Heute in einer Woche fliegt Mia.", ["2026-01-28"]),
    ("Mia wohnt seit fünf Jahren in Ulm.", ["since about 2021"]),
    ("Mia hat im Mai geheiratet.", ["2025-05"]),
    ("Mia ist am 12.03.2024 umgezogen.", ["2024-03-12"]),
    ("Mia heiratet am 3. Mai 2026.", ["2026-05-03"]),
    ("Mia fährt Ende nächster Woche weg.", ["2026-01-26/2026-02-01"]),
    ("Mia machte im Juni letzten Jahres eine Reise.", ["2025-06"]),
    ("Mia ist 36 Jahre alt.", ["born 1989-01-22/1990-01-21"]),
    # French
    ("Avant-hier, Mia a cuisiné.", ["2026-01-19"]),
    ("Aujourd'hui, Mia cuisine.", ["2026-01-21"]),
    ("Mia va chez le dentiste demain matin.", ["2026-01-22 morning"]),
    ("Vendredi, Mia a mangé du poisson.", ["2026-01-16"]),
    ("Mia partira vendredi.", ["2026-01-23"]),
    ("La semaine dernière, Mia était malade.", ["2026-01-12/2026-01-18"]),
    ("Il y a deux ans, Mia a déménagé.", ["about 2024"]),
    ("Il y a deux ans que Mia habite ici.", ["since about 2024"]),
    ("Mia habite à Lyon depuis 2019.", ["since 2019"]),
    ("L'été dernier, Mia était à Nice.", ["summer 2025"]),
    ("Mia a 36 ans.", ["born 1989-01-22/1990-01-21"]),
    # Spanish
    ("Mia va al dentista mañana.", ["2026-01-22"]),
    ("Pasado mañana Mia cocina.", ["2026-01-23"]),
    ("Mia viajó el viernes a Roma.", ["2026-01-16"]),
    ("Mia viajará el viernes a Roma.", ["2026-01-23"]),
    ("Mia viajó a Roma hace dos semanas.", ["about 2026-01-07"]),
    ("Mia vive en Roma desde hace tres años.", ["since about 2023"]),
    ("Hace tres años que Mia vive en Roma.", ["since about 2023"]),
    ("Mia cumple 40 el mes que viene.", ["2026-02"]),
    ("Mia nació el 2 de mayo de 1990.", ["1990-05-02"]),
    ("Mia tiene 36 años.", ["born 1989-01-22/1990-01-21"]),
    # Japanese
    ("ミアは今日歯医者に行く。", ["2026-01-21"]),
    ("ミアは明日の朝、歯医者に行く。", ["2026-01-22 morning"]),
    ("ミアは先週の金曜日に歯医者に行った。", ["2026-01-16"]),
    ("おととい引っ越した。", ["2026-01-19"]),
    ("来月ミアは引っ越す。", ["2026-02"]),
    ("再来週ミアは引っ越す。", ["2026-02-02/2026-02-08"]),
    ("去年の夏、京都に行った。", ["summer 2025"]),
    ("今年は忙しい。", ["2026"]),
    ("十日前に転んだ。", ["2026-01-11"]),
    ("3年前から京都に住んでいる。", ["since about 2023"]),
    ("2015年に京都に住んでいた。", ["2015"]),
    ("5月3日に結婚した。", ["2025-05-03"]),
    ("36歳です。", ["born 1989-01-22/1990-01-21"]),
]


@pytest.mark.parametrize(("text", "expected"), RESOLVED)
def test_a_clear_time_gets_its_dates(text: str, expected: list[str]) -> None:
    assert dates(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # the present, and no time
        "Mia is just now really looking for a flat, still.", "Mia currently lives in Porto.",
        "Mia already has two dogs nowadays.", "Mia has a cat.", "Mia hat jetzt eine Katze.",
        # names and titles
        "Friday the dog likes walks.", "Crusoe met Man Friday.", "Tuesday called in sick.",
        "Mia met Tuesday at the gym.", "Mia's cat is called Friday.", "April is Mia's sister.",
        "Mia had lunch with June.", "Frau Freitag unterrichtet Mathe.",
        "Thomas Sonntag wohnt in Köln.", "Mai ist der Vorname ihrer Tochter.",
        "Domingo vive en Lima.", "Mercredi Addams est son personnage préféré.",
        "明日香さんは犬を飼っている。", "今日子さんは看護師だ。", "春さんは元気だ。",
        "ミアは火曜サスペンスが好きだ。", "Saturday Night Fever is Mia's favourite film.",
        # fixed phrases
        "Today's youth reads less.", "One day Mia wants to live in Rome.",
        "Mia sleeps badly these days.", "Someday Mia wants a boat.", "Guten Morgen, Mia!",
        "Die heutige Jugend liest wenig.", "Les jeunes d'aujourd'hui lisent peu.",
        "Hoy en día Mia lee poco.", "De pronto Mia lloró.", "日曜大工が趣味だ。",
        "As soon as she can, Mia will call.",
        # habits
        "Mia has choir on Fridays.", "Mia has choir every Tuesday.", "Mia works on Friday nights.",
        "Mia walks the dog in the morning.", "Mia eats fish once a week.", "Mia swims in summer.",
        "Mia hat freitags Chor.", "Mia joggt jeden Morgen.", "Mia tiene coro los viernes.",
        "ミアは毎週火曜日に合唱がある。", "Ben's birthday is on 3 April.",
        # lengths and other numbers
        "Mia will stay for 3 weeks.", "Mia lived in Rome for 3 years.",
        "They were friends for 3 years and have met since.",
        "Mia built the shed in 2 days.", "Mia lo hizo en dos días.", "3年間京都に住んでいた。",
        "Mia's pulse is 58.", "Mias Puls ist 58.", "Flat 12 is 36.", "Mia ate 3/4 of the cake.",
        "The second half was better.", "The train leaves at half past nine.",
        "She may march with them.", "Room 2019 is closed.", "Mia a 10 ans d'expérience.",
        "ミアは20歳の時に京都に住んでいた。", "べんきょうがすきだ。", "Mia wohnt hier.",
        "Mia ran on 31/12/2025.",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_time_has_no_period(text: str) -> None:
    assert dates(text) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mia flies next Friday.", "next friday"), ("Mia flies next weekend.", "next weekend"),
        ("Mia fliegt nächsten Freitag nach Rom.", "nächsten freitag"),
        ("Mia part vendredi prochain.", "vendredi prochain"), ("次の金曜日に会う。", "次の金曜日"),
        ("Greta's team meets on Wednesday.", "wednesday"), ("Mia hat am Freitag Chor.", "freitag"),
        ("ミアは火曜日に合唱がある。", "火曜日"), ("Mia has Friday off.", "friday"),
        ("Mia's exam is in December.", "december"),
        ("Mia said she would call tomorrow.", "tomorrow"),
        ("Mia sagte, sie komme morgen.", "morgen"), ("ミアは明日来ると言った。", "明日"),
        ("Mia moved the meeting to Friday.", "friday"), ("Kofi is 36.", "36"),
        ("Tomorrow Never Dies is her favourite film.", "tomorrow"), ("Mia fell a few days ago.",
        "a few days ago"), ("Over the next two weeks Mia works.", "over the next two weeks"),
        ("Cette nuit, Mia a mal dormi.", "cette nuit"), ("Mia can do it in 2 days.", "in 2 days"),
        ("Mia recently bought a bike.", "recently"), ("もうすぐ引っ越す。", "もうすぐ"),
    ],
)  # fmt: skip
def test_words_with_two_readings_get_no_date(text: str, words: str) -> None:
    assert dates(text) == [f"? {words}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The next day Mia flew home.", "the next day"), ("That week Mia was ill.", "that week"),
        ("A week after the move Mia got a cat.", "a week after"),
        ("Two days before the wedding Mia fell ill.", "two days before"),
        ("The following Monday Mia resigned.", "the following monday"),
        ("Am nächsten Tag reiste Mia ab.", "am nächsten tag"), ("翌日、京都に戻った。", "翌日"),
        ("Le lendemain, Mia est rentrée.", "le lendemain"), ("結婚式の3日前に転んだ。", "の3日前"),
        ("Al día siguiente Mia volvió.", "al día siguiente"),
        ("Mia loves The Day After Tomorrow.", "the day after tomorrow"),
        ("Mia's favourite song is Yesterday.", "yesterday"),
        ("Mia watched Last Christmas on TV.", "last christmas"),
        ("Mia loves the song \"Tomorrow\".", "tomorrow"),
        ("Mias Lieblingsfilm ist „Übermorgen“.", "übermorgen"),
        ("Mia vio «Mañana» en el cine.", "mañana"), ("「明日があるさ」が好きだ。", "明日"),
        ("Mia a chorale le vendredi.", "vendredi"),
    ],
)  # fmt: skip
def test_quotes_titles_and_words_that_count_from_an_event_stay_words(text: str, words: str) -> None:
    assert dates(text) == [f"= {words}"]


@pytest.mark.parametrize(
    ("said", "text", "date"),
    [
        ("2026-01-20T08:00:00+09:00", "今日は忙しい。", "2026-01-20"),
        ("2026-01-19T23:00:00+00:00", "Mia is busy today.", "2026-01-19"),
        ("2024-02-28T12:00:00+00:00", "Mia flies tomorrow.", "2024-02-29"),
        ("2025-02-28T12:00:00+00:00", "Mia flies tomorrow.", "2025-03-01"),
        ("2025-12-31T23:59:00+01:00", "Mia flies tomorrow.", "2026-01-01"),
        ("2025-12-31T12:00:00+00:00", "Mia flies next month.", "2026-01"),
        ("2026-01-01T12:00:00+00:00", "Mia flew last month.", "2025-12"),
        ("2026-01-01T12:00:00+00:00", "Mia war letzte Woche krank.", "2025-12-22/2025-12-28"),
        ("2024-03-31T12:00:00+00:00", "Mia fell a month ago.", "about 2024-02"),
        ("2026-01-25T12:00:00+01:00", "Mia war diese Woche krank.", "2026-01-19/2026-01-25"),
        ("2026-03-01T12:00:00+00:00", "Mia graduated on Feb 29.", "2024-02-29"),
        ("2026-01-05T00:30:00+00:00", "Mia was ill last week.", "2025-12-29/2026-01-04"),
    ],
)  # fmt: skip
def test_the_local_day_and_the_ends_of_months_and_years_count(
    said: str, text: str, date: str
) -> None:
    assert dates(text, datetime.fromisoformat(said)) == [date]


def test_on_a_sunday_this_week_has_two_readings_where_weeks_begin_on_sunday() -> None:
    sunday = datetime.fromisoformat("2026-01-25T12:00:00+00:00")
    assert dates("Mia is ill this week.", sunday) == ["? this week"]
    assert dates("今週は忙しい。", sunday) == ["? 今週"]
    assert dates("Cette semaine, Mia est malade.", sunday) == ["2026-01-19/2026-01-25"]


def test_next_friday_is_clear_where_its_readings_agree() -> None:
    saturday = datetime.fromisoformat("2026-01-24T12:00:00+00:00")
    assert dates("Mia flies next Friday.", saturday) == ["2026-01-30"]


def test_without_a_time_of_saying_words_stay_words_and_full_dates_are_dates() -> None:
    assert [_seen(found) for found in periods("Mia flew yesterday, not on 5 May 2025.", None)] == [
        "= yesterday", "2025-05-05",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Mia è andata dal dentista ieri.", "Mia va dal dentista lunedì prossimo.",
        "A Mia foi ao dentista ontem.", "Mia ging gisteren naar de tandarts.",
        "米娅昨天去看了牙医。", "미아는 어제 치과에 갔다.",
    ],
)  # fmt: skip
def test_a_relative_word_of_a_language_without_a_table_counts_as_the_day_of_saying(
    text: str,
) -> None:
    [found] = periods(text, WEDNESDAY)
    assert (found.role, found.first, found.certain) == (Role.TEXT, WEDNESDAY.date(), False)
    assert text[found.start : found.end].lower() == found.words


def test_the_place_of_an_expression_holds_its_preposition_and_its_words_do_not() -> None:
    text = "On Friday Mia paid until 5 May 2025 for Rome."
    found = [(period.words, text[period.start : period.end]) for period in periods(text, WEDNESDAY)]
    assert found == [("friday", "On Friday"), ("5 may 2025", "5 May 2025")]


def test_a_number_beyond_the_calendar_is_no_error() -> None:
    assert dates("Mia dies in 9000 years.") == ["= in 9000 years"]
    assert dates("Mia met Tom on 31 February.") == ["= 31 february"]
    assert dates("Mia met Tom on 2026-13-01.") == ["= 2026-13-01"]
    last = datetime.max.replace(tzinfo=UTC)
    for text in ("Mia ha un esame domani.", "Mia flies tomorrow.", "Mia flies next week."):
        assert not fails(periods, text, last)


PIECES = st.sampled_from(
    "Mia on in for since the last next this Friday week month year May 3 2026 ago a few every was "
    "flies will 12. \" ' , . « “ 明日 の 金曜日 3年前 から に heute vor drei Tagen il y a deux "
    "ans que mañana pasado 5th of Easter is 36 years old today's 2026-01-20 half and".split()
)


@given(
    st.lists(PIECES, max_size=14), st.sampled_from([WEDNESDAY, None]), st.sampled_from(["", " "])
)
def test_any_words_in_any_order_give_places_in_order(
    pieces: list[str], said: datetime | None, between: str
) -> None:
    text = between.join(pieces)
    end = 0
    for period in periods(text, said):
        assert end <= period.start < period.end <= len(text)
        assert (period.first is None) == (period.after is None)
        assert period.first is None or period.after is None or period.first < period.after
        assert isinstance(period.grain, Grain)
        end = period.end


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert all(period.words for period in periods(text, WEDNESDAY))


@pytest.mark.parametrize("piece", ["on Friday ", "in 3 ", '"', "1.", "a week ", "the "])
def test_a_long_text_is_read_to_its_end(piece: str) -> None:
    text = piece * 2_000 + ". Mia flies tomorrow."
    assert periods(text, WEDNESDAY)[-1].words == "tomorrow"


@pytest.mark.parametrize(
    "word", [*LANGUAGES["ja"].words, "らしい", "つもり", "ずれ", "5日", "三週間前"]
)
def test_each_japanese_word_begins_a_word_of_the_row(word: str) -> None:
    assert japanese_row(f"猫{word}は").lowers[0] == "猫"
