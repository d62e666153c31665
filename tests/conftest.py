"""A real store in a temporary folder, on vectors placed by hand."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy.engine import URL, make_url

from memory.deduplicator import MemoryDeduplicator
from memory.extractor import MemoryExtractor
from memory.ledger import Ledger
from memory.models import Memory, new_memory_id
from memory.store import MemoryStore
from tests import commands, servers
from tests.doubles import START, PlacedEmbedder, ScriptedModel, ticking


def _keep_files_in_memory(folder: str = "/dev/shm") -> None:
    """Make temporary files in memory, since a disk takes 3 ms for each transaction.

    Memory with little room, or from which no program can be started, is not used.
    """
    if "TMPDIR" in os.environ or not os.access(folder, os.W_OK):
        return
    memory = os.statvfs(folder)
    if memory.f_bavail * memory.f_frsize > 4 << 30 and not memory.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = folder


_keep_files_in_memory()


def _trust_one_certificate() -> None:
    """Let HTTP clients read one certificate, not 140 (20 ms each time): all servers are local."""
    file = Path(tempfile.gettempdir(), f"memory-certificate-{os.getuid()}.pem")
    if not file.exists():
        begin, end, _ = (
            Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----")
        )
        written = file.with_suffix(f".{os.getpid()}")
        written.write_text(begin + end, "utf-8")
        written.replace(file)
    os.environ["SSL_CERT_FILE"] = str(file)


_trust_one_certificate()

if sys.dont_write_bytecode:  # otherwise every process compiles all modules again
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(tempfile.gettempdir(), f"memory-bytecode-{os.getuid()}"))
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Who is started in the background ignores Ctrl-C, and so would every command that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is slow, not wrong.
settings.register_profile(
    "memory", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("memory")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector: it takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Start one worker more than cores: tests also wait, for a disk or another process."""
    return (yield) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the check of the types first, so that no worker waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_checks.py")


MakeMemory = Callable[..., Memory]
"""Makes a memory from its text and any other fields."""


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a ledger that does not exist yet, on SQLite and on PostgreSQL."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of an empty ledger, on SQLite and on PostgreSQL."""
    if request.param == "postgresql":
        server, template = request.getfixturevalue("postgres"), "empty_database"
        with servers.postgres_database(server, request.getfixturevalue(template)) as url:
            yield url
    else:
        (tmp_path / "data").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(request.getfixturevalue("empty_ledger"), tmp_path / "data" / "ledger.db")
        yield f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"


@pytest.fixture(scope="session")
def empty_database(postgres: URL) -> Iterator[str]:
    """Make a PostgreSQL database with an empty ledger to copy, and yield its name."""
    with servers.postgres_database(postgres) as url:
        Ledger.create(url).close()
        yield str(make_url(url).database)


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an empty ledger to copy: a copy takes a quarter of the time of a new one."""
    file = tmp_path_factory.mktemp("empty") / "ledger.db"
    Ledger.create(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def ledger(tmp_path: Path, empty_ledger: Path) -> Iterator[Ledger]:
    file = tmp_path / "data" / "ledger.db"
    if not file.exists():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(empty_ledger, file)
    with Ledger.create(f"sqlite:///{file}") as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """Start a PostgreSQL server; without one the test is skipped."""
    with servers.postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: URL) -> Iterator[str]:
    """Yield the URL of an empty PostgreSQL database for one test."""
    with servers.postgres_database(postgres) as url:
        yield url


@pytest.fixture(scope="session")
def chroma_port() -> Iterator[int]:
    """Yield the port of a real Chroma server."""
    with servers.chroma_server() as port:
        yield port


@pytest.fixture
def forked_chroma(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that Chroma runs in, so that none has to import it."""
    monkeypatch.setattr(sys, "executable", commands.python())


@pytest.fixture
def embedder() -> PlacedEmbedder:
    return PlacedEmbedder()


@pytest.fixture
def store(ledger: Ledger, embedder: PlacedEmbedder) -> Iterator[MemoryStore]:
    with MemoryStore(ledger, embedder, clock=ticking()) as opened:
        yield opened


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def deduplicator(store: MemoryStore, model: ScriptedModel) -> MemoryDeduplicator:
    return MemoryDeduplicator(store, model)


@pytest.fixture
def extractor(store: MemoryStore, model: ScriptedModel) -> MemoryExtractor:
    return MemoryExtractor(store, MemoryDeduplicator(store, model), model)


@pytest.fixture
def make_memory() -> MakeMemory:
    """Make memories, each a minute after the one before."""
    made = 0

    def make(content: str, **fields: Any) -> Memory:
        nonlocal made
        made += 1
        fields.setdefault("timestamp", START + timedelta(minutes=made))
        return Memory(id=new_memory_id(), content=content, **fields)

    return make
