"""Chroma on a folder, in a process of its own that ends with whoever started it.

hnswlib writes memory that it never filled into its files, with whatever was there before. So this
process is a fresh interpreter, and of our index gets ids and vectors, never a text: none can end
up in a file. Somebody's own folder has such a process too, which knows nothing but its rows.
Chroma's writes also hold the interpreter that they run in, and a folder that is damaged can end
the whole process: neither is the interpreter, or the process, of those who search and write.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import filelock

from memory.errors import IndexFault
from memory.runtime import files
from memory.search.chroma.client import (
    COLLECTION,
    ForeignClient,
    ForeignCollection,
    Page,
    chroma_faults,
    open_collection,
    persistent_client,
)
from memory.search.chroma.rows import ChromaRows

_ENDING_S = 10.0
"""How long the process may take to end once its files are closed."""
_PATIENCE_S = 30.0
"""How long a process waits for the one before it, whose owner was killed, to close the folder."""
_Described = tuple[str, UUID, dict[str, Any]]
"""Name, id and configuration of a collection."""
_ENVIRONMENT = (
    *("PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE"),
    *("APPDATA", "LOCALAPPDATA", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"),
)
"""The variables that it gets: others may hold keys, or anything."""
_PACKAGES = Path(__file__).absolute().parents[3]
"""Where this package is found."""
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from memory.search.chroma.process import serve
serve(**json.loads(sys.argv[1]))
"""


class ChromaProcess:
    """The process of a folder: our index, unless `options` say otherwise. Safe between threads."""

    def __init__(self, folder: Path, sync_threshold: int | None = None, **options: Any) -> None:
        """Start it, and wait until the folder is open there; `options` are those of `serve`.

        Raises: IndexFault.
        """
        self._lock = threading.Lock()
        self._closed = False
        found_in = [str(_PACKAGES), *filter(os.path.isabs, sys.path)]
        told = {"path": str(folder.absolute()), "sync_threshold": sync_threshold} | options
        command = [sys.executable, "-I", "-c", _CODE, json.dumps(found_in), json.dumps(told)]
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        try:
            # A session of its own: Ctrl-C is for whoever started it, who closes it in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=environment,
            )
        except OSError as exc:
            raise IndexFault(f"no process could be started for it: {exc.strerror}") from exc
        try:
            self._received()
        except BaseException:  # Ctrl-C too must not leave it running
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of a method of what is served over there; one call at a time.

        Raises: IndexFault.
        """
        with self._lock:
            if self._closed:
                raise IndexFault("the index is closed")
            try:
                self._send((method, arguments))
                return self._received()
            except IndexFault:
                raise
            except BaseException:  # Ctrl-C: the next to ask would get the answer to this
                self._closed = True
                raise

    def close(self) -> None:
        """Let it close the files and end, once what it is at is done. May be called twice."""
        with self._lock:
            self._closed = True
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # what was still to be sent to a dead process
                    assert pipe is not None
                    pipe.close()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, request: tuple[str, tuple[Any, ...]]) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
        except OSError as exc:
            raise self._ended() from exc

    def _received(self) -> Any:
        """Raises: IndexFault."""
        assert self._process.stdout is not None
        try:
            value, problem = pickle.load(self._process.stdout)  # noqa: S301 - our own process
        except (EOFError, OSError, pickle.UnpicklingError) as exc:
            raise self._ended() from exc
        if problem is not None:
            raise IndexFault(problem)
        return value

    def _ended(self) -> IndexFault:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        return IndexFault(f"Chroma's process ended with code {self._process.returncode}")


# --- somebody's own folder ------------------------------------------------------------------------


class ExternalChroma:
    """Somebody's own folder, or a copy of it, as a client of Chroma's in a process of its own."""

    def __init__(self, folder: Path, lock: Path | None = None) -> None:
        """Open the folder; a `lock` outside of it makes the next process wait for this one.

        Raises: IndexFault.
        """
        held = None if lock is None else str(lock)
        self._process = ChromaProcess(folder, external=True, lock=held)

    def list_collections(self) -> list[ExternalCollection]:
        found = self._process.ask("collections")
        return [ExternalCollection(self._process, *described) for described in found]

    def get_collection(self, name: str, *, embedding_function: None) -> ExternalCollection:
        described = self._process.ask("collection", name, embedding_function)
        return ExternalCollection(self._process, *described)

    def close(self) -> None:
        self._process.close()


@dataclass(frozen=True)
class ExternalCollection:
    """A collection of an `ExternalChroma`; its methods are those of Chroma's own."""

    process: ChromaProcess
    name: str
    id: UUID
    configuration_json: Mapping[str, Any]

    def count(self) -> int:
        return int(self._ask("count"))

    def get(self, **selection: Any) -> Page:
        page: Page = self._ask("get", **selection)
        return page

    def add(self, **columns: Any) -> None:
        self._ask("add", **columns)

    def update(self, **columns: Any) -> None:
        self._ask("update", **columns)

    def delete(self, *, ids: Sequence[str]) -> None:
        self._ask("delete", ids=ids)

    def modify(self, *, configuration: Mapping[str, Any]) -> None:
        self._ask("modify", configuration=configuration)

    def _ask(self, method: str, **arguments: Any) -> Any:
        return self.process.ask("call", self.id, method, arguments)


