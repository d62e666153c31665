"""Count what an operation costs: hops to a thread, transactions and SQL statements.

A hop is a call that code on an event loop makes in another thread. A transaction reads or writes
the ledger. A busy bot waits for both.

It also counts the code that one new memory passes through: the functions of `memory/` that are
entered between the call of `check_and_merge` and its return, each once, and their files. There are
three cases: the memory is added, it replaces another one, or a language model is asked about it.
The model is one of the user's own, whose answer costs nothing. Caches are filled before. A
comprehension or a generator expression counts as a part of the function around it. `--functions
added` lists the functions of a case.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

import memory
from memory.agent import AgentTools, build_tools
from memory.assembly import build_deduplicator, build_extractor, open_store
from memory.config import Config, MemoryConfig
from memory.models import (
    Extraction,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Verdict,
)
from memory.providers import OfflineModel
from memory.store import MemoryStore

PACKAGE = Path(memory.__file__).parent
Function = tuple[str, int, str]
"""A function: its file in `memory/`, the number of its first line, and its qualified name."""
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("rows", "sails", "paints", "cooks", "runs", "reads", "sings", "dives")
PLACES = ("in Porto", "by the lake", "on Sundays", "with Jonas")
FACTS = [f"Mia {verb} {place}." for verb in NAMES for place in PLACES]


@dataclass
class Cost:
    """The cost of an operation so far; `reads` and `writes` are numbers of transactions."""

    hops: int = 0
    reads: int = 0
    writes: int = 0
    statements: int = 0

    @property
    def transactions(self) -> int:
        return self.reads + self.writes


@contextmanager
def counted() -> Iterator[Cost]:
    """Count the cost of what happens in the block, in all threads."""
    cost = Cost()
    to_thread = asyncio.to_thread

    async def hop(*args: Any, **kwargs: Any) -> Any:
        cost.hops += 1
        return await to_thread(*args, **kwargs)

    def stated(_connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if statement == "BEGIN IMMEDIATE":
            cost.writes += 1
        elif statement == "BEGIN":
            cost.reads += 1
        else:
            cost.statements += 1

    sa.event.listen(Engine, "before_cursor_execute", stated)
    try:
        with patch("asyncio.to_thread", hop):
            yield cost
    finally:
        sa.event.remove(Engine, "before_cursor_execute", stated)


@contextmanager
def entered() -> Iterator[set[Function]]:
    """Collect the functions that the block enters, in this thread and in threads that it starts."""
    found: set[Function] = set()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.endswith(("comp>", "genexpr>")):
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE):
                file = str(path.relative_to(PACKAGE))
                found.add((file, code.co_firstlineno, code.co_qualname))

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


CASES = {
    "added": ("Lea bakes bread.", "Aiko draws maps."),
    "replaced": ("Mia really sails in Porto.", "Mia really rows in Porto."),
    "asked": ("Mia reads with Jonas and Lea.", "Mia rows in Porto with Jonas."),
}
"""For each case two memories; what the second one enters is counted."""


class NothingToMerge:
    """A language model of the user's own, which joins no memories."""

    name = "own"
    page_size = 0

    async def judge(self, _question: Question) -> Verdict:
        return Verdict()

    async def reread(self, _merges: Sequence[ProposedMerge]) -> Rereading:
        return Rereading()

    async def extract(
        self,
        turns: Sequence[Turn],  # noqa: ARG002
        *,
        context: Sequence[Turn] = (),  # noqa: ARG002
        remembered: Sequence[Memory] = (),  # noqa: ARG002
    ) -> Extraction:
        return Extraction()

    async def reply(self, _turns: Sequence[Turn], _recalled: Sequence[Memory]) -> Reply:
        return Reply(text="")

    async def aclose(self) -> None:
        pass


