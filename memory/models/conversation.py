"""Turns of a conversation, and what was extracted from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
)

from memory.models.decision import Outcome, Usage
from memory.models.memory import (
    MAX_CONTENT,
    MAX_NAME,
    Cleaned,
    Content,
    Frozen,
    Memory,
    Name,
    UtcTime,
    as_tuple,
)
from memory.text import clean


def _number_as_name(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


class Turn(Frozen):
    """A turn of a conversation."""

    speaker: Name
    text: Annotated[str, AfterValidator(clean), Field(max_length=MAX_CONTENT)]
    at: UtcTime
    is_bot: bool = False
    """Turns of the bot are context, and never become memories."""
    id: Annotated[Name | None, BeforeValidator(_number_as_name)] = None
    """Unique within the conversation; by default, the turn's position."""
    conversation: Name = Field(default_factory=lambda given: given.get("speaker", ""))
    """Turns of one conversation are read together; by default, the speaker's name."""
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Memories recalled around this turn, whose facts are not extracted again."""


def as_numbers(value: object) -> object:
    """Return numbers as a tuple: a single number, a list, or None for no number."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else as_tuple(value)


class Candidate(Frozen):
    """A fact worth remembering that a model found in some turns."""

    content: Content
    """The fact, from these turns alone."""
    user: Name | None = None
    """The user it is about; it always becomes a memory of a speaker of its turns."""
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turns: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = Field(
        default=(), validation_alias=AliasChoices("turns", "turn")
    )
    """Positions, from 0, of the turns that state it; empty if unknown."""
    replaces: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = ()
    """Positions, from 0, of the remembered memories that it repeats, updates or extends."""
    merged: Cleaned = ""
    """One text for `content` and the replaced memories."""
    asked: bool = False
    """Whether the speaker asked to remember it."""


class NamedMemory(Frozen):
    """A stored memory as it was shown to a model; if its text key differs now, it has changed."""

    id: str
    text_key: str


class KeptCandidate(Candidate):
    """A candidate that waits in the ledger, with turns and memories by name."""

    said_in: tuple[Name, ...] = ()
    """Names of the turns that state it; if empty, the turn it is kept with."""
    named: tuple[NamedMemory, ...] = ()
    """Memories of its own user that it replaces if `merged` is accepted."""


@dataclass(frozen=True)
class Extracted:
    """An extracted memory, and what the model said of the memories it was shown."""

    memory: Memory
    named: tuple[NamedMemory, ...] = ()
    """Memories that it repeats, updates or extends."""
    merged: str = ""
    """One text for it and the named memories."""
    shown: frozenset[str] = frozenset()
    """Keys of the texts that the model was shown with the turns."""


def name_of_candidate(conversation: str, turn: str, position: int) -> str:
    """Return the external id of the memory that a candidate becomes, the same after a crash.

    It is a hash if the whole name would be too long.
    """
    whole = f"{conversation}/{turn}/{position}"
    return whole if len(whole) <= MAX_NAME else hashlib.sha256(whole.encode()).hexdigest()


class Extraction(Frozen):
    """The candidates that a model found in some turns."""

    candidates: tuple[Candidate, ...] = ()
    usage: Usage = Usage(calls=1)


class Reply(Frozen):
    """The next turn of the bot."""

    text: str
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class ExtractionResult:
    """The result of extracting memories from turns.

    `pending` counts what waits in the ledger for the model: turns, and questions about memories of
    these turns. `known` counts turns that were kept before.
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    """Candidates dropped because a recalled memory states them."""
    over_limit: int = 0
    """Candidates dropped because there were more than turns of this length can state."""
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
    """Why turns are pending."""
