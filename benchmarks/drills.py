"""Kill processes that write, or let them race, and check that the store has lost nothing.

    python benchmarks/drills.py --kills N [--seed S] [--json]
    python benchmarks/drills.py --race [--ledger-url URL --chroma-port PORT] [--json]

A kill drill starts a process that adds, repeats, merges, rewrites, batches, forgets and undoes
memories. It notes each operation before it begins and after it has succeeded. It is killed
(SIGKILL) at a random moment of a random step, at a random SQL statement or commit, or inside one of
Chroma's writes. Then the store is opened as any command opens it, examined by the doctor, and
compared with the notes.

`acknowledged` counts writes that returned. `lost` counts acknowledged memories that are missing,
have another text, or were retired without a successor. `holes` counts live memories that a search
does not find, and `index_damaged` how often Chroma could not be used.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memory.assembly import build_deduplicator, open_store
from memory.config import Config, LLMConfig, MemoryConfig, SearchConfig
from memory.deduplicator import MemoryDeduplicator
from memory.errors import CannotUndo, MemoryPipelineError
from memory.ledger import REVERSIBLE
from memory.models import Memory, Query, new_memory_id
from memory.providers import OfflineModel
from memory.search import ChromaProcess, EmbeddedChroma
from memory.store import MemoryStore, utc_now
from memory.text import normalise, text_key
from memory.upkeep import examine

PEOPLE = "Aiko Bruno Carla Dmitri Elif Farid Greta Hana Ivo Jun Kofi Lena".split()
DEEDS = "bought sold lost found painted repaired borrowed returned hid planted".split()
THINGS = (
    "accordion bicycle canoe drum easel flute globe hammock icebox jigsaw kayak lantern mirror "
    "notebook oven piano quilt radio sofa telescope umbrella violin wardrobe xylophone yacht"
).split()
PLACES = "attic barn cellar dunes embassy forest garage harbour island jungle kitchen".split()
_STEPS = 200
"""A process ends by itself after this many steps; that counts as a failed kill."""


# --- what is killed -------------------------------------------------------------------------------


class Notes:
    """Notes of what a process is about to do and what it has done, in a file that outlives it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def __call__(self, state: str, op: str, **facts: Any) -> None:
        os.write(self._file, (json.dumps({"state": state, "op": op, **facts}) + "\n").encode())

    @contextlib.contextmanager
    def around(self, op: str, **facts: Any) -> Iterator[None]:
        """Note an operation as wanted, and as done if the block ends without an exception."""
        self("wanted", op, **facts)
        yield
        self("done", op, **facts)


@dataclass
class Worker:
    """Performs random operations on a store, in a process that is going to be killed."""

    store: MemoryStore
    deduplicator: MemoryDeduplicator
    rng: random.Random
    note: Notes

    def step(self) -> None:
        """Perform one operation, chosen at random."""
        ops = [self.add, self.repeat, self.batch, self.update, self.forget, self.undo]
        self.rng.choices(ops, weights=[6, 4, 1, 2, 1, 2])[0]()

    def add(self) -> None:
        self._write(a_fact(self.rng))

    def repeat(self) -> None:
        """Write a near-copy of an earlier text, which often states a little more."""
        if some := self._some():
            more = self.rng.choice(["", "!", f" in the {self.rng.choice(PLACES)}", " again"])
            self._write(some.content.rstrip(".!") + more + ".")

    def batch(self) -> None:
        for _ in range(4):
            if some := self._some():
                new = a_memory(some.content.upper())
                with self.note.around("add", id=new.id, text=new.content):
                    self.store.add(new)
        asyncio.run(self.deduplicator.deduplicate_all())

    def update(self) -> None:
        if some := self._some():
            text = a_fact(self.rng)
            with self.note.around("update", id=some.id, text=text, was=some.content):
                self.store.update(some.id, text)

    def forget(self) -> None:
        if some := self._some():
            with self.store.ledger.reading() as reader:
                ids = [some.id, *reader.memories.ancestors(some.id)]
                texts = [row.memory.content for row in reader.memories.rows(ids).values()]
            with self.note.around("forget", ids=ids, texts=texts):
                self.store.forget(some.id)

    def undo(self) -> None:
        done = [one for one in self.store.history() if one.action in REVERSIBLE and not one.undone]
        if done:
            one = self.rng.choice(done[-5:])
            with contextlib.suppress(CannotUndo), self.note.around("undo", number=one.number):
                self.store.undo(one.number)

    def _write(self, text: str) -> None:
        new = a_memory(text)
        with self.note.around("add", id=new.id, text=new.content):
            asyncio.run(self.deduplicator.check_and_merge(new))

    def _some(self) -> Memory | None:
        live = list(self.store.memories())
        return self.rng.choice(live[-40:]) if live else None


