"""Measure how long it takes to forget a user or a memory, and how much memory it needs.

    python -m benchmarks.forgetting [8000 16000 100000]
    python -m benchmarks.forgetting --one 130000 [--turns 1300]

Made-up memories (`benchmarks/made_up.py`) of one user are imported as they are. Every tenth is then
reworded, so that it has a retired wording; every hundredth belongs to an episode; and as many turns
wait for extraction. Then a separate process forgets the user. The clock covers `forget_user`, from
the first transaction until the log is scrubbed. `held` is the longest time for which one
transaction kept others from writing. `rest` is the process's resident memory when the store is
open, and `more` is how far the peak lies above it.

`--one` forgets 19 memories of such a store one by one, while `--turns` turns wait. Another
process writes to the ledger without a pause; `waited` is the longest time that one of its writes
took.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks.importing import AT_ONCE, TimedEmbedder, config_of, held
from benchmarks.made_up import memories
from memory.assembly import open_store
from memory.ledger import Ledger
from memory.models import Episode, Turn
from memory.store import MemoryStore, forget_user

USER = "Mia"


@dataclass(frozen=True)
class Forgot:
    """The time and memory that forgetting one user took."""

    memories: int
    seconds: float
    transactions: int
    held_ms: float
    rest_mb: float
    more_mb: float


@dataclass(frozen=True)
class ForgotOne:
    """The times of 19 calls that each forget one memory, and the longest wait of a writer."""

    memories: int
    p50_ms: float
    longest_ms: float
    waited_ms: float
    waited_alone_ms: float


def measure_one(count: int, turns: int) -> ForgotOne:
    with tempfile.TemporaryDirectory(prefix="forgetting-") as name:
        folder = Path(name)
        fill(folder, count, turns=turns)
        with open_store(config_of(folder), TimedEmbedder()) as store:
            names = [memory.id for memory in islice(store.memories(), 7, count, count // 20)][:20]
            assert store.forget(names.pop()).erased  # what the filling left in gaps
            with waiting_writer(folder) as alone:
                time.sleep(5.0)
            took = []
            with waiting_writer(folder) as beside:
                for one in names:
                    started = time.perf_counter()
                    assert store.forget(one).erased
                    took.append(1_000 * (time.perf_counter() - started))
    longest = round(max(took), 1)
    return ForgotOne(count, round(median(took), 1), longest, beside[0], alone[0])


@contextmanager
def waiting_writer(folder: Path) -> Iterator[list[float]]:
    """Write from another process while the block runs; then add its longest write in ms."""
    command = [sys.executable, "-m", "benchmarks.forgetting", "--write", str(folder)]
    longest: list[float] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdout.readline()
        yield longest
        one.stdin.close()
        longest.append(float(one.stdout.readline()))


def _until_input_ends(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def write(folder: Path) -> float:
    """Write until standard input ends; return the milliseconds of the longest transaction."""
    over, longest = threading.Event(), 0.0
    with Ledger.create(f"sqlite:///{folder / 'ledger.db'}") as ledger:
        threading.Thread(target=_until_input_ends, args=(over,), daemon=True).start()
        print("ready", flush=True)
        while not over.wait(0.002):
            started = time.perf_counter()
            with ledger.writing() as writer:
                writer.set_meta("benchmark", str(started))
            longest = max(longest, time.perf_counter() - started)
    return round(1_000 * longest, 1)


def measure(count: int) -> Forgot:
    with tempfile.TemporaryDirectory(prefix="forgetting-") as folder:
        fill(Path(folder), count)
        command = [sys.executable, "-m", "benchmarks.forgetting", "--in", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Forgot(**json.loads(done.stdout))


def fill(folder: Path, count: int, *, turns: int | None = None) -> None:
    with open_store(config_of(folder), TimedEmbedder()) as store:
        told = [one.model_copy(update={"user": USER}) for one in memories(count, 1)]
        for start in range(0, count, AT_ONCE):
            store.add_batch(told[start : start + AT_ONCE])
        names = [memory.id for memory in store.memories()]
        for name in names[::10]:
            memory = store.get(name)
            assert memory is not None
            store.update(name, f"{memory.content} She said so twice.")
        for start in range(0, len(names), 200):
            tell_episode(store, names[start : start + 2])
        for number in range(turns or len(names) // 100):
            keep(store, number)


def tell_episode(store: MemoryStore, names: list[str]) -> None:
    at = datetime.now(UTC)
    told = Episode(user=USER, summary="Hers", memory_ids=tuple(names), start_time=at, end_time=at)
    with store.ledger.writing() as writer:
        writer.episodes.put(told)


def keep(store: MemoryStore, number: int) -> None:
    said = Turn(speaker=USER, text=f"I sail to {number} islands.", at=datetime.now(UTC))
    with store.ledger.writing() as writer:
        writer.turns.keep(said, str(number))


def forget(folder: Path) -> Forgot:
    with open_store(config_of(folder), TimedEmbedder()) as store:
        with held() as transactions, watched() as resident:
            started = time.perf_counter()
            gone = forget_user(store.ledger, store.index, USER, datetime.now(UTC))
            took = time.perf_counter() - started
        assert gone.erased
        assert next(store.memories(), None) is None
    return Forgot(
        memories=gone.memories,
        seconds=round(took, 1),
        transactions=len(transactions.seconds),
        held_ms=round(1_000 * max(transactions.seconds), 1),
        rest_mb=round(resident[0], 1),
        more_mb=round(max(resident) - resident[0], 1),
    )


@contextmanager
def watched(every_s: float = 0.02) -> Iterator[list[float]]:
    """Record this process's resident memory in MB, at intervals, while the block runs."""
    seen, over = [_resident_mb()], threading.Event()

    def watch() -> None:
        while not over.wait(every_s):
            seen.append(_resident_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        seen.append(_resident_mb())


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("counts", nargs="*", type=int, default=[8_000, 16_000, 100_000])
    asked.add_argument("--in", dest="folder", type=Path, help="forget there, in this process")
    asked.add_argument("--one", type=int, help="forget single memories of a store of this size")
    asked.add_argument("--turns", type=int, default=20, help="with --one: how many turns wait")
    asked.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.write is not None:
        print(write(given.write))
        return
    if given.one is not None:
        print(measure_one(given.one, given.turns))
        return
    if given.folder is not None:
        sys.stdout.write(json.dumps(asdict(forget(given.folder))))
        return
    for count in given.counts:
        sys.stdout.write(f"{measure(count)}\n")


if __name__ == "__main__":
    main()
