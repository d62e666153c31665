"""Clean and normalise texts, make their keys, and split them into sentences."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from pydantic import JsonValue

from memory.text.languages import literal_start, quotations

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_JOINER = re.compile("[\u200c\u200d](?![\u0100-\U0010ffff])|(?<![\u0100-\U0010ffff])[\u200c\u200d]")
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"\b((?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])\w+)\b", re.ASCII)
_FINAL_PUNCTUATION = " .!。！…"
_CHUNK = re.compile("([^\\s\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff]+)")
_OPENING, _CLOSING = "\"“”„«»'‘([{¿¡", "\"“”«»'’)]}.,;:!?…"
_WORD_PARTS = re.compile("[-'’]")
_COMPATIBILITY = {"<super>": "^", "<sub>": "_", "<fraction>": " "}
_LONGEST_EXPANDED = 150_000
_EXPANDING = {"\ufdfa": 17, "\ufdfb": 7}
"""How many characters NFKC adds for these characters. For any other, it adds at most five."""
_MOST_MARKS = 30
_MARK_STOP = "\u034f"
_KEY_LENGTH = 32


def clean(text: str) -> str:
    """Return the text without characters that a database, protocol or terminal may not accept.

    Control characters are removed, except tabs and line breaks. White space is removed at both
    ends. A lone surrogate becomes U+FFFD.

    >>> clean("  Mia\\x00 rows.\\n")
    'Mia rows.'
    """
    if text.isprintable():  # most texts: nothing to look for
        return text.strip()
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)).strip()


def normalise(text: str) -> str:
    """Return the form of a text from which its embedding is computed.

    NFKC and casefold are applied, but codes such as aB3x keep their case, and "10²" becomes "10^2".
    A final full stop or exclamation mark is removed, but not a question mark.

    >>> normalise("Mia rows!"), normalise("Does Mia row?"), normalise("The code is aB3x.")
    ('mia rows', 'does mia row?', 'the code is aB3x')
    """
    text = _compatible(text)
    pieces = _CODE.split(text) if _DIGIT.search(text) else [text]  # every second one is a code
    pieces[::2] = map(str.casefold, pieces[::2])
    folded = " ".join("".join(pieces).split())
    return folded.rstrip(_FINAL_PUNCTUATION) or folded


@lru_cache(maxsize=64)
def identity(text: str) -> str:
    """Return a normal form of a text: two texts are the same text if their forms are equal.

    Only the first word of a sentence becomes lower case, or all plain words if the whole text is in
    capitals. A final full stop or exclamation mark is removed, except for a "!" after a code. A
    text with a literal value, such as a password or a quotation, is returned as it is written.
    """
    if literal_start(text) or quotations(text):
        return text.strip()
    text = _compatible(text)
    shouted, first, pieces = text.isupper(), True, _CHUNK.split(text)
    for n in range(1, len(pieces), 2):
        chunk = pieces[n]
        if (first or shouted) and _is_plain(chunk, shouted):
            pieces[n] = chunk.lower()
        first = chunk[-1] in ".!?:"
    folded = " ".join("".join(pieces).split())
    plain = folded.rstrip(_FINAL_PUNCTUATION)
    if plain and folded[len(plain) : len(plain) + 1] == "!":
        last = plain.split()[-1].lstrip(_OPENING).rstrip(_CLOSING)
        if not (last.isdigit() or all(map(str.isalpha, _WORD_PARTS.split(last)))):
            return f"{plain}!"  # hunter2! is not hunter2
    return plain or folded


def _is_plain(chunk: str, shouted: bool) -> bool:
    word = chunk.lstrip(_OPENING).rstrip(_CLOSING)
    parts = _WORD_PARTS.split(word)
    tails = (parts[0][1:], *(part if len(part) == 1 else part[1:] for part in parts[1:]))
    no_capital_inside = shouted or all(tail == tail.lower() for tail in tails)
    return no_capital_inside and all(map(str.isalpha, parts))


def _compatible(text: str) -> str:
    """Return the text in NFKC, but "10^2" for "10²", which NFKC alone would turn into "102"."""
    if text.isascii() or unicodedata.is_normalized("NFKC", text := stream_safe(text)):
        return text
    return nfkc("".join(map(_keep_apart, text)))


def nfkc(text: str) -> str:
    """Return the `stream_safe` text in NFKC.

    If it would grow beyond 150,000 characters, the text is returned unchanged.
    """
    text = stream_safe(text)
    longest = max(len(text), _LONGEST_EXPANDED)
    if len(text) + sum(more * text.count(char) for char, more in _EXPANDING.items()) > longest:
        return text  # a long call would block all threads
    expanded = unicodedata.normalize("NFKC", text)
    return text if len(expanded) > longest else expanded


def stream_safe(text: str) -> str:
    r"""Return the text with U+034F after every 30 combining marks in a row, if more follow.

    Unicode Annex 15 defines this format. Normalisation sorts the marks of each run in quadratic
    time and holds all threads meanwhile.

    >>> len(stream_safe("a" + "\u0301" * 100))
    104
    """
    if text.isascii() or len(text) <= _MOST_MARKS:
        return text
    counts = Counter(text)
    marks = {  # also what NFKD turns into one
        char for char in counts if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])
    }
    if sum(map(counts.__getitem__, marks)) <= _MOST_MARKS:
        return text
    pieces, run = list[str](), 0
    for char in text:
        run = run + 1 if char in marks else 0
        if run > _MOST_MARKS:
            pieces.append(_MARK_STOP)
            run = 1
        pieces.append(char)
    return "".join(pieces)


@lru_cache(maxsize=4_096)
def _keep_apart(char: str) -> str:
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return _COMPATIBILITY.get(kind, "") + char


def text_key(text: str) -> str:
    """Return the key of a text and of its vector: 32 hexadecimal digits.

    Texts with equal `identity` have equal keys.

    >>> text_key("Mia rows.") == text_key("mia rows"), text_key("Mia rows") == text_key("Mia rows?")
    (True, False)
    """
    return hashlib.sha256(identity(text).encode()).hexdigest()[:_KEY_LENGTH]


@lru_cache(maxsize=256)
def dated_key(key: str, when: str) -> str:
    """Return the key of a text and of the dates that it means, under which verdicts are stored.

    `key`: the text's `text_key`, which `text_of` gives back. `when`: what `to_json` wrote of its
    periods, or "". A text that means no dates keeps its `text_key`.

    >>> dated_key("f" * 32, to_json(()))
    'ffffffffffffffffffffffffffffffff'
    """
    dates = [(row[3], *row[5:8]) for row in json.loads(when)[1:] if row[5]] if when else ()
    return key + hashlib.sha256(json.dumps(dates).encode()).hexdigest()[:16] if dates else key


def text_of(key: str) -> str:
    """Return the `text_key` in a `dated_key`.

    >>> from memory.text import text_key
    >>> text_of(store.new_memory("Mia left yesterday.").dated_key) == text_key("mia left yesterday")
    True
    """
    return key[:_KEY_LENGTH]


def visible(text: str) -> str:
    """Return the text without characters that are invisible or change the writing direction.

    Zero-width joiners stay within emoji and between letters of scripts that need them.

    >>> visible("Mia\\u200b rows\\u202e.")
    'Mia rows.'
    """
    return text if text.isascii() else _JOINER.sub("", _UNSEEN.sub("", text))


def one_line(text: str) -> str:
    """Return the `visible` text on one line: each run of white space becomes one space.

    >>> one_line("Mia\\n  rows.")
    'Mia rows.'
    """
    return " ".join(visible(text).split())


def shortened(text: str, most: int) -> str:
    """Return the text on one line, cut after `most` characters, with "..." if it was cut.

    >>> shortened("Mia has a black cat.", 10)
    'Mia has a...'
    """
    line = one_line(text)
    return line if len(line) <= most else line[:most].rstrip() + "..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> counted(1, "memory"), counted(2, "memory"), counted(1_000, "text")
    ('1 memory', '2 memories', '1,000 texts')
    """
    if number != 1:
        noun = noun.removesuffix("y") + "ies" if noun.endswith(("ry", "py")) else noun + "s"
    return f"{number:,} {noun}"


