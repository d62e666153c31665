"""The pages beside the groups: open questions, one memory's history, figures over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from memory.ledger import Attempt, Reader, Row, Step
from memory.models import Action
from memory.review.cards import Card, card_key, content_hash, recorded_cards

_FIGURES = ("memories", "copies removed", "model calls", "tokens")
_WIDTH, _HEIGHT = 600, 120
"""Size of a drawing, in the units of its SVG."""


class FailedPair(NamedTuple):
    """Two texts that a model failed to compare, each with the live memories that hold it."""

    attempt: Attempt
    first: tuple[Row, ...]
    second: tuple[Row, ...]


class OpenGroup(NamedTuple):
    """A question that can be answered where it is shown."""

    key: str
    members: tuple[tuple[str, str], ...]
    """Ids with the hashes of their texts; empty if a member has been retired since."""


@dataclass(frozen=True)
class MemoryHistory:
    """Every wording of a memory, oldest first, and every decision about one of them."""

    wordings: tuple[Row, ...]
    decisions: tuple[Card, ...]
    living: str | None
    """Id of the live memory that stands for it today."""


class Line(NamedTuple):
    """One figure over time, drawn from left to right; higher values are nearer to y = 0."""

    name: str
    last: int
    most: int
    points: str
    """`x,y x,y ...`, as an SVG polyline takes them."""


def open_group(rows: Sequence[Row]) -> OpenGroup:
    """Return the group of these rows as it can be answered now."""
    members = tuple((row.memory.id, content_hash(row.memory.content)) for row in rows)
    return OpenGroup(card_key(members), members if all(row.live for row in rows) else ())


def failed_pairs(reader: Reader) -> list[FailedPair]:
    """Return the pairs that a model failed to compare, if both texts are still live."""
    attempts = reader.attempts.all()
    rows: dict[str, list[Row]] = {
        key: [] for one in attempts for key in (one.low_key, one.high_key)
    }
    for row in reader.memories.live() if attempts else ():
        if row.text_key in rows:
            rows[row.text_key].append(row)
    found = (FailedPair(a, tuple(rows[a.low_key]), tuple(rows[a.high_key])) for a in attempts)
    return [pair for pair in found if pair.first and pair.second]


def memory_history(reader: Reader, memory_id: str) -> MemoryHistory | None:
    """Return the history of a live or retired memory; None for an unknown or forgotten id."""
    row = reader.memories.row(memory_id)
    if row is None or row.forgotten:
        return None
    names = [memory_id, *reader.memories.ancestors(memory_id)]
    rows = sorted(reader.memories.rows(names).values(), key=lambda one: (one.live, one.seq))
    records = {one.number: one for name in names for one in reader.decisions.about(name)}
    alive = reader.memories.living(row)
    return MemoryHistory(
        wordings=tuple(one for one in rows if not one.forgotten),
        decisions=tuple(recorded_cards(reader, [records[n] for n in sorted(records)])),
        living=alive.memory.id if alive is not None else None,
    )


# --- figures over time ------------------------------------------------------------------------


def replay(steps: Iterable[Step]) -> Sequence[tuple[datetime, tuple[int, ...]]]:
    """Return the time of each decision with the values of `_FIGURES` after it.

    A decision that was undone counts as never made, but its calls and tokens count.
    """
    known, live, copies = set[str](), set[str](), set[str]()
    found = []
    calls = tokens = 0
    for step in steps:
        live |= set(step.members) - known
        known.update(step.members)
        if step.action is Action.FORGET:
            live -= set(step.members)
        for survivor, retired in () if step.undone else step.survivors:
            live.add(survivor)
            live.difference_update(retired)
            if step.action in (Action.REPLACE, Action.MERGE):
                copies.update(retired)
        calls += step.usage.calls
        tokens += step.usage.input_tokens + step.usage.output_tokens
        found.append((step.at, (len(live), len(copies), calls, tokens)))
    return found


def lines(found: Sequence[tuple[datetime, tuple[int, ...]]]) -> list[Line]:
    """Draw each figure over time, with at most one point for each unit of the width."""
    if not found:
        return []
    begin, span = found[0][0], found[-1][0] - found[0][0]
    last_at = {round((at - begin) / span * _WIDTH) if span else _WIDTH: n for at, n in found}
    drawn = []
    for name, *values in zip(_FIGURES, *last_at.values(), strict=True):
        most = max(values)
        heights = (_HEIGHT - value / max(most, 1) * _HEIGHT for value in values)
        points = [f"{x},{y:.1f}" for x, y in zip(last_at, heights, strict=True)]
        drawn.append(Line(name, values[-1], most, " ".join([f"0,{_HEIGHT}", *points])))
    return drawn
