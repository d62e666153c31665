"""Which script a text is written in, as far as it matters to how vectors compare."""

from __future__ import annotations

import re

_KANA_OR_HAN = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
)


def has_kana_or_han(text: str) -> bool:
    """Whether a character of Japanese or Chinese stands in it."""
    return not text.isascii() and _KANA_OR_HAN.search(text) is not None
