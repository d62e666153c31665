"""Test the words by which a text is found, and the wordings of a question."""

from __future__ import annotations

import pytest

from memory.text import plain_form, telling_words, wordings


def test_words_come_in_plain_form_in_order_and_once() -> None:
    found = telling_words("Mia painted the old boats, and she paints boats in 3 harbours.")
    assert found == tuple(dict.fromkeys(found))
    assert {"paint", "old", "boat", "3", "harbor"} <= set(found)
    assert not {"the", "she", "in", "and"} & set(found)


def test_the_users_name_and_the_frame_of_the_report_are_left_out() -> None:
    plain = telling_words("The harbour is closed.")
    assert telling_words("Mia mentioned that the harbour is closed.", "Mia") == plain
    assert telling_words("Mia Berg's harbour is closed.", "Mia Berg") == plain
    assert telling_words("Mia said the harbour is closed.", "mia@chat-7") == plain


def test_another_persons_name_stays() -> None:
    assert "jo" in telling_words("Mia met Jo.", "Mia")


@pytest.mark.parametrize("text", ["", "...", "and she was it", "Mia said that."])
def test_a_text_may_have_none(text: str) -> None:
    assert set(telling_words(text, "Mia")) <= {"was"}


@pytest.mark.parametrize(
    "question",
    [
        "Where do I live?",
        "what's my job?",
        "I'm allergic to what?",
        "Wie heißt meine Tochter?",
        "Où est-ce que j'habite ?",
        "Où ai-je grandi ?",
        "Comment s'appelle mon dentiste ?",
        "¿Cómo se llama mi perro?",
        "¿Dónde vivo?",
        "私はどこに住んでいますか？",
        "僕の車は何色？",
    ],
)
def test_the_user_is_named_where_they_speak_of_themselves(question: str) -> None:
    assert wordings(question, "Mia") == (question, f"Mia {question}")


@pytest.mark.parametrize("question", ["Where does Jonas live?", "犬の名前は？", "Image of Miami?"])
def test_other_questions_stay_as_they_are(question: str) -> None:
    assert wordings(question, "Mia") == (question,)


def test_without_a_user_nobody_is_named() -> None:
    assert wordings("Where do I live?", None) == ("Where do I live?",)


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
