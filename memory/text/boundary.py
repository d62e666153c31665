"""Turn an exception of a rule that reads texts into the answer "cannot tell".

The rules that parse, compare and check texts are many, and a text may be anything. A rule that
fails must not end an import or lose a memory. So each function through which other rooms call such
rules is decorated with `guarded`.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
_MOST_HASHED = 4


def guarded(otherwise: Callable[..., T]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that it returns what `otherwise` returns whenever it raises.

    `otherwise` gets the same arguments, must not fail, and must give the answer that loses nothing.
    Every exception adds one to the counter `memory_dedup.faults`. The first one of a class at a
    place in the code is also logged, with hashes of the texts.

        >>> @guarded(lambda text: [text])
        ... def halves(text):
        ...     left, right = text.split("=")
        ...     return [left, right]
        >>> halves("a=b"), halves("ab")
        (['a', 'b'], ['ab'])
    """

    def decorate(rule: Callable[P, T]) -> Callable[P, T]:
        @wraps(rule)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return rule(*args, **kwargs)
            except Exception as exc:  # whatever it is: RecursionError and MemoryError, too
                _report(rule.__name__, exc, [*args, *kwargs.values()])
                return otherwise(*args, **kwargs)

        return call

    return decorate


def fails(rule: Callable[..., object], *args: object) -> bool:
    """Return whether a guarded function raises an exception for these arguments.

    >>> fails(guarded(lambda text: 0)(int), "12"), fails(guarded(lambda text: 0)(int), "x")
    (False, True)
    """
    try:
        unwrap(rule)(*args)
    except Exception:  # as above
        return True
    return False


def _report(rule: str, exc: Exception, args: list[object]) -> None:
    *_, (frame, line) = traceback.walk_tb(exc.__traceback__)
    kind, place = type(exc).__name__, f"{Path(frame.f_code.co_filename).name}:{line}"
    _counter().add(1, {"rule": rule, "error.type": kind})
    if next(_occurrences(kind, place)) == 0:
        hashes = ", ".join(_hashes(args))
        logger.warning(
            "%s failed with %s at %s on the texts with SHA-256 %s; nothing is lost: in doubt, "
            "texts count as different. Please report this line",
            rule,
            kind,
            place,
            hashes or "unknown",
        )


def _hashes(args: list[object]) -> list[str]:
    items = [item for arg in args for item in (arg if isinstance(arg, list | tuple) else [arg])]
    texts = [getattr(item, "content", item) for item in items]  # of a memory
    return [
        hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
        for text in texts
        if isinstance(text, str)
    ][:_MOST_HASHED]


@lru_cache(maxsize=256)
def _occurrences(_kind: str, _place: str) -> Iterator[int]:
    """Return the counter of one kind of exception: 0, 1, 2, ..."""
    return itertools.count()


@lru_cache(maxsize=1)
def _counter() -> Counter:
    from opentelemetry import metrics  # loaded only if a rule fails, for a quick start

    return metrics.get_meter("memory_dedup").create_counter(
        "memory_dedup.faults", "{exception}", "Exceptions of rules that read texts."
    )
