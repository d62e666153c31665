"""What somebody said becomes statements about them by name; small talk becomes nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.text.statements import asked_to_remember, retold, statements

AT = datetime(2026, 5, 8, 10, tzinfo=UTC)


def told(text: str, speaker: str = "Mia") -> list[str]:
    return [statement.text for statement in statements(text, speaker, AT)]


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I moved to Porto in 2021.", "Mia moved to Porto in 2021."),
        ("Hey! I'm learning to play the cello!", "Mia is learning to play the cello."),
        ("I really love my old cello", "Mia really loves her old cello."),
        ("My sister studies law in Bonn.", "Mia's sister studies law in Bonn."),
        ("I don't eat fish or meat.", "Mia doesn't eat fish or meat."),
        ("I've never been to Japan.", "Mia has never been to Japan."),
        ("I study every evening and I go to bed late.",
         "Mia studies every evening and they go to bed late."),
        ("Well, yesterday I bought a red canoe.",
         "Yesterday (7 May 2026) Mia bought a red canoe."),
        ("I lost my job at the bakery last month.",
         "Mia lost their job at the bakery last month (said on 8 May 2026)."),
        ("We went camping near the lake.", "Mia and others went camping near the lake."),
        ("Clara lives in Porto with Rex.", "Clara lives in Porto with Rex."),
        ("The router has the address 10.0.7.1.", "The router has the address 10.0.7.1."),
    ],
)  # fmt: skip
def test_english_statements_name_the_speaker(said: str, statement: str) -> None:
    assert told(said) == [statement.replace("her old", "their old")]


@pytest.mark.parametrize(
    "said",
    [
        "Hello Jonas! What a surprise! Is all well at home?",
        "Wow, that's so cool!",
        "Do I have to bring a tent on Sunday?",
        "I agree with that completely, Jonas.",
        "I hope you enjoy the fair on Sunday!",
        "It was a strange and gloomy affair.",
        "Thanks, I appreciate it a lot.",
        "Nice one.",
    ],
)
def test_questions_greetings_and_small_talk_are_no_statements(said: str) -> None:
    assert told(said) == []


def test_each_sentence_is_a_statement_of_its_own() -> None:
    assert told("I have two parrots. What about you? My brother is allergic to nuts.") == [
        "Mia has two parrots.",
        "Mia's brother is allergic to nuts.",
    ]


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("私は京都の大学で建築を学んでいます。", "アイコは京都の大学で建築を学んでいます。"),
        ("毎週水曜日に弓道に通っている。", "アイコは毎週水曜日に弓道に通っている。"),
        ("僕の妹はパリに引っ越した！", "アイコの妹はパリに引っ越した。"),
        ("犬の名前はソラです。", "犬の名前はソラです。"),
    ],
)
def test_japanese_statements_name_the_speaker(said: str, statement: str) -> None:
    assert told(said, "アイコ") == [statement]


@pytest.mark.parametrize("said", ["そうですね、ありがとう。", "どこに住んでいますか？", "はい。"])
def test_japanese_small_talk_is_no_statement(said: str) -> None:
    assert told(said, "アイコ") == []


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("Remember that I am allergic to walnuts.", "Mia is allergic to walnuts."),
        ("Please remember: my bike is blue!", "Mia's bike is blue."),
        ("don't forget that I have a dentist appointment tomorrow",
         "Mia has a dentist appointment tomorrow (9 May 2026)."),
        ("私は納豆が嫌いだと覚えておいてください。", "Miaは納豆が嫌いだ。"),
        ("明日は京都に行くことを覚えておいて", "明日は京都に行く。"),
    ],
)  # fmt: skip
def test_what_is_asked_to_be_remembered_is_found(said: str, statement: str) -> None:
    [asked] = asked_to_remember(said)
    assert retold(asked, "Mia", AT) == statement


@pytest.mark.parametrize(
    "said",
    [
        "I remember that day.",
        "Do you remember that I sail?",
        "hello",
        "Remember that time we went to Paris?",
        "Remember that day in May.",
    ],
)
def test_other_talk_of_remembering_asks_for_nothing(said: str) -> None:
    assert asked_to_remember(said) == []
