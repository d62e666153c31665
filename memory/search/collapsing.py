"""Texts of anybody's search: those that state the same become one, contradictions are marked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import combinations

from memory.coverage import conflicting_values, differing, parse
from memory.errors import InputError
from memory.models import MAX_CONTENT, Collapsed, Memory, SearchResult
from memory.search.folding import folded
from memory.text import clean, guarded

_SAME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


def collapse(texts: Sequence[str]) -> list[Collapsed]:
    """Fold texts that state the same; mark those that contradict each other.

    For the hits of any search, best first. No model, embedder or store is needed. Of texts that
    state the same, the one that states most is returned, at the better of their ranks. Two texts
    contradict each other if they differ in one place only: in a number, date, name or negation.
    Both are returned; which one is right, nobody knows.

        >>> from memory import collapse
        >>> hits = ["Mia has a cat.", "Mia really has a cat!", "Mia has no cat."]
        >>> [(one.text, one.also, one.contradicts) for one in collapse(hits)]
        [('Mia has a cat.', (1,), (2,)), ('Mia has no cat.', (), (0,))]

    Raises: InputError if `texts` is not a list of texts.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts", "is not a list of texts", 'write collapse(["...", "..."])')
    hits = [
        SearchResult(Memory(id=_id(n), content=text, timestamp=_SAME_DAY), 0.0)
        for n, text in enumerate(texts)
        if clean(text) and len(text) <= MAX_CONTENT
    ]
    groups = {
        _position(hit.memory): tuple(map(_position, hit.also))
        for hit in folded(hits, lambda *_: True)
    }
    hidden = {n for also in groups.values() for n in also}
    ranks = {n: min(n, *groups.get(n, ()), n) for n in range(len(texts)) if n not in hidden}
    shown = sorted(ranks, key=ranks.__getitem__)
    pairs = [(a, b) for a, b in combinations(shown, 2) if _contradict(texts[a], texts[b])]
    return [
        Collapsed(
            texts[n],
            n,
            groups.get(n, ()),
            tuple(b if a == n else a for a, b in pairs if n in (a, b)),
        )
        for n in shown
    ]


def _id(position: int) -> str:
    return f"mem_{position:012x}"


def _position(memory: Memory) -> int:
    return int(memory.id.removeprefix("mem_"), 16)


def _cannot_tell(*_: str) -> bool:
    return False


@guarded(_cannot_tell)
def _contradict(a: str, b: str) -> bool:
    left, right = (set(text.casefold().split()) for text in (a, b))
    if 2 * len(left & right) < min(len(left), len(right)):  # most pairs: nothing to parse
        return False
    if len(differing(a, b)) != 1:
        return False
    negations = [parse(text).negations for text in (a, b)]
    return negations[0] != negations[1] or conflicting_values(a, b) is not None
