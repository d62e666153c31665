"""What somebody said becomes statements about them by name; small talk becomes nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.text import statements

AT = datetime(2026, 5, 8, 10, tzinfo=UTC)


def told(text: str, speaker: str = "Mia") -> list[str]:
    return [statement.text for statement in statements(text, speaker, AT)]


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I moved to Porto in 2021.", "Mia moved to Porto in 2021."),
        ("Hey! I'm learning to play the cello!", "Mia is learning to play the cello."),
        ("I really love my old cello", "Mia really loves their old cello."),
        ("My sister studies law in Bonn.", "Mia's sister studies law in Bonn."),
        ("I don't eat fish or meat.", "Mia doesn't eat fish or meat."),
        ("I've never been to Japan.", "Mia has never been to Japan."),
        ("I study every evening and go to bed late.",
         "Mia studies every evening and goes to bed late."),
        ("Well, yesterday I bought a red canoe.",
         "On 7 May 2026 Mia bought a red canoe."),
        ("I lost my job at the bakery last month.",
         "Mia lost their job at the bakery in April 2026."),
        ("We went camping near the lake.", "Mia and others went camping near the lake."),
        ("Clara lives in Porto with Rex.", "Clara lives in Porto with Rex."),
        ("The router has the address 10.0.7.1.", "The router has the address 10.0.7.1."),
    ],
)  # fmt: skip
def test_english_statements_name_the_speaker(said: str, statement: str) -> None:
    assert told(said) == [statement]


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


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I hate olives.", "Mia hates olives."),
        ("I first watched the comet in 1997.", "Mia first watched the comet in 1997."),
        ("I wanna learn Basque.", "Mia wants to learn Basque."),
        ("I`m a vet in Ghent.", "Mia is a vet in Ghent."),
        ("I'd never seen a whale in Nova Scotia.", "Mia had never seen a whale in Nova Scotia."),
 ("I bought a wok and cook for the neighbours.",
         "Mia bought a wok and cooks for the neighbours."),
        ("My sister and I run a bakery.", "Mia and their sister run a bakery."),
        ("Jonas and I rented a barge.", "Mia and Jonas rented a barge."),
        ("I love my dogs and my garden.", "Mia loves their dogs and their garden."),
        ("Me and my cousin are building a kayak.", "Mia and their cousin are building a kayak."),
        ("My aunt gave me a loom.", "Mia's aunt gave Mia a loom."),
        ("Went to a falconry show on Sunday!", "Mia went to a falconry show on 3 May 2026."),
        ("Been learning to weld lately.", "Mia has been learning to weld lately."),
        ("Pottery helps me unwind.", "Pottery helps Mia unwind."),
        ("I bought this green kettle!", "Mia bought a green kettle."),
    ],
)  # fmt: skip
def test_the_rewriting_agrees_with_its_subject(said: str, statement: str) -> None:
    assert told(said) == [statement]


@pytest.mark.parametrize(
    "said",
    [
        "I love it.",
        "I play it every day.",
        "I went there on foot.",
        "My brother told them about the flood.",
        "I want one so badly.",
        "I visited him in Leeds.",
        "I adopted these from a shelter in Leeds.",
        "What can I say about Lisbon?",
        "Look what I have here!",
        "What a day my sister had in Rome!",
        "Since I was seventeen or so.",
        "I met the whole team.",
        "I tried one last week.",
    ],
)
def test_what_does_not_stand_alone_is_left_out(said: str) -> None:
    assert told(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "I'm so excited about everything!",
        "I had a great time.",
        "I feel the joy of the moment.",
        "We can make a real difference together.",
        "My week was amazing.",
        "I'll think about it.",
        "I have to go now, Jonas.",
        "I tried my best.",
    ],
)
def test_moods_and_praise_are_no_statements(said: str) -> None:
    assert told(said) == []


@pytest.mark.parametrize(
    ("said", "statements"),
    [
        ("I bought a viola. I play it every morning.",
         ["Mia bought a viola. Mia plays it every morning."]),
        ("I have a son. He studies law in Bonn.", ["Mia has a son. He studies law in Bonn."]),
        ("We drove to Ghent with my aunt. We toured Bavo's cathedral.",
         ["Mia and others drove to Ghent with their aunt.",
          "Mia and others toured Bavo's cathedral."]),
        ("I live with my husband. We keep bees.",
         ["Mia lives with their husband.", "Mia and their husband keep bees."]),
        ("As a mom of twins, I work from home. I left my job in Bonn.",
         ["As a mom of twins, Mia works from home.", "Mia left their job in Bonn."]),
        ("I run a kennel - it was hard at first.", ["Mia runs a kennel."]),
        ("I moved to Oslo in 2019, but I work in Bergen.",
         ["Mia moved to Oslo in 2019.", "Mia works in Bergen."]),
    ],
)  # fmt: skip
def test_what_is_meant_is_found_in_the_sentence_before(said: str, statements: list[str]) -> None:
    assert told(said) == statements


def test_the_name_of_the_listener_is_not_told() -> None:
    [one] = statements("I moved to Porto, Jonas.", "Mia", AT, listeners=["Jonas"])
    assert one.text == "Mia moved to Porto."


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
        ("犬の名前はソラです。", "アイコの犬の名前はソラです。"),
        ("オリーブが嫌いです。", "アイコはオリーブが嫌いです。"),
        ("兄が去年結婚しました。", "アイコの兄が2025年に結婚しました。"),
        ("図書館は九時に開きます。", "図書館は九時に開きます。"),
        ("昨日、友達と映画を見たよ。", "アイコは2026年5月7日、友達と映画を見た。"),
        ("去年から陶芸を習っています。", "アイコは2025年から陶芸を習っています。"),
    ],
)
def test_japanese_statements_name_the_speaker(said: str, statement: str) -> None:
    assert told(said, "アイコ") == [statement]


@pytest.mark.parametrize(
    "said",
    [
        "そうですね、ありがとう。",
        "どこに住んでいますか？",
        "はい。",
        "それは本当に大切です。",
        "私はそこに三年住んでいた。",
        "彼はいつも手伝ってくれます。",
        "とても楽しかったです。",
        "一緒に行きましょう。",
    ],
)
def test_japanese_small_talk_and_what_points_elsewhere_is_no_statement(said: str) -> None:
    assert told(said, "アイコ") == []


@pytest.mark.parametrize("said", ["I love it, and ", "I have a dog, my ", "no, ", "犬がいる", "a"])
def test_what_is_too_long_for_a_sentence_states_nothing(said: str) -> None:
    assert told(said * 20_000) == []


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I bought a red canoe the day before yesterday.", "Mia bought a red canoe on 6 May 2026."),
        ("I moved to Porto last month.", "Mia moved to Porto in April 2026."),
        ("I moved to Porto two weeks ago.", "Mia moved to Porto around 24 April 2026."),
        ("My sister arrives next Sunday.", "Mia's sister arrives next Sunday."),
        ("先月、京都に引っ越しました。", "Miaは2026年4月、京都に引っ越しました。"),
        ("先週の金曜日に映画を見たよ。", "Miaは2026年5月1日に映画を見た。"),
    ],
)
def test_clear_relative_words_become_dates_and_others_stay(said: str, statement: str) -> None:
    assert told(said) == [statement]


def test_the_day_of_the_speaker_counts() -> None:
    late = datetime.fromisoformat("2026-05-08T00:30:00+09:00")
    [one] = statements("I bought a red canoe today.", "Mia", late)
    assert one.text == "Mia bought a red canoe on 8 May 2026."
