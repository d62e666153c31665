"""Forms of a text: as it is stored, as it is embedded, as it is compared, as it is shown."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

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
_CODE = re.compile(r"\b((?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])\w+)\b")
_FINAL_PUNCTUATION = " .!。！…"
_CHUNK = re.compile("([^\\s\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff]+)")
"""Characters between spaces, or between characters of a script without spaces."""
_OPENING, _CLOSING = "\"“”„«»'‘([{¿¡", "\"“”«»'’)]}.,;:!?…"
_WORD_PARTS = re.compile("[-'’]")
_PLAINLY_WRITTEN = re.compile(
    r"\s*+(?:A )?"
    r"(?:(?:(?:I|[A-Z]?[a-z]++)(?:['-][A-Z]?[a-z]++)*+[.,;:!?]*+|[^A-Za-z\s]++)(?:\s++|$))*+",
    re.ASCII,
).fullmatch
"""Matches texts in which case says nothing: plain words, numbers and signs."""
_COMPATIBILITY = {"<super>": "^", "<sub>": "_", "<fraction>": " "}
_LONGEST_EXPANDED = 150_000
"""Characters of the longest text that NFKC may make."""
_EXPANDING = {"\ufdfa": 17, "\ufdfb": 7}
"""Characters that NFKC adds for these; for any other it adds at most five."""


def clean(text: str) -> str:
    """Return text that every store, wire and terminal can hold.

    Control characters but tab and line ends are removed, lone surrogates become U+FFFD, outer
    space is trimmed.
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)).strip()


def normalise(text: str) -> str:
    """Return the form that is embedded.

    NFKC, casefold, runs of space as one, final full stops and exclamation marks dropped. A
    question mark stays: a question states nothing. Raised digits and fractions keep a mark, since
    NFKC alone would read 10² as 102; codes like aB3x keep their case.
    """
    folded = " ".join(_folded(_compatible(text)).split())
    return folded.rstrip(_FINAL_PUNCTUATION) or folded


@lru_cache(maxsize=64)
def identity(text: str) -> str:
    """Return the form by which two texts are the same text.

    As `normalise`, but case is folded in plain words alone: signs, codes, capitals inside a word
    and words in capitals stay as they stand, unless all of the text is in capitals.
    """
    text = _compatible(text)
    if text.isascii() and _PLAINLY_WRITTEN(text):
        folded = text.lower()
    else:
        folded = _plain_words_folded(text, shouted=text.isupper())
    folded = " ".join(folded.split())
    plain = folded.rstrip(_FINAL_PUNCTUATION)
    if (
        plain
        and folded[len(plain) : len(plain) + 1] == "!"
        and not _is_word_or_number(plain.split()[-1:])
    ):
        return f"{plain}!"  # hunter2! is not hunter2
    return plain or folded


def _plain_words_folded(text: str, *, shouted: bool) -> str:
    pieces = _CHUNK.split(text)
    first = True
    for n in range(1, len(pieces), 2):
        chunk = pieces[n]
        if _is_plain(chunk, first or shouted, shouted):
            pieces[n] = chunk.lower()
        first = chunk[-1] in ".!?:"
    return "".join(pieces)


def _is_plain(chunk: str, first: bool, shouted: bool) -> bool:
    """Whether a chunk is a word whose case says nothing, apart from the punctuation around it."""
    word = chunk.lstrip(_OPENING).rstrip(_CLOSING)
    if len(word) == 1:
        return first or word == "I"
    parts = _WORD_PARTS.split(word)
    tails = (parts[0][1:], *(part if len(part) == 1 else part[1:] for part in parts[1:]))
    no_capital_inside = shouted or all(tail == tail.lower() for tail in tails)
    return no_capital_inside and all(map(str.isalpha, parts))


def _is_word_or_number(last: list[str]) -> bool:
    word = last[0].lstrip(_OPENING).rstrip(_CLOSING) if last else ""
    return word.isdigit() or all(part.isalpha() for part in _WORD_PARTS.split(word))


def _compatible(text: str) -> str:
    """Return the text in NFKC, with a mark where NFKC alone would change its meaning."""
    if unicodedata.is_normalized("NFKC", text):
        return text
    return nfkc("".join(map(_keep_apart, text)))


def nfkc(text: str) -> str:
    """Return the text in NFKC; unchanged if that has more than `_LONGEST_EXPANDED` characters."""
    longest = max(len(text), _LONGEST_EXPANDED)
    if len(text) + sum(more * text.count(char) for char, more in _EXPANDING.items()) > longest:
        return text  # one call would hold the interpreter
    expanded = unicodedata.normalize("NFKC", text)
    return text if len(expanded) > longest else expanded


def _folded(text: str) -> str:
    """Return the text in lower case, but for codes, which are every second piece."""
    if not _DIGIT.search(text):
        return text.casefold()
    pieces = _CODE.split(text)
    pieces[::2] = map(str.casefold, pieces[::2])
    return "".join(pieces)


@lru_cache(maxsize=4_096)
def _keep_apart(char: str) -> str:
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return _COMPATIBILITY.get(kind, "") + char


def text_key(text: str) -> str:
    """Return 32 hex digits that name the text by its identity, and so its vector."""
    return hashlib.sha256(identity(text).encode()).hexdigest()[:32]


def visible(text: str) -> str:
    """Return the text without characters that are invisible or turn the direction of writing.

    Joiners stay between letters of scripts that need them, and between the parts of an emoji.
    """
    return text if text.isascii() else _JOINER.sub("", _UNSEEN.sub("", text))


def one_line(text: str) -> str:
    """Return the visible text with every run of white space as one space."""
    return " ".join(visible(text).split())


def shortened(text: str, most: int) -> str:
    """Return the first `most` characters on one line, with `...` where there are more."""
    line = one_line(text)
    return line if len(line) <= most else line[:most].rstrip() + "..."


def clean_json(value: JsonValue) -> JsonValue:
    """Return the value with every text in it cleaned, but not trimmed."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", _CONTROL.sub("", value))
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {str(clean_json(key)): clean_json(item) for key, item in value.items()}
    return value
