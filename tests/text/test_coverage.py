"""What one text states that the other does not. The sentences are this project's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.coverage import compare, covers, negations

OWN = [
    json.loads(line)
    for line in (Path(__file__).parent.parent.parent / "examples" / "pairs.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]

SAME = [
    *((one["a"], one["b"]) for one in OWN if one["label"] == "duplicate"),
    ("Mia adopted a cat in 2023.", "mia adopted a cat in 2023"),
    ("Jonas really likes hiking.", "Jonas likes hiking."),
    ("Mia has three parrots.", "Mia has 3 parrots."),
    ("In 2023 Mia adopted a cat.", "Mia adopted a cat in 2023."),
    ("The rent is $1,250.", "The rent is $1250."),
    ("ミアは猫を飼っている。", "ミアは猫を飼っています。"),
]
DIFFERENT = [
    *((one["a"], one["b"]) for one in OWN if one["label"] == "changed"),
    ("The dentist is on March 4.", "The dentist is on March 5."),
    ("Jonas plays chess with Aiko.", "Jonas plays chess with Bela."),
    ("Mia eats meat.", "Mia does not eat meat."),
    ("Jonas can swim.", "Jonas can't swim."),
    ("The router is at 10.0.7.1.", "The router is at 10.0.9.1."),
    ("Aiko lent Jonas a tent.", "Jonas lent Aiko a tent."),
    ("Jonas prefers tea over coffee.", "Jonas prefers coffee over tea."),
    ("Mia moved from Lisbon to Porto.", "Mia moved from Porto to Lisbon."),
    ("The dentist is on May 3 at 5 pm.", "The dentist is on May 5 at 5 pm."),
    ("Mia has 2 cats and Bela has 3.", "Mia has 2 cats and Bela has 2."),
    ("Mia is Bela's aunt.", "Bela is Mia's aunt."),
    ("It is -5 degrees outside.", "It is 5 degrees outside."),
    ("Mia has a cat.", "Mia has a cat?"),
    ("Mia has a cat.", "Mia had a cat."),
    ("Mia lives in Porto.", "Mia used to live in Porto."),
    ("Mia has passed the exam.", "Mia hopes that she has passed the exam."),
    ("Mia likes the plan 👍.", "Mia likes the plan 👎."),
    ("小王会游泳。", "小王不会游泳。"),
    ("Миа ест мясо.", "Миа не ест мясо."),
    ("The shop opens at 9:30 am.", "The shop opens at 9:30 pm."),
    ("ミアは東京に住んでいる。", "ミアは大阪に住んでいる。"),
    ("ジョナスは3月4日に行く。", "ジョナスは3月5日に行く。"),
    ("ミアは肉を食べる。", "ミアは肉を食べない。"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_what_says_the_same_is_covered_both_ways(a: str, b: str) -> None:
    assert covers(a, b)
    assert covers(b, a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_what_differs_in_a_value_is_covered_neither_way(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


def test_the_longer_text_covers_the_shorter_and_names_what_is_more() -> None:
    long, short = "Mia adopted a rescue cat in 2023.", "Mia adopted a cat."
    comparison = compare(long, short)
    assert comparison.a_covers_b
    assert not comparison.b_covers_a
    assert comparison.only_a == ("rescue", "2023")


def test_a_difference_is_said_in_words() -> None:
    assert compare("It is on May 4.", "It is on May 5.").summary == '"4" / "5"'
    assert compare("Mia has a cat.", "Mia has a tabby cat.").summary == 'one adds "tabby"'
    assert compare("Mia saw Jo.", "Jo saw Mia.").summary == "word order"
    assert compare("Mia saw Jo.", "mia saw Jo").summary == ""


def test_capitals_that_are_a_word_of_their_own_are_content() -> None:
    assert compare("Mia works in IT at the port.", "Mia works at the port.").only_a == ("IT",)


def test_an_added_negation_covers_nothing() -> None:
    """It would be one more word, and turns the statement around."""
    comparison = compare("Mia is not happy at work.", "Mia is happy at work.")
    assert comparison.conflict == ("not",)
    assert not comparison.a_covers_b
    assert not comparison.b_covers_a


def test_negations_are_counted() -> None:
    assert negations("He never said that he would not come.") == 2
    assert negations("ミアは肉を食べない。") == 1


ADDS = [
    ("Mia has a cat.", "Mia has a tabby cat."),
    ("Mia moved to Porto.", "Mia moved to Porto in May."),
    ("Mia moved to Porto.", "In May 2024 Mia moved to Porto."),
    ("Mia sings.", "Mia sings in a choir, and her brother plays the drums."),
    ("Anna wohnt in Berlin.", "Anna wohnt in Berlin mit Bela."),
    ("ミアは猫を飼っている。", "ミアは黒い猫を飼っている。"),
    ("小王住在北京。", "小王住在北京，他是老师。"),
]
CHANGES = [
    ("Mia has a cat.", "Mia has a cat toy."),
    ("Mia earns 50 euros.", "Mia earns at least 50 euros."),
    ("Mia knows Jo.", "Mia knows Jo Weber."),
    ("Mia lives in Porto.", "Mia would like it if she lived in Porto."),
    ("小王骑车。", "小王骑自行车。"),
    ("Anna ist mit der Arbeit fertig.", "Anna ist mit der Arbeit fast fertig."),
]


@pytest.mark.parametrize(("short", "long"), ADDS)
def test_what_only_adds_covers(short: str, long: str) -> None:
    assert covers(long, short)
    assert not covers(short, long)


@pytest.mark.parametrize(("short", "long"), CHANGES)
def test_what_changes_by_adding_covers_nothing(short: str, long: str) -> None:
    assert not covers(long, short)
    assert not covers(short, long)


def test_another_word_that_governs_is_named_with_what_it_governs() -> None:
    comparison = compare("Jonas works for Bela.", "Jonas works with Bela.")
    assert comparison.summary == "for Bela / with Bela"


words_of = st.lists(
    st.sampled_from(
        "Mia Jo Bela not never was 3 three 5 pm May cat cats dog likes liked by for from to is "
        "being hired which red blue and or , . ? 猫 は を 犬 も 京 です 不".split()
    ),
    max_size=9,
).map(" ".join)


@given(words_of, words_of)
def test_a_comparison_reads_the_same_from_both_sides(a: str, b: str) -> None:
    there, back = compare(a, b), compare(b, a)
    assert there.a_covers_b == back.b_covers_a
    assert there.b_covers_a == back.a_covers_b


@given(words_of)
def test_a_text_covers_itself(text: str) -> None:
    assert compare(text, text).summary == ""


@given(words_of, words_of)
def test_what_covers_has_each_number_name_and_negation_of_the_other(a: str, b: str) -> None:
    """The oracle knows no grammar: it only looks for the words."""
    if covers(a, b):
        for word in ("Mia", "Jo", "Bela", "犬", "red", "blue"):
            assert a.count(word) >= b.count(word)
        assert negations(a) == negations(b)
        assert ("?" in a.split()[-1:]) == ("?" in b.split()[-1:])
