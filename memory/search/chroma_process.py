"""Chroma on a folder, in a process of its own that ends with whoever started it.

hnswlib writes memory that it never filled into its files, with whatever was there before. So this
process is a fresh interpreter, and gets ids and vectors, never a text: none can end up in a file.
Chroma's writes also hold the interpreter that they run in, and a folder that is damaged can end
the whole process: neither is the interpreter, or the process, of those who search and write.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from memory.errors import IndexFault
from memory.models import Vector, Vectors
from memory.search.chroma_client import (
    Client,
    Collection,
    Nearest,
    Page,
    chroma_faults,
    load_chroma,
    persistent_client,
)
from memory.search.probe import alone_at, bare_environment, python_that

_ENDING_S = 10.0
"""How long the process may take to end once its files are closed."""
_SERVE_CODE = """
from memory.search.chroma_process import serve
serve()
"""


@dataclass(frozen=True)
class _Request:
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    collection: UUID | None = None
    """Whose method it is; None for the client's."""


@dataclass(frozen=True)
class _Answer:
    value: Any = None
    problem: str | None = None
    """What Chroma failed with."""


class ChromaProcess:
    """As much of Chroma's client as an index needs. Safe to share between threads."""

    def __init__(self) -> None:
        """Start it, and wait until Chroma is loaded there.

        Raises: IndexFault.
        """
        self._lock = threading.Lock()
        self._closed = False
        self.ended_well = False
        """Whether it has closed its files and ended by itself."""
        try:
            # A session of its own: Ctrl-C is for whoever started it, who closes it in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                python_that(_SERVE_CODE),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=bare_environment(),
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

    def open(self, folder: Path) -> ChromaProcess:
        """Raises: IndexFault, and then the process has ended."""
        try:
            self.ask("open", {"folder": folder.absolute()})
        except BaseException:  # Ctrl-C too must not leave it running
            self.close()
            raise
        return self

    def get_or_create_collection(
        self, name: str, *, configuration: Mapping[str, Any], embedding_function: None
    ) -> ProcessRows:
        told = {"configuration": configuration, "embedding_function": embedding_function}
        made: UUID
        made, configured = self.ask("get_or_create_collection", {"name": name, **told})
        return ProcessRows(self, made, configured)

    def delete_collection(self, name: str) -> None:
        self.ask("delete_collection", {"name": name})

    def close(self) -> None:
        """Close the files and end the process, once what it is at is done. May be called twice."""
        answered = self.ended_well
        with contextlib.suppress(IndexFault):
            self.ask("close")
            answered = True
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
        self.ended_well = answered and self._process.returncode == 0

    def ask(
        self,
        method: str,
        arguments: Mapping[str, Any] | None = None,
        collection: UUID | None = None,
    ) -> Any:
        """The answer of a call over there; one call at a time.

        Raises: IndexFault.
        """
        with self._lock:
            if self._closed:
                raise IndexFault("the index is closed")
            try:
                self._send(_Request(method, arguments or {}, collection))
                return self._received()
            except IndexFault:
                raise
            except BaseException:  # Ctrl-C: the next to ask would get the answer to this
                self._closed = True
                raise

    def _send(self, request: _Request) -> None:
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
            answer = pickle.load(self._process.stdout)  # noqa: S301 - our own process
        except (EOFError, OSError, pickle.UnpicklingError) as exc:
            raise self._ended() from exc
        if answer.problem is not None:
            raise IndexFault(answer.problem)
        return answer.value

    def _ended(self) -> IndexFault:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        return IndexFault(f"Chroma's process ended with code {self._process.returncode}")


class ProcessRows:
    """A collection over there."""

    def __init__(self, process: ChromaProcess, made: UUID, configured: Mapping[str, Any]) -> None:
        self._process = process
        self.id = made
        self.configuration_json = configured

    def count(self) -> int:
        return int(self._ask("count"))

    def get(
        self,
        *,
        ids: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        include: Sequence[str],
    ) -> Page:
        page: Page = self._ask("get", ids=ids, limit=limit, offset=offset, include=include)
        return page

    def query(
        self, *, query_embeddings: Sequence[Vector], n_results: int, include: Sequence[str]
    ) -> Nearest:
        found: Nearest = self._ask(
            "query", query_embeddings=query_embeddings, n_results=n_results, include=include
        )
        return found

    def upsert(self, *, ids: Sequence[str], embeddings: Vectors) -> None:
        self._ask("upsert", ids=ids, embeddings=embeddings)

    def delete(self, *, ids: Sequence[str]) -> None:
        self._ask("delete", ids=ids)

    def _ask(self, method: str, **arguments: Any) -> Any:
        return self._process.ask(method, arguments, self.id)


# --- over there ---------------------------------------------------------------------------------


def serve() -> None:
    """Answer what comes in on stdin, until it ends or closes: then the files are closed in order.

    Whoever started this may be killed, and a new one may come, before what is under way is done:
    the new one's process waits for this one.
    """
    for asked_to_stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked_to_stop, signal.SIG_IGN)  # whoever started it closes it
    os.umask(0o077)  # nobody else's business
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    with contextlib.ExitStack() as held, contextlib.suppress(OSError):  # nobody listens any more
        chroma = _Chroma(held)
        request: _Request | None = _Request("load")
        while request is not None:
            pickle.dump(chroma.answer(request), answers)
            answers.flush()
            request = None if request.method == "close" else _next_request()


def _next_request() -> _Request | None:
    try:
        request: _Request = pickle.load(sys.stdin.buffer)  # noqa: S301 - whoever started this
    except (EOFError, pickle.UnpicklingError):
        return None
    return request


class _Chroma:
    """One folder's client and its collections."""

    def __init__(self, held: contextlib.ExitStack) -> None:
        self._held = held
        self._client: Client | None = None
        self._collections: dict[UUID, Collection] = {}

    def answer(self, request: _Request) -> _Answer:
        try:
            with chroma_faults():
                return _Answer(self._value(request))
        except IndexFault as exc:
            return _Answer(problem=exc.problem)

    def _value(self, request: _Request) -> Any:
        if request.collection is not None:
            collection = self._collections[request.collection]
            return getattr(collection, request.method)(**request.arguments)
        if request.method == "load":
            load_chroma()
        elif request.method == "open":
            self._open(request.arguments["folder"])
        elif request.method == "close":
            self._held.close()
        else:
            return self._of_client(request)
        return None

    def _open(self, folder: Path) -> None:
        self._held.enter_context(alone_at(folder))
        self._client = client = persistent_client(folder)
        self._held.callback(client.close)

    def _of_client(self, request: _Request) -> Any:
        value = getattr(self._client, request.method)(**request.arguments)
        if request.method != "get_or_create_collection":
            return None
        self._collections[value.id] = value
        return value.id, dict(value.configuration_json)
