"""Memories that belong together in time."""

from __future__ import annotations

import secrets
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Field,
)

from memory.models.values import Content, Frozen, Name, UtcTime, as_tuple


def new_episode_id() -> str:
    """`ep_` + 12 hex digits."""
    return "ep_" + secrets.token_hex(6)


class Episode(Frozen):
    """Memories that belong together in time, and what they were about."""

    id: str = Field(default_factory=new_episode_id, pattern=r"^ep_[0-9a-f]{12}$")
    user: Name | None = None
    """Who owns it: the one user that all its memories are about."""
    summary: Content
    memory_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(min_length=1)
    """As they were told; those since merged or forgotten are resolved by who reads."""
    start_time: UtcTime
    end_time: UtcTime
    importance: int = Field(default=3, ge=1, le=5)
