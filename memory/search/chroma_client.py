"""Clients of Chroma. Only this file imports `chromadb`, and only when it is first needed."""

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
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import UUID

import filelock

from memory.errors import IndexFault
from memory.runtime import files

ChromaClient = Any
"""A client of chromadb or a `ChromaProcess`. Any, because chromadb's own types are too narrow."""
ChromaCollection = Any
"""A collection of chromadb or a `CollectionHandle`."""
COLLECTION = "memories"
_HEARTBEAT_S = 5.0
_CALL_S = 30.0
_ENDING_S = 10.0
_WAIT_S = 30.0
"""Seconds to wait for a locked folder: the process of a killed program may still have it open."""
_ENVIRONMENT = (
    *("PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE"),
    *("APPDATA", "LOCALAPPDATA", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"),
)
"""The environment variables that a `ChromaProcess` inherits. Others may contain API keys."""
_PACKAGES = Path(__file__).absolute().parents[2]
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from memory.search.chroma_client import serve
serve(**json.loads(sys.argv[1]))
"""


@dataclass(frozen=True)
class ChromaServer:
    """The address of a Chroma server, and the tenant, database and headers of its requests."""

    host: str
    port: int
    ssl: bool
    tenant: str
    database: str
    headers: dict[str, str] = field(repr=False)


def persistent_client(folder: Path) -> ChromaClient:
    """Open Chroma on a folder inside this process.

    Chroma may write parts of this process's RAM into the folder's files. So this process must hold
    no API keys, and no texts except those that Chroma stores in the folder.

    Raises: IndexFault.
    """
    with chroma_faults():
        chromadb, settings = load_chroma()
        return chromadb.PersistentClient(path=str(folder.absolute()), settings=settings)


def http_client(server: ChromaServer) -> ChromaClient:
    """Connect to a Chroma server, with a time limit for each call.

    Raises: IndexFault if no server answers.
    """
    heartbeat(server)
    with chroma_faults():
        chromadb, settings = load_chroma()
        client: ChromaClient = chromadb.HttpClient(
            host=server.host,
            port=server.port,
            ssl=server.ssl,
            tenant=server.tenant,
            database=server.database,
            headers=server.headers,
            settings=settings,
        )
        for session in _sessions(client):
            session.timeout = _CALL_S
        return client


def heartbeat(server: ChromaServer) -> None:
    """Check that a Chroma server answers, without importing chromadb.

    Raises: IndexFault if no server answers.
    """
    import httpx2  # takes 0.1 s; stores without a server do not need it

    with chroma_faults():
        scheme = "https" if server.ssl else "http"
        beat = f"{scheme}://{server.host}:{server.port}/api/v2/heartbeat"
        httpx2.get(beat, headers=server.headers, timeout=_HEARTBEAT_S).raise_for_status()


def close_client(client: ChromaClient) -> None:
    """Close a client's files and connections. Errors are ignored."""
    with contextlib.suppress(Exception):  # nothing is left to save
        client.close()
    for session in _sessions(client):
        with contextlib.suppress(Exception):
            session.close()


def _sessions(client: Any) -> list[Any]:
    servers = [
        getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))
    ]
    sessions = (getattr(server, "_session", None) for server in servers)
    return [session for session in sessions if session is not None]


def load_chroma() -> tuple[Any, Any]:
    import chromadb  # takes 0.5 s and 80 MB; most commands do not need it
    from chromadb.config import Settings

    return chromadb, Settings(anonymized_telemetry=False, chroma_server_ssl_verify=True)


@contextlib.contextmanager
def chroma_faults() -> Iterator[None]:
    """Turn every exception inside the block into an IndexFault."""
    try:
        yield
    except IndexFault:
        raise
    except Exception as exc:  # Chroma raises its own, httpx's, pydantic's and bare Exceptions
        first_line = (str(exc) or type(exc).__name__).splitlines()[0]
        raise IndexFault(f"Chroma failed: {first_line}") from exc


