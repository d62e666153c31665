"""A bot that is started as a process, hears turns at a Gemini on loopback, and may be killed."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from memory import Turn, open_chat_memory

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(n: int, conversation: str = "c") -> Turn:
    text = f"I own item number {n}."
    return Turn(speaker="Mia", text=text, at=START, id=str(n), conversation=conversation)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(folder: Path, action: str, first: int, last: int) -> None:
    memory = open_chat_memory(
        data_dir=str(folder), llm_base_url=os.environ["GEMINI_URL"], extraction_wait=0.0
    )
    async with memory:
        turns = [said(n, f"c{n % 5}") for n in range(first, last)]
        await asyncio.gather(*map(memory.hear, turns))
        _say("heard")
        if action == "hang":
            await asyncio.sleep(600)
        result = await memory.settle()
        _say(f"{result.extracted} {result.pending}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
