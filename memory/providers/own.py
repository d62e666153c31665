"""A language model or an embedder of one's own: whatever it raises is a failed call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

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

P = ParamSpec("P")
T = TypeVar("T")
Failure = TypeVar("Failure", bound=ModelError)
_MODEL = ("name", "judge", "reread", "extract", "reply", "aclose")
_EMBEDDER = ("fingerprint", "embed")


class OwnModel:
    """One's own language model, with at most `concurrency` calls under way in a loop.

    Its failures are ModelErrors that name it; so are answers of another kind than was asked for.
    """

    def __init__(self, model: LanguageModel, concurrency: int = 4) -> None:
        """Raises: ConfigError where it lacks something."""
        _require("the language model", model, _MODEL)
        self._model = model
        self.page_size = _page_size(model)
        self._concurrency = concurrency
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._slots = WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self._model.name

    async def judge(self, question: Question) -> Verdict:
        """Raises: ModelError."""
        return await self._asked(Verdict, self._model.judge, question)

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Raises: ModelError."""
        return await self._asked(Rereading, self._model.reread, merges)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Raises: ModelError."""
        return await self._asked(
            Extraction, self._model.extract, turns, context=context, remembered=remembered
        )

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Raises: ModelError."""
        return await self._asked(Reply, self._model.reply, turns, recalled)

    async def aclose(self) -> None:
        await self._model.aclose()

    async def _asked(
        self, kind: type[T], ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        slots = self._slots.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(self._concurrency)
        )
        try:
            async with slots:
                answer = await ask(*args, **kwargs)
        except ModelError:
            raise
        except asyncio.CancelledError as exc:
            if _is_cancelled():
                raise
            raise self._failure(exc) from exc  # it cancelled itself
        except Exception as exc:  # somebody else's code: whatever it raises
            raise self._failure(exc) from exc
        if not isinstance(answer, kind):
            told, wanted = type(answer).__name__, kind.__name__
            wrong = ModelAnswerError(f"{self.name} answered with {told}, not with {wanted}")
            raise _asked_once(wrong)
        return answer

    def _failure(self, exc: BaseException) -> ModelUnavailable:
        return _asked_once(ModelUnavailable(f"{self.name} failed ({_told(exc)})"))


class OwnEmbedder:
    """One's own embedder; its failures are EmbeddingErrors that name it."""

    def __init__(self, embedder: Embedder) -> None:
        """Raises: ConfigError where it lacks something."""
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
            raise EmbeddingError(f"{self.fingerprint} failed ({_told(exc)})") from exc


def _asked_once(failure: Failure) -> Failure:
    """It was asked, whatever came of it; what that cost it has not said."""
    Usage(calls=1).put_upon(failure)
    return failure


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _told(exc: BaseException) -> str:
    said = str(exc).partition("\n")[0][:200]
    return f"{type(exc).__name__}: {said}" if said else type(exc).__name__


def _page_size(model: object) -> int:
    """0 where it has none: an object of the older form is shown no page and no merged text."""
    size = getattr(model, "page_size", 0)
    if not isinstance(size, int) or size < 0:
        remedy = "make it a number of memories, such as 48"
        raise ConfigError("the language model", "", f"has the page_size {size!r}", remedy)
    return size


def _require(what: str, thing: object, names: Sequence[str]) -> None:
    missing = [name for name in names if not hasattr(thing, name)]
    if missing:
        raise ConfigError(what, "", f"has no {', '.join(missing)}", "see the README's example")