def a_fact(rng: random.Random) -> str:
    who, did, what = rng.choice(PEOPLE), rng.choice(DEEDS), rng.choice(THINGS)
    return f"{who} {did} the {what} number {rng.randrange(10**6)}."


def a_memory(text: str) -> Memory:
    return Memory(id=new_memory_id(), content=text, user="Mia", timestamp=utc_now())


def work(folder: Path, seed: int, death: str) -> None:
    """Perform operations until this process is killed.

    `death` says when: `clock` at a random moment, `sql` at a random statement, `index` inside a
    write of Chroma. Steps and statements are counted, not seconds, so that a slow machine is killed
    at the same work as a fast one.
    """
    rng = random.Random(seed)
    with open_closely(folder) as store:
        deduplicator = build_deduplicator(store, config_for(folder), OfflineModel())
        worker = Worker(store, deduplicator, rng, Notes(notes_of(folder)))
        if death == "sql":
            die_at_statement(rng.randrange(1, 600))
        if death == "index":
            _die_inside_chroma(rng)
        last = rng.randrange(1, 10)
        for number in range(_STEPS):
            if death == "clock" and number == last:
                _die_soon(rng)
            worker.step()
            if death == "index":
                store.index.rebuild()


def die_at_statement(number: int) -> None:
    """Arrange that this process is killed at its n-th SQL statement or commit; n is `number`."""
    left = number

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.Engine, "commit", count)


def _die_soon(rng: random.Random) -> None:
    """Arrange that this process is killed at a random moment of the next 50 ms."""
    threading.Timer(rng.uniform(0, 0.05), os.kill, [os.getpid(), signal.SIGKILL]).start()


def _die_inside_chroma(rng: random.Random) -> None:
    """Arrange that Chroma's process and this one are killed during one of Chroma's next writes."""
    left = rng.randrange(1, 4)
    call = ChromaProcess.call

    def die(chroma: int) -> None:
        os.kill(chroma, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def dying(self: ChromaProcess, collection: Any, method: str, **arguments: Any) -> Any:
        nonlocal left
        left -= method in ("upsert", "delete")
        if left == 0:
            threading.Timer(rng.uniform(0.0001, 0.02), die, [self.pid]).start()
        return call(self, collection, method, **arguments)

    setattr(ChromaProcess, "call", dying)  # noqa: B010 - a drill's


class RestlessChroma(EmbeddedChroma):
    """A Chroma index that rewrites its files after every 20 writes: a time at which kills hurt."""

    settings: Mapping[str, Any] = {**EmbeddedChroma.settings, "sync_threshold": 20}


def config_for(
    folder: Path, ledger_url: str | None = None, chroma_port: int | None = None
) -> Config:
    chroma_url = f"http://127.0.0.1:{chroma_port}" if chroma_port else None
    memory = MemoryConfig(
        data_dir=str(folder / "data"),
        ledger_url=ledger_url,
        # With no memory for vectors, Chroma is asked about everybody.
        search=SearchConfig(vectors_mb=0, chroma_url=chroma_url),
    )
    return Config(memory=memory, llm=LLMConfig(provider="offline"))


def open_closely(folder: Path) -> MemoryStore:
    """Open the store with an index that rewrites its files often (`RestlessChroma`)."""
    chroma = folder / "data" / "chroma"
    return open_store(config_for(folder), index=lambda _: RestlessChroma(chroma))


def notes_of(folder: Path) -> Path:
    return folder / "notes.jsonl"


# --- what is checked after each death -------------------------------------------------------------


@dataclass
class KillReport:
    """The results of all kills so far; `problems` describes each loss in words."""

    kills: int = 0
    index_damaged: int = 0
    acknowledged: int = 0
    lost: int = 0
    holes: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass
class MemoryView:
    """What must be in the store according to the notes.

    `texts` has, by id, the texts that each acknowledged memory may have.
    """

    texts: dict[str, set[str]] = field(default_factory=dict)
    maybe_forgotten: set[str] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)
    acknowledged: int = 0

    @classmethod
    def read(cls, path: Path) -> MemoryView:
        told = cls()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            told.take(json.loads(line))
        return told

    def take(self, note: dict[str, Any]) -> None:
        done = note["state"] == "done"
        self.acknowledged += done
        texts = {note[key] for key in ("text", "was") if key in note}
        if (note["op"] == "add" and done) or note["op"] == "update":
            self.texts.setdefault(note["id"], set()).update(texts)
        elif note["op"] == "forget":
            self.maybe_forgotten |= set(note["ids"])
            if done:
                self.gone += note["texts"]


