"""What fields of values are made of: checked texts, names, times, JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
)

from memory.text import clean, clean_json

Vector = npt.NDArray[np.float32]
"""One text: shape (dim,), length 1."""
Vectors = npt.NDArray[np.float32]
"""Many texts: shape (n, dim), each row of length 1."""


MAX_NAME = 1_000
"""Characters in a name, a category, a tag."""
MAX_CONTENT = 100_000
"""Characters in one memory. A longer text is a document; it would drown every other at recall."""


def _valid_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    json.dumps(value, allow_nan=False)
    cleaned = clean_json(value)
    assert isinstance(cleaned, dict)
    return cleaned


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(f"{moment.isoformat()} is outside of the years 1 to 9999 in UTC") from exc


def _content(text: str) -> str:
    cleaned = clean(text)
    if not cleaned:
        raise ValueError("content is empty")
    if len(cleaned) > MAX_CONTENT:
        raise ValueError(
            f"content has {len(cleaned):,} characters, more than {MAX_CONTENT:,}: split it"
        )
    return cleaned


Name = Annotated[str, AfterValidator(clean), Field(min_length=1, max_length=MAX_NAME)]
Cleaned = Annotated[str, AfterValidator(clean)]
"""Whatever a model writes: a store, a wire or a terminal need not hold all that JSON can."""
Content = Annotated[str, AfterValidator(_content)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_valid_json)]
UtcTime = Annotated[AwareDatetime, AfterValidator(_utc)]


def as_tuple(value: object) -> object:
    """A list, as YAML, JSON and callers write it, as the tuple that a frozen value keeps."""
    return tuple(value) if isinstance(value, list) else value


def once(values: tuple[str, ...]) -> tuple[str, ...]:
    """Drop repeats and keep the order."""
    return tuple(dict.fromkeys(values))


class Frozen(BaseModel):
    """A strict, immutable value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
