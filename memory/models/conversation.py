"""Turns of a conversation, the facts that a model found in them, and results of extractions."""

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
    """One message of a conversation, said by a person or by the bot."""

    speaker: Name
    text: Annotated[str, AfterValidator(clean), Field(max_length=MAX_CONTENT)]
    at: UtcTime
    is_bot: bool = False
    """Whether the bot said it. Turns of the bot are only context: they never become memories."""
    id: Annotated[Name | None, BeforeValidator(_number_as_name)] = None
    """A name that is unique in the conversation. If None, the turn's position or time is used."""
    conversation: Name = Field(default_factory=lambda given: given.get("speaker", ""))
    """The conversation's name; by default, the speaker's.

    Turns of one conversation are read together.
    """
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Ids of the memories recalled for this turn. Their facts are not extracted again."""


def as_numbers(value: object) -> object:
    """Return None as an empty tuple, an integer as a tuple of one, and a list as a tuple.

    Any other value is returned unchanged, for pydantic to check.
    """
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else as_tuple(value)


class Candidate(Frozen):
    """A fact that a language model found in some turns, before it is stored as a memory."""

    content: Content
    """The fact, as these turns state it, without knowledge from other turns or memories."""
    user: Name | None = None
    """The user it is about, as the model says.

    The memory always belongs to a speaker of its turns.
    """
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turns: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = Field(
        default=(), validation_alias=AliasChoices("turns", "turn")
    )
    """Positions, from 0, of the turns that state the fact; empty if unknown."""
    replaces: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = ()
    """Positions, from 0, of the memories shown to the model that it repeats, updates or extends."""
    merged: Cleaned = ""
    """One text that states `content` and the memories in `replaces`; empty if there is none."""
    asked: bool = False
    """Whether the speaker asked the bot to remember it."""


class NamedMemory(Frozen):
    """A stored memory that a model was shown: its id, and the key of the text it had then.

    If the stored memory's text key differs now, the memory has changed since it was shown.
    """

    id: str
    text_key: str


class KeptCandidate(Candidate):
    """A candidate that waits in the ledger to become a memory.

    It gives turns by name and memories by id, not by position.
    """

    said_in: tuple[Name, ...] = ()
    """Names of the turns that state it; if empty, only the turn that it is stored with."""
    named: tuple[NamedMemory, ...] = ()
    """Memories of the same user that it replaces if its `merged` text is accepted."""


@dataclass(frozen=True)
class Extracted:
    """An extracted memory, and how it relates to the memories that the model was shown."""

    memory: Memory
    named: tuple[NamedMemory, ...] = ()
    """Memories that the new one repeats, updates or extends."""
    merged: str = ""
    """One text that states the new memory and those in `named`; empty if there is none."""
    shown: frozenset[str] = frozenset()
    """Text keys of all memories that the model was shown with the turns."""


def name_of_candidate(conversation: str, turn: str, position: int) -> str:
    """Return the external id of the memory that a candidate becomes.

    It depends only on the arguments, so that a repeated extraction after a crash gives the same id.
    `position` is the candidate's position among those of its turn. An id that would be too long is
    replaced by its hash.
    """
    whole = f"{conversation}/{turn}/{position}"
    return whole if len(whole) <= MAX_NAME else hashlib.sha256(whole.encode()).hexdigest()


class Extraction(Frozen):
    """The answer of a language model that was asked for candidates in some turns."""

    candidates: tuple[Candidate, ...] = ()
    usage: Usage = Usage(calls=1)


class Reply(Frozen):
    """The bot's next message, and what it cost."""

    text: str
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class ExtractionResult:
    """The result of extracting memories from turns.

    `extracted` counts the turns read. `pending` counts what still waits for the model in the
    ledger: turns, and questions about memories from these turns. `known` counts the given turns
    that had been stored before.
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    """The number of candidates dropped because a recalled memory already states them."""
    over_limit: int = 0
    """Candidates dropped because turns of this length cannot state that many facts."""
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
    """Why turns are still pending; empty if there was no problem."""
