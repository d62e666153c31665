"""Frozen values that travel between the parts: memories, matches, decisions, verdicts, reports."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
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
)

Vector = npt.NDArray[np.float32]
"""One text: shape (dim,), length 1."""
Vectors = npt.NDArray[np.float32]
"""Many texts: shape (n, dim), each row of length 1."""

MAX_CONTENT = 100_000
"""Characters in one memory. A longer text is a document; it would drown every other at recall."""


# --- text -------------------------------------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CODE = re.compile(r"\b(?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])\w+\b")
_FINAL_PUNCTUATION = " .!。！…"
_COMPATIBILITY = {"<super>": "^", "<sub>": "_", "<fraction>": " "}


def clean(text: str) -> str:
    """Text that every store, wire and terminal can hold.

    Control characters but tab and line ends are removed, lone surrogates become U+FFFD, outer
    space is trimmed.
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)).strip()


def normalise(text: str) -> str:
    """The form under which two texts are the same, and which is embedded.

    NFKC, casefold, runs of space as one, final full stops and exclamation marks dropped. A
    question mark stays: a question states nothing. Raised digits and fractions keep a mark, since
    NFKC alone would read 10² as 102; codes like aB3x keep their case.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", "".join(map(_keep_apart, text)))
    folded = " ".join(_folded(text).split())
    return folded.rstrip(_FINAL_PUNCTUATION) or folded


def _folded(text: str) -> str:
    kept, end = [], 0
    for code in _CODE.finditer(text):
        kept += [text[end : code.start()].casefold(), code.group()]
        end = code.end()
    return "".join([*kept, text[end:].casefold()])


def _keep_apart(char: str) -> str:
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return _COMPATIBILITY.get(kind, "") + char


def text_key(text: str) -> str:
    """32 hex digits that name the normalised text and its vector."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:32]


def new_memory_id() -> str:
    """`mem_` + 12 hex digits."""
    return "mem_" + secrets.token_hex(6)


def is_memory_id(text: str) -> bool:
    return re.fullmatch(r"mem_[0-9a-f]{12}", text) is not None


def new_episode_id() -> str:
    """`ep_` + 12 hex digits."""
    return "ep_" + secrets.token_hex(6)


# --- memories ---------------------------------------------------------------------------------


def clean_json(value: JsonValue) -> JsonValue:
    """The same with every text in it cleaned, outer space left as it is."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", _CONTROL.sub("", value))
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {str(clean_json(key)): clean_json(item) for key, item in value.items()}
    return value


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


Name = Annotated[str, AfterValidator(clean), Field(min_length=1, max_length=1_000)]
Content = Annotated[str, AfterValidator(_content)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_valid_json)]
UtcTime = Annotated[AwareDatetime, AfterValidator(_utc)]
LinkType = Literal["similar", "caused_by", "leads_to", "related"]

INVERSE_LINK: Mapping[LinkType, LinkType] = {
    "similar": "similar",
    "related": "related",
    "caused_by": "leads_to",
    "leads_to": "caused_by",
}


def as_tuple(value: object) -> object:
    """A list, as YAML, JSON and callers write it, as the tuple that a frozen value keeps."""
    return tuple(value) if isinstance(value, list) else value


class Frozen(BaseModel):
    """A strict, immutable value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


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
    tags: Annotated[tuple[Name, ...], BeforeValidator(as_tuple)] = ()
    is_private: bool = False
    linked_ids: tuple[MemoryLink, ...] = ()
    timestamp: UtcTime
    """When it was recorded; aware, kept in UTC."""
    merged_from: tuple[str, ...] = ()
    """Ids of the memories this one was synthesised from."""
    metadata: Metadata = Field(default_factory=dict)


@dataclass(frozen=True)
class Embedded:
    """A memory with the vector of its normalised text; None where the embedder failed."""

    memory: Memory
    vector: Vector | None


@dataclass(frozen=True)
class SearchResult:
    """A memory that was found, and how alike it is: cosine in -1..1, rounded to 6 places."""

    memory: Memory
    similarity: float

    @property
    def distance(self) -> float:
        """`1 - similarity`, the number the agent's seeds print and compare."""
        return round(1.0 - self.similarity, 6)


ScopeField = Literal["user", "category", "emotion"]


