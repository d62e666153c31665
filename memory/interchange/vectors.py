"""Vectors for new texts, by the embedder that made the collection's vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from memory.interchange.collection import (
    Embed,
    ExternalStore,
    OpenCollection,
    Stored,
    all_stored,
)
from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.plan_back import Update, WriteBackPlan
from memory.interchange.undo_file import Becomes, Vectors
from memory.models import Vector
from memory.text import clean

logger = logging.getLogger(__name__)

_SAMPLE = 8
_NEAR = 0.02
"""The relative distance at which two vectors count as equal: services round."""
_OTHER_KIND = "it has a sparse or a multiple vector, which nobody here can make anew"
_NO_EMBEDDER = "no embedder here makes vectors like the collection's: see --embedder"


def with_vectors(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    rows: Sequence[ForeignRow],
    reading: Reading,
    now: datetime,
    others: Sequence[Embed],
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """Return a vector for each new text, and the plan without rows whose vector cannot be made."""
    if not plan.updates:
        return plan, {}
    with theirs.looking() as look:
        there = all_stored(look, list(plan.looked_at))
        news = {one.row.id: _news(look, one, there, reading, now) for one in plan.updates}
        texts = list(dict.fromkeys(text for new in news.values() for text in new.values()))
        other = [name for name, new in news.items() if not _plain(there, name, new)]
        made = vectors_as_theirs(look, rows, reading, texts, others)
    plan = plan.without(other, _OTHER_KIND)
    unmade = [name for name, new in news.items() if not made.keys() >= set(new.values())]
    return plan.without(unmade, _NO_EMBEDDER), made


def _plain(there: Mapping[str, Stored], name: str, new: Mapping[str, str]) -> bool:
    """Whether the vectors that have to be made are dense."""
    return all(isinstance(there[name].vectors[slot], np.ndarray) for slot in new)


def _news(
    look: OpenCollection, one: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
) -> dict[str, str]:
    """Return the texts that an update needs new vectors for, by vector name."""
    if one.row.id not in there:
        return {}
    becomes = look.rewritten(one, there, reading, now)
    _, new = vectors_after(look, one, becomes, there, reading)
    return new


def vectors_after(
    look: OpenCollection,
    one: Update,
    becomes: Becomes,
    there: Mapping[str, Stored],
    reading: Reading,
) -> tuple[Vectors, dict[str, str]]:
    """Return a row's vectors after an update, and the texts of the vectors still missing.

    Where another row has the text already, its vector is reused.
    """
    stored = there[one.row.id]
    before = look.texts(stored, reading)
    after = look.texts(stored.changed(becomes), reading)
    giver = None if one.same_as is None else there.get(one.same_as.id)
    known = {} if giver is None else look.texts(giver, reading)
    vectors, new = dict(stored.vectors), {}
    for name, text in after.items():
        if before.get(name) == text:
            continue
        if giver and name in giver.vectors and clean(known.get(name, "")) == clean(text):
            vectors[name] = giver.vectors[name]
        else:
            new[name] = text
    return vectors, new


def vectors_as_theirs(
    look: OpenCollection,
    rows: Sequence[ForeignRow],
    reading: Reading,
    texts: Sequence[str],
    others: Sequence[Embed],
) -> dict[str, Vector]:
    """Return a vector for each text; empty where no embedder here fits the collection.

    The collection's own embedding function is tried first. An embedder fits if it reproduces the
    stored vectors of some texts.
    """
    if not texts:
        return {}
    sample, stored = _sample(look, rows, reading)
    for embed in _embedders(look, others):
        try:
            if _alike(_made(embed, sample), stored):
                return dict(zip(texts, _made(embed, list(texts)), strict=True))
        except Exception as exc:  # somebody else's code: whatever it raises, it is not there
            logger.warning("an embedder could not be used: %s", exc)
    return {}


def _embedders(look: OpenCollection, others: Sequence[Embed]) -> Iterator[Embed]:
    try:
        own = look.own_embedder()
    except Exception as exc:  # its library or its key may be missing here
        logger.warning("the collection's own embedder is not here: %s", exc)
        own = None
    if own is not None:
        yield own
    yield from others


def _sample(
    look: OpenCollection, rows: Sequence[ForeignRow], reading: Reading
) -> tuple[list[str], Any]:
    """Return some texts of the collection, and their vectors `(n, dim)`."""
    step = max(1, len(rows) // _SAMPLE)
    there = look.stored([row.id for row in rows[::step][:_SAMPLE]])
    pairs = [
        (text, one.vectors[slot])
        for one in there.values()
        for slot, text in look.texts(one, reading).items()
        if text and isinstance(one.vectors.get(slot), np.ndarray)
    ]
    return [text for text, _ in pairs], np.asarray([vector for _, vector in pairs], np.float32)


def _made(embed: Embed, texts: list[str]) -> Any:
    return np.asarray(embed(texts), dtype=np.float32)


def _alike(made: Any, stored: Any) -> bool:
    if made.shape != stored.shape or not len(stored):
        return False
    apart = np.linalg.norm(made - stored, axis=1)
    return bool((apart <= _NEAR * np.linalg.norm(stored, axis=1)).all())
