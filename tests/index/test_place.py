"""A collection at its place: opened, made again, moved into a process of its own, closed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.errors import IndexFault
from memory.index.chroma_client import COLLECTION, persistent_client
from memory.index.chroma_process import ChromaProcess
from memory.index.folder import IndexFolder
from memory.index.place import Place

NOBODY = contextlib.nullcontext()


@pytest.fixture
def place(folder: Path) -> Iterator[Place]:
    owned = IndexFolder(folder)
    assert owned.acquire()
    opened = Place(persistent_client(folder), COLLECTION, owned, None)
    opened.rows.upsert(ids=["a"], embeddings=np.eye(1, 3, dtype=np.float32))
    yield opened
    opened.let_go()


def test_made_again_it_is_another_collection_at_the_same_place_with_nothing_in_it(
    place: Place,
) -> None:
    before, name = place.id, place.name
    place.make_again()
    assert place.rows.count() == 0
    assert place.id != before
    assert place.name == name


def test_moved_it_is_the_same_collection_with_the_same_rows(place: Place) -> None:
    before = place.id
    assert place.may_move
    place.move_to(ChromaProcess(), NOBODY)
    assert (place.id, place.rows.count()) == (before, 1)
    assert not place.may_move


def test_what_was_closed_is_not_moved_nor_made_again(place: Place) -> None:
    place.close()
    process = ChromaProcess()
    place.move_to(process, NOBODY)
    assert process.ended_well
    with pytest.raises(IndexFault, match="closed"):
        place.make_again()


@pytest.mark.parametrize("failed", [False, True])
def test_a_folder_is_noted_as_whole_unless_something_has_failed(
    place: Place, folder: Path, failed: bool
) -> None:
    if failed:
        place.suspect()
    place.let_go()
    assert IndexFolder(folder).closed_whole() is not failed
