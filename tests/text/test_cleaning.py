"""What is quoted of a text, and what counts as Japanese or Chinese."""

from __future__ import annotations

import pytest

from memory.text.cleaning import has_cjk, shortened


def test_a_quote_is_one_line_and_cut() -> None:
    assert shortened("a\nb  c", 120) == "a b c"
    assert shortened("x" * 120, 120) == "x" * 120
    assert shortened("x" * 121, 120) == "x" * 120 + "..."
    assert shortened("a b c", 2) == "a..."


@pytest.mark.parametrize(
    "text",
    ["ミアは猫が好きだ", "Mia lives in 東京", "ﾐｱ", "我爱猫", "時々", "𠮷野家", "Mia ラーメン"],
)
def test_kana_and_han_are_found(text: str) -> None:
    assert has_cjk(text)


@pytest.mark.parametrize("text", ["Mia", "Zoë’s café", "Миа", "미아는 고양이", "“Mia”… 🐈", ""])
def test_other_scripts_signs_and_emoji_are_not_kana_or_han(text: str) -> None:
    assert not has_cjk(text)
