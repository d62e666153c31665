"""Who lives for whom, and who inherits the links of those who are retired. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from memory.ledger.links import seen_from
from memory.models import INVERSE_LINK, MemoryLink


@dataclass(frozen=True)
class State:
    """Whether a memory lives, and who stands for it where it does not."""

    live: bool
    successor_id: str | None
    forgotten: bool


def inherited(
    links: Iterable[sa.Row[Any]],
    successions: Sequence[tuple[str, str]],
    states: dict[str, State],
) -> list[tuple[str, MemoryLink]]:
    """The links that are new once these memories have been retired, one after the other.

    `links` are all that the memories and their successors have. One that is there already stays.
    """
    here: dict[str, dict[str, MemoryLink]] = {}  # by both ends, as the first of them carries it
    for link in links:
        _join(here, link.low_id, seen_from(link.low_id, link))
    fresh: dict[frozenset[str], tuple[str, MemoryLink]] = {}
    for retired, successor in successions:
        mine = here.pop(retired, {})
        targets = lived_for(mine, states)
        for other in sorted(mine):
            here[other].pop(retired)
            fresh.pop(frozenset((retired, other)), None)
            for source, new in resolved_link(successor, mine[other], targets):
                if other != successor and new.target_id not in here.get(source, {}):
                    _join(here, source, new)
                    fresh[frozenset((source, new.target_id))] = source, new
        if retired in states:
            states[retired] = replace(states[retired], live=False, successor_id=successor)
    return list(fresh.values())


def _join(here: dict[str, dict[str, MemoryLink]], source: str, end: MemoryLink) -> None:
    """The link is carried by both of its ends."""
    here.setdefault(source, {})[end.target_id] = end
    here.setdefault(end.target_id, {})[source] = _turned(source, end)


def _turned(memory_id: str, end: MemoryLink) -> MemoryLink:
    """The same link as its target carries it."""
    kind = INVERSE_LINK[end.link_type]
    return end.model_copy(update={"target_id": memory_id, "link_type": kind})


def lived_for(ids: Iterable[str], states: Mapping[str, State]) -> dict[str, str]:
    """Who lives for each, or itself where nobody does; what was forgotten is left out."""
    found = {}
    for name in ids:
        if name not in states or not states[name].forgotten:
            end = end_of(name, states)
            found[name] = end if end is not None and states[end].live else name
    return found


def end_of(name: str, states: Mapping[str, State]) -> str | None:
    """Where the chain of successors ends; None for an unknown id or a circle."""
    seen: set[str] = set()
    while name in states and name not in seen:
        state = states[name]
        if state.live or state.successor_id is None:
            return name
        seen.add(name)
        name = state.successor_id
    return None


def resolved_link(
    memory_id: str, end: MemoryLink, targets: dict[str, str]
) -> Iterator[tuple[str, MemoryLink]]:
    """The link to who lives for its target today; none to a forgotten one, nor to itself."""
    target = targets.get(end.target_id)
    if target is not None and target != memory_id:
        yield memory_id, end.model_copy(update={"target_id": target})
