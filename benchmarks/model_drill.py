"""Write while the language model fails in every possible way: is anything lost or unexplained?

    python -m benchmarks.model_drill [--writes N] [--seed N] [--json]

The real google-genai client, configured as in production, asks a local server that speaks Gemini's
wire format. Each of its answers is drawn at random: right, or one of `FAULTS`. Now and then the
server is down for a while, so that the circuit breaker opens. Eight people write near-copies of
facts at the same time; their cosine is 0.92, so that the judge is asked. Time-outs, pauses and
budgets are short.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SecretStr

from memory.assembly import build_deduplicator, build_model
from memory.config import Config, LLMConfig
from memory.ledger import DecisionRecord, Ledger
from memory.models import (
    Extraction,
    LanguageModel,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Scope,
    Turn,
    Vectors,
    Verdict,
)
from memory.providers import GeminiModel, GuardedModel
from memory.store import MemoryStore
from tests.doubles import START
from tests.gemini_server import Answer, Asked, GeminiServer, failed, said
from tests.loopback import Raw
from tests.readings import answered, memories_shown

PEOPLE = "Mia Jonas Aya Omar Ines Tom Lena Raj".split()
THINGS = [a + b for a in "ba de ki lo nu".split() for b in "lan mor rin sek tup".split()]
DETAILS = "big old red loud".split()
"""The details that a text may name, in the order in which it names them."""
TIMEOUT_S = 0.2
_TO_A_FACT = 10
"""The number of near-copies of each fact."""
_SHARE_OF_FAULTS = 0.4
_OUTAGE_EVERY = 400
"""The number of requests between two outages; the first comes after half as many."""
_OUTAGE_S = 1.0
"""The duration of an outage: enough to open the breaker and to fail a trial call or two."""


@dataclass(frozen=True)
class Report:
    """The results of a drill; `lost` and `unexplained` have to be 0."""

    writes: int
    asked: int
    """The number of requests that reached the server."""
    faults: dict[str, int]
    pending: int
    lost: int
    unexplained: int
    reasons: dict[str, int]
    """The reasons for which questions stayed open, as the ledger has them, with their counts."""
    undecided: int
    """The number of pending questions whose memories are all still live."""
    undecided_after: int | None
    """The same number after a batch with a model that works again; None if there was no batch."""
    lost_after: int | None
    seconds: float

    def figures(self) -> dict[str, Any]:
        named = ("writes", "asked", "faults", "pending", "lost", "unexplained")
        return {name: getattr(self, name) for name in named}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--writes", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = drill(args.writes, args.seed, Path(folder))
    if args.json:
        print(json.dumps(report.figures()))
        return
    for name, value in (report.figures() | {"reasons": report.reasons}).items():
        print(f"{name:12} {value}")
    print(f"{'seconds':12} {report.seconds:.1f}")


def drill(writes: int, seed: int, folder: Path, *, settle: bool = False) -> Report:
    """Write `writes` texts while the model fails, and then check the ledger.

    With `settle`, a batch with a model that works again runs afterwards.
    """
    weather, told = Weather(random.Random(seed)), near_copies(writes, random.Random(seed))
    ledger = Ledger.create(f"sqlite:///{folder / 'ledger.db'}")
    with GeminiServer(weather).running() as server, MemoryStore(ledger, Embedder()) as store:
        config, started = impatient(server.url), time.monotonic()
        witness = asyncio.run(write_all(store, config, told))
        seconds = time.monotonic() - started
        report = look(store, told, weather, witness, len(server.asked), seconds)
        if not settle:
            return report
        server.default = lambda asked: right_answer(asked.data)
        asyncio.run(clean_up(store, server.url))
        after = (len(undecided(store)), len(lost(store, told)))
        return replace(report, undecided_after=after[0], lost_after=after[1])


def look(
    store: MemoryStore, told: Sequence[Memory], weather: Weather, witness: Witness, asked: int,
    seconds: float,
) -> Report:  # fmt: skip
    pending = open_questions(store)
    return Report(
        writes=len(told),
        asked=asked,
        faults=dict(weather.faults),
        pending=len(pending),
        lost=len(lost(store, told)),
        unexplained=len(unexplained(store, witness)),
        reasons=dict(Counter(kind_of(decision.reason) for decision in pending)),
        undecided=len(undecided(store)),
        undecided_after=None,
        lost_after=None,
        seconds=seconds,
    )


def impatient(url: str) -> Config:
    llm = LLMConfig(
        base_url=url,
        timeout_s=TIMEOUT_S,
        max_attempts=2,
        concurrency=len(PEOPLE),
    )
    return Config(llm=llm, api_key=SecretStr("loopback"))


# --- what is told ---------------------------------------------------------------------------------


def near_copies(writes: int, draw: random.Random) -> list[Memory]:
    """Return near-copies of facts in time order.

    Texts with the same thing and another number are different facts.
    """
    facts = THINGS[: max(1, min(len(THINGS), writes // len(PEOPLE) // _TO_A_FACT))]
    return [
        Memory(
            content=text_of(
                user := draw.choice(PEOPLE),
                draw.choice(["3", "4"]),
                {one for one in DETAILS if draw.random() < 0.5},
                draw.choice(facts),
            ),
            user=user,
            timestamp=START + timedelta(minutes=number),
        )
        for number in range(writes)
    ]


def text_of(user: str, number: str, details: set[str], thing: str) -> str:
    return " ".join([user, "keeps", number, *(d for d in DETAILS if d in details), thing]) + "."


class Embedder:
    """An embedder whose vectors have cosine 0.92 for texts about the same thing.

    For texts about different things, the cosine is 0.08 at most.
    """

    fingerprint = "drill-64"

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), 64), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            digest = hashlib.sha256(text.encode()).digest()
            vector[THINGS.index(text.split()[-1])] = 0.96
            vector[len(THINGS) + digest[0] % (64 - len(THINGS))] = 0.28
        return vectors


async def write_all(store: MemoryStore, config: Config, told: Sequence[Memory]) -> Witness:
    """Write the memories of all people concurrently, those of one person in order."""
    assert config.api_key is not None
    async with aclosing(GeminiModel(config.api_key, config.llm)) as model:
        witness = Witness(GuardedModel(model, pause_s=0.1, patience_s=config.llm.timeout_s / 2))
        deduplicator = build_deduplicator(store, config, witness)
        of_each = [[one for one in told if one.user == user] for user in PEOPLE]
        await asyncio.gather(*map(deduplicator.check_and_merge_all, of_each))
        return witness


async def clean_up(store: MemoryStore, url: str) -> None:
    """Run a batch with the default time-outs and retries, on the model at `url`."""
    config = Config(llm=LLMConfig(base_url=url), api_key=SecretStr("loopback"))
    async with aclosing(build_model(config)) as model:
        await build_deduplicator(store, config, model).deduplicate_all()


# --- the model's weather --------------------------------------------------------------------------


def right_answer(question: dict[str, Any]) -> str:
    """Return the right answer to a question of the judge or of a second reading.

    Texts with the same number and thing are merged into one with the details of all.
    """
    if "merges" in question:
        return answered(question, {})
    groups: dict[tuple[str, str], list[list[str]]] = {}
    members: dict[tuple[str, str], list[int]] = {}
    for shown, text in memories_shown(question):
        words = text.rstrip(".").split()
        groups.setdefault((words[2], words[-1]), []).append(words)
        members.setdefault((words[2], words[-1]), []).append(shown)
    answer = [
        {
            "members": members[number, thing],
            "text": text_of(told[0][0], number, set().union(*told) & set(DETAILS), thing),
        }
        for (number, thing), told in groups.items()
    ]
    return json.dumps({"groups": answer, "reason": "by number"})


def _whole(text: str, **faults: Any) -> Raw:
    body = json.dumps(said(text)).encode()
    return Raw(200, body, {"content-type": "application/json"}, **faults)


DOWN: dict[str, Callable[[str], Answer]] = {
    "503": lambda _right: failed(503, "overloaded"),
    "429 with Retry-After": lambda _right: failed(429, "slow down", retry_after="0.05"),
    "time-out": lambda right: _whole(right, hang_s=1.5 * TIMEOUT_S),
    "hang": lambda right: _whole(right, stall_s=5 * TIMEOUT_S),
    "half a body": lambda right: _whole(right, cut=True),
    "connection reset": lambda _right: Raw(reset=True),
}
FAULTS: dict[str, Callable[[str], Answer]] = DOWN | {
    "cut off": lambda right: said(right[: len(right) // 2], "MAX_TOKENS"),
    "blocked": lambda _right: {"promptFeedback": {"blockReason": "SAFETY"}},
    "fenced JSON": lambda right: said(f"```json\n{right}\n```"),
    "wrong schema": lambda _right: said('{"groups": [{"members": "all"}]}'),
    "empty": lambda _right: said(""),
    "invented": lambda _right: said('{"groups": [{"members": [1, 2], "text": "Pip sails."}]}'),
}
"""By the kind of fault, the function that turns the right answer into the faulty one."""


class Weather:
    """Draws the answer to each request, right or faulty. It is thread-safe."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._requests = _OUTAGE_EVERY // 2
        self._down_until_s = 0.0
        self._one_at_a_time = threading.Lock()
        self.faults: Counter[str] = Counter()

    def __call__(self, asked: Asked) -> Raw | dict[str, Any] | str:
        right = right_answer(asked.data)
        with self._one_at_a_time:
            kind = self._kind()
            self.faults.update([kind] if kind else [])
        if kind is None:
            return right
        answer = FAULTS[kind](right)
        assert not callable(answer)
        return answer

    def _kind(self) -> str | None:
        self._requests += 1
        if self._requests % _OUTAGE_EVERY == 0:
            self._down_until_s = time.monotonic() + _OUTAGE_S
        if time.monotonic() < self._down_until_s:
            return self._draw.choice(sorted(DOWN))
        if self._draw.random() < _SHARE_OF_FAULTS:
            return self._draw.choice(sorted(FAULTS))
        return None


