"""Gemini as language model and embedder: the only `google.genai` import.

Each call is tried `max_attempts` times with growing, jittered pauses, or after the pause that the
server asks for; the SDK's own retries are off. What is tried again: 408, 429, 5xx, time-outs,
broken connections, empty answers. What is not: 400, 401, 403, 404.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import httpx2
import numpy as np
import tenacity
from google import genai
from google.genai import errors, types
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from memory.config import LLMConfig
from memory.errors import (
    EmbeddingError,
    ModelAnswerError,
    ModelError,
    ModelTooSlow,
    ModelUnavailable,
)
from memory.models import (
    Candidate,
    Doubt,
    Extraction,
    Memory,
    MergeGroup,
    Question,
    Reply,
    SecondReading,
    Turn,
    Usage,
    Vectors,
    Verdict,
    first_problem,
)
from memory.providers import prompts

API_VERSION = "v1beta"
"""Structured output by JSON Schema is served there."""
_MAX_OUTPUT_TOKENS = 8_192
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 20.0
_LONGEST_RETRY_AFTER_S = 120.0
_TRY_AGAIN = frozenset({408, 429})
_CONNECTION_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "aiohttp"})
_EMBED_AT_ONCE = 100

Answer = TypeVar("Answer", bound=BaseModel)


# --- the answers, as schemas and as values -------------------------------------------------------


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Group(_Strict):
    members: list[int] = Field(min_length=1, description="Numbers of the memories, from 1")
    text: str = Field(description="The one text that tells what they tell")


class _Judgement(_Strict):
    groups: list[_Group] = Field(description="Memories that tell the same fact; may be empty")
    reason: str = Field(default="", description="Why, in a few words")


class _LostWords(_Strict):
    number: int = Field(description="Number in the list of lost words")
    answer: Literal["stated", "lost"]


class _NewWords(_Strict):
    number: int = Field(description="Number in the list of new words")
    memory: int | None = Field(description="Number of the memory that says it; null for none")


class _Rereading(_Strict):
    lost: list[_LostWords] = Field(description="An answer for each of the lost words")
    new: list[_NewWords] = Field(description="An answer for each of the new words")


class _Found(_Strict):
    content: str
    user: str | None = None
    category: str = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turn: int | None = Field(default=None, description="Number of the turn that says it")

    # Every one names its turn; an answer without one is taken all the same.
    model_config = ConfigDict(json_schema_extra={"required": ["content", "turn"]})


class _FoundAll(_Strict):
    memories: list[_Found]


# --- the language model ---------------------------------------------------------------------------


class GeminiModel:
    """Judge, extractor and conversation partner. `aclose` lets go of its connections."""

    def __init__(
        self,
        api_key: SecretStr,
        config: LLMConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`sleep` is what waits between two tries, for so many seconds."""
        self.name = config.model
        self._config = config
        self._sleep = sleep
        # No redirects: the key must not follow to another host.
        self._connections = httpx2.AsyncClient(transport=_TransportOfEachLoop())
        self._client = _client(api_key, config, self._connections)
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._slots = WeakKeyDictionary()

    async def judge(self, question: Question) -> Verdict:
        """An answer in plain text is taken as one group of all members.

        Raises: ModelError.
        """
        text, usage = await self._ask(prompts.JUDGE, prompts.judge_question(question), _Judgement)
        everyone = tuple(range(len(question.members)))
        if not text.lstrip().startswith(("{", "[", "```")):
            return Verdict(parts=(MergeGroup(members=everyone, text=text),), usage=usage)
        judged = _parsed(text, _Judgement)
        parts = tuple(
            MergeGroup(members=tuple(number - 1 for number in group.members), text=group.text)
            for group in judged.groups
            if len(group.members) > 1
        )
        return Verdict(parts=parts, reason=judged.reason, usage=usage)

    async def reread(self, doubt: Doubt) -> SecondReading:
        """Raises: ModelError."""
        text, usage = await self._ask(prompts.REREAD, prompts.rereading_question(doubt), _Rereading)
        return _second_reading(_parsed(text, _Rereading), doubt, usage)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Raises: ModelError."""
        question = prompts.extraction_question(turns, context, remembered)
        text, usage = await self._ask(prompts.EXTRACT, question, _FoundAll)
        found = _parsed(text, _FoundAll).memories
        try:
            candidates = tuple(
                Candidate(
                    content=one.content,
                    user=one.user or None,
                    category=one.category or "fact",
                    intensity=one.intensity,
                    turn=one.turn if one.turn is not None and 0 <= one.turn < len(turns) else None,
                )
                for one in found
                if one.content.strip()
            )
        except ValidationError as exc:
            raise ModelAnswerError(f"Gemini's answer is malformed: {first_problem(exc)}") from exc
        return Extraction(candidates=candidates, usage=usage)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Raises: ModelError."""
        text, usage = await self._ask(prompts.REPLY, prompts.reply_question(turns, recalled), None)
        return Reply(text=text.strip(), usage=usage)

    async def aclose(self) -> None:
        await self._client.aio.aclose()
        await self._connections.aclose()
        self._client.close()

    async def _ask(
        self, system: str, content: str, schema: type[BaseModel] | None
    ) -> tuple[str, Usage]:
        """The answer's text, and what it cost."""
        config = types.GenerateContentConfig(
            system_instruction=system,
            temperature=0.0,
            max_output_tokens=_MAX_OUTPUT_TOKENS,
            response_mime_type="application/json" if schema else None,
            response_json_schema=schema.model_json_schema() if schema else None,
        )
        slots = self._slots.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(self._config.concurrency)
        )
        usage = Usage()
        async for attempt in _retrying(tenacity.AsyncRetrying, self._config, self._sleep):
            with attempt:
                usage += Usage(calls=1)
                async with slots:
                    response = await self._generate(content, config)
                usage += _tokens_of(response)
                text = _text_of(response)
        return text, usage

    async def _generate(
        self, content: str, config: types.GenerateContentConfig
    ) -> types.GenerateContentResponse:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                return await self._client.aio.models.generate_content(
                    model=self.name, contents=content, config=config
                )
        except Exception as exc:  # the SDK, two HTTP libraries and json each raise their own
            raise _mapped(exc, "llm.model", self.name) from exc


