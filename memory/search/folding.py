"""The order of hits: of those that state the same one is shown, and the newer comes first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from memory.coverage import LONGEST, parse, states
from memory.models import Memory, SearchResult
from memory.text import guarded, has_cjk


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


def _text_itself(text: str) -> Counter[str]:
    return Counter((text,))


@guarded(_text_itself)
def _words(text: str) -> Counter[str]:
    return _text_itself(text) if len(text) > LONGEST else parse(text).counts
