"""Which hits of a search are shown: of those that state the same one, and the newer first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations

from memory.coverage import (
    LONGEST,
    conflicting_values,
    differing,
    may_outdate,
    parse,
    states,
)
from memory.ledger import Ledger
from memory.models import MAX_CONTENT, PERSON, Collapsed, Memory, Scope, SearchResult, checked
from memory.text import clean, guarded, has_cjk


def folded(
    hits: Sequence[SearchResult], may_fold: Callable[[Memory, Memory], bool]
) -> list[SearchResult]:
    """Fold each hit that another hit states into that one, which names it in `also`.

    The hit that states the other takes the better of the two ranks; of two that state each other,
    it is the newer one. `may_fold`: whether one of two such memories may be hidden.
    """
    stated = [_without_saying(hit.memory) for hit in hits]
    alike = _with_a_partner([memory.content for memory in stated])
    words = [
        _words(memory.content) if n in alike else Counter((f"{n}",))
        for n, memory in enumerate(stated)
    ]
    sizes = [sum(one.values()) for one in words]
    newest_first = [-hit.memory.timestamp.timestamp() for hit in hits]
    by_size = sorted(range(len(hits)), key=lambda n: (-sizes[n], newest_first[n], n))
    groups: dict[int, list[int]] = {}  # what states its group has the most words
    for n in by_size:
        stating = [
            first
            for first in groups
            if words[n] <= words[first]
            and states(stated[first], stated[n])
            and may_fold(hits[first].memory, hits[n].memory)
        ]
        groups.setdefault(min(stating, default=n), [n]).append(n)
    ranked = sorted(groups.items(), key=lambda group: min(group[1]))
    return [
        replace(hits[first], also=tuple(hits[n].memory for n in sorted({*members} - {first})))
        if len({*members}) > 1
        else hits[first]
        for first, members in ranked
    ]


def newer_first(
    hits: Sequence[SearchResult], k: int | None, is_suspect: Callable[[Memory, Memory], bool]
) -> list[SearchResult]:
    """Return the first `k` hits; each that may be outdated stands directly below the newer one.

    Both stand at the better of their ranks. A newer hit beyond `k` takes the place of the last one.
    All other hits keep their order. The `newer` of an outdated hit is the id of the newest memory
    that may outdate it. `is_suspect`: whether the second memory may be outdated by the first, the
    newer one.
    """
    leader, outdated = list(range(len(hits))), dict[int, Memory]()
    for n, m in combinations(range(len(hits)), 2):
        if k is not None and n >= k:
            break
        a, b = hits[n].memory, hits[m].memory
        if a.timestamp == b.timestamp:
            continue
        newer, older = (a, b) if a.timestamp > b.timestamp else (b, a)
        if (k is None or m < k or newer is b) and is_suspect(newer, older):
            last = outdated.setdefault(n if older is a else m, newer)
            if newer.timestamp > last.timestamp:
                outdated[n if older is a else m] = newer
            first = leader[n]
            leader = [first if one == leader[m] else one for one in leader]
    order = sorted(
        range(len(hits)),
        key=lambda n: (
            (leader[n], -hits[n].memory.timestamp.timestamp(), n)
            if leader.count(leader[n]) > 1
            else (n, 0.0, n)
        ),
    )
    return [replace(hits[n], newer=outdated[n].id) if n in outdated else hits[n] for n in order[:k]]


def restate_each_other(a: Memory, b: Memory) -> bool:
    """Return whether `folded` would fold one of two memories into the other."""
    a, b = _without_saying(a), _without_saying(b)
    return states(a, b) or states(b, a)


def is_told_by(recalled: Iterable[Memory], new: Memory) -> bool:
    """Return whether a stored memory of the same user, or of none, states all that `new` states.

    >>> old, new = (store.new_memory(text, user="Mia") for text in ("Mia has a cat.", "Mia rows."))
    >>> is_told_by([old], new)
    False
    """
    return any(old.user in (None, new.user) and states(old, new) for old in recalled)


_SAYING = re.compile(
    r",? as (?:\w+ ){1,3}(?:mentioned|said|told (?:me|us|you)|noted|repeated)(?: again| before)?"
    r"(?: today| yesterday| earlier| this \w+| last \w+)?(?=[.!]*$)"
)
"""A last clause that tells when the rest was said; its time is not that of the statement."""


def _without_saying(memory: Memory) -> Memory:
    text = _SAYING.sub("", memory.content)
    same = len(text) == len(memory.content)
    return memory if same else memory.model_copy(update={"content": text})


_PLAIN_WORDS = re.compile(r"\w+")


def _with_a_partner(texts: Sequence[str]) -> set[int]:
    """Return the positions of texts that share two thirds of their words, or of another text's.

    The others need no parsing, which takes longer. Texts in kana or Han are never left out.
    """
    sets = [frozenset(_PLAIN_WORDS.findall(text.casefold())) for text in texts]
    cjk = [has_cjk(text) for text in texts]
    return {
        position
        for n, m in combinations(range(len(texts)), 2)
        if 3 * len(sets[n] & sets[m]) >= 2 * min(len(sets[n]), len(sets[m])) or (cjk[n] and cjk[m])
        for position in (n, m)
    }


@guarded(lambda text: Counter((text,)))
def _words(text: str) -> Counter[str]:
    return Counter((text,)) if len(text) > LONGEST else parse(text).counts


# --- the hits of a store's search ---

PastHit = tuple[SearchResult, str]
"""A superseded memory that a search found, and the id of the one that superseded it."""


def said_by(memory: Memory, moment: datetime) -> bool:
    return (memory.said or memory.timestamp) <= moment


def with_past(
    shown: Sequence[SearchResult], past: Sequence[PastHit], k: int, *, only_best: bool = False
) -> list[SearchResult]:
    """Return the first `k` hits, with superseded memories among them.

    `only_best`: only those that are more similar to the query than the last of the `k` hits.

    A superseded memory stands directly under the one that superseded it. If that one is not shown,
    it stands above the first hit that is less similar to the query.
    """
    found = list(shown)
    if only_best and len(found) >= k:
        least = found[k - 1].similarity
        past = [one for one in past if one[0].similarity > least]
    known = {one.memory.id for one in (*found, *(hit for hit, _ in past))}
    loose = [hit.memory.id for hit, successor in past if successor not in known]
    too_many = {*loose[k:]}  # they come after the first k of them
    for hit, successor in (one for one in past if one[0].memory.id not in too_many):
        ids = [one.memory.id for one in found]
        below = (n for n, one in enumerate(found) if one.similarity < hit.similarity)
        place = ids.index(successor) + 1 if successor in ids else next(below, len(found))
        found.insert(place, hit)
    return found[:k]


class Showing:
    """Arranges the hits of a search. `folds`: if false, all hits are shown in their order."""

    def __init__(
        self, ledger: Ledger, scope_of: Callable[[Memory], Scope], *, folds: bool = True
    ) -> None:
        self._ledger = ledger
        self._scope_of = scope_of
        self.folds = folds

    def arranged(self, hits: Sequence[SearchResult], k: int | None = None) -> list[SearchResult]:
        """Return the `k` hits that are shown, of hits that are ranked best first.

        Hits that state the same are folded into one; its `also` names the others. They stay apart
        if their scopes differ, or if a person or a model called them distinct. A hit that may be
        outdated stands directly below the newer one, at the better of their two ranks.
        """
        if not self.folds:
            return list(hits[:k])
        return newer_first(folded(hits, self._may_fold), k, self.is_suspect)

    def is_suspect(self, newer: Memory, older: Memory) -> bool:
        """Return whether `older` may be outdated by `newer`, and no person said that both hold."""
        scope = self._scope_of(newer)
        if scope != self._scope_of(older) or not may_outdate(newer, older):
            return False
        with self._ledger.reading() as reader:
            [distinct] = reader.distinct.of_all([(scope, newer.dated_key)], (PERSON,))
        return older.dated_key not in distinct

    def _may_fold(self, a: Memory, b: Memory) -> bool:
        scope = self._scope_of(a)
        if scope != self._scope_of(b):
            return False
        with self._ledger.reading() as reader:
            [distinct] = reader.distinct.of_all([(scope, a.dated_key)], ("person", "model"))
        return b.dated_key not in distinct - {a.dated_key}


# --- texts of anybody's search ---

_SAME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


@checked
def collapse(texts: Sequence[str]) -> list[Collapsed]:
    """Fold texts that state the same; mark those that contradict each other.

    For the hits of any search, best first. No model, embedder or store is needed. Of texts that
    state the same, one is returned, at the best of their ranks. A text that adds a word ("a water
    gun" to "a gun") may state something else, and stays. Two texts contradict each other if they
    differ in one place only: in a number, date, name or negation. Both are returned; which one is
    right, nobody knows.

        >>> from memory import collapse
        >>> hits = ["Mia has a cat.", "Mia really has a cat!", "Mia has no cat."]
        >>> [(one.text, one.also, one.contradicts) for one in collapse(hits)]
        [('Mia has a cat.', (1,), (2,)), ('Mia has no cat.', (), (0,))]

    Raises: InputError if `texts` is not a list of texts.
    """
    positions = {f"mem_{n:012x}": n for n in range(len(texts))}
    hits = [
        SearchResult(Memory(id=name, content=texts[n], timestamp=_SAME_DAY), 0.0)
        for name, n in positions.items()
        if clean(texts[n]) and len(texts[n]) <= MAX_CONTENT
    ]
    groups = {
        positions[hit.memory.id]: tuple(positions[one.id] for one in hit.also)
        for hit in folded(hits, lambda longer, shorter: states(shorter, longer))
    }
    hidden = {n for also in groups.values() for n in also}
    ranks = {n: min(n, *groups.get(n, ()), n) for n in range(len(texts)) if n not in hidden}
    shown = sorted(ranks, key=ranks.__getitem__)
    stating = {n: [texts[n], *(texts[m] for m in groups.get(n, ()))] for n in shown}
    pairs = [
        (a, b)
        for a, b in combinations(shown, 2)
        if any(_contradict(one, other) for one in stating[a] for other in stating[b])
    ]
    return [
        Collapsed(
            texts[n],
            n,
            groups.get(n, ()),
            tuple(b if a == n else a for a, b in pairs if n in (a, b)),
        )
        for n in shown
    ]


@guarded(lambda *_: False)
def _contradict(a: str, b: str) -> bool:
    left, right = (set(text.casefold().split()) for text in (a, b))
    if not has_cjk(a) and 2 * len(left & right) < min(len(left), len(right)):
        return False  # as most pairs: nothing to parse
    if len(differing(a, b)) != 1:
        return False
    negations = [parse(text).negations for text in (a, b)]
    return negations[0] != negations[1] or conflicting_values(a, b) is not None