def kill_drill(folder: Path, kills: int, seed: int, *, base: int = 0) -> KillReport:
    """Start and kill `kills` working processes, one after the other, and check the store each time.

    The store holds `base` memories before. The more there are, the longer Chroma takes to rewrite
    its files.
    """
    report = KillReport()
    context = fork_context()
    rng = random.Random(seed)
    with open_store(config_for(folder)) as store:
        store.add_batch([a_memory(a_fact(rng)) for _ in range(base)])
    with _warnings() as said:
        for number in range(kills):
            report.kills += _one_death(context, folder, seed * 100_000 + number)
            said.clear()
            check(folder, report)
            report.index_damaged += sum("closed in order" in line for line in said)
    report.acknowledged = MemoryView.read(notes_of(folder)).acknowledged
    return report


def fork_context() -> Any:
    """Return a multiprocessing context whose processes have imported all slow modules already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["chromadb", "memory.upkeep.doctor", "memory.deduplicator", "wordllama"]
    )
    return context


def _one_death(context: Any, folder: Path, seed: int) -> bool:
    """Run one process; return whether it was killed and did not end by itself."""
    rng = random.Random(seed)
    death = rng.choice(["clock", "sql", "index"])
    process = context.Process(target=_quiet_work, args=(folder, seed, death))
    process.start()
    process.join(120)
    if process.is_alive():
        process.kill()
        raise RuntimeError(f"seed {seed} hangs")
    return bool(process.exitcode == -signal.SIGKILL)


def _quiet_work(folder: Path, seed: int, death: str) -> None:
    logging.disable(logging.CRITICAL)
    work(folder, seed, death)


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("memory").addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger("memory").removeHandler(handler)


def check(folder: Path, report: KillReport) -> None:
    """Open the store as any command does, compare it with the notes, and add to the report."""
    told = MemoryView.read(notes_of(folder))
    with open_closely(folder) as store:
        for finding in examine(store):
            if finding.kind != "yours":
                _lose(report, f"doctor: {finding.what}")
        _compare(store, told, report)
        _find_all(store, report)
        with store.ledger.reading() as reader:
            kept = [normalise(row.memory.content) for row in reader.memories.all()]
    files = [path for path in (folder / "data").rglob("*") if path.is_file()]
    for text in told.gone:
        if any(normalise(text) in one for one in kept):
            continue
        if any(text.encode() in path.read_bytes() for path in files):
            _lose(report, f"a forgotten text is still in a file: {text}")


def _lose(report: KillReport, problem: str) -> None:
    report.lost += 1
    report.problems.append(problem)


def _compare(store: MemoryStore, told: MemoryView, report: KillReport) -> None:
    with store.ledger.reading() as reader:
        rows = reader.memories.rows(list(told.texts))
        for name, texts in told.texts.items():
            row = rows.get(name)
            if name in told.maybe_forgotten:
                continue
            if row is None or reader.memories.living(name) is None:
                _lose(report, f"{name} is gone")
            elif row.memory.content not in texts:
                _lose(report, f"{name} says {row.memory.content!r}, told was {texts}")


def _find_all(store: MemoryStore, report: KillReport) -> None:
    """Check that a search for each live memory's text finds it, or one with the same text."""
    live = {memory.id: text_key(memory.content) for memory in store.memories()}
    for new in store.embeddings.embed(list(store.memories())):
        assert new.vector is not None
        query = Query(new.vector, store.scope_of(new.memory), 5, 0.99)
        [near] = store.index.nearest([query])
        if live[new.memory.id] not in {live.get(name) for name in near}:
            report.holes += 1
            report.problems.append(f"not found: {new.memory.content}")


