"""How many facts of an honest conversation of several people are dropped, or change their owner?

A scripted model finds in each turn the memories that a file names for it, and nothing else. The
extractor then compares them with the words of all speakers, as it does for any model.

--transcript has a turn a line: `id`, `user`, `text`, `timestamp`. --memories has a memory a line:
`content`, `speaker`, and `evidence`, the ids of the turns that state it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from memory import Config, open_chat_memory
from memory.config import MemoryConfig
from memory.models import Candidate, Extraction, Memory, Turn
from tests.doubles import ScriptedModel


class FaithfulModel(ScriptedModel):
    """A model that finds what is known to be stated in a turn."""

    def __init__(self, facts: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self.found = 0
        self._facts = defaultdict(list)
        for fact in facts:
            self._facts[fact["evidence"][-1]].append(fact)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        del context, remembered
        positions = {turn.id: n for n, turn in enumerate(turns)}
        facts = [fact for name in positions for fact in self._facts[name]]
        self.found += len(facts)
        return Extraction(
            candidates=tuple(
                Candidate(
                    content=fact["content"],
                    user=fact["speaker"],
                    turns=tuple(positions[one] for one in fact["evidence"] if one in positions),
                )
                for fact in facts
            )
        )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def _measure(rows: Sequence[dict[str, Any]], facts: Sequence[dict[str, Any]]) -> str:
    model = FaithfulModel(facts)
    turns = [
        Turn(
            speaker=row["user"],
            text=row["text"],
            at=datetime.fromisoformat(row["timestamp"]),
            id=row["id"],
            conversation="room",
        )
        for row in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = Config(memory=MemoryConfig(data_dir=folder, dedup_enabled=False))
        async with open_chat_memory(config, model=model) as memory:
            await memory.hear_all(turns)
            await memory.settle()
            people = sorted({turn.speaker for turn in turns})
            stored = [(who, one) for who in people for one in await memory.list(user=who)]
    owners = {fact["content"]: fact["speaker"] for fact in facts}
    moved = sum(owners[one.content] != who for who, one in stored)
    return (
        f"{len(turns):,} turns: {model.found:,} found, {model.found - len(stored):,} dropped, "
        f"{moved:,} stored for another speaker"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transcript", type=Path, required=True, nargs="+")
    parser.add_argument("--memories", type=Path, required=True)
    parser.add_argument("--turns", type=int, help="read only the first turns")
    options = parser.parse_args()
    facts = [fact for fact in _rows(options.memories) if fact["evidence"]]
    for path in options.transcript:
        rows = _rows(path)[: options.turns]
        names = {row["conversation"] for row in rows}
        own = [fact for fact in facts if fact["conversation"] in names]
        print(f"{path.name}: {asyncio.run(_measure(rows, own))}")


if __name__ == "__main__":
    main()
