"""A Chroma client whose calls run in a separate process, which ends with its owner.

hnswlib writes uninitialised memory into its files, with whatever that memory held before. So the
separate process is a fresh interpreter that knows no texts: for our own index it gets only ids and
vectors; for another program's folder it knows only what is in the folder. There are two more
reasons: Chroma holds the interpreter's lock while it writes, and a damaged folder can crash the
interpreter. In a separate process, neither disturbs the process that searches and writes memories.
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
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import filelock

from memory.errors import IndexFault
from memory.runtime import files
from memory.search.chroma.client import (
    ChromaClient,
    ChromaCollection,
    chroma_faults,
    persistent_client,
)

_ENDING_S = 10.0
"""How many seconds the process may take to end after it was asked to end."""
_PATIENCE_S = 30.0
"""How many seconds a new process waits for an earlier one that has the folder open.

The earlier process may still run if its owner was killed.
"""
_ENVIRONMENT = (
    *("PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE"),
    *("APPDATA", "LOCALAPPDATA", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"),
)
"""The environment variables that the process inherits. Any other variable might hold a key."""
_PACKAGES = Path(__file__).absolute().parents[3]
"""The folder that this package is imported from."""
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from memory.search.chroma.process import serve
serve(**json.loads(sys.argv[1]))
"""


class ChromaProcess:
    """A Chroma client whose calls run in a separate process.

    An object may be shared between threads.
    """

    def __init__(self, folder: Path, *, is_ours: bool = False, lock: Path | None = None) -> None:
        """Start the process, and wait until it has opened the folder.

        `is_ours` says that the folder is an index of memory-dedup. The process then keeps its files
        private to this user and, when it closes them, records their state. `lock` is for another
        program's folder: a lock file outside of the folder, which the process holds until it has
        closed the folder.

        Raises: IndexFault.
        """
        self._lock = threading.Lock()
        self._closed = False
        import_path = [str(_PACKAGES), *filter(os.path.isabs, sys.path)]
        options = {"path": str(folder.absolute()), "is_ours": is_ours, "lock": lock and str(lock)}
        command = [sys.executable, "-I", "-c", _CODE, json.dumps(import_path), json.dumps(options)]
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        try:
            # A session of its own: Ctrl-C reaches only the owner, which closes it in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=environment,
            )
        except OSError as exc:
            raise IndexFault(f"no process could be started for it: {exc.strerror}") from exc
        self.pid = self._process.pid
        try:
            self._received()
        except BaseException:  # Ctrl-C too must not leave it running
            self.close()
            raise

    def list_collections(self) -> list[CollectionHandle]:
        return [CollectionHandle(self, *one) for one in self.call(None, "list_collections")]

    def get_collection(self, name: str, *, embedding_function: None) -> CollectionHandle:
        [found] = self.call(
            None, "get_collection", name=name, embedding_function=embedding_function
        )
        return CollectionHandle(self, *found)

    def get_or_create_collection(self, name: str, **options: Any) -> CollectionHandle:
        [found] = self.call(None, "get_or_create_collection", name=name, **options)
        return CollectionHandle(self, *found)

    def delete_collection(self, name: str) -> None:
        self.call(None, "delete_collection", name=name)

    def call(self, collection: UUID | None, method: str, **arguments: Any) -> Any:
        """Call a method of the collection with this id, or of the client if `collection` is None.

        One call runs at a time. If a method of the client returns collections, the result is a list
        of their (name, id, configuration).

        Raises: IndexFault.
        """
        with self._lock:
            if self._closed:
                raise IndexFault("the index is closed")
            try:
                self._send((collection, method, arguments))
                return self._received()
            except IndexFault:
                raise
            except BaseException:  # after Ctrl-C the next call would get the answer to this one
                self._closed = True
                raise

    def close(self) -> None:
        """Wait until the process has finished its current call, closed the files and ended.

        If that takes longer than 10 seconds, the process is killed. This method may be called
        twice.
        """
        with self._lock:
            self._closed = True
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # unsent data to a dead process
                    assert pipe is not None
                    pipe.close()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, request: tuple[UUID | None, str, dict[str, Any]]) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
        except OSError as exc:
            raise self._ended() from exc

    def _received(self) -> Any:
        """Return the result that the process sends next.

        Raises: IndexFault if the call failed or the process has ended.
        """
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