def clean_json(value: JsonValue) -> JsonValue:
    """Return a JSON value without control characters in its strings and keys.

    >>> clean_json({"name": ["Mia\\x07", 3]})
    {'name': ['Mia', 3]}
    """
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", _CONTROL.sub("", value))
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {str(clean_json(key)): clean_json(item) for key, item in value.items()}
    return value


# --- sentences ------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b(?:Mr|Dr|St)\.)(?<!\bMrs\.)"
    r"(?!(?<=\d\.) (?:Jan|Feb|März|April|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez))\s+"  # 5. Mai
    r"|(?<=[。！？])\s*|\n+"
)


def sentences(text: str) -> list[str]:
    """Split a text of any script into sentences; each keeps its final punctuation mark.

    >>> sentences("Mia rows. Dr. Who sails! ミアは漕ぐ。")
    ['Mia rows.', 'Dr. Who sails!', 'ミアは漕ぐ。']
    """
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]


def starts_with(labels: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether `labels`, such as a namespace, begin with `wanted`; `*` stands for any label.

    >>> starts_with(("users", "mia", "notes"), ("users", "*"))
    True
    >>> starts_with(("users",), ("users", "*"))
    False
    """
    pairs = zip(labels, wanted, strict=False)
    return len(labels) >= len(wanted) and all(want in ("*", label) for label, want in pairs)