class GeminiEmbedder:
    """Gemini's embeddings, the same task for stored texts and for questions.

    `gemini-embedding-001` is told its task by a parameter, later models by a prefix of the text.
    """

    def __init__(
        self,
        api_key: SecretStr,
        config: LLMConfig,
        model: str,
        dim: int,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`sleep` is what waits between two tries, for so many seconds."""
        self.fingerprint = f"{model}-{dim}/sentence-similarity/unit/nfkc-casefold"
        self._model = model
        self._dim = dim
        self._config = config
        self._sleep = sleep
        self._client = _client(api_key, config)
        self._by_parameter = model.startswith("gemini-embedding-001")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim), asked for at most 100 at a time.

        Raises: EmbeddingError.
        """
        parts = [np.empty((0, self._dim), np.float32)]
        for start in range(0, len(texts), _EMBED_AT_ONCE):
            some = texts[start : start + _EMBED_AT_ONCE]
            try:
                for attempt in _retrying(tenacity.Retrying, self._config, self._sleep):
                    with attempt:
                        raw = self._vectors(some)
            except ModelError as exc:
                raise EmbeddingError(exc.problem, exc.remedy) from exc
            parts.append(raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12))
        return np.concatenate(parts)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        prefix = "" if self._by_parameter else "task: sentence similarity | query: "
        contents = [types.Content(parts=[types.Part(text=prefix + text)]) for text in texts]
        config = types.EmbedContentConfig(
            output_dimensionality=self._dim,
            task_type="SEMANTIC_SIMILARITY" if self._by_parameter else None,
        )
        try:
            response = self._client.models.embed_content(
                model=self._model,
                contents=contents,
                config=config,
            )
        except Exception as exc:  # as in GeminiModel
            raise _mapped(exc, "memory.embedding.model", self._model) from exc
        vectors = [embedding.values or [] for embedding in response.embeddings or []]
        if [len(vector) for vector in vectors] != [self._dim] * len(texts):
            raise ModelError(
                f"{len(texts)} texts gave {len(vectors)} vectors, or vectors of another length"
            )
        return np.array(vectors, dtype=np.float32)

    def close(self) -> None:
        self._client.close()


# --- the wire -------------------------------------------------------------------------------------


class _TransportOfEachLoop(httpx2.AsyncBaseTransport):
    """Connections belong to an event loop, and a caller may run several, in several threads.

    None is kept: a loop may end without a word.
    """

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncHTTPTransport]
        self._of = WeakKeyDictionary()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        loop = asyncio.get_running_loop()
        if loop not in self._of:
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._of[loop] = httpx2.AsyncHTTPTransport(limits=limits)
        return await self._of[loop].handle_async_request(request)

    async def aclose(self) -> None:
        mine = self._of.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.aclose()


def _client(
    api_key: SecretStr, config: LLMConfig, connections: httpx2.AsyncClient | None = None
) -> genai.Client:
    """Without `connections` of ours the SDK takes aiohttp, which waits and retries on its own."""
    return genai.Client(
        api_key=api_key.get_secret_value(),
        vertexai=False,
        http_options=types.HttpOptions(
            base_url=config.base_url,
            api_version=API_VERSION,
            timeout=max(1, round(config.timeout_s * 1_000)),
            httpx_async_client=connections,
        ),
    )


def _retrying(kind: type[Any], config: LLMConfig, sleep: Callable[[float], Any]) -> Any:
    """Try again what may succeed, after the pause that the server asks for or a growing one."""
    jittered = tenacity.wait_random_exponential(
        multiplier=_FIRST_PAUSE_S, max=min(_LONGEST_PAUSE_S, config.timeout_s)
    )

    def pause(state: tenacity.RetryCallState) -> float:
        exc = state.outcome.exception() if state.outcome else None
        if isinstance(exc, ModelUnavailable) and exc.retry_after_s is not None:
            return exc.retry_after_s
        return jittered(state)

    def worth_it(exc: BaseException) -> bool:
        if isinstance(exc, ModelAnswerError):
            return exc.may_pass
        if not isinstance(exc, ModelUnavailable):
            return False
        return (exc.retry_after_s or 0.0) <= _LONGEST_RETRY_AFTER_S

    return kind(
        sleep=sleep,
        stop=tenacity.stop_after_attempt(config.max_attempts),
        wait=pause,
        retry=tenacity.retry_if_exception(worth_it),
        reraise=True,
    )


