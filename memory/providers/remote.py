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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import tenacity
from pydantic import BaseModel

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
from memory.providers.asking import another_try
from memory.runtime import OfEachLoop, in_thread_if_long

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 20.0
_LONGEST_RETRY_AFTER_S = 120.0
_TRY_AGAIN = frozenset({408, 429})
_CUT_OFF = frozenset({"MAX_TOKENS", "length"})
_CONNECTION_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "aiohttp"})
_EMBED_AT_ONCE = 100
_ZERO = 1e-12

Read = TypeVar("Read")


# --- retries and failures -------------------------------------------------------------------------


class ModelSettings(Protocol):
    """The settings `llm` that a model on a server needs; see `memory.config.LLMConfig`."""

    @property
    def model(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def structured(self) -> Literal["auto", "schema", "json", "prompt"]: ...
    @property
    def timeout_s(self) -> float: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def concurrency(self) -> int: ...


def retry_policy(config: ModelSettings) -> dict[str, Any]:
    jittered = tenacity.wait_random_exponential(
        multiplier=_FIRST_PAUSE_S, max=min(_LONGEST_PAUSE_S, config.timeout_s)
    )

    def pause_s(state: tenacity.RetryCallState) -> float:
        exc = state.outcome.exception() if state.outcome else None
        if isinstance(exc, ModelUnavailable) and exc.retry_after_s is not None:
            return exc.retry_after_s
        return jittered(state)

    def may_pass(exc: BaseException) -> bool:
        if isinstance(exc, ModelUnavailable):
            return (exc.retry_after_s or 0.0) <= _LONGEST_RETRY_AFTER_S
        return isinstance(exc, ModelAnswerError) and exc.may_pass

    return {
        "stop": lambda state: state.attempt_number >= config.max_attempts or not another_try(),
        "wait": pause_s,
        "retry": tenacity.retry_if_exception(may_pass),
        "reraise": True,
    }


@dataclass(frozen=True)
class Called:
    """Names of a server and its model; the methods use them in error messages.

    `setting` is the name of the setting that chooses the model. `key` is the environment variable
    with the API key.
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
        `retry_after_s`: the pause that the server asks for; None if it asks for none.
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

    def stopped(self, reason: str) -> str:
        if reason in _CUT_OFF:
            return f"{self.server}'s answer is cut off ({reason})"
        return f"{self.server} gave no answer ({reason})"


def _texts(memories: Iterable[Memory]) -> list[str]:
    return [memory.content for memory in memories]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the pause in seconds that the header Retry-After asks for.

    Return None if there is no such header, or if it holds a date.
    """
    named = headers.get("Retry-After") or headers.get("retry-after") or ""
    return float(named) if re.fullmatch(r"\d+(\.\d+)?", named) else None


# --- language models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RawAnswer:
    """The text of an answer and its cost.

    `problem` says why the server stopped early or refused; it is empty otherwise.
    """

    text: str
    usage: Usage
    problem: str = ""


class RemoteModel(ABC):
    """A language model on a server, for judging, extraction and conversation.

    Its methods raise ModelError. A subclass implements `ask_once` and `aclose`.

    `holds_to_schemas` says whether the server makes answers match the JSON schema. If it does not,
    a question with a malformed answer is asked once more. `extract_prompt` tells the model how to
    extract memories.
    """

    page_size = 48
    holds_to_schemas: ClassVar[bool]

    def __init__(
        self, called: Called, config: ModelSettings, extract_prompt: str = prompts.EXTRACT
    ) -> None:
        self.name = called.model
        self._extract_prompt = extract_prompt
        self.called = called
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._config = config
        self._slots: OfEachLoop[asyncio.Semaphore] = OfEachLoop()

    @abstractmethod
    async def ask_once(
        self, system: str, content: str, schema: type[BaseModel] | None
    ) -> RawAnswer:
        """Send one question, without retries, and return the answer.

        `system` holds the instructions, and `content` the question as JSON. `schema` is the form of
        the answer; None for plain text.
        """

    @abstractmethod
    async def aclose(self) -> None:
        pass

    async def judge(self, question: Question) -> Verdict:
        return await self._answer(
            prompts.PAGE if question.is_page else prompts.JUDGE,
            await in_thread_if_long(_texts(question.members), prompts.judge_question, question),
            prompts.PageJudgement if question.is_page else prompts.Judgement,
            lambda text, usage: prompts.read_verdict(text, question, usage),
        )

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        texts = [text for one in merges for text in (one.text, *_texts(one.members))]
        return await self._answer(
            prompts.REREAD,
            await in_thread_if_long(texts, prompts.rereading_question, merges),
            prompts.ReadMerges,
            lambda text, usage: prompts.read_rereading(text, len(merges), usage),
        )

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        texts = [*(turn.text for turn in (*turns, *context)), *_texts(remembered)]
        write = prompts.extraction_question
        return await self._answer(
            self._extract_prompt,
            await in_thread_if_long(texts, write, turns, context, remembered),
            prompts.FoundAll,
            prompts.read_extraction,
        )

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        texts = [*(turn.text for turn in turns), *_texts(recalled)]
        question = await in_thread_if_long(texts, prompts.reply_question, turns, recalled)
        return await self._answer(prompts.REPLY, question, None, prompts.read_reply)

    async def _answer(
        self,
        system: str,
        content: str,
        schema: type[BaseModel] | None,
        read: Callable[[str, Usage], Read],
    ) -> Read:
        """Send a question, parse the answer with `read`, and return the result.

        Raises: ModelError. It counts the calls and tokens of all tries.
        """
        costs: list[Usage] = []
        try:
            text = await self._tried(system, content, schema, costs)
            try:
                return read(text, sum(costs, Usage()))
            except ModelAnswerError as exc:
                if self.holds_to_schemas or not another_try():
                    raise
                again = prompts.asked_again(content, exc.problem)
            text = await self._tried(system, again, schema, costs)
            return read(text, sum(costs, Usage()))
        except ModelError as exc:
            usage = sum(costs, Usage())
            exc.calls = usage.calls
            exc.input_tokens = usage.input_tokens
            exc.output_tokens = usage.output_tokens
            raise

    async def _tried(
        self, system: str, content: str, schema: type[BaseModel] | None, costs: list[Usage]
    ) -> str:
        """Send a question, with retries; return the answer. Append each try's cost to `costs`."""
        slots = self._slots.mine(lambda: asyncio.Semaphore(self._config.concurrency))
        retrying = tenacity.AsyncRetrying(sleep=self.sleep, **retry_policy(self._config))
        async for attempt in retrying:
            with attempt:
                costs.append(Usage(calls=1))
                try:
                    async with slots, asyncio.timeout(self._config.timeout_s):
                        raw = await self.ask_once(system, content, schema)
                except TimeoutError as exc:
                    raise self.called.broken(exc) from exc
                costs.append(raw.usage)
                if raw.problem:
                    raise ModelAnswerError(raw.problem)
                if not raw.text.strip():
                    raise ModelAnswerError(f"{self.called.server}'s answer is empty", may_pass=True)
        return raw.text


# --- embedders ------------------------------------------------------------------------------------


class RemoteEmbedder(ABC):
    """An embedder on a server. A subclass implements `embed_once` for one protocol.

    `close` ends its connections.
    """

    def __init__(
        self,
        called: Called,
        config: ModelSettings,
        fingerprint: str,
        dim: int,
        close: Callable[[], None],
    ) -> None:
        self.called = called
        self.close = close
        self.fingerprint = fingerprint
        self.sleep: Callable[[float], None] = time.sleep
        self._config = config
        self._dim = dim

    @abstractmethod
    def embed_once(self, texts: Sequence[str]) -> list[list[float]]:
        """Send one request, without retries; return one vector per text, in order, not normalised.

        Raises: ModelError.
        """

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
            raise ModelError(
                f"vectors of {min(lengths)} dimensions came, not of {self._dim}",
                "set memory.embedding.dim",
            )
        return np.array(vectors, dtype=np.float32)
