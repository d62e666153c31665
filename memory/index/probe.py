"""Whether a folder can be opened and searched, seen by a process that may die of it."""

from __future__ import annotations

import sys
from pathlib import Path

from memory.errors import IndexFault
from memory.index.chroma_client import (
    COLLECTION,
    SLACK,
    chroma_faults,
    load_chroma,
    persistent_client,
)

_PAGE = 1_000
_PROBED = 100
"""Of each page, how many vectors are searched for when a folder is looked at."""


STARTED = "looking"
"""The line that says that all was loaded: what goes wrong from here on is the folder's doing."""
PROBE_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from memory.index.probe import look
look(sys.argv[1])
"""
"""Python that looks at a folder; its arguments are the folder and where modules are found."""


def look(path: str) -> None:
    """Say on stdout that all is loaded, and then what is wrong with a folder, where anything is."""
    with chroma_faults():
        load_chroma()
    sys.stdout.write(f"{STARTED}\n")
    sys.stdout.flush()
    try:
        probe(path)
    except IndexFault as exc:
        sys.stdout.write(f"{exc.problem}\n")
        sys.exit(1)


def probe(path: str) -> None:
    """Read and search all that a folder holds, as a process that may die of it.

    Raises: IndexFault with what is wrong.
    """
    client = persistent_client(Path(path))
    with chroma_faults():
        if COLLECTION not in [collection.name for collection in client.list_collections()]:
            return
        collection = client.get_collection(COLLECTION, embedding_function=None)
        for offset in range(0, collection.count(), _PAGE):
            page = collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
            some = page["embeddings"][:_PROBED]
            found = collection.query(query_embeddings=some, n_results=1, include=["distances"])
            if any(not near or near[0] > SLACK for near in found["distances"]):
                raise IndexFault("a search does not find what is there")
        client.close()
