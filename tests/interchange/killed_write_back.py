"""Writes back to a collection and dies at a step: PLACE COLLECTION DATA UNDO STEP."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from memory.assembly import read_store
from memory.config import Config, MemoryConfig
from memory.interchange import plan_write_back, read_collection, write_back
from memory.interchange.foreign import Reading
from tests.frameworks.word_server import word_vector


def main() -> None:
    place, name, data, undo, step = sys.argv[1:]
    seen: list[int] = []

    def die_at_step(_done: int, _whole: int) -> None:
        seen.append(_done)
        if len(seen) == int(step):
            os._exit(9)

    rows = read_collection(Path(place), name).rows
    with read_store(Config(memory=MemoryConfig(data_dir=data))) as store:
        plan = plan_write_back(rows, Reading(), store.ledger)
    made = {one.text: word_vector(one.text) for one in plan.updates}
    now = datetime(2026, 11, 1, tzinfo=UTC)
    write_back(Path(place), name, plan, Reading(), Path(undo), now, made, die_at_step)  # type: ignore[arg-type]


main()