# --- races ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RaceReport:
    """The state of a store after several processes wrote the same facts at the same time."""

    processes: int
    writes: int
    facts: int
    live: int
    missing: int
    copies: int
    """The number of live memories whose text another live one has too."""
    seconds: float


def race_drill(
    folder: Path,
    *,
    processes: int = 4,
    writes: int = 200,
    ledger_url: str | None = None,
    chroma_port: int | None = None,
) -> RaceReport:
    """Let several processes write facts into one store at the same time.

    Each writes `writes` times, and each fact has several wordings.
    """
    started = time.monotonic()
    context = fork_context()
    config = config_for(folder, ledger_url, chroma_port)
    crowd = [
        context.Process(target=_race, args=(config, seed, writes)) for seed in range(processes)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(300)
        assert process.exitcode == 0, f"a process ended with {process.exitcode}"
    drawn = {fact for seed in range(processes) for fact, _ in draws(seed, writes)}
    with open_store(config) as store:
        live = [normalise(memory.content) for memory in store.memories()]
    return RaceReport(
        processes=processes,
        writes=processes * writes,
        facts=len(drawn),
        live=len(live),
        missing=len({normalise(fact) for fact in drawn} - set(live)),
        copies=len(live) - len(set(live)),
        seconds=round(time.monotonic() - started, 1),
    )


def draws(seed: int, writes: int) -> Iterator[tuple[str, str]]:
    """Yield facts, each with a wording of it that is the same text after normalisation."""
    rng = random.Random(seed)
    for _ in range(writes):
        number = rng.randrange(100)
        who, did = PEOPLE[number % 12], DEEDS[number % 10]
        fact = f"{who} {did} the {THINGS[number % 25]} near the {PLACES[number % 11]}."
        told = rng.choice([fact, fact.upper(), fact.rstrip(".") + "!", fact.replace(" ", "  ")])
        yield fact, told


def _race(config: Config, seed: int, writes: int) -> None:
    logging.disable(logging.CRITICAL)

    async def run(deduplicator: MemoryDeduplicator) -> None:
        for _, told in draws(seed, writes):
            await deduplicator.check_and_merge(a_memory(told))

    with open_store(config) as store:
        asyncio.run(run(build_deduplicator(store, config, OfflineModel())))


# --- the command ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--ledger-url")
    parser.add_argument("--chroma-port", type=int)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-drill-") as scratch:
        try:
            if args.race:
                race = race_drill(
                    Path(scratch), ledger_url=args.ledger_url, chroma_port=args.chroma_port
                )
                _print(asdict(race), as_json=args.json)
                sys.exit(bool(race.missing or race.copies))
            report = asdict(kill_drill(Path(scratch), args.kills, args.seed, base=1_000))
        except MemoryPipelineError as exc:
            sys.exit(f"error: {exc}")
    for problem in report.pop("problems"):
        print(problem, file=sys.stderr)
    _print(report, as_json=args.json)
    sys.exit(bool(report["lost"] or report["holes"] or report["kills"] < args.kills))


def _print(report: dict[str, Any], *, as_json: bool) -> None:
    print(json.dumps(report) if as_json else "\n".join(f"{k:>15}: {v}" for k, v in report.items()))


if __name__ == "__main__":
    main()
