"""How alike the memories of a store are: its pairs by similarity, counted or estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from memory.ledger import Row, Snapshot
from memory.models import Memory, Scale, Scope, Spread
from memory.text import has_kana_or_han

BINS = 40
"""From 0 to 1, so that 0.90 and 0.95 are edges."""
MOST_PAIRS = 4_000_000
"""Pairs that are looked at; of a store with more, only those of some of its memories."""
_STEPS = 1_000
"""Steps of cosine from 0 to 1 that are counted before the scale makes similarities of them."""

_Counts = npt.NDArray[np.float64]


def spread(
    snapshot: Snapshot,
    scope_of: Callable[[Memory], Scope],
    scale: Scale,
    most_pairs: int = MOST_PAIRS,
) -> Spread:
    """Every two memories of one scope, by how alike they are."""
    scopes: dict[Scope, list[Row]] = {}
    for row in snapshot.rows:
        if row.text_key in snapshot.vectors:
            scopes.setdefault(scope_of(row.memory), []).append(row)
    pairs = sum(len(rows) * (len(rows) - 1) // 2 for rows in scopes.values())
    share = min(1.0, most_pairs / max(1, pairs))
    steps = np.zeros((2, _STEPS))
    for rows in scopes.values():
        if len(rows) > 1:
            steps += _steps(snapshot, rows, share)
    counts = sum((_binned(steps[n], scale, strict=bool(n)) for n in (0, 1)), np.zeros(BINS))
    return Spread(counts=_whole(counts), pairs=pairs, exact=share == 1.0)


def _steps(snapshot: Snapshot, rows: Sequence[Row], share: float) -> _Counts:
    """Pairs of one scope by step of cosine (2, steps): the plain ones, and those with kana or Han.

    Where only a share is looked at, evenly spaced memories stand for all.
    """
    matrix = np.stack([snapshot.vectors[row.text_key] for row in rows])
    strict = np.array([has_kana_or_han(row.memory.content) for row in rows])
    asked = np.linspace(0, len(rows) - 1, max(2, round(len(rows) * share)), dtype=np.int64)
    found = np.zeros((2, _STEPS))
    for some in np.array_split(asked, 1 + len(asked) * len(rows) // 1_000_000):
        step = np.clip(matrix[some] @ matrix.T * _STEPS, 0, _STEPS - 1).astype(np.int64)
        step += _STEPS * (strict[some, None] | strict)
        step[np.arange(len(some)), some] = 2 * _STEPS  # not with itself
        found += np.bincount(step.ravel(), minlength=2 * _STEPS)[: 2 * _STEPS].reshape(2, _STEPS)
    return found * (len(rows) / len(asked) / 2)


def _binned(steps: _Counts, scale: Scale, *, strict: bool) -> _Counts:
    similar = scale.similarities((np.arange(_STEPS) + 0.5) / _STEPS, strict)
    return np.histogram(similar, BINS, (0.0, 1.0), weights=steps)[0].astype(np.float64)


def _whole(counts: Iterable[float]) -> tuple[int, ...]:
    return tuple(round(float(count)) for count in counts)
