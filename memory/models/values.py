"""The types of fields: checked texts, names, times, JSON; and why a value was refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)

from memory.text import clean, clean_json

Vector = npt.NDArray[np.float32]
"""Shape (dim,), length 1."""
Vectors = npt.NDArray[np.float32]
"""Shape (n, dim), each row of length 1."""


MAX_NAME = 1_000
"""Most characters in a name, a category or a tag."""
MAX_CONTENT = 100_000
"""Most characters in one memory; a longer text is a document."""


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
"""Text from a model, without characters that a store or a terminal cannot hold."""
Content = Annotated[str, AfterValidator(_content)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_valid_json)]
UtcTime = Annotated[AwareDatetime, AfterValidator(_utc)]


def as_tuple(value: object) -> object:
    """Return a list from YAML, JSON or a caller as a tuple; other values as they are."""
    return tuple(value) if isinstance(value, list) else value


def once(values: tuple[str, ...]) -> tuple[str, ...]:
    """Drop repeats and keep the order."""
    return tuple(dict.fromkeys(values))


class Frozen(BaseModel):
    """A strict, immutable value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


# --- why a value was refused ----------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Why a value was refused; as a string, one clause that never quotes the value."""

    where: tuple[str, ...]
    """The path of the field, outermost first."""
    what: str
    kind: str
    """Pydantic's name for it."""
    given: Any
    expected: str
    """The allowed values, if they are few; else empty."""

    @property
    def field(self) -> str:
        return ".".join(self.where)

    def __str__(self) -> str:
        return self.what if self.what.startswith(self.field) else f"{self.field}: {self.what}"


def first_problem(exc: ValidationError) -> Problem:
    """Return the first problem of a refused value."""
    error = exc.errors()[0]
    what = error["msg"].removeprefix("Value error, ")
    return Problem(
        where=tuple(str(part) for part in error["loc"]),
        what=what[0].lower() + what[1:],
        kind=error["type"],
        given=error["input"],
        expected=str(error.get("ctx", {}).get("expected", "")),
    )
