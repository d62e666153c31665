"""Find the memories that a description names, such as "Mia's phone number", to forget them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from memory.models import Memory
from memory.text import Kind, has_cjk, is_name, normalise, tokens

_MAIL = re.compile(r"[0-9A-Za-z_.+-]{1,64}@[0-9A-Za-z-]{1,64}(?:\.[0-9A-Za-z-]{1,64}){1,8}")
_CODE = re.compile(
    r"\+?[0-9A-Za-z]{1,64}(?:[-–._][0-9A-Za-z]{1,64}|(?<=[0-9])[ /()]{1,2}[0-9]{1,64}"
    r"|(?<=[0-9A-Fa-f]{2}):[0-9A-Fa-f]{2}(?![0-9A-Za-z])){0,12}"
)
_SEPARATORS = re.compile(r"[-–._: /()]")
_LETTER = re.compile(r"(?<=[^\W\d_] )[A-HJ-Z](?![\w'’])")  # "Building A", not the word I
_FEWEST_DIGITS = 6
_RUN = re.compile(
    r"[\u30a1-\u30fa\u30fc]{2,}|[\u3400-\u9fff々][\u3040-\u309f]?(?:[\u30a1-\u30fa\u30fc\u3400-\u9fff々])+"
)


def identifiers(text: str) -> frozenset[str]:
    """Return the e-mail addresses of a text, and its words of six or more digits.

    The case of an address and the separators in a number do not count.

    >>> sorted(identifiers("Call 415-555-0123, or write to ANA@example.org."))
    ['4155550123', 'ana@example.org']
    """
    mails = {found.casefold() for found in _MAIL.findall(text)}
    found = set()
    for word in _CODE.findall(_MAIL.sub(" ", text)):
        code = _SEPARATORS.sub("", word)
        if sum(map(str.isdecimal, code)) >= _FEWEST_DIGITS:
            found |= {code, re.sub(r"^\+\d{1,3}(?=\d{10}$)", "", code)}
    return frozenset(mails | found)


@dataclass(frozen=True)
class _Text:
    identifiers: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Text:
        """Read a text. In Japanese and Chinese, which have no capitals, all words are names."""
        found = [one for one in tokens(text) if one.kind in (Kind.CONTENT, Kind.NUMBER)]
        names = {one.key for one in found if is_name(one)} | {*_RUN.findall(normalise(text))}
        names |= {*_LETTER.findall(text)}
        words = {one.key for one in found if not has_cjk(one.surface)} - names
        return cls(identifiers(text), frozenset(names), frozenset(words))


def matching(memories: Iterable[Memory], description: str) -> list[Memory]:
    """Return the memories that a description names, in the order of `memories`.

    If it has an e-mail address or a number of six or more digits, these are the memories with all
    of them. If it has names, these are the memories with all of its names; words that are in some
    of them, such as "phone", choose among them. Otherwise all its words must be in a memory. Two
    spellings of one name or code are named with " / " between them: "plate ABC-1234 / abc1234".

    >>> from datetime import UTC, datetime
    >>> texts = "Ana works at Orbis.", "Ana lives in Faro.", "Leo lives in Rome."
    >>> stored = [Memory(content=one, timestamp=datetime(2026, 5, 1, tzinfo=UTC)) for one in texts]
    >>> [one.content for one in matching(stored, "Ana's profile")]
    ['Ana works at Orbis.', 'Ana lives in Faro.']
    >>> [one.content for one in matching(stored, "where Ana lives")]
    ['Ana lives in Faro.']
    """
    known = [(memory, _Text.of(memory.content)) for memory in memories]
    spellings = [_Text.of(part) for part in description.split(" / ")]
    if not all(_spell_the_same(one, other) for one, other in pairwise(spellings)):
        return _named(_Text.of(description), known)
    words = frozenset[str]().union(*(one.words for one in spellings))
    found = {id(memory) for one in spellings for memory in _named(replace(one, words=words), known)}
    return [memory for memory, _ in known if id(memory) in found]


def _spell_the_same(one: _Text, other: _Text) -> bool:
    """Return whether two texts share a name or a code, whatever its case and separators."""
    codes = [
        {_SEPARATORS.sub("", word).casefold() for word in text.names | text.words if _is_code(word)}
        for text in (one, other)
    ]
    return not one.names.isdisjoint(other.names) or any(
        short in long or long in short for short, long in product(*codes)
    )


def _is_code(word: str) -> bool:
    return any(map(str.isdecimal, word)) and any(map(str.isalpha, word))


def _named(wanted: _Text, known: Sequence[tuple[Memory, _Text]]) -> list[Memory]:
    if wanted.identifiers:
        return [memory for memory, text in known if wanted.identifiers <= text.identifiers]
    every = {name for _, text in known for name in (*text.names, *text.words)}
    names = {name for name in wanted.names if name in every or _is_in_some(name, known)}
    if not names:
        words = wanted.words | wanted.names
        return [memory for memory, text in known if words and words <= text.words | text.names]
    written = frozenset[str]().union(*(text.names for _, text in known))
    named = [(memory, text) for memory, text in known if _has_all(names, memory, text, written)]
    chosen = [memory for memory, text in named if not wanted.words.isdisjoint(text.words)]
    return chosen or [memory for memory, _ in named]


def _is_in_some(name: str, known: Iterable[tuple[Memory, _Text]]) -> bool:
    return has_cjk(name) and any(name in normalise(memory.content) for memory, _ in known)


def _has_all(names: Iterable[str], memory: Memory, text: _Text, written: frozenset[str]) -> bool:
    """Return whether a memory has all names; of those in `written`, capitals count: Rose, rose."""
    shown = normalise(memory.content)
    return all(
        name in text.names
        or (name in text.words and name not in written)
        or (has_cjk(name) and name in shown)
        for name in names
    )