@cache
def load_minilm() -> Any:
    """Return Chroma's default embedding function for `MiniLMEmbedder`. It is loaded only once."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    return ONNXMiniLM_L6_V2()


def own_embedding(collection: ChromaCollection) -> Any | None:
    """Return the embedding function that a collection is configured with; None if there is none.

    Raises: IndexFault if the function cannot be loaded.
    """
    named = collection.configuration_json.get("embedding_function") or {}
    if named.get("type") != "known":
        return None
    from chromadb.utils.embedding_functions import known_embedding_functions

    with chroma_faults():
        return known_embedding_functions[named["name"]].build_from_config(named["config"])


# --- a client whose calls run in a separate process ---


class ChromaProcess:
    """A Chroma client whose calls run in a separate process, which ends when this program ends.

    Chroma's library hnswlib writes uninitialised memory into its files. So the process is given no
    texts of memories, and no environment variables that may hold API keys. A slow write or a
    damaged folder cannot stop this program's interpreter. An object may be shared between threads.
    """

    def __init__(self, folder: Path, *, is_ours: bool = False, lock: Path | None = None) -> None:
        """Start the process, and wait until it has opened the folder.

        `is_ours`: whether the folder is this program's own index. If so, closing the client records
        the sizes and times of the folder's files in a file next to the folder.
        `lock`: the file to lock while the folder is open. None means a file next to the folder if
        `is_ours`, otherwise no lock.

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

    def call(self, collection: UUID | None, method: str, **arguments: Any) -> Any:
        """Call a method of the collection with this id, or of the client if `collection` is None.

        One call runs at a time. Collections are returned as (name, id, configuration).

        Raises: IndexFault.
        """
        with self._lock:
            if self._closed:
                raise IndexFault("the index is closed")
            assert self._process.stdin is not None
            try:
                pickle.dump((collection, method, arguments), self._process.stdin)
                self._process.stdin.flush()
                return self._received()
            except IndexFault:
                raise
            except OSError as exc:
                raise self._ended() from exc
            except BaseException:  # after Ctrl-C the next call would get the answer to this one
                self._closed = True
                raise

    def close(self) -> None:
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

    def _received(self) -> Any:
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


@dataclass(frozen=True)
class CollectionHandle:
    """A collection in a `ChromaProcess`. Any method of a Chroma collection can be called on it."""

    _process: ChromaProcess
    name: str
    id: UUID
    configuration_json: Mapping[str, Any]

    def __getattr__(self, method: str) -> Any:
        return partial(self._process.call, self.id, method)


# --- the state of the folder ----------------------------------------------------------------------


@contextlib.contextmanager
def alone_at(folder: Path, patience_s: float = _WAIT_S, lock: Path | None = None) -> Iterator[None]:
    """Lock the folder during the block, so that no other process of memory-dedup opens it.

    `lock`: the file to lock; None means a file next to the folder.

    Raises: IndexFault if another process still has the lock after `patience_s` seconds.
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
    return folder.with_suffix(".closed")


def state_of(folder: Path) -> dict[str, list[int]]:
    states = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        str(path.relative_to(folder)): [state.st_size, state.st_mtime_ns]
        for path, state in states.items()
    }


# --- inside the process ---------------------------------------------------------------------------


def serve(path: str, is_ours: bool, lock: str | None) -> None:
    """Execute calls from stdin, and write their results to stdout, until stdin ends.

    `path`: the folder. It is locked if `is_ours` is true or a `lock` is given. If the program that
    started this process is killed during a call, the folder stays locked until the call has ended.
    """
    for asked_to_stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked_to_stop, signal.SIG_IGN)  # the owner closes it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    folder = Path(path)
    try:
        alone = alone_at(folder, lock=Path(lock) if lock else None)
        with alone if is_ours or lock else contextlib.nullcontext():
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
