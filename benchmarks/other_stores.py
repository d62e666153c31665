"""Import other programs' stores, write changes back to them, and undo that after a kill.

    python -m benchmarks.other_stores --rows 20000           # a Chroma collection of four layouts
    python -m benchmarks.other_stores --mem0 2000            # mem0 itself; pip install mem0ai
    python -m benchmarks.other_stores --kills 50 [--seed 1]
    python -m benchmarks.other_stores --steps 50000 [STORE ...]   # store_steps.py says which

After an import, each row must be a memory or be named in an error. A kill drill writes back to a
copy of a collection of 2,400 rows (1,200 to delete, 100 to update), is killed at a random moment
after the undo file was written, and is then undone. `lost` counts the runs after which any row,
value or bit of a vector differed from before.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

from benchmarks.rows import print_table
from benchmarks.store_steps import steps
from memory.assembly import open_store, read_store
from memory.config import Config, MemoryConfig
from memory.interchange import (
    ChromaStore,
    Reading,
    as_memories,
    note_reading,
    plan_write_back,
    read_undo_file,
    undo_write_back,
    write_back,
)
from memory.models import Action, Decision, Memory, Survivor, new_memory_id
from tests.frameworks.mem0_story import go_round, script
from tests.frameworks.word_server import word_server, word_vector
from tests.interchange.layouts import fill

ROWS, ABSORBED, MERGED = 2_400, 1_100, 100
NAME = "memories"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, help="rows of a collection of four layouts")
    parser.add_argument("--mem0", type=int, help="memories that mem0 makes")
    parser.add_argument("--kills", type=int, help="write-backs that are killed")
    parser.add_argument("--steps", type=int, help="rows that go from a store and back")
    parser.add_argument("stores", nargs="*", help="of --steps; by default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--die", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.die:
        back(*map(Path, asked.die))
        return
    with tempfile.TemporaryDirectory(prefix="other-stores-") as scratch:
        if asked.rows:
            layouts(Path(scratch), asked.rows)
        if asked.mem0:
            mem0(Path(scratch), asked.mem0)
        if asked.steps:
            print_table(steps(Path(scratch), asked.stores, asked.steps))
        if asked.kills:
            kills(Path(scratch), asked.kills, random.Random(asked.seed))


# --- four layouts in one collection ---------------------------------------------------------------


def layouts(folder: Path, count: int) -> None:
    owners = fill(folder / "theirs", count)
    started = time.perf_counter()
    rows = ChromaStore(folder / "theirs", NAME).found().rows
    read = time.perf_counter()
    items = list(as_memories(rows, "theirs", Reading()))
    memories = [one for one in items if isinstance(one, Memory)]
    left_out = [one for one in items if not isinstance(one, Memory)]
    understood = time.perf_counter()
    with open_store(config(folder / "data")) as store:
        stored = store.add_batch(memories)
        done = time.perf_counter()
        again = store.add_batch(memories)
    right = sum(owners[str(one.external_id)] == one.user for one in memories)
    print(f"{count:,} rows: {stored:,} in, {right:,} of their user, {len(left_out):,} named")
    for why, n in Counter(one.problem.partition(":")[0] for one in left_out).items():
        print(f"  {n:,} {why}")
    print(f"  read {read - started:.1f} s, made memories {understood - read:.1f} s, "
          f"stored {done - understood:.1f} s; again: {again:,} added")  # fmt: skip


def config(folder: Path) -> Config:
    return Config(memory=MemoryConfig(data_dir=str(folder)))


# --- mem0 itself ----------------------------------------------------------------------------------


def mem0(folder: Path, memories: int) -> None:
    with word_server() as port:
        done = go_round(folder, port, script(20, memories))
    print(done.said["import"].strip())
    print(done.said["write-back"].strip().splitlines()[-2])
    for user, was in done.before.items():
        now = done.after[user]["all"]
        assert {one["user_id"] for one in now} == {user}
        assert sorted(one["memory"] for one in now) == sorted(done.live[user])
        assert {one["id"] for one in now} <= {one["id"] for one in was["all"]}
    kept = sum(len(one["all"]) for one in done.after.values())
    print(f"mem0 answers with {kept:,} memories; after the undo as before: "
          f"{done.undone == done.before}")  # fmt: skip
    print(", ".join(f"{name} {took:.1f} s" for name, took in done.seconds.items()))


# --- killed while it writes -----------------------------------------------------------------------


def kills(folder: Path, count: int, chance: random.Random) -> None:
    before = prepare(folder)
    took = unkilled(folder)
    lost, written = 0, []
    for _ in range(count):
        place, undo = fresh(folder)
        run = subprocess.Popen(command(place, folder / "data", undo), stdout=subprocess.PIPE)
        assert run.stdout is not None
        run.stdout.readline()  # the undo file is synced
        time.sleep(chance.uniform(0.0, took))
        run.kill()
        run.wait()
        file = read_undo_file(undo)
        header, rows = file.header, file.rows
        back_again = undo_write_back(
            ChromaStore(place, NAME), header, rows, lambda _done, _whole: None
        )
        written.append(back_again.restored)
        lost += held(place) != before
    inside = sum(0 < n < ABSORBED + 2 * MERGED for n in written)
    print(f"{count:,} kills, {inside:,} of them with some rows written and others not; lost {lost}")


def prepare(folder: Path) -> dict[str, Any]:
    """Make a collection, and a store that was imported from it and cleaned up; return its rows."""
    texts = [f"The user keeps box {n} in room {n % 7}." for n in range(ROWS)]
    with closing(client_at(folder / "whole")) as client:
        made = client.create_collection(NAME, embedding_function=None)
        made.add(
            ids=[str(n) for n in range(ROWS)],
            embeddings=[word_vector(text) for text in texts],
            metadatas=[
                {"data": text, "user_id": f"user-{n % 20}", "created_at": "2026-05-01T08:00:00Z"}
                for n, text in enumerate(texts)
            ],
        )
    found = ChromaStore(folder / "whole", NAME).found()
    read = [one for one in as_memories(found.rows, "", Reading()) if isinstance(one, Memory)]
    with open_store(config(folder / "data")) as store:
        store.add_batch(read)
        note_reading(store.ledger, found.collection_id, Reading())
        known = list(store.memories())
        for older, newer in pairs(known, 0, ABSORBED):
            survivor = Survivor(newer, (older.id,))
            store.apply(Decision(Action.REPLACE, "drill", (older, newer), (survivor,)))
        for older, newer in pairs(known, ABSORBED, ABSORBED + MERGED):
            both = f"{older.content} {newer.content}"
            change = {"id": new_memory_id(), "external_id": None, "content": both}
            survivor = Survivor(newer.model_copy(update=change), (older.id, newer.id))
            store.apply(Decision(Action.MERGE, "drill", (older, newer), (survivor,)))
    return held(folder / "whole")


def pairs(known: list[Memory], start: int, end: int) -> Iterator[tuple[Memory, Memory]]:
    return ((known[n], known[ROWS // 2 + n]) for n in range(start, end))


def unkilled(folder: Path) -> float:
    """Return how many seconds a write-back takes after its undo file, if it is not killed."""
    place, undo = fresh(folder)
    run = subprocess.Popen(command(place, folder / "data", undo), stdout=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.readline()
    started = time.perf_counter()
    assert run.wait() == 0
    return time.perf_counter() - started


def fresh(folder: Path) -> tuple[Path, Path]:
    """Return the folder of a new copy of the collection, and the path for its undo file."""
    place = Path(tempfile.mkdtemp(dir=folder)) / "theirs"
    shutil.copytree(folder / "whole", place)
    return place, place.with_name("undo.jsonl")


def command(place: Path, data: Path, undo: Path) -> list[str]:
    die = ["--die", str(place), str(data), str(undo)]
    return [sys.executable, "-m", "benchmarks.other_stores", *die]


def back(place: Path, data: Path, undo: Path) -> None:
    """Carry out the write-back that is killed; print a word once the undo file exists."""

    def report_start(done: int, _whole: int) -> None:
        if done == 0:
            print("writing", flush=True)

    rows = ChromaStore(place, NAME).found().rows
    with read_store(config(data)) as store:
        plan = plan_write_back(rows, Reading(), store.ledger)
    made = {one.text: np.array(word_vector(one.text), np.float32) for one in plan.updates}
    write_back(
        ChromaStore(place, NAME), plan, Reading(), undo, datetime.now(UTC), made, report_start
    )


def held(place: Path) -> dict[str, Any]:
    """Return every row of the collection, with the exact bytes of its vector."""
    with closing(client_at(place)) as client:
        collection = client.get_collection(NAME, embedding_function=None)
        page = collection.get(include=["metadatas", "embeddings"])
    rows = zip(page["ids"], page["metadatas"], page["embeddings"], strict=True)
    return {name: (kept, np.asarray(vector, np.float32).tobytes()) for name, kept, vector in rows}


def client_at(place: Path) -> Any:
    return chromadb.PersistentClient(str(place), settings=Settings(anonymized_telemetry=False))


if __name__ == "__main__":
    main()