def _mapped(exc: Exception, setting: str, model: str) -> ModelError:
    """A foreign exception as one of ours, by what the caller would do differently."""
    if isinstance(exc, errors.APIError):
        return _api_error(exc, setting, model)
    if isinstance(exc, TimeoutError) or "Timeout" in type(exc).__name__:
        return ModelTooSlow("Gemini did not answer in time", "see llm.timeout_s")
    if isinstance(exc, json.JSONDecodeError):
        return ModelAnswerError("Gemini's answer is not JSON", may_pass=True)
    library = type(exc).__module__.partition(".")[0]
    if isinstance(exc, OSError) or library in _CONNECTION_LIBRARIES:
        return ModelUnavailable(f"the connection to Gemini failed ({type(exc).__name__})")
    return ModelError(f"the call of Gemini failed ({type(exc).__name__}: {exc})")


def _api_error(exc: errors.APIError, setting: str, model: str) -> ModelError:
    told = f"Gemini answered {exc.code} {exc.status or ''}".rstrip()
    if exc.code in _TRY_AGAIN or exc.code >= 500:
        return ModelUnavailable(told, retry_after_s=_retry_after(exc))
    if exc.code == 404:
        return ModelError(f"{told}: there is no model {model!r}", f"set {setting}")
    if exc.code in (401, 403):
        return ModelError(told, "check GEMINI_API_KEY")
    return ModelError(f"{told}: {next(iter((exc.message or '').splitlines()), '')}")


def _retry_after(exc: errors.APIError) -> float | None:
    """Seconds, from the header or from the RetryInfo in the body."""
    headers = getattr(exc.response, "headers", None) or {}
    named = headers.get("Retry-After") or headers.get("retry-after") or ""
    in_body = re.search(r"'retryDelay': '([\d.]+)s'", str(exc.details))
    value = named if re.fullmatch(r"[\d.]+", named) else in_body.group(1) if in_body else None
    return float(value) if value is not None else None


def _text_of(response: types.GenerateContentResponse) -> str:
    """The answer's text; none of what makes it unusable raises by itself.

    Raises: ModelError, with the reason.
    """
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        raise ModelAnswerError(f"Gemini blocked the question ({feedback.block_reason.name})")
    if not response.candidates:
        raise ModelAnswerError("Gemini's answer is empty", may_pass=True)
    reason = response.candidates[0].finish_reason
    if reason is not None and reason.name == "MAX_TOKENS":
        raise ModelAnswerError("Gemini's answer is cut off (MAX_TOKENS)")
    if reason is not None and reason.name not in ("STOP", "FINISH_REASON_UNSPECIFIED"):
        raise ModelAnswerError(f"Gemini gave no answer ({reason.name})")
    if not response.text:
        raise ModelAnswerError("Gemini's answer is empty", may_pass=True)
    return response.text


def _second_reading(answer: _Rereading, doubt: Doubt, usage: Usage) -> SecondReading:
    """The answers in the order of the doubts.

    Raises: ModelAnswerError where one has none, or two, or names a memory that was not shown.
    """
    stated = {one.number: one.answer == "stated" for one in answer.lost}
    sources = {one.number: one.memory for one in answer.new}
    lost = range(1, len(doubt.verification.lost) + 1)
    new = range(1, len(doubt.verification.new) + 1)
    numbers = [[one.number for one in answer.lost], [one.number for one in answer.new]]
    if [sorted(told) for told in numbers] != [list(lost), list(new)]:
        raise ModelAnswerError("Gemini does not answer each doubtful word once")
    named = {number for number in sources.values() if number is not None}
    if not named <= set(range(1, len(doubt.members) + 1)):
        raise ModelAnswerError("Gemini names a memory that was not shown")
    return SecondReading(
        stated=tuple(stated[number] for number in lost),
        sources=tuple(_position(sources[number]) for number in new),
        usage=usage,
    )


def _position(number: int | None) -> int | None:
    return None if number is None else number - 1


def _tokens_of(response: types.GenerateContentResponse) -> Usage:
    told = response.usage_metadata
    if told is None:
        return Usage()
    return Usage(
        input_tokens=told.prompt_token_count or 0,
        output_tokens=(told.candidates_token_count or 0) + (told.thoughts_token_count or 0),
    )


def _parsed(text: str, schema: type[Answer]) -> Answer:
    """The answer as a value; a fence around the JSON is passed over.

    Raises: ModelError.
    """
    bare = re.sub(r"^\s*```(?:json)?\s*|\s*```\s*$", "", text)
    try:
        return schema.model_validate_json(bare)
    except ValidationError as exc:
        raise ModelAnswerError(f"Gemini's answer is malformed: {first_problem(exc)}") from exc
