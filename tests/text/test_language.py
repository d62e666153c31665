"""Script: what is Japanese or Chinese, and what only looks foreign. Plain forms of words."""

from __future__ import annotations

import pytest

from memory.text import has_cjk, plain_form


@pytest.mark.parametrize(
    "text",
    ["ミアは猫が好きだ", "Mia lives in 東京", "ﾐｱ", "我爱猫", "時々", "𠮷野家", "Mia ラーメン"],
)
def test_kana_and_han_are_found(text: str) -> None:
    assert has_cjk(text)


@pytest.mark.parametrize("text", ["Mia", "Zoë’s café", "Миа", "미아는 고양이", "“Mia”… 🐈", ""])
def test_other_scripts_signs_and_emoji_are_not_kana_or_han(text: str) -> None:
    assert not has_cjk(text)


# --- plain forms, against a list worked out by hand -----------------------------------------------

FORMS = {
    "slice": "slicing sliced slices", "plan": "planning planned plans", "hope": "hoping hoped",
    "visit": "visiting visited visits", "ride": "riding rode ridden rides", "run": "running ran",
    "play": "playing played plays", "carry": "carrying carried carries", "watch": "watched watches",
    "move": "moving moved", "create": "creating created", "eat": "eating ate eaten",
    "look": "looked",
    "arrange": "arranging arranged", "hang": "hanging hung", "remember": "remembering remembered",
    "require": "required", "explain": "explaining explained", "decide": "deciding decided",
    "invite": "inviting invited", "edit": "editing edited", "class": "classes", "go": "goes going",
    "child": "children", "woman": "women", "cat": "cats", "buy": "buying bought", "write": "wrote",
    "organize": "organizing organise organised", "color": "colour colours", "focus": "focused",
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "plain"), [(form, plain) for plain, forms in FORMS.items() for form in forms.split()]
)
def test_number_person_and_tense_are_taken_off(form: str, plain: str) -> None:
    assert plain_form(form).word == plain


@pytest.mark.parametrize("form", ["sliced", "bought", "went", "carried", "visited"])
def test_a_past_state_is_stated_as_past(form: str) -> None:
    assert plain_form(form).past


@pytest.mark.parametrize("form", ["slicing", "buys", "go", "need", "speed", "bed", "red"])
def test_a_present_state_is_not_stated_as_past(form: str) -> None:
    assert not plain_form(form).past


@pytest.mark.parametrize(
    ("a", "b"),
    [("important", "import"), ("university", "universe"), ("policy", "police"), ("news", "new"),
     ("organization", "organ"), ("general", "generous"), ("plane", "plan"), ("care", "car"),
     ("string", "str"), ("morning", "morn"), ("james", "jame")],
)  # fmt: skip
def test_other_words_stay_other_words(a: str, b: str) -> None:
    assert plain_form(a).word != plain_form(b).word
