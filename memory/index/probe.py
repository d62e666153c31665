"""Whether a folder can be opened and searched, seen by a process that may die of it."""

from __future__ import annotations

from pathlib import Path

from memory.errors import IndexFault
from memory.index.chroma_client import COLLECTION, SLACK, chroma_faults, persistent_client

_PAGE = 1_000
_PROBED = 100
"""Of each page, how many vectors are searched for when a folder is looked at."""


PROBE_CODE = """
import sys
from memory.index.probe import probe
probe(sys.argv[1])
"""
"""Python that looks at the folder it gets as its argument, and raises what is wrong."""


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
