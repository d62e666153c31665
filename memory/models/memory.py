"""Memories, their links and scopes; the types of their fields, and why a value was refused."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
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


def new_memory_id() -> str:
    """Return `mem_` and 12 random hex digits."""
    return "mem_" + secrets.token_hex(6)


def is_memory_id(text: str) -> bool:
    return re.fullmatch(r"mem_[0-9a-f]{12}", text) is not None


LinkType = Literal["similar", "caused_by", "leads_to", "related"]


INVERSE_LINK: Mapping[LinkType, LinkType] = {
    "similar": "similar",
    "related": "related",
    "caused_by": "leads_to",
    "leads_to": "caused_by",
}


class MemoryLink(Frozen):
    """One end of a link, as the memory that carries it sees the other."""

    target_id: Annotated[str, AfterValidator(clean)]
    link_type: LinkType = "related"
    note: Annotated[str, AfterValidator(clean)] = ""
    confidence: float = Field(default=0.5, ge=0.0, le=1.0)


class Memory(Frozen):
    """One thing worth remembering, and when it was recorded."""

    id: str = Field(default_factory=new_memory_id, pattern=r"^mem_[0-9a-f]{12}$")
    external_id: Name | None = None
    """Its id in the source of an import."""
    content: Content
    user: Name | None = None
    """Whom it is about; None is everyone."""
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    importance: int = Field(default=3, ge=1, le=5)
    emotion: Name = "neutral"
    tags: Annotated[tuple[Name, ...], BeforeValidator(as_tuple), AfterValidator(once)] = ()
    is_private: bool = False
    linked_ids: tuple[MemoryLink, ...] = ()
    timestamp: UtcTime
    """When it was recorded; aware, in UTC."""
    merged_from: tuple[str, ...] = ()
    """Ids of the memories this one was synthesised from."""
    metadata: Metadata = Field(default_factory=dict)


def new_episode_id() -> str:
    """Return `ep_` and 12 random hex digits."""
    return "ep_" + secrets.token_hex(6)


class Episode(Frozen):
    """Memories that belong together in time, and what they were about."""

    id: str = Field(default_factory=new_episode_id, pattern=r"^ep_[0-9a-f]{12}$")
    user: Name | None = None
    """Who owns it: the one user that all its memories are about."""
    summary: Content
    memory_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(min_length=1)
    """Ids at the time it was stored; readers resolve memories merged or forgotten since."""
    start_time: UtcTime
    end_time: UtcTime
    importance: int = Field(default=3, ge=1, le=5)


class Recalled(Memory):
    """A recalled memory, with the score by which it was ranked."""

    score: float


@dataclass(frozen=True)
class Embedded:
    """A memory with the vector of its normalised text; None if the embedder failed."""

    memory: Memory
    vector: Vector | None


@dataclass(frozen=True)
class SearchResult:
    """A memory that was found, and its similarity, rounded to 6 places."""

    memory: Memory
    similarity: float
    cosine: float | None = None
    """The cosine before the scale; None if that is the similarity."""
    relevance: float | None = None
    """By words and vector, in standard deviations; None if ranked by similarity."""

    @property
    def score(self) -> float:
        """The value by which results are ranked."""
        return self.similarity if self.relevance is None else self.relevance

    @property
    def distance(self) -> float:
        """`1 - similarity`, as the agent prints and compares it."""
        return round(1.0 - self.similarity, 6)


SCOPE_FIELDS = ("user", "category", "emotion", "is_private")
"""The fields of a memory that a scope may name; any other name is a key of its metadata."""


def _is_scope_field(name: str) -> str:
    if name in Memory.model_fields and name not in SCOPE_FIELDS:
        raise ValueError(f"{name} cannot divide memories; use user, category, emotion, or your own")
    return name


ScopeField = Annotated[Name, AfterValidator(_is_scope_field)]
"""A field of SCOPE_FIELDS, or a key of the metadata such as agent, channel or tenant."""


def scope_values(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the values of metadata that scopes compare: strings as they are, others as JSON."""
    return {
        name: value
        if value is None or isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for name, value in metadata.items()
        if name not in SCOPE_FIELDS
    }


@dataclass(frozen=True)
class Scope:
    """The values that two memories must share before they are ever compared."""

    values: tuple[tuple[str, str | bool | None], ...]

    @classmethod
    def of_user(cls, user: str, **others: str | bool | None) -> Scope:
        return cls((("user", clean(user)), *others.items()))

    @classmethod
    def of(cls, memory: Memory, fields: tuple[ScopeField, ...]) -> Scope:
        """Return the scope of a memory by these fields and, always, by privacy."""
        values = scope_values(memory.metadata) if memory.metadata else {}
        return cls(
            tuple(
                (name, getattr(memory, name) if name in SCOPE_FIELDS else values.get(name))
                for name in sorted({*fields, "is_private"})
            )
        )

    @property
    def user(self) -> str | None:
        """The user, or None if the scope names none."""
        return next((str(value) for name, value in self.values if name == "user" and value), None)

    @classmethod
    def from_key(cls, key: str) -> Scope:
        return cls(tuple(json.loads(key).items()))

    @property
    def of_metadata(self) -> bool:
        """Whether the scope names a key of the metadata."""
        return any(name not in SCOPE_FIELDS for name, _ in self.values)

    def has(self, memory: Memory) -> bool:
        own = {name: getattr(memory, name) for name in SCOPE_FIELDS}
        return self.holds(scope_values(memory.metadata) | own)

    @property
    def key(self) -> str:
        return json.dumps(dict(self.values), ensure_ascii=False)

    def agrees_with(self, other: Scope) -> bool:
        """Whether both have the same values of the fields that both name."""
        mine = dict(self.values)
        return all(mine.get(name, value) == value for name, value in other.values)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether these values are in the scope; a missing value counts as None."""
        return all(values.get(name) == value for name, value in self.values)


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
