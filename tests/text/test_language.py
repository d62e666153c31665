"""Script: what is Japanese or Chinese, and what only looks foreign."""

from __future__ import annotations

import pytest

from memory.text import has_cjk


@pytest.mark.parametrize(
    "text",
    ["ミアは猫が好きだ", "Mia lives in 東京", "ﾐｱ", "我爱猫", "時々", "𠮷野家", "Mia ラーメン"],
)
def test_kana_and_han_are_found(text: str) -> None:
    assert has_cjk(text)


@pytest.mark.parametrize("text", ["Mia", "Zoë’s café", "Миа", "미아는 고양이", "“Mia”… 🐈", ""])
def test_other_scripts_signs_and_emoji_are_not_kana_or_han(text: str) -> None:
    assert not has_cjk(text)
