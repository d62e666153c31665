"""Whether a folder can be opened and searched, seen by a process that may die of it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock

from memory import files
from memory.errors import IndexFault
from memory.search.chroma_client import (
    COLLECTION,
    SLACK,
    chroma_faults,
    load_chroma,
    persistent_client,
)

_PAGE = 1_000
_PROBED = 100
"""Of each page, how many vectors are searched for when a folder is looked at."""
_MISSES = 50
"""One of so many may not be found: the search is approximate."""


_PATIENCE_S = 30.0
"""How long a process waits for the one before it, whose owner was killed, to close the folder."""
_ENVIRONMENT = (
    *("PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *(
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "USERPROFILE",
        "APPDATA",
    ),
    *("LOCALAPPDATA", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"),
)
"""The variables that it gets: others may hold keys, or anything."""
_PACKAGES = Path(__file__).absolute().parents[2]
"""Where this package is found."""
_FIND_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
"""

STARTED = "looking"
"""The line that says that all was loaded: what goes wrong from here on is the folder's doing."""
PROBE_CODE = """
from memory.search.probe import look
look(sys.argv[1])
"""
"""Python that looks at a folder, which is its argument."""


def python_that(code: str, *arguments: str) -> list[str]:
    """A command that finds modules where this process does, and never in the current folder."""
    found_in = [str(_PACKAGES), *filter(os.path.isabs, sys.path)]
    return [sys.executable, "-I", "-c", _FIND_CODE + code, json.dumps(found_in), *arguments]


def bare_environment() -> dict[str, str]:
    """What Chroma's process needs of this one's environment."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}


@contextlib.contextmanager
def alone_at(folder: Path, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """While the block runs, no other process of ours has the folder open.

    Raises: IndexFault.
    """
    try:
        with files.own_lock(folder.with_suffix(".open"), patience_s):
            yield
    except filelock.Timeout as exc:
        raise IndexFault(f"{folder} is still open in a process whose owner has ended") from exc


def look(path: str) -> None:
    """Say on stdout that all is loaded, and then what is wrong with a folder, where anything is."""
    os.umask(0o077)
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
    with alone_at(Path(path)), chroma_faults():
        client = persistent_client(Path(path))
        if COLLECTION not in [collection.name for collection in client.list_collections()]:
            return
        collection = client.get_collection(COLLECTION, embedding_function=None)
        for offset in range(0, collection.count(), _PAGE):
            page = collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
            some = page["embeddings"][:_PROBED]
            found = collection.query(query_embeddings=some, n_results=1, include=["distances"])
            missed = sum(not near or near[0] > SLACK for near in found["distances"])
            if missed > len(some) // _MISSES:
                raise IndexFault("a search does not find what is there")
        client.close()
