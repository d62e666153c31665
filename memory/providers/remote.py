"""Base classes for language models and embedders on a server, whatever protocol it speaks.

A call is tried up to `max_attempts` times. The pause between two tries is as long as the server
asks for. If it asks for none, the pause is random, and longer after each try. A call is tried again
after the statuses 408, 429 and 5xx, time-outs, broken connections and empty answers. It is not
tried again after other 4xx statuses or other unusable answers. The libraries' own retries are
turned off.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import tenacity
from pydantic import BaseModel

from memory.config import LLMConfig
from memory.errors import (
    EmbeddingError,
    ModelAnswerError,
    ModelError,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
)
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
from memory.providers import prompts
from memory.providers.budget import another_try
from memory.runtime import OfEachLoop, in_thread_if_long

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 20.0
_LONGEST_RETRY_AFTER_S = 120.0
_TRY_AGAIN = frozenset({408, 429})
_CONNECTION_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "aiohttp"})
_EMBED_AT_ONCE = 100
_ZERO = 1e-12

Read = TypeVar("Read")


# --- retries and failures -------------------------------------------------------------------------


def retry_policy(config: LLMConfig) -> dict[str, Any]:
    """Return keyword arguments for tenacity: when to stop, how long to wait, which errors to retry.

    A call is tried up to `max_attempts` times, as long as the budget allows more calls. The pause
    between two tries is as long as the server asks for. If it asks for none, the pause is random,
    and longer after each try.
    """
    jittered = tenacity.wait_random_exponential(
        multiplier=_FIRST_PAUSE_S, max=min(_LONGEST_PAUSE_S, config.timeout_s)
    )

    def pause_s(state: tenacity.RetryCallState) -> float:
        exc = state.outcome.exception() if state.outcome else None
        if isinstance(exc, ModelUnavailable) and exc.retry_after_s is not None:
            return exc.retry_after_s
        return jittered(state)

    return {
        "stop": lambda state: state.attempt_number >= config.max_attempts or not another_try(),
        "wait": pause_s,
        "retry": tenacity.retry_if_exception(_may_pass),
        "reraise": True,
    }


def _may_pass(exc: BaseException) -> bool:
    if isinstance(exc, ModelAnswerError):
        return exc.may_pass
    if not isinstance(exc, ModelUnavailable):
        return False
    return (exc.retry_after_s or 0.0) <= _LONGEST_RETRY_AFTER_S


@dataclass(frozen=True)
class Called:
    """The server and model that are called. Its methods return the error for each kind of failure.

    `server`, `model`: their names. `setting`: name of the setting that chooses the model. `key`:
    name of the environment variable that holds the API key. The names are used in error messages.
    """

    server: str
    model: str
    setting: str
    key: str

    def refused(
        self, status: int, name: str, message: str, retry_after_s: float | None
    ) -> ModelError:
        """Return the error for an HTTP status that reports a failure.

        `name`: the server's name for the status. `message`: the server's explanation.
        `retry_after_s`: the pause that the server asks for, in seconds; None if it asks for none.
        """
        answered = f"{self.server} answered {status} {name}".rstrip()
        if status in _TRY_AGAIN or status >= 500:
            return ModelUnavailable(answered, retry_after_s=retry_after_s)
        if status == 404:
            return ModelError(
                f"{answered}: there is no model {self.model!r}", f"set {self.setting}"
            )
        if status in (401, 403):
            return ModelError(answered, f"check {self.key}")
        return ModelRefused(f"{answered}: {next(iter(message.splitlines()), '')}")

    def broken(self, exc: Exception) -> ModelError:
        """Return the error for an exception that came instead of a response, such as a time-out."""
        if isinstance(exc, TimeoutError) or "Timeout" in type(exc).__name__:
            return ModelTooSlow(f"{self.server} did not answer in time", "see llm.timeout_s")
        if isinstance(exc, json.JSONDecodeError):
            return ModelAnswerError(f"{self.server}'s answer is not JSON", may_pass=True)
        library = type(exc).__module__.partition(".")[0]
        if isinstance(exc, OSError) or library in _CONNECTION_LIBRARIES:
            return ModelUnavailable(
                f"the connection to {self.server} failed ({type(exc).__name__})"
            )
        return ModelError(f"the call of {self.server} failed ({type(exc).__name__}: {exc})")

    def empty(self) -> ModelAnswerError:
        return ModelAnswerError(f"{self.server}'s answer is empty", may_pass=True)

    def cut_off(self, reason: str) -> ModelAnswerError:
        return ModelAnswerError(f"{self.server}'s answer is cut off ({reason})")

    def no_answer(self, reason: str) -> ModelAnswerError:
        return ModelAnswerError(f"{self.server} gave no answer ({reason})")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the pause in seconds that the header Retry-After asks for.

    Return None if there is no such header, or if it holds a date.
    """
    named = headers.get("Retry-After") or headers.get("retry-after") or ""
    return float(named) if re.fullmatch(r"\d+(\.\d+)?", named) else None


# --- language models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prompt:
    """A question to a language model, independent of the protocol of any server.

    `system`: the instructions.
    """

    system: str
    content: str
    """The question, as JSON."""
    schema: type[BaseModel] | None
    """The form of the answer; None for plain text."""


@dataclass(frozen=True)
class RawAnswer:
    """The text of an answer and its cost.

    `unusable`: the reason why the answer cannot be used; None if it can.
    """

    text: str
    usage: Usage
    unusable: ModelAnswerError | None = None


