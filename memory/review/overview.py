"""What there is to look at beside the groups: open questions, decisions, one memory's lineage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.ledger import Attempt, Reader, Row
from memory.review.cards import Card, card_key, content_hash, recorded_cards


@dataclass(frozen=True)
class Undecided:
    """A pair of texts that a model failed at, with the live memories that say so."""

    attempt: Attempt
    one: tuple[Row, ...]
    other: tuple[Row, ...]


@dataclass(frozen=True)
class Wording:
    """One text of a lineage."""

    row: Row
    successor: str | None
    """Who stands for it; None where it is live, or nobody does."""


@dataclass(frozen=True)
class Lineage:
    """Every wording of a memory, oldest first, and every decision about one of them."""

    wordings: tuple[Wording, ...]
    decisions: tuple[Card, ...]
    living: str | None
    """Who lives for it today."""


@dataclass(frozen=True)
class OpenGroup:
    """Live members of a question that can be answered where it is shown."""

    key: str
    members: tuple[tuple[str, str], ...]
    """Ids with the hashes of their texts; empty where one has changed or gone since."""


def open_group(rows: Sequence[Row]) -> OpenGroup:
    """Return the group of these rows as it can be answered now."""
    members = tuple((row.memory.id, content_hash(row.memory.content)) for row in rows)
    return OpenGroup(card_key(members), members if all(row.live for row in rows) else ())


def pending(reader: Reader, most: int) -> tuple[list[Card], int]:
    """The newest so many decisions whose question is open, newest first, and how many there are."""
    records = reader.decisions.pending()
    return recorded_cards(reader, records[-most:])[::-1], len(records)


def undecided(reader: Reader, most: int) -> tuple[list[Undecided], int]:
    """So many pairs that a model failed at, and how many there are; without the retired."""
    attempts = reader.attempts.all()
    if not attempts:
        return [], 0
    keys = {key for one in attempts for key in (one.low_key, one.high_key)}
    rows: dict[str, list[Row]] = {}
    for row in reader.memories.live():
        if row.text_key in keys:
            rows.setdefault(row.text_key, []).append(row)
    found = [
        Undecided(one, tuple(rows[one.low_key]), tuple(rows[one.high_key]))
        for one in attempts
        if one.low_key in rows and one.high_key in rows
    ]
    return found[:most], len(found)


def history(reader: Reader, most: int, below: int | None) -> list[Card]:
    """The last so many decisions but additions, newest first, those below a number."""
    return recorded_cards(reader, reader.decisions.latest(most, below))[::-1]


def lineage(reader: Reader, memory_id: str) -> Lineage | None:
    """Of a memory, live or retired, all that it stands for; None for an unknown id."""
    row = reader.memories.row(memory_id)
    if row is None or row.forgotten:
        return None
    names = [memory_id, *reader.memories.ancestors(memory_id)]
    rows = sorted(reader.memories.rows(names).values(), key=lambda one: (one.live, one.seq))
    records = {one.number: one for name in names for one in reader.decisions.about(name)}
    alive = reader.memories.living(row)
    return Lineage(
        wordings=tuple(Wording(one, one.successor_id) for one in rows if not one.forgotten),
        decisions=tuple(recorded_cards(reader, [records[n] for n in sorted(records)])),
        living=alive.memory.id if alive is not None else None,
    )
