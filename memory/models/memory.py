"""A memory, its links, how alike it is to another, and which it may be compared with."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
)

from memory.models.values import Content, Frozen, Metadata, Name, UtcTime, Vector, as_tuple, once
from memory.text import clean


def new_memory_id() -> str:
    """`mem_` + 12 hex digits."""
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
    """One end of a link: what it leads to, seen from the memory that carries it."""

    target_id: Annotated[str, AfterValidator(clean)]
    link_type: LinkType = "related"
    note: Annotated[str, AfterValidator(clean)] = ""
    confidence: float = Field(default=0.5, ge=0.0, le=1.0)


class Memory(Frozen):
    """One thing that was said, and when it was recorded."""

    id: str = Field(default_factory=new_memory_id, pattern=r"^mem_[0-9a-f]{12}$")
    external_id: Name | None = None
    """What an import called it."""
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
    """When it was recorded; aware, kept in UTC."""
    merged_from: tuple[str, ...] = ()
    """Ids of the memories this one was synthesised from."""
    metadata: Metadata = Field(default_factory=dict)


class Recalled(Memory):
    """A memory that was recalled, with the score by which it was ranked."""

    score: float


@dataclass(frozen=True)
class Embedded:
    """A memory with the vector of its normalised text; None where the embedder failed."""

    memory: Memory
    vector: Vector | None


@dataclass(frozen=True)
class SearchResult:
    """A memory that was found, and how alike it is, rounded to 6 places."""

    memory: Memory
    similarity: float
    cosine: float | None = None
    """Before the scale; None where that is the similarity."""

    relevance: float | None = None
    """By words and by vector, in standard deviations; None where only the similarity counts."""

    @property
    def score(self) -> float:
        """What the found are ranked by."""
        return self.similarity if self.relevance is None else self.relevance

    @property
    def distance(self) -> float:
        """`1 - similarity`, the number the agent's seeds print and compare."""
        return round(1.0 - self.similarity, 6)


SCOPE_FIELDS = ("user", "category", "emotion", "is_private")
"""The fields of a memory that may be part of a scope; any other name is a key of its metadata."""


def _is_scope_field(name: str) -> str:
    if name in Memory.model_fields and name not in SCOPE_FIELDS:
        raise ValueError(f"{name} cannot divide memories; use user, category, emotion, or your own")
    return name


ScopeField = Annotated[Name, AfterValidator(_is_scope_field)]
"""One of the fields, or a key of the metadata: agent, channel, tenant."""


def scope_values(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """What scopes compare of a memory's metadata: texts as they are, all else as JSON."""
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
        """The scope of a user, whose name is cleaned as it was when it was stored."""
        return cls((("user", clean(user)), *others.items()))

    @classmethod
    def of(cls, memory: Memory, fields: tuple[ScopeField, ...]) -> Scope:
        """Privacy is always part of it: nothing private meets anything public."""
        named = sorted({*fields, "is_private"})
        values = _values_of(memory)
        return cls(tuple((name, values.get(name)) for name in named))

    @property
    def user(self) -> str | None:
        """Whose memories these are; None where they may be anybody's."""
        return next((str(value) for name, value in self.values if name == "user" and value), None)

    @classmethod
    def from_key(cls, key: str) -> Scope:
        """The scope that has this key."""
        return cls(tuple(json.loads(key).items()))

    @property
    def of_metadata(self) -> bool:
        """Whether any value is one of the metadata's."""
        return any(name not in SCOPE_FIELDS for name, _ in self.values)

    def has(self, memory: Memory) -> bool:
        return self.holds(_values_of(memory))

    @property
    def key(self) -> str:
        return json.dumps(dict(self.values), ensure_ascii=False)

    def agrees_with(self, other: Scope) -> bool:
        """Whether a memory could be of both: where both name a field, its value is the same."""
        mine = dict(self.values)
        return all(mine.get(name, value) == value for name, value in other.values)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether a row with these values belongs here; a missing value reads as None."""
        return all(values.get(name) == value for name, value in self.values)


def _values_of(memory: Memory) -> dict[str, Any]:
    own = {name: getattr(memory, name) for name in SCOPE_FIELDS}
    return scope_values(memory.metadata) | own if memory.metadata else own
