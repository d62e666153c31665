"""A ledger with something in every table, and damaged copies of it."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

from memory.ledger import Ledger
from memory.models import Action, Decision, Episode, KeptCandidate, Survivor
from memory.store import MemoryStore
from tests.doubles import START, PlacedEmbedder
from tests.turns import turn

MEMORIES = 40


def whole_ledger(file: Path) -> bytes:
    """Make a healthy ledger: texts, tags, metadata, links, decisions, turns, episode, item."""
    with MemoryStore(Ledger.create(f"sqlite:///{file}"), PlacedEmbedder()) as store:
        kept = []
        for number in range(MEMORIES):
            told = store.new_memory(f"Mia has {number} boats.", user="Mia")
            more = {"metadata": {"number": number, "of": "boats"}, "tags": ("boats", "sea")}
            kept.append(store.add(told.model_copy(update=more)))
            if number % 3 == 0:
                store.update(kept[-1].id, f"Mia sold {number} boats.")
        for older, newer in zip(kept[1:10:3], kept[2:10:3], strict=True):
            pair, survivor = (older, newer), Survivor(newer, (older.id,))
            store.apply(Decision(Action.REPLACE, "alike", pair, (survivor,)), run="r1")
            store.apply(Decision(Action.KEEP_BOTH, "no answer", pair, pending=True))
        with store.ledger.writing() as writer:
            for number in range(12):
                writer.turns.keep(turn(f"I saw {number} boats.", number), str(number))
            for waiting in writer.turns.waiting()[:6]:
                found = [KeptCandidate(content=f"Mia saw {waiting.name} boats.")]
                writer.turns.keep_candidates(waiting.seq, found)
            writer.turns.finish(writer.turns.waiting()[0].seq)
            last = START + timedelta(hours=1)
            held = (kept[10].id, kept[11].id)
            writer.episodes.put(
                Episode(
                    id="ep_000000000001",
                    user="Mia",
                    summary="Boats.",
                    memory_ids=held,
                    start_time=START,
                    end_time=last,
                )
            )
            writer.items.put(("memories", "Mia"), "a", '{"text": "boats"}', kept[12].id, START)
        store.ledger.database.checkpoint()
    return file.read_bytes()


def damaged(data: bytes, seed: int) -> bytes:
    """Flip bits of a file, cut it off, or write noise into it."""
    chance, torn = random.Random(seed), bytearray(data)
    if seed % 3 == 0:
        for _ in range(chance.choice([1, 5, 50, 500])):
            torn[chance.randrange(100, len(torn))] ^= 1 << chance.randrange(8)
    elif seed % 3 == 1:
        del torn[chance.randrange(1, len(torn)) :]
    else:
        start, length = chance.randrange(len(torn)), chance.choice([16, 512, 4_096])
        torn[start : start + length] = chance.randbytes(len(torn[start : start + length]))
    return bytes(torn)