@dataclass(frozen=True)
class Scope:
    """The values that two memories must share before they are ever compared."""

    values: tuple[tuple[str, str | bool | None], ...]

    @classmethod
    def of(cls, memory: Memory, fields: tuple[ScopeField, ...]) -> Scope:
        """Privacy is always part of it: nothing private meets anything public."""
        named = sorted({*fields, "is_private"})
        return cls(tuple((name, getattr(memory, name)) for name in named))

    @property
    def key(self) -> str:
        return json.dumps(dict(self.values), ensure_ascii=False)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether a row with these values belongs here; a missing value reads as None."""
        return all(values.get(name) == value for name, value in self.values)


class Episode(Frozen):
    """Memories that belong together in time, and what they were about."""

    id: str = Field(default_factory=new_episode_id, pattern=r"^ep_[0-9a-f]{12}$")
    summary: Content
    memory_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(min_length=1)
    """As they were told; those since merged or forgotten are resolved by who reads."""
    start_time: UtcTime
    end_time: UtcTime
    importance: int = Field(default=3, ge=1, le=5)


# --- decisions --------------------------------------------------------------------------------

OnMergeFailure = Literal["replace", "keep_both"]


@dataclass(frozen=True)
class Rules:
    """The thresholds, in 0..1 and including their own value, and the switches of the policy."""

    upper: float = 0.95
    lower: float = 0.90
    guard: bool = True
    """Whether a replacement needs that one text covers the other."""
    on_merge_failure: OnMergeFailure = "replace"


class Action(StrEnum):
    """What was done, as it is stored and shown."""

    ADD = "add"
    REPLACE = "replace"
    MERGE = "merge"
    KEEP_BOTH = "keep_both"
    UPDATE = "update"
    UNDO = "undo"
    FORGET = "forget"
    KNOWN = "already there"


class Usage(Frozen):
    """What asking the model cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True)
class Survivor:
    """A memory that lives after a decision, and the ids of those it stands for."""

    memory: Memory
    stands_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What to do with some memories, complete: applying it needs no further thought.

    `members` are the memories it is about, oldest to newest, as they were when it was made.
    Members that no survivor stands for stay, or are stored, as they are. `distinct` are the pairs
    of member ids that were judged to say different things.
    """

    action: Action
    reason: str
    members: tuple[Memory, ...]
    survivors: tuple[Survivor, ...] = ()
    similarity: float | None = None
    candidates: tuple[tuple[str, float], ...] = ()
    """What a new memory was compared with: ids and similarities, most similar first."""
    distinct: tuple[tuple[str, str], ...] = ()
    pending: bool = False
    model: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def retired(self) -> tuple[str, ...]:
        return tuple(name for survivor in self.survivors for name in survivor.stands_for)


@dataclass(frozen=True)
class Question:
    """What only a model can say: which of these, oldest to newest, tell the same fact?"""

    members: tuple[Memory, ...]
    reason: str
    similarity: float
    """Of the two members that are least alike."""
    objection: str = ""
    """Why the last answer could not be believed; empty the first time."""


class Part(Frozen):
    """Members that tell the same fact, by position from 0, and the one text that tells it."""

    members: tuple[int, ...] = Field(min_length=2)
    text: str


class Verdict(Frozen):
    """A model's answer: the members in no part stay as they are."""

    parts: tuple[Part, ...] = ()
    reason: str = ""
    usage: Usage = Usage(calls=1)


# --- conversation -------------------------------------------------------------------------------


class Turn(Frozen):
    """One thing that somebody said in a conversation."""

    speaker: Name
    text: Annotated[str, AfterValidator(clean), Field(max_length=MAX_CONTENT)]
    at: UtcTime
    is_bot: bool = False
    """What the bot says gives context, and is never remembered."""
    id: Name | None = None
    """Unique within the conversation; without one, the turn's position names it."""
    conversation: Name = "default"
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Memories that were recalled around this turn: what they say is not extracted again."""


class Candidate(Frozen):
    """Something worth remembering that a model found in some turns."""

    content: Content
    user: Name | None = None
    """Whom it is about: one of the speakers, or None for the speaker of the turn."""
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turn: int | None = None
    """Position, from 0, of the turn that says it; None where the model does not say."""


class Extraction(Frozen):
    """What a model found in some turns."""

    candidates: tuple[Candidate, ...] = ()
    usage: Usage = Usage(calls=1)


class Reply(Frozen):
    """What the bot says next."""

    text: str
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class ExtractionResult:
    """What became of some turns.

    `pending` turns wait in the ledger for the next try; `known` were there before and add nothing.
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    """Candidates dropped because a recalled memory says them."""
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
    """Why turns are pending."""


# --- reports ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one new memory: the one that now lives for it, and why."""

    memory: Memory
    action: Action
    reason: str
    usage: Usage = field(default_factory=Usage)


class MemberReport(Frozen):
    """One memory of a group, and what becomes of it: `keep`, `retire` or `judge`."""

    id: str
    content: str
    timestamp: datetime
    fate: str


class GroupReport(Frozen):
    """Memories close enough to be one, oldest to newest, and what is done about them."""

    user: str | None
    is_private: bool
    action: str
    reason: str
    members: tuple[MemberReport, ...]
    similarities: tuple[tuple[int, int, float], ...]
    differences: tuple[str, ...]
    needs_model: bool


class DeduplicationReport(Frozen):
    """A run over the whole store, done or (with `dry_run`) planned."""

    dry_run: bool
    memories: int
    """Live memories before the run."""
    memories_after: int
    """Live memories after it; the same as before in a dry run."""
    pairs: dict[str, int]
    """Pairs in one scope at or above each similarity, counted before the run."""
    rounds: int
    groups: tuple[GroupReport, ...]
    decisions: dict[str, int]
    """How many decisions of each action."""
    reasons: dict[str, int]
    """How many decisions for each reason."""
    retired: int
    merged: int
    """Memories that were synthesised from several."""
    pending: int
    """Questions the model could not answer, left for a later run."""
    usage: Usage
    estimated_model_calls: int
    model: str
    seconds: float
