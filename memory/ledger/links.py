"""The table of links between memories, and the successors of retired memories.

A link is one row for both directions. A successor inherits the links of the retired memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.tables import Prepared, TableGroup, among
from memory.models import INVERSE_LINK, MemoryLink

_TOUCHING = sa.or_(among(t.links.c.low_id, "ids"), among(t.links.c.high_id, "ids"))
_ALL = Prepared(sa.select(t.links).where(_TOUCHING))
_ENDS = ("low_id", "high_id")
_RETIRED_FOR = sa.select(t.memories.c.id).where(
    among(t.memories.c.successor_id, "ids"), t.memories.c.until.is_(None)
)
_STATES = Prepared(
    sa.select(
        t.memories.c.id,
        t.memories.c.live,
        t.memories.c.successor_id,
        t.memories.c.text_key,
        t.memories.c.until,
    ).where(among(t.memories.c.id, "ids"))
)


class Links(TableGroup):
    """The links between memories. Writing a link gives both memories a new revision."""

    def touching(self, ids: Sequence[str]) -> list[Any]:
        """Return the rows of all links of these memories, also of links to retired memories."""
        return sorted(_ALL.rows(self._connection, ids=ids)) if ids else []

    def between(self, a: str, b: str) -> MemoryLink | None:
        """Return the link from memory `a` to memory `b`; None if they are not linked."""
        low, high = sorted((a, b))
        query = sa.select(t.links).where(t.links.c.low_id == low, t.links.c.high_id == high)
        link = self._connection.execute(query).first()
        return None if link is None else seen_from(a, link)

    def of_the_retired(self) -> int:
        """Count the links that lead to a retired memory; there should be none."""
        retired = sa.select(t.memories.c.id).where(sa.not_(t.memories.c.live))
        ends = sa.or_(t.links.c.low_id.in_(retired), t.links.c.high_id.in_(retired))
        return self._transaction.count(t.links, ends)

    def put(self, links: Sequence[tuple[str, MemoryLink]], *, replace_old: bool = True) -> None:
        """Store links; `links` are pairs of a memory's id and a link from this memory.

        If the two memories are linked already, the new link replaces the old one. Without
        `replace_old`, the old one stays.
        """
        statement = self._transaction.upsert(t.links)
        new = {name: statement.excluded[name] for name in ("link_type", "note", "confidence")}
        if replace_old:
            statement = statement.on_conflict_do_update(index_elements=_ENDS, set_=new)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=_ENDS)
        rows = []
        for memory_id, end in links:
            low, high = sorted((memory_id, end.target_id))
            kind = end.link_type if low == memory_id else INVERSE_LINK[end.link_type]
            values = {"link_type": kind, "note": end.note, "confidence": end.confidence}
            rows.append({"low_id": low, "high_id": high, **values})
            self._transaction.touched |= {low, high}
        if rows:
            self._connection.execute(statement, rows)

    def drop(self, ids: Sequence[str]) -> None:
        for link in self.touching(ids):
            self._transaction.touched |= {link.low_id, link.high_id}
        self._connection.execute(t.links.delete().where(_TOUCHING), {"ids": ids})


def seen_from(memory_id: str, link: sa.Row[Any]) -> MemoryLink:
    """Return a stored link as a link from `memory_id` to the other memory.

    If the link is stored in the opposite direction, its type is inverted.
    """
    low = link.low_id == memory_id
    return MemoryLink(
        target_id=link.high_id if low else link.low_id,
        link_type=link.link_type if low else INVERSE_LINK[link.link_type],
        note=link.note,
        confidence=link.confidence,
    )


# --- who stands for a retired memory and inherits its links ---------------------------------------


class Successors(TableGroup):
    def living_ids(self, ids: Iterable[str]) -> dict[str, str]:
        """Map each id to the id of the memory's live successor; a live memory maps to itself.

        The result has the order of `ids`. Memories without a live successor are left out, and so
        are superseded memories, because no live memory states what they state.
        """
        wanted = list(dict.fromkeys(ids))
        states = self._states(wanted)
        ended = {name for name, state in states.items() if state.until is not None}
        stating = {name: state for name, state in states.items() if name not in ended}
        return {name: end for name in wanted if (end := live_end(name, stating)) is not None}

    def resolved(self, ids: Iterable[str]) -> dict[str, str]:
        """Map each id to the id of the memory's live successor, or to itself if there is none.

        Ids of forgotten memories are left out.
        """
        wanted = list(dict.fromkeys(ids))
        return resolved_ids(wanted, self._states(wanted))

    def ancestors(self, *ids: str) -> list[str]:
        """Return the ids of all memories that `ids` have replaced, in one or several steps.

        Superseded memories are not among them.
        """
        found = dict.fromkeys(ids)
        todo = list(ids)
        while todo:
            retired = self._connection.scalars(_RETIRED_FOR, {"ids": todo})
            todo = [name for name in dict.fromkeys(retired) if name not in found]
            found |= dict.fromkeys(todo)
        return list(found)[len(set(ids)) :]

    def successions(self) -> dict[str, str | None]:
        """Map the id of each retired memory to the id of its direct successor.

        A memory without a successor maps to None. Forgotten and expired memories are left out.
        """
        query = sa.select(t.memories.c.id, t.memories.c.successor_id).where(
            sa.not_(t.memories.c.live),
            t.memories.c.text_key != t.FORGOTTEN_KEY,
            sa.or_(t.memories.c.successor_id.is_not(None), t.memories.c.until.is_(None)),
        )
        return {row.id: row.successor_id for row in self._connection.execute(query)}

    def _states(self, ids: Iterable[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        todo = list(ids)
        while todo:
            fresh = {row.id: row for row in _STATES.rows(self._connection, ids=todo)}
            found |= fresh
            ends = {state.successor_id for state in fresh.values() if not state.live}
            todo = [name for name in ends if name is not None and name not in found]
        return found


def inherited(
    links: Iterable[sa.Row[Any]],
    successions: Sequence[tuple[str, str]],
    states: dict[str, Any],
) -> list[tuple[str, MemoryLink]]:
    """Return the new links that successors inherit when memories are retired.

    Each new link is a pair: a memory's id, and a link from this memory. Two memories that are
    already linked get no new link.

    `links`: all links of the retired memories and of their successors. `successions`: pairs of a
    retired memory's id and its successor's id, in the order of retiring. `states`: maps the ids of
    all memories in `links` to their rows from the query `_STATES`. This function changes `states`:
    it marks the retired memories as retired and sets their successors.
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
            states[retired] = states[retired]._replace(live=False, successor_id=successor)
    return list(fresh.values())


def _join(ends: dict[str, dict[str, MemoryLink]], source: str, end: MemoryLink) -> None:
    back = {"target_id": source, "link_type": INVERSE_LINK[end.link_type]}
    ends.setdefault(source, {})[end.target_id] = end
    ends.setdefault(end.target_id, {})[source] = end.model_copy(update=back)


def resolved_ids(ids: Iterable[str], states: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: live_end(name, states) or name
        for name in ids
        if name not in states or states[name].text_key != t.FORGOTTEN_KEY
    }


def live_end(memory_id: str, states: Mapping[str, Any]) -> str | None:
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
    """Yield at most one pair: `memory_id`, and the link `end` with its new target.

    `targets`, made by `resolved_ids`, maps the id of each old target to the id of its new target.
    Yield nothing if the old target is not in `targets`, because it was forgotten. Also yield
    nothing if the new target is the memory itself.
    """
    target = targets.get(end.target_id)
    if target is not None and target != memory_id:
        yield memory_id, end.model_copy(update={"target_id": target})
