"""A language model or an embedder of your own: whatever it raises is a failed call."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

from memory.errors import (
    ConfigError,
    EmbeddingError,
    MemoryPipelineError,
    ModelAnswerError,
    ModelError,
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
from memory.protocols import Embedder, LanguageModel
from memory.providers.remote import OfEachLoop

P = ParamSpec("P")
Answer = TypeVar("Answer", Verdict, Rereading, Extraction, Reply)
_MODEL = ("name", "judge", "reread", "extract", "reply", "aclose")
_EMBEDDER = ("fingerprint", "embed")


class WrappedModel(ABC):
    """A language model that puts each question to another one, through `_ask`."""

    def __init__(self, model: LanguageModel, page_size: int) -> None:
        self._model = model
        self.page_size = page_size

    @property
    def name(self) -> str:
        return self._model.name

    async def judge(self, question: Question) -> Verdict:
        """Raises: ModelError."""
        return await self._ask(Verdict, self._model.judge, question)

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Raises: ModelError."""
        return await self._ask(Rereading, self._model.reread, merges)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Raises: ModelError."""
        extract = self._model.extract
        return await self._ask(Extraction, extract, turns, context=context, remembered=remembered)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Raises: ModelError."""
        return await self._ask(Reply, self._model.reply, turns, recalled)

    async def aclose(self) -> None:
        await self._model.aclose()

    @abstractmethod
    async def _ask(
        self,
        kind: type[Answer],
        ask: Callable[P, Awaitable[Answer]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Answer:
        """Return the answer of the inner model's method `ask`, which is a `kind`."""


class OwnModel(WrappedModel):
    """Your own language model, with at most `concurrency` calls under way in a loop.

    Its failures are ModelErrors that name it; so are answers of another kind than was asked for.
    """

    def __init__(self, model: LanguageModel, concurrency: int = 4) -> None:
        """Raises: ConfigError if it lacks something."""
        _require("the language model", model, _MODEL)
        super().__init__(model, _page_size(model))
        self._concurrency = concurrency
        self._slots: OfEachLoop[asyncio.Semaphore] = OfEachLoop()

    async def _ask(
        self,
        kind: type[Answer],
        ask: Callable[P, Awaitable[Answer]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Answer:
        slots = self._slots.mine(lambda: asyncio.Semaphore(self._concurrency))
        try:
            async with slots:
                answer = await ask(*args, **kwargs)
        except ModelError:
            raise
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            raise self._failure(exc) from exc  # it cancelled itself
        except Exception as exc:  # somebody else's code: whatever it raises
            raise self._failure(exc) from exc
        if not isinstance(answer, kind):
            given, wanted = type(answer).__name__, kind.__name__
            wrong = ModelAnswerError(f"{self.name} answered with {given}, not with {wanted}")
            Usage(calls=1).put_upon(wrong)
            raise wrong
        return answer

    def _failure(self, exc: BaseException) -> ModelUnavailable:
        failure = ModelUnavailable(f"{self.name} failed ({_named(exc)})")
        Usage(calls=1).put_upon(failure)  # its tokens are unknown
        return failure


class OwnEmbedder:
    """Your own embedder; its failures are EmbeddingErrors that name it."""

    def __init__(self, embedder: Embedder) -> None:
        """Raises: ConfigError if it lacks something."""
        _require("the embedder", embedder, _EMBEDDER)
        self._embedder = embedder
        self.fingerprint = embedder.fingerprint

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Raises: EmbeddingError."""
        try:
            return self._embedder.embed(texts)
        except MemoryPipelineError:
            raise
        except Exception as exc:  # somebody else's code: whatever it raises
            raise EmbeddingError(f"{self.fingerprint} failed ({_named(exc)})") from exc


def _named(exc: BaseException) -> str:
    message = str(exc).partition("\n")[0][:200]
    return f"{type(exc).__name__}: {message}" if message else type(exc).__name__


def _page_size(model: object) -> int:
    """Return 0 if it has none: a model of the older protocol is shown no page and no merge."""
    size = getattr(model, "page_size", 0)
    if not isinstance(size, int) or size < 0:
        remedy = "make it a number of memories, such as 48"
        raise ConfigError("the language model", "", f"has the page_size {size!r}", remedy)
    return size


def _require(what: str, thing: object, names: Sequence[str]) -> None:
    missing = [name for name in names if not hasattr(thing, name)]
    if missing:
        raise ConfigError(what, "", f"has no {', '.join(missing)}", "see the README's example")
