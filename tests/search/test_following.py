"""A collection has what the ledger had at its watermark, and each change goes into it once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memory.ledger import IndexState, Ledger
from memory.text import text_key
from tests.search.vectors import DIM, MIA, client_of, nearest, opened, unit, write


def test_what_is_written_is_copied_and_not_copied_again(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    ids = write(ledger, rng, 70)
    index.close()
    with ledger.writing() as writer:
        writer.memories.retire([(ids[0], ids[1])])
    client = client_of(folder)
    collection = client.get_collection("memories", embedding_function=None)
    assert set(collection.get(include=[])["ids"]) == set(ids)
    with ledger.reading() as reader:
        assert reader.followers.state(str(collection.id)) == IndexState(1, stale=False)
    client.close()


def test_after_a_change_of_dimension_it_is_made_again(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    write(ledger, rng, 60)
    index.close()
    with ledger.writing() as writer:
        rows = list(writer.memories.live())
        keys = [text_key(row.memory.content) for row in rows]
        wide = [np.concatenate([unit(rng), np.zeros(DIM, np.float32)]) for _ in keys]
        writer.vectors.replace_all(dict(zip(keys, wide, strict=True)))
        writer.followers.start_all_again()
    again = opened(folder, ledger)
    query = np.concatenate([unit(rng), np.zeros(DIM, np.float32)])
    assert len(nearest(again, query, MIA, 5, -1.0).ids) == 5
    again.close()
