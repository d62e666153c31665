"""The hard facts of texts on one subject: numbers, dates, amounts, names and codes.

They decide which merged text is refused unread, so in doubt a text counts as stating a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memory.coverage.covers import LONGEST
from memory.coverage.differences import differing
from memory.coverage.parse import parse
from memory.text import (
    CURRENCIES,
    MONTH_SET,
    WEEKDAYS,
    Kind,
    Language,
    is_code,
    language_of,
)

_NAMED = MONTH_SET | frozenset(WEEKDAYS.values()) | CURRENCIES
_MOMENT = re.compile(r"^(?:at |day )|(?::00|\.)$")
_UMLAUT = re.compile("[äöüßÄÖÜ]")
_DIGITS = re.compile(r"\d+")
_NOT_ALNUM = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class HardFacts:
    """The hard facts of one text."""

    stated: Mapping[str, str]
    """Each fact by its key, in the words of the text."""
    digits: frozenset[str]
    """Every run of digits."""
    squeezed: str | frozenset[str]
    """The letters and digits alone, in lower case; of a document, its words without a final s."""

    def beyond(self, others: Sequence[HardFacts]) -> list[str]:
        """Return the facts that no other text can be said to state, in this text's words."""
        return [
            words
            for key, words in self.stated.items()
            if not any(other._may_state(key, words) for other in others)
        ]

    def _may_state(self, key: str, words: str) -> bool:
        """Whether a fact is there in some form: 11 million as 11M, Americans as American.

        A sign or a code must stand there to the letter.
        """
        if key in self.stated or is_code(key):
            return key in self.stated
        if numerals := _DIGITS.findall(words):
            return self.digits.issuperset(numerals)
        return _squeezed(words).removesuffix("s") in self.squeezed


def conflicting_values(old: str, new: str) -> tuple[str, str] | None:
    """Return the values in which two texts conflict, in their own words; None where they do not.

    Each text states one that the other does not, or numerals stand in the same place. A value that
    one text only adds is no conflict.
    """
    ours, theirs = hard_facts([old, new])
    before, after = ours.beyond([theirs]), theirs.beyond([ours])
    if not (before and after):
        pairs = [pair for pair in differing(old, new) if all(map(_DIGITS.search, pair))]
        before, after = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    return (", ".join(before), ", ".join(after)) if before else None


def hard_facts(texts: Sequence[str]) -> list[HardFacts]:
    """Return the hard facts of each text; a name in one of them is a name in all.

    Where one text is longer than `LONGEST`, only numerals and names are read, in all of them.
    """
    names = _names_in([text for text in texts if not _is_german(text)])
    if max(map(len, texts), default=0) > LONGEST:
        return [_facts_of_document(text, names) for text in texts]
    return [
        HardFacts(
            dict(_stated(text, names)),
            frozenset(_DIGITS.findall(text)),
            _squeezed(text),
        )
        for text in texts
    ]


def _facts_of_document(text: str, names: frozenset[str]) -> HardFacts:
    digits = frozenset(_DIGITS.findall(text))
    words = frozenset(map(_without_genitive, _WORD.findall(text)))
    stated = {numeral: numeral for numeral in sorted(digits)}
    stated |= {name.casefold(): name for name in sorted(words & names)}
    return HardFacts(stated, digits, frozenset(_squeezed(word).removesuffix("s") for word in words))


def _is_german(text: str) -> bool:
    """Whether it is German, where a capital shows a noun and no name."""
    return language_of(text) is Language.GERMAN or bool(_UMLAUT.search(text))


def _stated(text: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and the words of each hard fact; "one" in letters is an article."""
    for token in parse(text).tokens:
        if token.kind == Kind.NUMBER:
            key = _MOMENT.sub("", token.key)
            if key != "1" or token.surface[:1].isdigit():
                yield key, token.surface
        elif (token.key == token.surface and is_code(token.key)) or token.key in _NAMED:
            yield token.key, token.surface
        elif token.kind == Kind.CONTENT and (name := _without_genitive(token.surface)) in names:
            yield name.casefold(), name


def _squeezed(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()


# --- names ----------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_][\w'’]*")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;。\n\"“”‘(-]\s*)([^\W\d_][\w'’]*)")
_GENITIVE = re.compile(r"['’]s?$")
_TITLES = frozenset("mr mrs ms dr prof sir mister".split())
_TITLE_CASE = 0.7
"""Share of words with a capital above which a text is in title case."""


def _names_in(texts: Sequence[str]) -> frozenset[str]:
    """Return the words that are a name in one text and stand nowhere in small letters."""
    named = frozenset[str]().union(*map(_named, texts))
    small = {word for text in texts for word in _WORD.findall(text) if word.islower()}
    return frozenset(name for name in named if name.casefold() not in small)


def _without_genitive(word: str) -> str:
    """Return Mia for Mia's."""
    return _GENITIVE.sub("", word)


def _named(text: str) -> frozenset[str]:
    """Return the words with a capital that is not only a start; none in a text in title case."""
    words = _WORD.findall(text)
    long = [word for word in words if len(word) > 3]
    if len(long) > 2 and sum(word[0].isupper() for word in long) > _TITLE_CASE * len(long):
        return frozenset()
    initial = frozenset(_SENTENCE_START.findall(text))
    return frozenset(
        _without_genitive(word)
        for word in words
        if word[0].isupper() and word not in initial and not _is_short(word)
    )


def _is_short(word: str) -> bool:
    """Whether it is an abbreviation or a title, and no name: TV, Mr."""
    return word.isupper() or word.casefold() in _TITLES
