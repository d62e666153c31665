"""What a newer text says otherwise than an older one, in the same place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from memory.text.wording import Term, Wording

_FEW_WORDS = 3
_MOST_PAIRS = 2_000_000
"""Of texts that repeat themselves so often nothing counts as said otherwise: both must stay."""
_MOSTLY = 0.5
"""How much of two texts must be the same for a difference to stand in the same place."""


def outdated(older: Wording, newer: Wording) -> frozenset[str]:
    """The keys of the older text in whose place the newer has others of their sort.

    A number for a number, a name for a name, as many words for a few.
    """
    before, after = ([term.key for term in told.terms] for told in (older, newer))
    if _pairs(before, after) > _MOST_PAIRS:
        return frozenset()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.quick_ratio() < _MOSTLY or matcher.ratio() < _MOSTLY:
        return frozenset()
    return frozenset(
        key
        for change, a, b, c, d in matcher.get_opcodes()
        if change == "replace" and max(b - a, d - c) <= _FEW_WORDS
        for key in _exchanged(older.terms[a:b], newer.terms[c:d])
    )


def _pairs(before: Sequence[str], after: Sequence[str]) -> int:
    """How many places of the two have the same word: what it takes to compare them."""
    there = Counter(after)
    return sum(n * there[key] for key, n in Counter(before).items())


def _exchanged(before: Sequence[Term], after: Sequence[Term]) -> Iterator[str]:
    sorts = {term.sort for term in after}
    yield from (term.key for term in before if term.sort.is_hard and term.sort in sorts)
    if not any(term.sort.is_hard for term in (*before, *after)):
        yield from (term.key for term in before)
