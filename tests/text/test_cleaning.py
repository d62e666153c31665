"""What is quoted of a text."""

from __future__ import annotations

from memory.text.cleaning import shortened


def test_a_quote_is_one_line_and_cut() -> None:
    assert shortened("a\nb  c", 120) == "a b c"
    assert shortened("x" * 120, 120) == "x" * 120
    assert shortened("x" * 121, 120) == "x" * 120 + "..."
    assert shortened("a b c", 2) == "a..."
