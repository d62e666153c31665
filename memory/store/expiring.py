"""Retire the memories whose time is over."""

from __future__ import annotations

from datetime import datetime

from memory.ledger import NOTHING_BEFORE, Ledger
from memory.models import Action, Decision


def expire(ledger: Ledger, now: datetime) -> None:
    """Retire the memories that expired by `now`; called before each search, list and write.

    A ledger that is open for reading only stays as it is; its searches leave these memories out.
    """
    with ledger.reading() as reader:
        due = reader.superseded.due(now)
    if not due or ledger.read_only:
        return
    with ledger.writing() as writer:
        rows = writer.superseded.due(now)
        writer.superseded.expire(rows)
        decisions = [Decision(Action.EXPIRE, "its time is over", (row.memory,)) for row in rows]
        writer.decisions.record([(one, NOTHING_BEFORE) for one in decisions], now, None)
