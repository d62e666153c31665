"""Find differences in the way that two texts are written: values, quotations, capitals, commas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from memory.coverage.parse import Parse
from memory.text import (
    ENGLISH,
    NUMBERS,
    STATED,
    Kind,
    language_of,
    literal_value,
    names_attribute,
    quotations,
    tokens,
)


def written_otherwise(a: str, b: str) -> tuple[str, ...]:
    """Return the words and values that the two texts write differently; () if there are none.

    Compared are literal values, quotations, words with a hyphen, and words with a capital.
    """
    if names_attribute(a) or names_attribute(b):
        return _other_value(a, b)
    return beyond(quotations(a), quotations(b)) or (
        beyond(_hyphenated(a), _hyphenated(b)) + _capitals(a, b) + _capitals(b, a)
    )


def _other_value(a: str, b: str) -> tuple[str, ...]:
    value, other = literal_value(a), literal_value(b)
    if value != other and min(len(value.split()), len(other.split())) <= _LONGEST_VALUE:
        return tuple(filter(None, (value, other)))
    if not language_of(a) == language_of(b) == ENGLISH:
        return () if a.strip() == b.strip() else (a, b)
    chunks = (Counter(text.rstrip(".!").split()) for text in (a, b))
    return tuple(
        word
        for word in beyond(*chunks)
        if any(token.kind not in _SMALL and token.key != "have" for token in tokens(word))
    )


_LONGEST_VALUE = 8  # words; more of them are no value


_SMALL = frozenset({Kind.FILLER, Kind.GOVERNING, Kind.STOP})


def beyond(first: Counter[str], second: Counter[str]) -> tuple[str, ...]:
    """Return what only one of two counters has, or has more often."""
    return (*(first - second), *(second - first))


_WITH_HYPHEN = re.compile(r"(?<![^\W_])[^\W_]++(?:[-‐][^\W_]++)+").findall


def _hyphenated(text: str) -> Counter[str]:
    """Return the words with a hyphen, which say what belongs together, but no plain numbers."""
    words = (word.casefold() for word in _WITH_HYPHEN(text))
    return Counter(
        word
        for word in words
        if any(part not in NUMBERS and not part.isdigit() for part in re.split("[-‐]", word))
    )


_INNER_CAPITAL = re.compile(r"(?<![.!?:\n]\s)(?<!^)(?<![^\W_])(?<![\"“„‘(])[^\W\d_a-zß-ÿ]\w*")
_WORDS = re.compile(r"[^\W\d_]\w*").findall


def _capitals(text: str, other: str) -> tuple[str, ...]:
    """Return the words that only `text` writes with a capital, though no sentence begins there."""
    if any(one.isupper() or one.islower() for one in (text, other)):
        return ()
    words = set(_WORDS(other))
    found = _INNER_CAPITAL.findall(text)
    return tuple(
        [w for w in found if w != w.lower() and w not in words and w.lower() in words and w != "I"]
    )


# --- English punctuation and articles -------------------------------------------------------------

_ARTICLES = {"an": "a"} | {word: word for word in "a the this that these those".split()}


def punctuated_otherwise(left: Parse, right: Parse) -> tuple[str, ...]:
    """Return how two English texts with the same words differ in articles or commas."""
    articles = beyond(_articles(left), _articles(right))
    if articles or left.stated != right.stated:
        return articles
    return () if _commas(left) == _commas(right) else (",",)


def _articles(parsed: Parse) -> Counter[str]:
    """Return the articles of a text, without one that opens it: "A man sings", "The man sings"."""
    behind = parsed.tokens[1 + parsed.passive :]
    return Counter(_ARTICLES[token.key] for token in behind if token.key in _ARTICLES)


def _commas(parsed: Parse) -> Sequence[int]:
    """Return how many words stand before each comma, except those after an opening phrase.

    Other punctuation counts as a comma. Before "and", "or" and "but" it makes no difference.
    """
    found, count = [], 0
    for token, behind in zip(parsed.tokens, parsed.tokens[1:], strict=False):
        if token.kind in STATED:
            count += 1
        elif token.kind is Kind.STOP and behind.key not in _JOINING and not _YEAR(behind.key):
            found.append(count)
    if found and parsed.words and parsed.words[0].role:
        found = found[1:]
    return [before for before in found if before < count]


_JOINING = frozenset({"and", "or", "but"})
_YEAR = re.compile(r"\d{4}").fullmatch
