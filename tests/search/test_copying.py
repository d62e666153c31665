"""What is many is copied beside those who search, whatever happens meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from memory.ledger import Ledger
from memory.protocols import Query
from memory.search import rows
from memory.search.chroma_client import Rows
from memory.search.exact import ExactIndex
from memory.search.folder import IndexFolder
from tests.search import children
from tests.search.vectors import MIA, agree, client_of, nearest, opened, unit, write


def test_what_is_many_is_copied_beside_those_who_search(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    ids = write(ledger, rng, 90)
    assert len(nearest(index, unit(rng), MIA, 5, -1.0).ids) == 5
    index.settle()
    assert index.disagreement() == ""
    index.let_go()  # which copies nothing
    client = client_of(folder)
    found = client.get_collection("memories", embedding_function=None).get(include=[])
    assert set(found["ids"]) == set(ids)
    client.close()


def test_a_folder_whose_chroma_died_is_looked_at_closely_by_the_next_start(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    write(ledger, rng, 90)
    index.follow()
    index.settle()
    children.send(signal.SIGKILL)
    write(ledger, rng, 30)
    index.close()
    assert not IndexFolder(folder).closed_whole()
    again = opened(folder, ledger)
    agree(again, ledger, rng, MIA)
    again.close()
    assert IndexFolder(folder).closed_whole()


def test_the_nearest_are_found_at_every_moment_while_much_is_copied_onto_what_serves(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 30)
    opened(folder, ledger).close()
    index, exact = opened(folder, ledger), ExactIndex(ledger)
    for _ in range(5):
        write(ledger, rng, 60)
        query = unit(rng)
        shortlist = nearest(index, query, MIA, 3, -1.0)
        assert shortlist.complete
        assert set(nearest(exact, query, MIA, 1, -1.0).ids) <= set(shortlist.ids)
    index.settle()
    agree(index, ledger, rng, MIA)
    assert index.disagreement() == ""
    index.close()


def test_a_rebuild_comes_between_the_steps_of_copying_and_nothing_is_missing(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    for _ in range(4):
        write(ledger, rng, 50)
    nearest(index, unit(rng), MIA, 5, -1.0)
    index.rebuild()
    index.settle()
    assert index.disagreement() == ""
    index.close()


def test_a_forget_that_meets_the_end_of_copying_leaves_the_index_serving(
    folder: Path, ledger: Ledger, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step asks Chroma once, and just then the collection is made again."""
    index, ask = opened(folder, ledger), rows.named

    def forget() -> None:
        with ledger.writing() as writer:
            writer.followers.mark_all_stale()
        index.follow()

    def overtaken(collection: Rows, queries: Sequence[Query]) -> list[list[rows.Named]]:
        monkeypatch.undo()
        other = threading.Thread(target=forget)
        other.start()
        other.join()
        return ask(collection, queries)

    monkeypatch.setattr(rows, "named", overtaken)
    write(ledger, rng, 90)
    index.follow()
    index.settle()
    assert rows.named is ask
    agree(index, ledger, rng, MIA)
    assert index.disagreement() == ""
    index.close()
    assert IndexFolder(folder).closed_whole()
