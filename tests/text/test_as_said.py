"""Facts told in a chat: none vanishes because the rules cannot rewrite it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.text import asked_to_remember, retold, statements

AT = datetime(2026, 11, 24, 12, tzinfo=UTC)


def told(text: str) -> list[str]:
    return [one.text for one in statements(text, "Mia", AT, listeners=["Tom"])]


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("<@99> my dog is called Rex", "Mia's dog is called Rex."),
        ("@tom I play the cello", "Mia plays the cello."),
        ("fyi my birthday is on 3 May", "Mia's birthday is on 3 May."),
        ("just so you know i can't eat gluten", "Mia can't eat gluten."),
        ("Im allergic to penicillin", "Mia is allergic to penicillin."),
        ("I no longer smoke", "Mia no longer smokes."),
        ("my doctor is Dr. Okafor, tel 555 010", "Mia's doctor is Dr. Okafor, tel 555 010."),
        ("my handle is @Nora_B", "Mia's handle is @Nora_B."),
        ("my wifi password is Fjord 7!", "Mia's wifi password is Fjord 7!"),
    ],
)
def test_what_stands_before_a_fact_does_not_hide_it(text: str, stated: str) -> None:
    assert told(text) == [stated]


@pytest.mark.parametrize(
    "text",
    [
        "im 34 btw",
        "actually it's 10mg of lisinopril now",
        "correction: the meeting is on Thursday",
        "me and Tom broke up",
        "scratch that, the concert is on the 9th",
        "the shed opens with 0417",
        "guest wifi is Gull_House",
        "bin seit gestern 30",
        "Ich wohne seit 2019 in Hamburg.",
        "Ich habe am 5. Mai Geburtstag.",
        "Meine Schwester heißt Eva.",
        "J'habite à Lyon.",
        "btw can't eat gluten",
        "Nor do I eat fish.",
        "Ich hätte gern einen Hund.",
        "Kann kein Gluten essen",
        "Tengo tres gatos",
        "I miei genitori abitano a Roma",
        "我住在北京，有两只猫。",
        "娘は三歳、名前はユイ",
        "dog died on monday. he was called Bosco",
        "I've been abroad - on Crete.",
    ],
)
def test_what_cannot_be_rewritten_is_kept_as_it_was_said(text: str) -> None:
    assert told(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Tom says: I live in Rome.",
        "My landlord wrote:\nI raise the rent by 80 euros.\nI need the spare key back.",
        "> I'm allergic to cats.\nThat is what Paula wrote.",
        "Hi Mia,\nI live in Cardiff now.\nBest, Owen",
        "my boss told me “I am quitting in March. My flat in Leeds is for sale.”",
        'He told me "Great news. I live in Rome now"',
        'My doctor said "you have to stop smoking"',
        "'I'm 82 and I swim' - my nan",
        "My sister goes, I hate my job at the bank and I want to be a baker",
        "In the film the guy was like, I sold my kidney",
        "My son keeps saying I want a hamster",
        "As the song goes, I was born to run",
        "Because my wife says I hate sushi, we eat pizza",
        "Anna - I moved to Kyoto",
        "Ben just wrote\nI'm stuck in Oslo",
        "Mein Bruder sagt: Ich heirate nie.",
        "« Je déteste Paris », dit mon mari",
        "母は「私は昨日退院した」と言った。",
        "「会社を辞めた」と弟が言った。",
        "田中さん：私は来月結婚します。",
    ],
)
def test_nobody_else_s_words_become_the_speaker_s(text: str) -> None:
    assert told(text) == [text]
    assert retold(text, "Mia", AT) == text


def test_what_is_said_before_a_quotation_is_rewritten() -> None:
    assert told("I row. I live in Porto. Tom says: I live in Rome.") == [
        "Mia lives in Porto.",
        "Tom says: I live in Rome.",
    ]
    assert told('I love "The Wasp Factory".') == ['Mia loves "The Wasp Factory".']
    assert told("Tom asks: do you row?") == []
    assert told("Tom writes: I row. " * 200) == []


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("I've two cats, they're called Tom and Kit", "they're called Tom and Kit."),
        ("I have to take insulin twice a day", "Mia has to take insulin twice a day."),
        ("I can only work mornings", "Mia can only work mornings."),
        ("I'd like a window seat", "Mia would like a window seat."),
        ("I had soup with a client", "Mia had soup with a client."),
        ("I'm a nurse", "Mia is a nurse."),
        ("I never learned to swim", "Mia never learned to swim."),
    ],
)
def test_no_part_of_a_fact_is_dropped(text: str, stated: str) -> None:
    [one] = told(text)
    assert one.endswith(stated)


def test_by_the_way_separates_two_clauses() -> None:
    assert told("im mia btw, i live in leeds with my gf Priya") == [
        "Mia is mia btw.",
        "Mia lives in leeds with their gf Priya.",
    ]
    assert told("btw, my dog is called Rex") == ["Mia's dog is called Rex."]


@pytest.mark.parametrize(
    "text",
    [
        "I'm so excited!",
        "Thanks, I love it!",
        "I agree, Tom.",
        "I 100% agree!",
        "You got 3 of 5?",
        "Me too.",
        "Wie geht es dir?",
        "Danke, das ist sehr nett!",
        "That sounds lovely.",
        "Take care, Tom!",
    ],
)
def test_chat_is_not_kept(text: str) -> None:
    assert told(text) == []


def test_a_german_question_may_ask_to_remember() -> None:
    asked = asked_to_remember("Kannst du dir merken, dass mein Spind die Nummer 48 hat?")
    assert asked == ["mein Spind die Nummer 48 hat"]


def test_a_polite_question_may_ask_to_remember() -> None:
    text = "Can you remember that my sister's name is Eva?"
    assert asked_to_remember(text) == ["my sister's name is Eva"]
    assert asked_to_remember("Do you remember that day?") == []
