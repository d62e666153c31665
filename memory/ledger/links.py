"""Links between memories: one row a pair, so every link is seen from both ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.transaction import TableGroup, among
from memory.models import INVERSE_LINK, MemoryLink

_TOUCHING = sa.or_(among(t.links.c.low_id, "ids"), among(t.links.c.high_id, "ids"))
_ALL = sa.select(t.links).where(_TOUCHING)
_LIVE = t.LIVE_LINKS.where(_TOUCHING)


class Links(TableGroup):
    """What links say; their ends are ids, whoever lives for them."""

    def of(self, ids: Sequence[str]) -> dict[str, tuple[MemoryLink, ...]]:
        """The links of each of these memories that lead to a live one."""
        ends: dict[str, list[MemoryLink]] = {}
        wanted = set(ids)
        for link in sorted(self._connection.execute(_LIVE, {"ids": ids})) if ids else ():
            for source in wanted & {link.low_id, link.high_id}:
                ends.setdefault(source, []).append(seen_from(source, link))
        return {source: tuple(found) for source, found in ends.items()}

    def touching(self, ids: Sequence[str]) -> list[Any]:
        """The rows of all their links, of those too that lead to what has not arrived yet."""
        return sorted(self._connection.execute(_ALL, {"ids": ids})) if ids else []

    def between(self, a: str, b: str) -> sa.Row[Any] | None:
        low, high = sorted((a, b))
        query = sa.select(t.links).where(t.links.c.low_id == low, t.links.c.high_id == high)
        return self._connection.execute(query).first()

    def of_the_retired(self) -> int:
        """How many lead to a memory that somebody else lives for."""
        retired = sa.select(t.memories.c.id).where(sa.not_(t.memories.c.live))
        ends = sa.or_(t.links.c.low_id.in_(retired), t.links.c.high_id.in_(retired))
        return self._transaction.count(t.links, ends)


class LinksWriter(Links):
    """Links, to be made and changed; both ends of whatever is written count as touched."""

    def put(self, memory_id: str, end: MemoryLink) -> None:
        """This link, in place of one that may be there between the two."""
        self.put_all([(memory_id, end)])

    def put_all(self, links: Sequence[tuple[str, MemoryLink]]) -> None:
        """The same for several, each a memory's id and its end."""
        if links:
            self._connection.execute(self._instead(), [self._row(*link) for link in links])

    def put_if_new(self, memory_id: str, end: MemoryLink) -> None:
        """This link, where there is none between the two."""
        statement = self._transaction.upsert(t.links)
        self._connection.execute(
            statement.on_conflict_do_nothing(index_elements=["low_id", "high_id"]),
            self._row(memory_id, end),
        )

    def drop(self, ids: Sequence[str]) -> None:
        """All links of these memories."""
        for link in self.touching(ids):
            self._transaction.touched |= {link.low_id, link.high_id}
        self._connection.execute(t.links.delete().where(_TOUCHING), {"ids": ids})

    def trust(self, a: str, b: str, confidence: float) -> None:
        """A new confidence for the link between the two."""
        low, high = sorted((a, b))
        here = sa.and_(t.links.c.low_id == low, t.links.c.high_id == high)
        self._connection.execute(t.links.update().where(here).values(confidence=confidence))
        self._transaction.touched |= {a, b}

    def _instead(self) -> Any:
        statement = self._transaction.upsert(t.links)
        fresh = {name: statement.excluded[name] for name in ("link_type", "note", "confidence")}
        return statement.on_conflict_do_update(index_elements=["low_id", "high_id"], set_=fresh)

    def _row(self, memory_id: str, end: MemoryLink) -> dict[str, Any]:
        self._transaction.touched |= {memory_id, end.target_id}
        low, high = sorted((memory_id, end.target_id))
        return {"low_id": low, "high_id": high, **_values(memory_id, end)}


def seen_from(memory_id: str, link: sa.Row[Any]) -> MemoryLink:
    """The end of a link that one of its two memories carries."""
    low = link.low_id == memory_id
    return MemoryLink(
        target_id=link.high_id if low else link.low_id,
        link_type=link.link_type if low else INVERSE_LINK[link.link_type],
        note=link.note,
        confidence=link.confidence,
    )


def _values(memory_id: str, end: MemoryLink) -> dict[str, Any]:
    low = memory_id < end.target_id
    kind = end.link_type if low else INVERSE_LINK[end.link_type]
    return {"link_type": kind, "note": end.note, "confidence": end.confidence}
