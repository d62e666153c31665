"""The form of a text that every store and terminal can hold, and the form that is compared."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from pydantic import (
    JsonValue,
)

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_JOINER = re.compile("[\u200c\u200d](?![\u0100-\U0010ffff])|(?<![\u0100-\U0010ffff])[\u200c\u200d]")
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"\b(?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])\w+\b")
_FINAL_PUNCTUATION = " .!。！…"
_COMPATIBILITY = {"<super>": "^", "<sub>": "_", "<fraction>": " "}


def clean(text: str) -> str:
    """Text that every store, wire and terminal can hold.

    Control characters but tab and line ends are removed, lone surrogates become U+FFFD, outer
    space is trimmed.
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)).strip()


def normalise(text: str) -> str:
    """The form under which two texts are the same, and which is embedded.

    NFKC, casefold, runs of space as one, final full stops and exclamation marks dropped. A
    question mark stays: a question states nothing. Raised digits and fractions keep a mark, since
    NFKC alone would read 10² as 102; codes like aB3x keep their case.
    """
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", "".join(map(_keep_apart, text)))
    folded = " ".join(_folded(text).split())
    return folded.rstrip(_FINAL_PUNCTUATION) or folded


def _folded(text: str) -> str:
    if not _DIGIT.search(text):
        return text.casefold()
    kept, end = [], 0
    for code in _CODE.finditer(text):
        kept += [text[end : code.start()].casefold(), code.group()]
        end = code.end()
    return "".join([*kept, text[end:].casefold()])


def _keep_apart(char: str) -> str:
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return _COMPATIBILITY.get(kind, "") + char


def text_key(text: str) -> str:
    """32 hex digits that name the normalised text and its vector."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:32]


def visible(text: str) -> str:
    """For eyes: without characters that show nothing, or turn the direction of what follows.

    Joiners stay between letters of scripts that need them, and between the parts of an emoji.
    """
    return text if text.isascii() else _JOINER.sub("", _UNSEEN.sub("", text))


def one_line(text: str) -> str:
    """For eyes, with every run of white space as one space."""
    return " ".join(visible(text).split())


def shortened(text: str, most: int) -> str:
    """The first characters on one line, with `...` where there are more."""
    line = one_line(text)
    return line if len(line) <= most else line[:most].rstrip() + "..."


def clean_json(value: JsonValue) -> JsonValue:
    """The same with every text in it cleaned, outer space left as it is."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", _CONTROL.sub("", value))
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {str(clean_json(key)): clean_json(item) for key, item in value.items()}
    return value
