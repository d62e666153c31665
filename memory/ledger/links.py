"""Links between memories, one row for each pair, and how successors inherit them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.ledger import tables as t
from memory.ledger.statements import Prepared, TableGroup, among
from memory.models import INVERSE_LINK, MemoryLink

_TOUCHING = sa.or_(among(t.links.c.low_id, "ids"), among(t.links.c.high_id, "ids"))
_ALL = Prepared(sa.select(t.links).where(_TOUCHING))
_LOW, _HIGH = t.memories.alias("low"), t.memories.alias("high")
_LIVE = Prepared(
    sa.select(t.links)
    .join(_LOW, sa.and_(_LOW.c.id == t.links.c.low_id, _LOW.c.live))
    .join(_HIGH, sa.and_(_HIGH.c.id == t.links.c.high_id, _HIGH.c.live))
    .where(_TOUCHING)
)
_ENDS = ("low_id", "high_id")


class Links(TableGroup):
    """Read access to links, by the ids of the memories at their ends."""

    def touching(self, ids: Sequence[str]) -> list[Any]:
        """Return the rows of all links that have one of these memories at either end.

        Links to memories that are retired or not stored yet are included.
        """
        return sorted(_ALL.rows(self._connection, ids=ids)) if ids else []

    def between(self, a: str, b: str) -> sa.Row[Any] | None:
        low, high = sorted((a, b))
        query = sa.select(t.links).where(t.links.c.low_id == low, t.links.c.high_id == high)
        return self._connection.execute(query).first()

    def of_the_retired(self) -> int:
        """Count the links that lead to a retired memory; there should be none."""
        retired = sa.select(t.memories.c.id).where(sa.not_(t.memories.c.live))
        ends = sa.or_(t.links.c.low_id.in_(retired), t.links.c.high_id.in_(retired))
        return self._transaction.count(t.links, ends)


class LinksWriter(Links):
    """Write access to links. Writing a link gives the memories at both ends a new revision."""

    def put(self, links: Sequence[tuple[str, MemoryLink]], *, replace_old: bool = True) -> None:
        """Store links. Each replaces any other link between the same two memories.

        `links`: pairs of a memory's id and the link that it carries, with its target and kind. With
        `replace_old` False, a link is left out if the two memories are linked already.
        """
        statement = self._transaction.upsert(t.links)
        new = {name: statement.excluded[name] for name in ("link_type", "note", "confidence")}
        if replace_old:
            statement = statement.on_conflict_do_update(index_elements=_ENDS, set_=new)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=_ENDS)
        if links:
            self._connection.execute(statement, [self._row(*link) for link in links])

    def drop(self, ids: Sequence[str]) -> None:
        """Delete all links that have one of these memories at either end."""
        for link in self.touching(ids):
            self._transaction.touched |= {link.low_id, link.high_id}
        self._connection.execute(t.links.delete().where(_TOUCHING), {"ids": ids})

    def trust(self, a: str, b: str, confidence: float) -> None:
        low, high = sorted((a, b))
        same_pair = sa.and_(t.links.c.low_id == low, t.links.c.high_id == high)
        self._connection.execute(t.links.update().where(same_pair).values(confidence=confidence))
        self._transaction.touched |= {a, b}

    def _row(self, memory_id: str, end: MemoryLink) -> dict[str, Any]:
        """Return a link as a row, with the lower id first, and give both memories a new revision.

        `memory_id`: the memory that carries the link; `end`: its target and kind.
        """
        self._transaction.touched |= {memory_id, end.target_id}
        low, high = sorted((memory_id, end.target_id))
        kind = end.link_type if low == memory_id else INVERSE_LINK[end.link_type]
        values = {"link_type": kind, "note": end.note, "confidence": end.confidence}
        return {"low_id": low, "high_id": high, **values}


def of_live_memories(
    ids: Sequence[str], connection: Connection
) -> dict[str, tuple[MemoryLink, ...]]:
    """Return, by memory id, the links of each of these memories to other live memories.

    Memories that are not live, or have no such link, are left out.
    """
    ends: dict[str, list[MemoryLink]] = {}
    wanted = set(ids)
    for link in sorted(_LIVE.rows(connection, ids=ids)):
        for source in wanted & {link.low_id, link.high_id}:
            ends.setdefault(source, []).append(seen_from(source, link))
    return {source: tuple(found) for source, found in ends.items()}


def seen_from(memory_id: str, link: sa.Row[Any]) -> MemoryLink:
    """Convert a row into the link that `memory_id` carries: its target is the other memory."""
    low = link.low_id == memory_id
    return MemoryLink(
        target_id=link.high_id if low else link.low_id,
        link_type=link.link_type if low else INVERSE_LINK[link.link_type],
        note=link.note,
        confidence=link.confidence,
    )


# --- who stands for a retired memory and inherits its links: pure ---------------------------------


@dataclass(frozen=True)
class State:
    """The state of a memory: live, retired (usually with a successor) or forgotten."""

    live: bool
    successor_id: str | None
    forgotten: bool


def inherited(
    links: Iterable[sa.Row[Any]],
    successions: Sequence[tuple[str, str]],
    states: dict[str, State],
) -> list[tuple[str, MemoryLink]]:
    """Return the links that successors inherit from memories that are retired one after the other.

    `links`: rows of all links of the retired memories and of their successors. `successions`: pairs
    (retired memory's id, successor's id), in the order of retirement. `states`: by id, the state of
    each memory at either end of these links; this function updates it. Return pairs of a memory's
    id and the new link that it carries. Two memories that are already linked get no new link.
    """
    ends: dict[str, dict[str, MemoryLink]] = {}  # by both ids, as the first one carries it
    for link in links:
        _join(ends, link.low_id, seen_from(link.low_id, link))
    fresh: dict[frozenset[str], tuple[str, MemoryLink]] = {}
    for retired, successor in successions:
        handed_on = ends.pop(retired, {})
        targets = resolved_ids(handed_on, states)
        for other in sorted(handed_on):
            ends[other].pop(retired)
            fresh.pop(frozenset((retired, other)), None)
            for source, new in resolved_link(successor, handed_on[other], targets):
                if other != successor and new.target_id not in ends.get(source, {}):
                    _join(ends, source, new)
                    fresh[frozenset((source, new.target_id))] = source, new
        if retired in states:
            states[retired] = replace(states[retired], live=False, successor_id=successor)
    return list(fresh.values())


def _join(ends: dict[str, dict[str, MemoryLink]], source: str, end: MemoryLink) -> None:
    """Enter a link into `ends` for both memories that it connects.

    `source`: the id of the memory that carries the link `end`. `ends` maps a memory's id, and then
    the id of the other memory, to the link between them.
    """
    back = {"target_id": source, "link_type": INVERSE_LINK[end.link_type]}
    ends.setdefault(source, {})[end.target_id] = end
    ends.setdefault(end.target_id, {})[source] = end.model_copy(update=back)


def resolved_ids(ids: Iterable[str], states: Mapping[str, State]) -> dict[str, str]:
    """Map each id in `ids` to the id of the live memory that has replaced this memory.

    A live memory, an unknown id, and a memory without a live successor map to themselves. Ids of
    forgotten memories are left out.
    """
    return {
        name: live_end(name, states) or name
        for name in ids
        if name not in states or not states[name].forgotten
    }


def live_end(memory_id: str, states: Mapping[str, State]) -> str | None:
    """Follow a memory's successors, and return the id of the live one; None if there is none.

    For a live memory, return its own id. Also return None if a successor's id is unknown, or if the
    successors form a circle.
    """
    seen: set[str] = set()
    name: str | None = memory_id
    while name is not None and name in states and name not in seen:
        if states[name].live:
            return name
        seen.add(name)
        name = states[name].successor_id
    return None


def resolved_link(
    memory_id: str, end: MemoryLink, targets: dict[str, str]
) -> Iterator[tuple[str, MemoryLink]]:
    """Yield `memory_id` and its link `end`, redirected to the live successor of the link's target.

    `targets`: the result of `resolved_ids` for the link's target. Yield nothing if the target was
    forgotten, or if its live successor is the memory itself.
    """
    target = targets.get(end.target_id)
    if target is not None and target != memory_id:
        yield memory_id, end.model_copy(update={"target_id": target})