# --- what became of it ----------------------------------------------------------------------------


@dataclass
class Witness:
    """Wraps the model and records how each question ended.

    `ended` has, by the ids of a question's members, its error; an empty text if it was answered.
    """

    model: LanguageModel
    ended: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def page_size(self) -> int:
        return self.model.page_size

    async def judge(self, question: Question) -> Verdict:
        members = tuple(member.id for member in question.members)
        self.ended[members] = ""
        try:
            return await self.model.judge(question)
        except asyncio.CancelledError:
            self.ended[members] = "no answer within"
            raise
        except Exception as exc:
            self.ended[members] = str(exc)
            raise

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        return await self.model.reread(merges)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        return await self.model.extract(turns, context=context, remembered=remembered)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        return await self.model.reply(turns, recalled)

    async def aclose(self) -> None:
        await self.model.aclose()


def lost(store: MemoryStore, told: Sequence[Memory]) -> list[str]:
    """Return the texts that are lost.

    A text is lost if no live successor of its memory states it, or if a search does not find that.
    """
    return [memory.content for memory in told if not _kept(store, memory)]


def _kept(store: MemoryStore, memory: Memory) -> bool:
    with store.ledger.reading() as reader:
        [(earlier, _)] = reader.memories.earlier_arrivals([memory])
        row = earlier and reader.memories.living(earlier.memory.id)
    if row is None:
        return False
    known = row.memory
    if store.get(known.id) != known or not _states(known, memory):
        return False
    hits = store.search(memory.content, 40, scope=Scope((("user", memory.user),)))
    return any(one.id == known.id for hit in hits for one in (hit.memory, *hit.also))


