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
    """Whether the bot said the message. It is then only context, and never becomes a memory."""
    id: Annotated[Name | None, BeforeValidator(_number_as_name)] = None
    """A name that is unique in the conversation.

    If None, the store names the turn: by its position in the list of turns that are stored together
    or, if it is stored alone, by its time.
    """
    conversation: Name = Field(default_factory=lambda given: given.get("speaker", ""))
    """The name of the conversation; by default, it is the name of the speaker.

    Turns of one conversation are given to the model together.
    """
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Ids of the memories that the bot recalled for this turn.

    The facts in these memories are not extracted a second time.
    """


def as_numbers(value: object) -> object:
    """Convert the positions in a model's answer to a tuple of integers.

    None becomes an empty tuple, and one integer becomes a tuple of one. A list becomes a tuple. Any
    other value is returned unchanged, for pydantic to check.
    """
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else as_tuple(value)


class Candidate(Frozen):
    """A fact that a language model found in some turns, before it is stored as a memory."""

    content: Content
    """The fact as the turns state it, without knowledge from other turns or memories."""
    user: Name | None = None
    """The user that the fact is about, according to the model.

    Whatever the model says, the memory made from the fact belongs to a speaker of the turns.
    """
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turns: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = Field(
        default=(), validation_alias=AliasChoices("turns", "turn")
    )
    """Positions, from 0, of the turns that state the fact; empty if unknown.

    They refer to the list of turns that the model was asked about.
    """
    replaces: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = ()
    """Positions, from 0, of stored memories that the fact repeats, updates or extends.

    They refer to the list of memories that the model was shown.
    """
    merged: Cleaned = ""
    """One text that states `content` and the memories in `replaces`; "" if there is none."""
    asked: bool = False
    """Whether the speaker asked the bot to remember the fact."""


class NamedMemory(Frozen):
    """A stored memory that a model was shown: its id, and the key of its text at that time.

    If the memory's text key is different later, the memory has changed.
    """

    id: str
    text_key: str


class KeptCandidate(Candidate):
    """A candidate (a fact that a model found) that waits in the ledger to become a memory.

    It refers to turns by name and to memories by id, not by position.
    """

    said_in: tuple[Name, ...] = ()
    """Names of the turns that state the fact.

    If empty, only the turn with which the candidate is stored states it.
    """
    named: tuple[NamedMemory, ...] = ()
    """Stored memories of the same user that the new memory replaces if `merged` is accepted."""


@dataclass(frozen=True)
class Extracted:
    """A new memory from a conversation, and how it relates to memories shown to the model."""

    memory: Memory
    named: tuple[NamedMemory, ...] = ()
    """Stored memories that the new memory repeats, updates or extends."""
    merged: str = ""
    """One text that states the new memory and the memories in `named`; "" if there is none."""
    shown: frozenset[str] = frozenset()
    """Text keys of all memories that the model was shown with the turns."""


def name_of_candidate(conversation: str, turn: str, position: int) -> str:
    """Return the external id of the memory that a candidate becomes.

    `turn` is the name of the turn that holds the candidate. `position` is the candidate's position,
    from 0, among the candidates of this turn. The result depends only on the arguments, so a memory
    gets the same id if its extraction is repeated after a crash.
    """
    whole = f"{conversation}/{turn}/{position}"
    return whole if len(whole) <= MAX_NAME else hashlib.sha256(whole.encode()).hexdigest()


class Extraction(Frozen):
    """A language model's answer: the facts that it found in some turns, and what it cost."""

    candidates: tuple[Candidate, ...] = ()
    usage: Usage = Usage(calls=1)


class Reply(Frozen):
    """The bot's next message, and what it cost."""

    text: str
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class ExtractionResult:
    """The result of extracting memories from turns of conversations.

    `outcomes` has the result of storing each extracted memory. `extracted` is the number of turns
    that were read. `pending` is the number of turns and questions that still wait for the model;
    the questions are about memories made from these turns. `known` is the number of the caller's
    turns that had been stored before.
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    """The number of candidates dropped because a memory that the bot recalled states them."""
    over_limit: int = 0
    """The number of candidates dropped because the turns are too short to state so many facts."""
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
    """Why turns are still pending; empty if there was no problem."""