# --- the folder: whether it is as it was closed ---------------------------------------------------


@contextlib.contextmanager
def alone_at(
    folder: Path, patience_s: float = _PATIENCE_S, lock: Path | None = None
) -> Iterator[None]:
    """While the block runs, no other process of ours has the folder open.

    The lock is beside the folder unless another one is given.

    Raises: IndexFault.
    """
    held = files.own_lock(lock or folder.with_suffix(".open"), patience_s)
    try:
        held.acquire()
    except filelock.Timeout as exc:
        raise IndexFault(f"{folder} is still open in an earlier process of memory-dedup") from exc
    except OSError as exc:
        raise IndexFault(f"{held.lock_file} cannot be locked: {exc.strerror}") from exc
    try:
        yield
    finally:
        held.release()


def closed_record(folder: Path) -> Path:
    """Where it is noted how the files were when they were last closed in order."""
    return folder.with_suffix(".closed")


def state_of(folder: Path) -> dict[str, list[int]]:
    """Size and time of each file, by its name."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            state = path.stat()
            found[str(path.relative_to(folder))] = [state.st_size, state.st_mtime_ns]
    return found


# --- over there -----------------------------------------------------------------------------------


def serve(
    path: str, sync_threshold: int | None, external: bool = False, lock: str | None = None
) -> None:
    """Answer what comes in on stdin until it ends, and then close the folder.

    Whoever started this may be killed, and a new one may come, before what is under way is done:
    the new one waits for this process.
    """
    for asked_to_stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked_to_stop, signal.SIG_IGN)  # whoever started it closes it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    folder = Path(path)
    opened = _external(folder, lock) if external else _index(folder, sync_threshold)
    try:
        with opened as served:
            _tell(answers, (None, None))
            _answer_all(served, answers)
    except IndexFault as exc:
        _tell(answers, (None, exc.problem))


@contextlib.contextmanager
def _index(folder: Path, sync_threshold: int | None) -> Iterator[ChromaRows]:
    """Open our index, and note how its files are once they are closed."""
    os.umask(0o077)  # nobody else's business
    with alone_at(folder):
        closed_record(folder).unlink(missing_ok=True)
        client = persistent_client(folder)
        yield ChromaRows(open_collection(client, COLLECTION, sync_threshold))
        client.close()
        files.write_whole(closed_record(folder), json.dumps(state_of(folder)).encode())


@contextlib.contextmanager
def _external(folder: Path, lock: str | None) -> Iterator[_Collections]:
    """Open somebody's folder; new files in it get the permissions that its owner gives to all."""
    with alone_at(folder, lock=Path(lock)) if lock else contextlib.nullcontext():
        client = persistent_client(folder)
        yield _Collections(client)
        client.close()


class _Collections:
    """The collections of somebody's folder, each known by its id."""

    def __init__(self, client: ForeignClient) -> None:
        self._client = client
        self._collections: dict[UUID, ForeignCollection] = {}

    def collections(self) -> list[_Described]:
        with chroma_faults():
            return [self._described(found) for found in self._client.list_collections()]

    def collection(self, name: str, embedding_function: None) -> _Described:
        with chroma_faults():
            found = self._client.get_collection(name, embedding_function=embedding_function)
            return self._described(found)

    def call(self, collection: UUID, method: str, arguments: Mapping[str, Any]) -> Any:
        with chroma_faults():
            return getattr(self._collections[collection], method)(**arguments)

    def _described(self, collection: ForeignCollection) -> _Described:
        self._collections[collection.id] = collection
        return collection.name, collection.id, dict(collection.configuration_json)


def _answer_all(served: ChromaRows | _Collections, answers: Any) -> None:
    """Until nobody asks, or listens, any more."""
    while True:
        try:
            method, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - whoever started this
        except (EOFError, pickle.UnpicklingError):
            return
        try:
            value = getattr(served, method)(*arguments)
        except IndexFault as exc:
            _tell(answers, (None, exc.problem))
        else:
            _tell(answers, (value, None))


def _tell(answers: Any, answer: tuple[Any, str | None]) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: the next read ends it
        pickle.dump(answer, answers)
        answers.flush()
