"""What goes into a collection of Chroma's, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.ledger import Change
from memory.models import Vector
from memory.protocols import Query
from memory.search.chroma_client import COLLECTION, Rows, close_client, open_collection
from memory.search.chroma_client import persistent_client as client_on
from memory.search.rows import held, named, write
from tests.search.vectors import DIM, MIA

AXES = np.eye(DIM, dtype=np.float32)


@pytest.fixture
def rows(folder: Path) -> Iterator[Rows]:
    client = client_on(folder)
    yield open_collection(client, COLLECTION, None)
    close_client(client)


def change(name: str, vector: Vector | None, live: bool = True) -> Change:
    return Change(name, live, {"user": "Mia", "mood": "glad"}, vector, 1)


def test_what_is_live_goes_in_and_what_is_not_goes_out(rows: Rows) -> None:
    write(rows, [change("a", AXES[0]), change("b", AXES[1]), change("c", AXES[2])])
    write(rows, [change("a", AXES[3]), change("b", AXES[1], live=False), change("c", None)])
    assert {name: vector.tolist() for name, vector in held(rows).items()} == {"a": [*AXES[3]]}


def test_a_vector_that_is_there_is_not_written_again(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(rows, [change("a", AXES[0]), change("b", AXES[1]), change("c", AXES[2])])
    done: list[tuple[str, list[str]]] = []
    for name in ("delete", "upsert"):
        call = getattr(rows, name)

        def noting(*, _name: str = name, _call: Any = call, **told: Any) -> None:
            done.append((_name, told["ids"]))
            _call(**told)

        monkeypatch.setattr(rows, name, noting)
    write(rows, [change("a", AXES[0]), change("b", AXES[3]), change("d", AXES[4])])
    assert done == [("delete", ["b"]), ("upsert", ["b", "d"])]
    assert held(rows).keys() == {"a", "b", "c", "d"}


def test_each_query_is_answered_nearest_first(rows: Rows) -> None:
    write(rows, [change("a", AXES[0]), change("b", AXES[1])])
    near_b = (0.6 * AXES[0] + 0.8 * AXES[1]).astype(np.float32)
    first, second = named(rows, [Query(AXES[0], MIA, 1), Query(near_b, MIA, 2)])
    assert [one.id for one in (*first, *second)] == ["a", "b", "b", "a"]
    assert [one.cosine for one in second] == pytest.approx([0.8, 0.6])


def test_of_what_was_told_nothing_goes_in(rows: Rows) -> None:
    write(rows, [change("a", AXES[0])])
    page = rows.get(limit=1, offset=0, include=["metadatas", "documents"])
    assert (page["metadatas"], page["documents"]) == ([None], [None])
