"""Forms of a text: for storage, for embedding, for comparison and for display."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from pydantic import JsonValue

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
"""Matches a run of characters between two spaces.

Characters of a script that has no spaces also end the run.
"""
_OPENING, _CLOSING = "\"“”„«»'‘([{¿¡", "\"“”«»'’)]}.,;:!?…"
_WORD_PARTS = re.compile("[-'’]")
_PLAINLY_WRITTEN = re.compile(
    r"\s*+(?:A )?"
    r"(?:(?:(?:I|[A-Z]?[a-z]++)(?:['-][A-Z]?[a-z]++)*+[.,;:!?]*+|[^A-Za-z\s]++)(?:\s++|$))*+",
    re.ASCII,
).fullmatch
"""Matches a text in which only first letters of words are capitals.

The case of the letters has no meaning in such a text.
"""
_COMPATIBILITY = {"<super>": "^", "<sub>": "_", "<fraction>": " "}
_LONGEST_EXPANDED = 150_000
"""Length limit, in characters, for the result of NFKC normalisation, which can lengthen a text."""
_EXPANDING = {"\ufdfa": 17, "\ufdfb": 7}
"""How many characters NFKC adds to the text for each of these characters.

For any other character, NFKC adds at most five.
"""


def clean(text: str) -> str:
    """Return the text without characters that a database, protocol or terminal may not accept.

    Control characters other than tabs and line breaks are removed, and so is white space at both
    ends. Each lone surrogate becomes U+FFFD.
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)).strip()


def normalise(text: str) -> str:
    """Return the form of a text from which its embedding is computed.

    NFKC and casefold are applied, but codes such as aB3x keep their case. "10²" becomes "10^2",
    because NFKC alone would turn it into 102. Each run of white space becomes one space. Full stops
    and exclamation marks at the end are removed. A question mark stays, because a question is not a
    statement.
    """
    text = _compatible(text)
    pieces = _CODE.split(text) if _DIGIT.search(text) else [text]  # every second one is a code
    pieces[::2] = map(str.casefold, pieces[::2])
    folded = " ".join("".join(pieces).split())
    return folded.rstrip(_FINAL_PUNCTUATION) or folded


@lru_cache(maxsize=64)
def identity(text: str) -> str:
    """Return a normal form of a text: two texts count as the same text if their forms are equal.

    NFKC is applied, except that "10²" becomes "10^2". Each run of white space becomes one space. A
    full stop or exclamation mark at the end is removed, unless a "!" follows a code. Plain words
    become lower case. Codes, words with a capital inside and words in capitals keep their case,
    unless the whole text is in capitals.
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
    """Return whether a chunk of text is a word whose case has no meaning.

    `chunk`: characters without a space; punctuation around the word is ignored. `first`: whether
    the chunk begins a sentence. `shouted`: whether the whole text is in capitals.
    """
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
    """Return the text in NFKC, but without loss of meaning: "10^2" for "10²", not "102".

    "^" is put before raised characters, "_" before lowered ones, and a space before fractions.
    """
    if unicodedata.is_normalized("NFKC", text):
        return text
    return nfkc("".join(map(_keep_apart, text)))


def nfkc(text: str) -> str:
    """Return the text in NFKC, or the unchanged text if the result would be too long.

    The limit is `_LONGEST_EXPANDED` characters, or the length of `text` if it is longer.
    """
    longest = max(len(text), _LONGEST_EXPANDED)
    if len(text) + sum(more * text.count(char) for char, more in _EXPANDING.items()) > longest:
        return text  # one call would hold the interpreter
    expanded = unicodedata.normalize("NFKC", text)
    return text if len(expanded) > longest else expanded


@lru_cache(maxsize=4_096)
def _keep_apart(char: str) -> str:
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return _COMPATIBILITY.get(kind, "") + char


def text_key(text: str) -> str:
    """Return the key of a text and of its vector: 32 hexadecimal digits.

    Two texts have the same key if they differ only in ways that do not matter, such as white space.
    The key is a hash of the normal form that `identity` returns.
    """
    return hashlib.sha256(identity(text).encode()).hexdigest()[:32]


def visible(text: str) -> str:
    """Return the text without characters that are invisible or change the writing direction.

    Zero-width joiners stay within emoji and between letters of scripts that need them.
    """
    return text if text.isascii() else _JOINER.sub("", _UNSEEN.sub("", text))


def one_line(text: str) -> str:
    """Return the text on one line, without invisible characters.

    Each run of white space becomes a space.
    """
    return " ".join(visible(text).split())


def shortened(text: str, most: int) -> str:
    """Return the text on one line, cut after `most` characters; "..." is added if it was cut.

    White space before the "..." is removed. The "..." is not counted in `most`.
    """
    line = one_line(text)
    return line if len(line) <= most else line[:most].rstrip() + "..."


def clean_json(value: JsonValue) -> JsonValue:
    """Return a JSON value without control characters in its strings and keys.

    Tabs and line breaks stay. Each lone surrogate becomes U+FFFD.
    """
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", _CONTROL.sub("", value))
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {str(clean_json(key)): clean_json(item) for key, item in value.items()}
    return value