def _states(known: Memory, told: Memory) -> bool:
    """Return whether one text states all of another; in this drill it must have all its words."""
    return set(told.content.rstrip(".").split()) <= set(known.content.rstrip(".").split())


def unexplained(store: MemoryStore, witness: Witness) -> list[tuple[str, ...]]:
    """Return the questions, as the ids of their members, that the ledger does not explain.

    For each, it must have a decision with a reason, which names the fault if the model failed.
    """
    told: dict[tuple[str, ...], list[DecisionRecord]] = {}
    for decision in store.history():
        told.setdefault(decision.members, []).append(decision)
    return [
        members
        for members, failure in witness.ended.items()
        if not any(_explains(decision, failure, witness) for decision in told.get(members, []))
    ]


def _explains(decision: DecisionRecord, failure: str, witness: Witness) -> bool:
    if not decision.reason or decision.model not in (witness.name, None):  # None was not asked
        return False
    explained = failure in decision.reason or bool(decision.refused)  # a repair had no answer
    return not failure or (decision.pending and explained)


def open_questions(store: MemoryStore) -> list[DecisionRecord]:
    with store.ledger.reading() as reader:
        return reader.decisions.pending()


def undecided(store: MemoryStore) -> list[DecisionRecord]:
    """Return the open questions whose members are all live, so that they still need an answer."""
    return [one for one in open_questions(store) if all(map(store.get, one.members))]


def kind_of(reason: str) -> str:
    """Return the constant part of a reason, without details that differ from case to case."""
    return reason.partition(";")[0].partition(":")[0]


if __name__ == "__main__":
    main()
