from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage.differences import MOST_WORDS, WordRun, difference, differs, marked, words
from memory.text import visible

TEXTS = st.lists(
    st.sampled_from("Mia has a cat , 猫 を 飼う 12 \u202e".split(" ")), max_size=12
).map(" ".join)


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_words_differ_not_characters() -> None:
    assert difference("Mia runs 12 km.", "Mia runs 21 km.") == (
        WordRun("kept", "Mia runs "),
        WordRun("removed", "12 "),
        WordRun("added", "21 "),
        WordRun("kept", "km."),
    )


def test_japanese_is_cut_where_the_script_changes_and_chinese_by_the_character() -> None:
    assert words("東京にネコがいる") == ["東京", "に", "ネコ", "がいる"]
    assert words("我喜欢苹果") == list("我喜欢苹果")
    assert marked("猫を飼っている。", ["犬を飼っている。"]) == ("", "猫", "を飼っている。")


def test_words_that_another_text_lacks_are_marked() -> None:
    others = ["Mia has a cat.", "Mia has a black cat."]
    assert marked("Mia has a black cat.", others) == ("Mia has a ", "black ", "cat.")
    assert marked("Mia has a black cat.", [*others, "Ben has a cat."]) == (
        "", "Mia ", "has a ", "black ", "cat.",
    )  # fmt: skip
    assert marked("Mia has a cat.", []) == ("Mia has a cat.",)


def test_numbers_dates_and_contractions_are_one_word() -> None:
    assert words("It's 12.5 km on 2026-01-10.") == [
        "It's ",
        "12.5 ",
        "km ",
        "on ",
        "2026-01-10",
        ".",
    ]


@given(TEXTS, TEXTS)
def test_what_was_kept_and_added_is_the_new_text_and_what_was_kept_and_removed_the_old(
    old: str, new: str
) -> None:
    runs = difference(old, new)
    assert squeezed("".join(run.text for run in runs if run.kind != "removed")) == squeezed(
        "".join(words(new))
    )
    assert squeezed("".join(run.text for run in runs if run.kind != "added")) == squeezed(
        "".join(words(old))
    )


@given(TEXTS, TEXTS)
def test_a_marked_text_is_whole(text: str, other: str) -> None:
    assert "".join(marked(text, [other])) == "".join(words(text))
    assert marked(text, [text]) == ("".join(words(text)),)


def test_the_same_words_stay_whatever_surrounds_them() -> None:
    assert [run.text for run in difference("c a b", "a b d") if run.kind == "kept"] == ["a b "]


def test_long_texts_that_differ_in_everything_are_replaced_as_a_whole() -> None:
    old, new = "a b " * MOST_WORDS, "b c " * MOST_WORDS
    assert [run.kind for run in difference(old, new)] == ["removed", "added"]


def test_characters_that_turn_the_direction_are_not_shown() -> None:
    assert "".join(marked("Mia \u202ehas a cat", ["x"])) == "Mia has a cat"


# --- in a line ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("It is on May 4.", "It is on May 5.", '"4" / "5"'),
        ("Mia has a cat.", "Mia has a black cat.", 'one adds "black"'),
        ("Mia saw Jo.", "mia saw Jo", ""),
        ("Mia works at 13:30.", "Mia works at 1 pm.", '"13:30" / "1 pm"'),
        ("Joanna has two cats.", "Joanna had two cats.", '"has" / "had"'),
        ("Mia wears size M.", "Mia wears size L.", '"M" / "L"'),
        ("Mia is A+.", "Mia is A-.", '"A+" / "A-"'),
        ("The rent is ≤ 900.", "The rent is ≥ 900.", '"≤" / "≥"'),
        ("Mia on Rex: :)", "Mia on Rex: :(", '":)" / ":("'),
        ("Mia teaches IT.", "Mia teaches it.", '"IT" / "it"'),
        ("Mia has nuts?", "Mia has nuts.", '"nuts?" / "nuts"'),
        ("Mia moved in May.", "Mia moved to Graz.", '"in May" / "to Graz"'),
        ("ミアは海で泳いだ。", "ミアは海で走った。", '"泳いだ" / "走った"'),
        (
            "Mia hält den Vortrag am Freitag.",
            "Mia hält den Vortrag nicht am Montag.",
            '"Freitag" / "Montag"; one adds "nicht"',
        ),
    ],
)
def test_a_difference_is_told_in_the_words_of_the_texts(old: str, new: str, told: str) -> None:
    assert differs(old, new) == told


@given(TEXTS, TEXTS)
def test_differences_are_quoted_from_the_texts(old: str, new: str) -> None:
    told = differs(old, new)
    for quoted in told.split('"')[1::2]:
        assert squeezed(quoted.removesuffix("...")) in squeezed(visible(old) + visible(new))
