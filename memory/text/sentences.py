"""A text cut into its sentences, in any script."""

from __future__ import annotations

import re

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_JAPANESE = re.compile(r"[\u3041-\u30ff]")


def sentences(text: str) -> list[str]:
    """Sentences with their final marks, in any script."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]


def is_japanese(text: str) -> bool:
    """Whether it holds kana."""
    return _JAPANESE.search(text) is not None
