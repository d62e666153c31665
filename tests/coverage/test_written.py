"""What is compared as it is written: values, quotations, capitals, hyphens, commas, articles."""

from __future__ import annotations

import pytest

from memory.coverage.covers import covers
from memory.text import text_key

OTHERWISE = [
    ("Ola's passcode is Grane!", "Ola's passcode is Grane."),
    ("Ola's passcode is Grane!", "Ola's passcode is Grane!!"),
    ("Ola's network is Blue Hill.", "Ola's network is blue hill."),
    ("Ola's passphrase is my cat.", "Ola's passphrase is mycat."),
    ("Ola's login is really ola.", "Ola's login is really Ola."),
    ("The key is `Grane`.", "The key is `grane`."),
    ("The film is “Up”.", "The film is “up”."),
    ("Olas WLAN-Kennwort ist Winter.", "Olas WLAN-Kennwort ist winter."),
    ("オラの暗証番号は「Ab」です。", "オラの暗証番号は「ab」です。"),
    ("気温は－3度です。", "気温は3度です。"),
    ("Ola took part in the march.", "Ola took part in the March."),
    ("Ola shops at the co-op.", "Ola shops at the coop."),
    ("Ola has forty two-euro coins.", "Ola has forty-two euro coins."),
    ("Ola's tutor, who is in Rome, is a chef.", "Ola's tutor who is in Rome is a chef."),
    ("Ola has a little time.", "Ola has little time."),
    ("Ola has few friends.", "Ola has a few friends."),
    ("Ola's bus is at 12 am.", "Ola's bus is at 12:00."),
    ("Ola's exam is at 9:30 am.", "Ola's exam is at 9:30."),
    ("Ola has seen the king.", "Ola has seen a king."),
    ("Ola is smoking in the yard.", "Ola smokes in the yard."),
    ("Udo hat ihr Boot verkauft.", "Udo hat ihr das Boot verkauft."),
    ("Wir rufen, Oma.", "Wir rufen Oma."),
    ("Udo spricht wenig Dänisch.", "Udo spricht ein wenig Dänisch."),
    ("Udo hat Sie gesehen.", "Udo hat sie gesehen."),
]


@pytest.mark.parametrize(("a", "b"), OTHERWISE)
def test_what_is_written_otherwise_is_something_else(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)
    assert text_key(a) != text_key(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ola's passcode is Grane!", "Ola's passcode really is Grane!"),
        ("In May, Ola sails to Oslo.", "Ola sails to Oslo in May."),
        ("Ola has a cat, a dog, and a hen.", "Ola has a cat, a dog and a hen."),
        ("The bus is at 5 pm.", "The bus is at 17:00."),
        ("The bus is at 12 am.", "The bus is at 0:00."),
    ],
)
def test_what_differs_in_form_alone_is_the_same(a: str, b: str) -> None:
    assert covers(a, b)
    assert covers(b, a)
