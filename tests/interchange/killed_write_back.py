"""Writes back to a collection and dies at a step: KIND PLACE NAME DATA UNDO STEP READING."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memory.assembly import read_store, their_collection
from memory.config import Config, MemoryConfig
from memory.interchange.foreign import Reading
from memory.interchange.plan_back import plan_write_back
from memory.interchange.write_back import with_vectors, write_back
from tests.interchange.backs import NOW, word_vectors


def main() -> None:
    kind, place, name, data, undo, step, how = sys.argv[1:]
    seen: list[int] = []

    def die_at_step(_done: int, _whole: int) -> None:
        seen.append(_done)
        if len(seen) == int(step):
            os._exit(9)

    reading = Reading.model_validate_json(how)
    theirs = their_collection(kind, place, name, trust=True)  # type: ignore[arg-type] # one of the kinds
    rows = theirs.found().rows
    with read_store(Config(memory=MemoryConfig(data_dir=data))) as store:
        plan = plan_write_back(rows, reading, store.ledger)
    plan, made = with_vectors(theirs, plan, rows, reading, NOW, [word_vectors])
    write_back(theirs, plan, reading, Path(undo), NOW, made, die_at_step)


main()
