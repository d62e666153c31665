"""A language model or an embedder on somebody's server, whatever that server speaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from pydantic import BaseModel

from memory.config import LLMConfig
from memory.errors import EmbeddingError, ModelAnswerError, ModelError
from memory.models import (
    Extraction,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Usage,
    Vectors,
    Verdict,
)
from memory.providers import answers, prompts
from memory.providers.budget import another_try
from memory.providers.calls import Called, OfEachLoop, retrying, retrying_async
from memory.runtime import in_thread_if_long

_EMBED_AT_ONCE = 100
_ZERO = 1e-12

Read = TypeVar("Read")


@dataclass
class Spent:
    """What one question has cost so far, whatever comes of it."""

    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Asked:
    """One question, before it is put in a server's words."""

    system: str
    content: str
    """The question, as JSON."""
    schema: type[BaseModel] | None
    """Of the answer; None for plain text."""


@dataclass(frozen=True)
class Said:
    """What came back, and what it cost, usable or not."""

    text: str
    usage: Usage
    unusable: ModelAnswerError | None = None


def _texts_of(turns: Sequence[Turn], memories: Sequence[Memory]) -> list[str]:
    return [*(turn.text for turn in turns), *(memory.content for memory in memories)]


class Wire(Protocol):
    """How one server is asked, once."""

    @property
    def called(self) -> Called:
        """Who is asked."""

    @property
    def holds_to_schemas(self) -> bool:
        """Whether an answer that breaks its schema is the question's fault, not the format's."""

    async def ask(self, asked: Asked) -> Said:
        """Raises: ModelError."""

    async def aclose(self) -> None:
        """Let go of connections. May be called twice."""


class RemoteModel:
    """Judge, extractor and conversation partner. `aclose` lets go of its connections."""

    page_size = 48

    def __init__(
        self, wire: Wire, config: LLMConfig, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """`sleep` is what waits between two tries, for so many seconds."""
        self.name = wire.called.model
        self._wire = wire
        self._config = config
        self._sleep = sleep
        self._slots: OfEachLoop[asyncio.Semaphore] = OfEachLoop()

    async def judge(self, question: Question) -> Verdict:
        """An answer in plain text is taken as one group of all members.

        Raises: ModelError.
        """
        if question.is_page:
            system, build = prompts.PAGE, prompts.page_question
        else:
            system, build = prompts.JUDGE, prompts.judge_question
        texts = [member.content for member in question.members]
        shown = await in_thread_if_long(texts, build, question)
        asked = Asked(system, shown, answers.Judgement)
        return await self._answer(
            asked, lambda text, usage: answers.read_verdict(text, question, usage)
        )

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Raises: ModelError."""
        texts = [one.content for merge in merges for one in merge.members]
        shown = await in_thread_if_long(texts, prompts.rereading_question, merges)
        asked = Asked(prompts.REREAD, shown, answers.ReadMerges)
        return await self._answer(
            asked, lambda text, usage: answers.read_rereading(text, len(merges), usage)
        )

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Raises: ModelError."""
        texts = _texts_of((*turns, *context), remembered)
        build = prompts.extraction_question
        question = await in_thread_if_long(texts, build, turns, context, remembered)
        asked = Asked(prompts.EXTRACT, question, answers.FoundAll)
        return await self._answer(asked, answers.read_extraction)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Raises: ModelError."""
        texts = _texts_of(turns, recalled)
        question = await in_thread_if_long(texts, prompts.reply_question, turns, recalled)
        asked = Asked(prompts.REPLY, question, None)
        return await self._answer(asked, answers.read_reply)

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def _answer(self, asked: Asked, read: Callable[[str, Usage], Read]) -> Read:
        """What was answered; a failure too says what it cost."""
        spent = Spent()
        try:
            return await self._read(asked, read, spent)
        except ModelError as exc:
            spent.usage.put_upon(exc)
            raise

    async def _read(self, asked: Asked, read: Callable[[str, Usage], Read], spent: Spent) -> Read:
        """Where nothing holds a model to its format, it may mend its answer once."""
        text = await self._tried(asked, spent)
        try:
            return read(text, spent.usage)
        except ModelAnswerError as exc:
            if self._wire.holds_to_schemas or not another_try():
                raise
            content = prompts.asked_again(asked.content, exc.problem)
        text = await self._tried(Asked(asked.system, content, asked.schema), spent)
        return read(text, spent.usage)

    async def _tried(self, asked: Asked, spent: Spent) -> str:
        """The answer's text; all tries are paid."""
        slots = self._slots.mine(lambda: asyncio.Semaphore(self._config.concurrency))
        async for attempt in retrying_async(self._config, self._sleep):
            with attempt:
                spent.usage += Usage(calls=1)
                async with slots:
                    said = await self._within_time(asked)
                spent.usage += said.usage
                if said.unusable is not None:
                    raise said.unusable
        return said.text

    async def _within_time(self, asked: Asked) -> Said:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                return await self._wire.ask(asked)
        except TimeoutError as exc:
            raise self._wire.called.broken(exc) from exc


class VectorWire(Protocol):
    """How one server is asked for vectors, once."""

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in their order, of any length.

        Raises: ModelError.
        """

    def close(self) -> None:
        """Let go of connections. May be called twice."""


class RemoteEmbedder:
    """Vectors from a server, asked for at most 100 at a time."""

    def __init__(
        self,
        wire: VectorWire,
        config: LLMConfig,
        fingerprint: str,
        dim: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`sleep` is what waits between two tries, for so many seconds."""
        self.fingerprint = fingerprint
        self._wire = wire
        self._config = config
        self._dim = dim
        self._sleep = sleep

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim).

        Raises: EmbeddingError.
        """
        parts = [np.empty((0, self._dim), np.float32)]
        for start in range(0, len(texts), _EMBED_AT_ONCE):
            some = texts[start : start + _EMBED_AT_ONCE]
            try:
                raw = retrying(self._config, self._sleep)(self._vectors, some)
            except ModelError as exc:
                raise EmbeddingError(exc.problem, exc.remedy) from exc
            parts.append(raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), _ZERO))
        return np.concatenate(parts)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        vectors = self._wire.vectors(texts)
        if len(vectors) != len(texts):
            raise ModelError(f"{len(texts)} texts gave {len(vectors)} vectors")
        lengths = {len(vector) for vector in vectors} - {self._dim}
        if lengths:
            told = f"vectors of {min(lengths)} dimensions came, not of {self._dim}"
            raise ModelError(told, "set memory.embedding.dim")
        return np.array(vectors, dtype=np.float32)

    def close(self) -> None:
        self._wire.close()
