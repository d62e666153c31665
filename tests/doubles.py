"""Doubles under the real protocols: vectors placed by hand, a model with a queue of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from memory.deduplicator import TRIAL
from memory.errors import EmbeddingError, IndexFault, ModelError
from memory.models import (
    JUDGES,
    Candidate,
    Condition,
    Decision,
    Embedded,
    Extraction,
    Judge,
    Memory,
    MergeGroup,
    MergeReading,
    NamedUpdate,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Usage,
    Vector,
    Vectors,
    Verdict,
)
from memory.store import MemoryStore
from memory.text import normalise
from tests import readings

START = datetime(2026, 1, 1, tzinfo=UTC)
Groups = list[tuple[list[int], str]]
"""Members of a page by position, and the text for them."""


class PlacedEmbedder:
    """An embedder that puts each text on its own axis, or at a stated cosine to another text."""

    fingerprint = "placed-64"
    dim = 64

    def __init__(self) -> None:
        self._placed: dict[str, Vector] = {}
        self._axes = 0
        self.embedded: list[str] = []
        self.broken = False

    def place(self, text: str, cosine: float = 0.0, to: str | None = None) -> str:
        """Put `text` at this cosine to the text `to`, and at cosine 0 to all others."""
        vector = np.zeros(self.dim)
        vector[self._axes] = np.sqrt(1 - cosine**2)
        self._axes += 1
        if to is not None:
            vector += cosine * self._of(normalise(to)).astype(np.float64)
        self._placed[normalise(text)] = vector.astype(np.float32)
        return text

    def place_at(self, text: str, vector: Sequence[float]) -> str:
        """Put `text` at these coordinates, scaled to a unit vector."""
        full = np.zeros(self.dim)
        full[: len(vector)] = vector
        self._placed[normalise(text)] = (full / np.linalg.norm(full)).astype(np.float32)
        return text

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.broken:
            raise EmbeddingError("the embedder is broken")
        self.embedded += texts
        return np.stack([self._of(text) for text in texts])

    def _of(self, normalised: str) -> Vector:
        if normalised not in self._placed:
            self.place(normalised)
        return self._placed[normalised]


class ScriptedModel:
    """A model with a queue of answers: verdicts, errors to raise, functions of the question.

    If the queue is empty, it repeats its last answer when it is asked once more.
    """

    name = "scripted"
    page_size = 8

    def __init__(self, *answers: Verdict | ModelError | Callable[[Question], Verdict]) -> None:
        self.answers = list(answers)
        self._last: Verdict | ModelError | Callable[[Question], Verdict] = Verdict()
        self.asked: list[Question] = []
        self.extractions: list[ModelError | list[Candidate]] = []
        self.shown: list[tuple[Turn, ...]] = []
        self.context: list[tuple[str, ...]] = []
        self.remembered: list[tuple[str, ...]] = []
        self.readings: list[ModelError | Sequence[MergeReading | None]] = []
        self.reread_merges: list[tuple[ProposedMerge, ...]] = []

    async def judge(self, question: Question) -> Verdict:
        self.asked.append(question)
        if self.answers or not question.objection:  # else it insists on its last answer
            self._last = self.answers.pop(0)
        answer = self._last
        if isinstance(answer, ModelError):
            raise answer
        return answer if isinstance(answer, Verdict) else answer(question)

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Pass the trial, then answer as scripted; accept every merge if nothing is scripted."""
        if tuple(merges) == TRIAL:
            return readings.readings(merges)
        self.reread_merges.append(tuple(merges))
        answer = self.readings.pop(0) if self.readings else ()
        if isinstance(answer, ModelError):
            raise answer
        return readings.readings(merges, answer)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        self.shown.append(tuple(turns))
        self.context.append(tuple(turn.text for turn in context))
        self.remembered.append(tuple(memory.content for memory in remembered))
        answer = self.extractions.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return Extraction(candidates=tuple(answer))

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        return Reply(text=f"{len(recalled)} recalled")

    async def aclose(self) -> None: ...


class PageModel(ScriptedModel):
    """A model that answers each page by a function of its texts."""

    page_size = 48

    def __init__(self, groups: Callable[[list[str]], Groups]) -> None:
        super().__init__()
        self._groups = groups
        self.checked: Callable[[ProposedMerge], MergeReading | None] = lambda _: MergeReading()
        self.ending = ""  # of every text, to give another text than before
        self.ends: Callable[[list[str]], list[tuple[int, int]]] = lambda _: []

    async def judge(self, question: Question) -> Verdict:
        self.asked.append(question)
        found = self._groups([member.content for member in question.members])
        parts = tuple(
            MergeGroup(members=tuple(members), text=text + self.ending) for members, text in found
        )
        ended = self.ends([member.content for member in question.members])
        updates = tuple(NamedUpdate(older=a, newer=b, reason="moved") for a, b in ended)
        return Verdict(parts=parts, updates=updates, usage=Usage(calls=1))

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        if tuple(merges) == TRIAL:
            return await super().reread(merges)
        self.reread_merges.append(tuple(merges))
        return Rereading(readings=tuple(self.checked(one) for one in merges))

    @property
    def pages(self) -> list[list[str]]:
        return [[member.content for member in question.members] for question in self.asked]


class HangingModel(ScriptedModel):
    """A scripted model that answers only after `hangs` is False; works in any event loop."""

    def __init__(self, *answers: Verdict | ModelError | Callable[[Question], Verdict]) -> None:
        super().__init__(*answers)
        self.hangs = True
        self.waiting = 0

    async def judge(self, question: Question) -> Verdict:
        self.waiting += 1
        while self.hangs:
            await asyncio.sleep(0.001)
        return await super().judge(question)

    async def reached(self, times: int = 1) -> None:
        """Wait until this many questions hang."""
        while self.waiting < times:
            await asyncio.sleep(0.001)


class BrokenIndex:
    """An index whose every call fails."""

    name = "broken"
    place = "nowhere"
    id = ""
    shared = False

    def __init__(self) -> None:
        self.asked = 0

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        self._fail()

    def remove(self, ids: Sequence[str]) -> None:
        self._fail()

    def nearest(self, vector: Vector, k: int) -> Sequence[tuple[str, float]]:
        self._fail()
        return ()

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        self._fail()
        yield from ()

    def clear(self) -> None:
        self._fail()

    def close(self) -> None: ...

    def _fail(self) -> None:
        self.asked += 1
        raise IndexFault("the index is broken")


def ticking(step: timedelta = timedelta(minutes=1)) -> Callable[[], datetime]:
    """Return a clock that moves on by a step each time it is read."""

    def read() -> Iterator[datetime]:
        now = START
        while True:
            yield now
            now += step

    moments = read()
    return lambda: next(moments)


def under(
    decision: Decision,
    revision: int | None = None,
    *,
    bound_by: tuple[Judge, ...] | None = JUDGES,
    min_similarity: float | None = None,
    arrival: Embedded | None = None,
) -> Decision:
    """Return the decision with a condition and, if given, with its new memory."""
    condition = Condition(revision, bound_by, min_similarity)
    return replace(decision, condition=condition, arrival=arrival)


def living_for(store: MemoryStore, memory: Memory) -> Memory | None:
    """Return the live memory that stands for an earlier arrival, or None if there was none."""
    with store.ledger.reading() as reader:
        [(earlier, _)] = reader.memories.earlier_arrivals([memory])
        alive = earlier and reader.memories.living(earlier.memory.id)
        return alive.memory if alive else memory if earlier else None
