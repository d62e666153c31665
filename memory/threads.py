"""The one place where code that waits meets the store, which does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's answer, given by a thread of its own.

    A thread cannot be stopped: a cancelled task ends when its thread has, so that whoever
    cancelled it may close the store, or write the same again.
    """
    work = asyncio.create_task(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
