"""A store's figures over time, replayed from its decisions: memories, copies, calls, tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.ledger import Step
from memory.models import Action

SLICES = 120
"""Points of a line at most."""
_JOINING = (Action.REPLACE, Action.MERGE)


@dataclass(frozen=True)
class Figures:
    """What a store held, and what it had cost until then."""

    at: datetime
    live: int = 0
    copies: int = 0
    """Memories that another one stands for."""
    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Line:
    """One figure over time, as the points of a drawing."""

    name: str
    last: int
    most: int
    points: str
    """As SVG wants them: from 0 to the width in time, from the height (none) to 0 (the most)."""


def replay(steps: Iterable[Step]) -> list[Figures]:
    """The figures after each decision; what was taken back counts as never done, but costs."""
    known: set[str] = set()
    live: set[str] = set()
    copies: set[str] = set()
    found: list[Figures] = []
    calls = tokens = 0
    for step in steps:
        live |= {name for name in step.members if name not in known}
        known.update(step.members)
        if step.action is Action.FORGET:
            live -= set(step.members)
        elif not step.undone:
            _join(step, live, copies)
        calls += step.usage.calls
        tokens += step.usage.input_tokens + step.usage.output_tokens
        found.append(Figures(step.at, len(live), len(copies), calls, tokens))
    return found


def _join(step: Step, live: set[str], copies: set[str]) -> None:
    for survivor, retired in step.survivors:
        live.add(survivor)
        live.difference_update(retired)
        if step.action in _JOINING:
            copies.update(retired)


def sliced(found: Sequence[Figures], most: int = SLICES) -> list[Figures]:
    """The last figures of each of so many equal stretches of time, with the very first and last."""
    if len(found) <= most:
        return list(found)
    begin, whole = found[0].at, found[-1].at - found[0].at
    last = {int((one.at - begin) / whole * (most - 1)) if whole else 0: one for one in found}
    return [found[0], *last.values()]


def lines(found: Sequence[Figures], width: int = 600, height: int = 120) -> list[Line]:
    """The four figures as drawings of this size; none where nothing was decided yet."""
    some = sliced(found)
    if not some:
        return []
    if len(some) == 1:
        some = [replace(some[0], live=0, copies=0, calls=0, tokens=0), *some]
    told = {
        "memories": [one.live for one in some],
        "copies removed": [one.copies for one in some],
        "model calls": [one.calls for one in some],
        "tokens": [one.tokens for one in some],
    }
    return [
        Line(name, values[-1], max(values), _points(some, values, width, height))
        for name, values in told.items()
    ]


def _points(some: Sequence[Figures], values: Sequence[int], width: int, height: int) -> str:
    begin, end = some[0].at.timestamp(), some[-1].at.timestamp()
    most = max(values) or 1
    points = []
    for one, value in zip(some, values, strict=True):
        x = (one.at.timestamp() - begin) / (end - begin) * width if end > begin else 0.0
        points.append(f"{x:.1f},{height - value / most * height:.1f}")
    if end == begin:
        points.append(f"{width},{points[-1].partition(',')[2]}")
    return " ".join(points)