class Bench:
    """A new store whose index is open already, and the operations that are measured on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        config = Config(memory=MemoryConfig(data_dir=str(folder)))
        self.store: MemoryStore = open_store(config)
        self.deduplicator = build_deduplicator(self.store, config, OfflineModel())
        self.extractor = build_extractor(self.store, config, OfflineModel())
        self.tools: AgentTools = build_tools(self.store, config)
        self.store.add_batch([_memory(fact, n) for n, fact in enumerate(FACTS)])
        self.run(self.deduplicator.check_and_merge(_memory("Jonas knits.", 90)))

    def run(self, work: Coroutine[Any, Any, Any]) -> Cost:
        with counted() as cost:
            asyncio.run(work)
        return cost

    def new_memory(self) -> Cost:
        return self.run(self.deduplicator.check_and_merge(_memory("Aiko draws maps.", 91)))

    def functions_of(self, case: str) -> set[Function]:
        """Return the functions that a new memory enters, after another one of its case.

        It runs in threads that are new, since only those are observed.
        """
        first, second = CASES[case]
        config = Config(memory=MemoryConfig(data_dir=str(self._folder)))
        deduplicator = build_deduplicator(self.store, config, NothingToMerge())
        asyncio.run(deduplicator.check_and_merge(_memory(first, 91)))
        new = _memory(second, 92)

        async def write() -> set[Function]:
            with entered() as found:
                await deduplicator.check_and_merge(new)
            return found

        return asyncio.run(write())

    def turn(self) -> Cost:
        said = Turn(speaker="Mia", text="I moved to Lisbon in 2021.", at=START, id="1")
        return self.run(self.extractor.extract_and_store([said]))

    def empty_turn(self) -> Cost:
        return self.run(self.extractor.extract_and_store())

    def idle_batch(self) -> Cost:
        asyncio.run(self.deduplicator.deduplicate_all())
        return self.run(self.deduplicator.deduplicate_all())

    def remember(self) -> Cost:
        return self.run(self.tools.call("remember", {"content": "The gate code is 4711."}))

    def replaces(self) -> Cost:
        old = self._saved("The rent is 900 euros.")
        told = {"content": "The rent is 950 euros.", "replaces": old}
        return self.run(self.tools.call("remember", told))

    def forget(self) -> Cost:
        doomed = self._saved("The spare key lies under the mat.")
        return self.run(self.tools.call("forget", {"memory_id": doomed}))

    def consolidate(self) -> Cost:
        for n in range(32):
            self._saved(f"Note {n}: {FACTS[n][:-1]} at {n} o'clock.")
        return self.run(self.tools.call("consolidate", {}))

    def _saved(self, content: str) -> str:
        call = self.tools.call("remember", {"content": content, "force": True})
        return str(asyncio.run(call).data.model_dump()["id"])


def _memory(content: str, minute: int) -> Memory:
    return Memory(content=content, user="Mia", timestamp=START + timedelta(minutes=minute))


WORK: dict[str, Callable[[Bench], Cost]] = {
    "one new memory": Bench.new_memory,
    "one turn": Bench.turn,
    "a call without turns": Bench.empty_turn,
    "a batch with nothing to do": Bench.idle_batch,
    "remember": Bench.remember,
    "remember with replaces": Bench.replaces,
    "forget": Bench.forget,
    "consolidate 32": Bench.consolidate,
}


@contextmanager
def bench() -> Iterator[Bench]:
    """Yield a new store in a temporary folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="hops-") as folder:
        found = Bench(Path(folder))
        yield found
        found.store.close()


def measure(names: list[str]) -> dict[str, Cost]:
    """Return the cost of each named operation; each runs on a new store."""
    found = {}
    for name in names:
        with bench() as fresh:
            found[name] = WORK[name](fresh)
    return found


def functions_of(case: str) -> list[Function]:
    """Return the functions that one new memory of a case enters, by file and line."""
    with bench() as fresh:
        return sorted(fresh.functions_of(case))


def files_of(functions: Sequence[Function]) -> int:
    return len({file for file, _, _ in functions})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--functions", choices=CASES, help="list what one new memory enters")
    args = parser.parse_args()
    if args.functions:
        for file, line, name in functions_of(args.functions):
            print(f"{file}:{line} {name}")
        return
    entered = {case: functions_of(case) for case in CASES}
    counts = {case: [len(found), files_of(found)] for case, found in entered.items()}
    found = measure(list(WORK))
    if args.json:
        costs = {name: asdict(cost) for name, cost in found.items()}
        print(json.dumps({**costs, "functions and files": counts}, indent=2))
        return
    print(f"{'':28}{'hops':>6}{'reads':>7}{'writes':>8}{'statements':>12}")
    for name, cost in found.items():
        print(f"{name:28}{cost.hops:6}{cost.reads:7}{cost.writes:8}{cost.statements:12}")
    for case, (functions, files) in counts.items():
        print(f"one new memory, {case}: {functions} functions in {files} files")


if __name__ == "__main__":
    main()
