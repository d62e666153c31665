"""A collection at its place: opened, made again, closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.errors import IndexFault
from memory.search.chroma_client import COLLECTION
from memory.search.chroma_process import ChromaProcess
from memory.search.folder import IndexFolder
from memory.search.place import Place
from tests.search import children


@pytest.fixture
def place(folder: Path) -> Iterator[Place]:
    owned = IndexFolder(folder)
    assert owned.acquire()
    opened = Place(ChromaProcess().open(folder), COLLECTION, owned, None)
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


def test_made_again_it_is_written_by_another_process(place: Place) -> None:
    before = children.pids()
    place.make_again()
    assert len(before) == len(children.pids()) == 1
    assert before != children.pids()


def test_what_was_closed_is_not_made_again(place: Place) -> None:
    place.close()
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