class RemoteModel(ABC):
    """A language model on a server, for judging, extraction and conversation.

    Its methods raise ModelError. A subclass sends the requests of a protocol: it implements
    `ask_once` and `aclose`.
    """

    page_size = 48
    holds_to_schemas: ClassVar[bool]
    """Whether the server makes answers match the JSON schema.

    If not, the model may correct one malformed answer to a question.
    """

    def __init__(self, called: Called, config: LLMConfig) -> None:
        self.name = called.model
        self.called = called
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        """A function that waits for a number of seconds; it is called between two tries."""
        self._config = config
        self._slots: OfEachLoop[asyncio.Semaphore] = OfEachLoop()

    @abstractmethod
    async def ask_once(self, prompt: Prompt) -> RawAnswer:
        """Send a question to the server, without retries; return the answer.

        Raises: ModelError.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections of the running event loop. May be called twice."""

    async def judge(self, question: Question) -> Verdict:
        """Ask the model which members of the question state the same fact.

        An answer in plain text counts as the merged text of all members, unless the question is a
        page, which shows many memories.
        """
        if question.is_page:
            system, build = prompts.PAGE, prompts.page_question
        else:
            system, build = prompts.JUDGE, prompts.judge_question
        texts = [member.content for member in question.members]
        content = await in_thread_if_long(texts, build, question)
        prompt = Prompt(system, content, prompts.Judgement)
        return await self._answer(
            prompt, lambda text, usage: prompts.read_verdict(text, question, usage)
        )

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        texts = [member.content for merge in merges for member in merge.members]
        content = await in_thread_if_long(texts, prompts.rereading_question, merges)
        prompt = Prompt(prompts.REREAD, content, prompts.ReadMerges)
        return await self._answer(
            prompt, lambda text, usage: prompts.read_rereading(text, len(merges), usage)
        )

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        texts = [turn.text for turn in (*turns, *context)]
        texts += [memory.content for memory in remembered]
        build = prompts.extraction_question
        content = await in_thread_if_long(texts, build, turns, context, remembered)
        prompt = Prompt(prompts.EXTRACT, content, prompts.FoundAll)
        return await self._answer(prompt, prompts.read_extraction)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        texts = [turn.text for turn in turns] + [memory.content for memory in recalled]
        content = await in_thread_if_long(texts, prompts.reply_question, turns, recalled)
        return await self._answer(Prompt(prompts.REPLY, content, None), prompts.read_reply)

    async def _answer(self, prompt: Prompt, read: Callable[[str, Usage], Read]) -> Read:
        """Send the prompt; return the answer, as `read` parses it.

        `read`: called with the text and the cost of the answer; returns the parsed answer. If the
        server does not make answers match the schema, the model may correct one malformed answer.

        Raises: ModelError, which also holds the cost of all tries.
        """
        costs: list[Usage] = []
        try:
            text = await self._tried(prompt, costs)
            try:
                return read(text, sum(costs, Usage()))
            except ModelAnswerError as exc:
                if self.holds_to_schemas or not another_try():
                    raise
                content = prompts.asked_again(prompt.content, exc.problem)
            text = await self._tried(replace(prompt, content=content), costs)
            return read(text, sum(costs, Usage()))
        except ModelError as exc:
            usage = sum(costs, Usage())
            exc.calls = usage.calls
            exc.input_tokens = usage.input_tokens
            exc.output_tokens = usage.output_tokens
            raise

    async def _tried(self, prompt: Prompt, costs: list[Usage]) -> str:
        """Send the prompt, with retries; return the answer's text.

        Also append the cost of each try to `costs`.

        Raises: ModelError.
        """
        slots = self._slots.mine(lambda: asyncio.Semaphore(self._config.concurrency))
        policy = retry_policy(self._config)
        async for attempt in tenacity.AsyncRetrying(sleep=self.sleep, **policy):
            with attempt:
                costs.append(Usage(calls=1))
                try:
                    async with slots, asyncio.timeout(self._config.timeout_s):
                        raw = await self.ask_once(prompt)
                except TimeoutError as exc:
                    raise self.called.broken(exc) from exc
                costs.append(raw.usage)
                if raw.unusable is not None:
                    raise raw.unusable
        return raw.text


# --- embedders ------------------------------------------------------------------------------------


class RemoteEmbedder(ABC):
    """An embedder on a server. A request has at most 100 texts.

    A subclass sends the requests of a protocol: it implements `embed_once` and `close`.
    """

    def __init__(self, called: Called, config: LLMConfig, fingerprint: str, dim: int) -> None:
        self.called = called
        self.fingerprint = fingerprint
        self.sleep: Callable[[float], None] = time.sleep
        self._config = config
        self._dim = dim

    @abstractmethod
    def embed_once(self, texts: Sequence[str]) -> list[list[float]]:
        """Send one request, without retries; return one vector per text, in order.

        The vectors need not be scaled to length 1; the caller scales them.

        Raises: ModelError.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections. May be called twice."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        parts = [np.empty((0, self._dim), np.float32)]
        for start in range(0, len(texts), _EMBED_AT_ONCE):
            batch = texts[start : start + _EMBED_AT_ONCE]
            retrying = tenacity.Retrying(sleep=self.sleep, **retry_policy(self._config))
            try:
                raw = retrying(self._checked, batch)
            except ModelError as exc:
                raise EmbeddingError(exc.problem, exc.remedy) from exc
            parts.append(raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), _ZERO))
        return np.concatenate(parts)

    def _checked(self, texts: Sequence[str]) -> Vectors:
        vectors = self.embed_once(texts)
        if len(vectors) != len(texts):
            raise ModelError(f"{len(texts)} texts gave {len(vectors)} vectors")
        lengths = {len(vector) for vector in vectors} - {self._dim}
        if lengths:
            problem = f"vectors of {min(lengths)} dimensions came, not of {self._dim}"
            raise ModelError(problem, "set memory.embedding.dim")
        return np.array(vectors, dtype=np.float32)
