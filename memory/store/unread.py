"""Looks up what a model has not read on a page, and the memories that are nearest to it."""

from __future__ import annotations

from memory.ledger import take_snapshot
from memory.models import MOST_ON_PAGE, NEIGHBOURS, Query, Scope, Snapshot
from memory.store.asking import Asker, kept_apart
from memory.store.store import MemoryStore
from memory.text import text_of


def unread_snapshot(
    store: MemoryStore,
    asker: Asker,
    scope: Scope,
    later: frozenset[str] | None = None,
    *,
    whole_lineage: bool = False,
) -> tuple[Snapshot, frozenset[str]]:
    """Return the memories of a scope that a model has not read on a page, and their nearest.

    `later`: the `dated_key`s of unread texts that count as read; None means those of all but the 48
    that came last. They are returned, too. `whole_lineage`: see `take_snapshot`.
    """
    with store.ledger.reading(store.clock()) as reader:
        revision = reader.revision()
        keys = reader.readings.unread(asker.model, scope)
        if later is None:
            later = frozenset([*keys.values()][MOST_ON_PAGE:])
        keys = {name: key for name, key in keys.items() if key not in later}
        vectors = reader.vectors.of(map(text_of, keys.values()))
    near = store.index.nearest(
        [Query(vector, scope, NEIGHBOURS + 1) for vector in vectors.values()]
    )
    names = {name for name, key in keys.items() if text_of(key) in vectors}.union(*near)
    of_scope = scope.key
    with store.ledger.reading() as reader:
        apart = {pair for pair in kept_apart(reader, store.scope_fields) if pair[0] == of_scope}
        found = reader.memories.rows(list(names)).values()
        # what was written meanwhile is unread, and not compared yet
        rows = [row for row in found if row.live and row.revision <= revision]
        snapshot = take_snapshot(
            reader,
            reader.distinct.all(asker.bound_by, scope) | apart,
            waiting=asker.waiting(reader, store.clock()),
            kept_apart=apart,
            read={(of_scope, row.dated_key) for row in rows if row.memory.id not in keys},
            whole_lineage=whole_lineage,
            only=rows,
        )
    return snapshot, later
