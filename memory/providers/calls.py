"""One call over the network: tried again where that may help, its failure as one of ours.

Each call is tried `max_attempts` times with growing, jittered pauses, or after the pause that the
server asks for; the libraries' own retries are off. What is tried again: 408, 429, 5xx, time-outs,
broken connections, empty answers. What is not: other 4xx, and answers that say something else.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import tenacity

from memory.config import LLMConfig
from memory.errors import (
    ModelAnswerError,
    ModelError,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
)
from memory.providers.budget import another_try
from memory.runtime import in_thread

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 20.0
_LONGEST_RETRY_AFTER_S = 120.0
_TRY_AGAIN = frozenset({408, 429})
_CONNECTION_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "aiohttp"})

Of = TypeVar("Of")


class OfEachLoop(WeakKeyDictionary[asyncio.AbstractEventLoop, Of]):
    """One of something for each event loop: a caller may run several, in several threads."""

    def mine(self, make: Callable[[], Of]) -> Of:
        """That of the running loop, made where there is none."""
        loop = asyncio.get_running_loop()
        if loop not in self:
            self[loop] = make()
        return self[loop]

    async def made_aside(self, make: Callable[[], Of]) -> Of:
        """The same, made in a thread: what reads certificates or loads code holds a loop."""
        loop = asyncio.get_running_loop()
        if loop not in self:
            made = await in_thread(make)
            self.setdefault(loop, made)  # another call may have come first
        return self[loop]


def retrying(config: LLMConfig, sleep: Callable[[float], None]) -> tenacity.Retrying:
    """Tries of a call that waits in its thread."""
    return tenacity.Retrying(sleep=sleep, **_manner(config))


def retrying_async(
    config: LLMConfig, sleep: Callable[[float], Awaitable[None]]
) -> tenacity.AsyncRetrying:
    """Tries of a call that waits in its loop."""
    return tenacity.AsyncRetrying(sleep=sleep, **_manner(config))


def _manner(config: LLMConfig) -> dict[str, Any]:
    """Try again what may succeed, after the pause that the server asks for or a growing one."""
    jittered = tenacity.wait_random_exponential(
        multiplier=_FIRST_PAUSE_S, max=min(_LONGEST_PAUSE_S, config.timeout_s)
    )

    def pause(state: tenacity.RetryCallState) -> float:
        exc = state.outcome.exception() if state.outcome else None
        if isinstance(exc, ModelUnavailable) and exc.retry_after_s is not None:
            return exc.retry_after_s
        return jittered(state)

    return {
        "stop": lambda state: state.attempt_number >= config.max_attempts or not another_try(),
        "wait": pause,
        "retry": tenacity.retry_if_exception(_may_pass),
        "reraise": True,
    }


def _may_pass(exc: BaseException) -> bool:
    if isinstance(exc, ModelAnswerError):
        return exc.may_pass
    if not isinstance(exc, ModelUnavailable):
        return False
    return (exc.retry_after_s or 0.0) <= _LONGEST_RETRY_AFTER_S


# --- failures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """A server's answer with a status that is an error."""

    status: int
    name: str = ""
    """The server's word for the status."""
    message: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Called:
    """Who is called, and which settings said so."""

    server: str
    model: str
    setting: str
    """Of the model."""
    key: str
    """The variable that holds the key."""

    def refused(self, refusal: Refusal) -> ModelError:
        """By what the caller would do differently."""
        told = f"{self.server} answered {refusal.status} {refusal.name}".rstrip()
        if refusal.status in _TRY_AGAIN or refusal.status >= 500:
            return ModelUnavailable(told, retry_after_s=refusal.retry_after_s)
        if refusal.status == 404:
            return ModelError(f"{told}: there is no model {self.model!r}", f"set {self.setting}")
        if refusal.status in (401, 403):
            return ModelError(told, f"check {self.key}")
        return ModelRefused(f"{told}: {next(iter(refusal.message.splitlines()), '')}")

    def broken(self, exc: Exception) -> ModelError:
        """What a library raised that is no answer of the server."""
        if isinstance(exc, TimeoutError) or "Timeout" in type(exc).__name__:
            return ModelTooSlow(f"{self.server} did not answer in time", "see llm.timeout_s")
        if isinstance(exc, json.JSONDecodeError):
            return ModelAnswerError(f"{self.server}'s answer is not JSON", may_pass=True)
        library = type(exc).__module__.partition(".")[0]
        if isinstance(exc, OSError) or library in _CONNECTION_LIBRARIES:
            told = f"the connection to {self.server} failed ({type(exc).__name__})"
            return ModelUnavailable(told)
        return ModelError(f"the call of {self.server} failed ({type(exc).__name__}: {exc})")

    def empty(self) -> ModelAnswerError:
        return ModelAnswerError(f"{self.server}'s answer is empty", may_pass=True)

    def cut_off(self, reason: str) -> ModelAnswerError:
        return ModelAnswerError(f"{self.server}'s answer is cut off ({reason})")

    def no_answer(self, reason: str) -> ModelAnswerError:
        return ModelAnswerError(f"{self.server} gave no answer ({reason})")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The pause that a server asks for, in seconds; None where it names none, or a date."""
    named = headers.get("Retry-After") or headers.get("retry-after") or ""
    return float(named) if re.fullmatch(r"\d+(\.\d+)?", named) else None
