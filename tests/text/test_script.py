"""Script: what is Japanese or Chinese, and what only looks foreign."""

from __future__ import annotations

import pytest

from memory.text.script import has_kana_or_han


@pytest.mark.parametrize(
    "text",
    ["ミアは猫が好きだ", "Mia lives in 東京", "ﾐｱ", "我爱猫", "時々", "𠮷野家", "Mia ラーメン"],
)
def test_kana_and_han_are_found(text: str) -> None:
    assert has_kana_or_han(text)


@pytest.mark.parametrize("text", ["Mia", "Zoë’s café", "Миа", "미아는 고양이", "“Mia”… 🐈", ""])
def test_other_scripts_signs_and_emoji_are_not_kana_or_han(text: str) -> None:
    assert not has_kana_or_han(text)
