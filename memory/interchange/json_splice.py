"""One value in a JSON text replaced: everything else stays as it was written, to the character."""

from __future__ import annotations

import json
from collections.abc import Sequence

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


def spliced(text: str, path: Sequence[str], value: object) -> str:
    """The text with another value where these keys lead.

    Raises: ValueError where they lead nowhere.
    """
    start, end = 0, len(text)
    for key in path:
        start, end = _member(text, _past_space(text, start), key)
    return text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]


def _member(text: str, at: int, key: str) -> tuple[int, int]:
    """Where the value of a key stands in the object that begins here; the last one, as is read."""
    if text[at] != "{":
        raise ValueError(f"there is no object with a key {key!r}")
    found = None
    at = _past_space(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _past_space(text, _past_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        if name == key:
            found = start, end
        at = _past_space(text, end)
        if text[at] == ",":
            at = _past_space(text, at + 1)
    if found is None:
        raise ValueError(f"there is no key {key!r}")
    return found


def _past_space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
