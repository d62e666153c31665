"""A value is literal behind the noun of an attribute, and "the user" is a person."""

from __future__ import annotations

import pytest

from memory.text import literal_start


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("The user's wifi password is Fjord7", True),
        ("user: Mia", True),
        ("The user name is mia7", True),
        ("The user's ID is 7", True),
        ("His user is Mia", True),
        ("ユーザー名はMiaです", True),
        ("The user waters the roses every Monday", False),
        ("User likes tea", False),
        ("Mia sails. The user bakes.", False),
        ("El usuario vive en Lisboa", False),
        ("Der Benutzer mag Tee", False),
        ("ユーザーは猫が好きです", False),
    ],
)
def test_the_user_as_a_person_is_no_attribute(text: str, literal: bool) -> None:
    assert bool(literal_start(text)) is literal
