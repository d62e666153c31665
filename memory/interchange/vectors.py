"""Vectors for texts that a collection does not have yet, by whoever made those that it has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from memory.index import Collection, chroma_faults, own_embedding
from memory.interchange.chroma import Place, looking_into, named_collection
from memory.interchange.foreign import ForeignRow, Reading, text_key_of
from memory.models import Vector

logger = logging.getLogger(__name__)

_SAMPLE = 8
_NEAR = 0.02
"""How far a vector may lie from the stored one, of its length: services round."""

Embed = Callable[[list[str]], Any]


def vectors_as_theirs(
    place: Place,
    name: str,
    rows: Sequence[ForeignRow],
    reading: Reading,
    texts: Sequence[str],
    others: Sequence[Embed],
) -> dict[str, Vector]:
    """A vector for each text; empty where nothing here makes such vectors as the collection has.

    Its own embedding function is tried first, then the others. One is believed when it gives for
    texts of the collection the vectors that are there.
    """
    if not texts:
        return {}
    with looking_into(place) as client:
        collection = named_collection(client, place, name)
        sample, stored = _sample(collection, rows, reading)
        for embed in _embedders(collection, others):
            try:
                if _alike(_made(embed, sample), stored):
                    return dict(zip(texts, _made(embed, list(texts)), strict=True))
            except Exception as exc:  # somebody else's code: whatever it raises, it is not there
                logger.warning("an embedder could not be used: %s", exc)
    return {}


def _embedders(collection: Collection, others: Sequence[Embed]) -> Iterator[Embed]:
    try:
        own = own_embedding(collection)
    except Exception as exc:  # its library or its key may be missing here
        logger.warning("the collection's own embedder is not here: %s", exc)
        own = None
    if own is not None:
        yield own
    yield from others


def _sample(
    collection: Collection, rows: Sequence[ForeignRow], reading: Reading
) -> tuple[list[str], Any]:
    step = max(1, len(rows) // _SAMPLE)
    chosen = {row.id: _text(row, reading) for row in rows[::step][:_SAMPLE]}
    chosen = {name: text for name, text in chosen.items() if text}
    with chroma_faults():
        page = collection.get(ids=list(chosen), include=["embeddings"])
    return [chosen[name] for name in page["ids"]], np.asarray(page["embeddings"], np.float32)


def _text(row: ForeignRow, reading: Reading) -> str:
    try:
        key = text_key_of(row, reading)
    except ValueError:
        return ""
    return (row.document or "") if key is None else str(row.metadata[key])


def _made(embed: Embed, texts: list[str]) -> Any:
    return np.asarray(embed(texts), dtype=np.float32)


def _alike(made: Any, stored: Any) -> bool:
    if made.shape != stored.shape or not len(stored):
        return False
    apart = np.linalg.norm(made - stored, axis=1)
    return bool((apart <= _NEAR * np.linalg.norm(stored, axis=1)).all())