class CollectionHandle:
    """A collection in a `ChromaProcess`. Any method of a Chroma collection can be called on it."""

    def __init__(
        self,
        process: ChromaProcess,
        name: str,
        collection_id: UUID,
        configuration_json: Mapping[str, Any],
    ) -> None:
        self._process = process
        self.name = name
        self.id = collection_id
        self.configuration_json = configuration_json

    def __getattr__(self, method: str) -> Any:
        return partial(self._process.call, self.id, method)


# --- the state of the folder ----------------------------------------------------------------------


@contextlib.contextmanager
def alone_at(
    folder: Path, patience_s: float = _PATIENCE_S, lock: Path | None = None
) -> Iterator[None]:
    """Lock the folder during the block, so that no other process of memory-dedup opens it.

    The lock file is `lock` or, if that is None, a file next to the folder. Wait up to `patience_s`
    seconds for the lock.

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
    """Return the path of the file that records a folder's state.

    The file is written whenever the folder is closed properly.
    """
    return folder.with_suffix(".closed")


def state_of(folder: Path) -> dict[str, list[int]]:
    """Return the size and modification time of each file in a folder, by relative path.

    The size is in bytes, and the time in nanoseconds.
    """
    states = {}
    for path in folder.rglob("*"):
        if path.is_file():
            state = path.stat()
            states[str(path.relative_to(folder))] = [state.st_size, state.st_mtime_ns]
    return states


# --- inside the process ---------------------------------------------------------------------------


def serve(path: str, is_ours: bool, lock: str | None) -> None:
    """Execute calls that arrive on stdin, and write their results to stdout, until stdin ends.

    `path` is the folder that Chroma opens; it is closed at the end. `is_ours` says that it is an
    index of memory-dedup. `lock` is a lock file outside of the folder, or None.

    If `is_ours` is true or `lock` is given, the folder is locked until it is closed. This is
    because the last call of a killed owner may still run when the next process starts. The next
    process waits for the lock.
    """
    for asked_to_stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked_to_stop, signal.SIG_IGN)  # the owner closes it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    folder = Path(path)
    try:
        with contextlib.ExitStack() as stack:
            if is_ours or lock:
                stack.enter_context(alone_at(folder, lock=Path(lock) if lock else None))
            if is_ours:  # else new files keep the permissions that their owner's umask gives
                os.umask(0o077)
                closed_record(folder).unlink(missing_ok=True)
            client = persistent_client(folder)
            _answer(answers, (None, None))
            _answer_all(client, answers)
            client.close()
            if is_ours:
                files.write_whole(closed_record(folder), json.dumps(state_of(folder)).encode())
    except IndexFault as exc:
        _answer(answers, (None, exc.problem))


def _answer_all(client: ChromaClient, answers: Any) -> None:
    collections: dict[UUID, ChromaCollection] = {}
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the owner
        except (EOFError, pickle.UnpicklingError):
            return
        try:
            _answer(answers, (_called(client, collections, *request), None))
        except IndexFault as exc:
            _answer(answers, (None, exc.problem))


def _called(
    client: ChromaClient,
    collections: dict[UUID, ChromaCollection],
    collection: UUID | None,
    method: str,
    arguments: dict[str, Any],
) -> Any:
    with chroma_faults():
        if collection is not None:
            return getattr(collections[collection], method)(**arguments)
        answer = getattr(client, method)(**arguments) or []
        named = answer if isinstance(answer, list) else [answer]
        collections.update({one.id: one for one in named})
        return [(one.name, one.id, dict(one.configuration_json)) for one in named]


def _answer(answers: Any, answer: tuple[Any, str | None]) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: the next read ends it
        pickle.dump(answer, answers)
        answers.flush()
