"""No text gets near Chroma: not into its process, so not into its files; and those are private."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from memory import Config, Memory
from memory.assembly import open_store
from memory.config import MemoryConfig
from memory.ledger import Ledger
from memory.models import Query, new_memory_id
from memory.search import EmbeddedChroma
from memory.search.index import Follower
from memory.store import MemoryStore
from memory.text import text_key
from tests.doubles import START
from tests.search import children
from tests.search.vectors import DIM, MIA, unit

WORD = "juniperberry"


def held_by(pid: int) -> Iterator[bytes]:
    """All that a process can read: its memory, its environment and its arguments."""
    for name in ("environ", "cmdline"):
        yield Path(f"/proc/{pid}/{name}").read_bytes()
    maps = Path(f"/proc/{pid}/maps").read_text()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for first, last in re.findall(r"^(\w+)-(\w+) rw", maps, re.MULTILINE):
            with contextlib.suppress(OSError, ValueError):  # what only the kernel reads
                memory.seek(int(first, 16))
                yield memory.read(int(last, 16) - int(first, 16))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_chromas_process_never_holds_a_text_nor_a_key(
    folder: Path, ledger: Ledger, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", f"key-{WORD}")
    monkeypatch.setenv("MEMORY_AGENT_TOKENS", f"token-{WORD}-0123456789 Mia")
    others = children.pids()
    before = f"Mia keeps {WORD} before the process starts."
    ids = []
    follower = Follower(EmbeddedChroma(folder), ledger)
    for number in range(3):
        texts = [before, *(f"Mia keeps {WORD} number {number} {n}." for n in range(60))]
        with ledger.writing() as writer:
            for text in texts:
                memory = Memory(id=new_memory_id(), content=text, user="Mia", timestamp=START)
                writer.memories.insert_all([memory])
                writer.vectors.put({text_key(text): unit(rng)})
                ids.append(memory.id)
        follower.copy_all()
        follower.nearest([Query(unit(rng), MIA, 5)])
    [pid] = set(children.pids()) - set(others)
    held = b"\0".join(held_by(pid))
    assert ids[5].encode() in held, "it is looked at rightly"
    assert WORD.encode() not in held
    follower.close()


class RestlessChroma(EmbeddedChroma):
    """An index whose files Chroma rewrites after every 50 writes."""

    settings: Mapping[str, Any] = {**EmbeddedChroma.settings, "sync_threshold": 50}


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(3))
def test_under_load_no_word_of_a_memory_gets_into_a_file_of_chroma(
    folder: Path, ledger: Ledger, seed: int
) -> None:
    """Threads write, search and forget while Chroma rewrites its files again and again."""
    follower = Follower(RestlessChroma(folder), ledger, lag=20)
    words: list[str] = []
    faults: list[BaseException] = []

    def work(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        try:
            for _ in range(12):
                told = [f"{uuid4().hex} and {WORD} {uuid4().hex}" for _ in range(40)]
                memories = [
                    Memory(id=new_memory_id(), content=text, user="Mia", timestamp=START)
                    for text in told
                ]
                vectors = {text_key(text): unit(rng) for text in told}
                with ledger.writing() as writer:
                    writer.memories.insert_all(memories)
                    writer.vectors.put(vectors)
                words.extend(word for text in told for word in text.split() if len(word) > 10)
                follower.nearest([Query(unit(rng), MIA, 5)])
                if number == 0:
                    with ledger.writing() as writer:
                        writer.memories.tombstone([memories[0].id])
                        writer.followers.mark_all_stale()
                    follower.scrub()
        except BaseException as exc:
            faults.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    follower.copy_all()
    follower.close()
    assert faults == []
    files = [path for path in folder.parent.rglob("*") if path.is_file() and "chroma" in str(path)]
    assert any(path.name == "data_level0.bin" for path in files)
    wanted = re.compile(b"|".join(sorted({word.encode() for word in words})))
    assert [path for path in files if wanted.search(path.read_bytes())] == []


# --- whose files they are -------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_every_file_of_the_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    before = os.umask(0o022)
    try:
        with open_store(Config(memory=MemoryConfig(data_dir=str(data)))) as store:
            fill(store)
            store.index.rebuild()
            while_open = modes_below(data)
        assert while_open.keys() >= {"ledger.db", "ledger.db-wal", "chroma", "chroma.lock"}
        after = modes_below(data)
    finally:
        os.umask(before)
    wrong = {
        name: oct(mode)
        for name, (mode, is_folder) in {**while_open, **after}.items()
        if mode != (0o700 if is_folder else 0o600)
    }
    assert wrong == {}


def fill(store: MemoryStore) -> None:
    for text in ("Mia has a red boat.", "Jonas bakes bread on Sundays."):
        store.add(store.new_memory(text))


def modes_below(folder: Path) -> dict[str, tuple[int, bool]]:
    return {
        str(path.relative_to(folder.parent if path == folder else folder)): (
            stat.S_IMODE(path.stat().st_mode),
            path.is_dir(),
        )
        for path in (folder, *folder.rglob("*"))
    }


# --- when it ends ---------------------------------------------------------------------------------

OWNER = """
import sys, time
from pathlib import Path
from typing import Any
from memory.search.chroma_client import ChromaProcess
from tests.search import children
Path(sys.argv[1]).mkdir()
process = ChromaProcess(Path(sys.argv[1]), is_ours=True)
print(*children.pids(), flush=True)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_it_ends_with_its_owner_however_that_ends(folder: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60.0
    while is_running(pid):
        assert time.monotonic() < until, "an orphan"
        time.sleep(0.05)


def test_a_dead_process_is_no_zombie_once_the_index_is_closed(
    folder: Path,
) -> None:
    others = children.pids()
    index = EmbeddedChroma(folder)
    index.clear()
    index.put(["a"], np.eye(1, DIM, dtype=np.float32))
    pids = set(children.pids()) - set(others)
    children.send(signal.SIGKILL)
    index.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
