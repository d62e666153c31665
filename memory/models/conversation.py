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
    """Whether the bot said the message. A bot's message is context, and never becomes a memory."""
    id: Annotated[Name | None, BeforeValidator(_number_as_name)] = None
    """A name that is unique in the conversation; if None, the store names the turn."""
    conversation: Name = Field(default_factory=lambda given: given.get("speaker", ""))
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Ids of memories that the bot recalled for this turn. What these state is not stored again."""


def as_numbers(value: object) -> object:
    """Convert None, an integer or a list to a tuple; return any other value unchanged."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else as_tuple(value)


class Candidate(Frozen):
    """A fact that a language model found in some turns, before it is stored as a memory."""

    content: Content
    user: Name | None = None
    """The user that the fact is about, according to the model.

    If this user did not speak in the turns, the memory belongs to the last person who spoke.
    """
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turns: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = Field(
        default=(), validation_alias=AliasChoices("turns", "turn")
    )
    """Positions, from 0, of the turns that state the fact; empty if unknown."""
    replaces: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = ()
    """Positions, from 0, of the memories that the fact repeats or changes.

    They refer to the memories that `LanguageModel.extract` was given as `remembered`.
    """
    merged: Cleaned = ""
    """A text that states everything in `content` and in the memories of `replaces`; may be ""."""
    asked: bool = False
    """Whether the speaker asked the bot to remember the fact."""


class NamedMemory(Frozen):
    """A stored memory that a new fact repeats or changes, according to a model.

    `text_key` is a hash of the text that the model saw.
    """

    id: str
    text_key: str


class KeptCandidate(Candidate):
    """A candidate that waits in the ledger to become a memory.

    Positions of turns and memories mean nothing to another process. So `said_in` holds the names
    of the turns that state the fact, and `named` the memories that the fact repeats or changes.
    """

    said_in: tuple[Name, ...] = ()
    named: tuple[NamedMemory, ...] = ()


@dataclass(frozen=True)
class Extracted:
    """A new memory from a conversation, and how it relates to memories shown to the model.

    The new memory repeats, updates or extends the memories in `named`. `merged` is one text that
    can replace the new memory and those in `named`; "" if there is none. `shown` holds the text
    keys (hashes of texts) of all memories shown.
    """

    memory: Memory
    named: tuple[NamedMemory, ...] = ()
    merged: str = ""
    shown: frozenset[str] = frozenset()


def name_of_candidate(conversation: str, turn: str, position: int) -> str:
    """Return the external id of the memory that a candidate becomes.

    `turn` is a turn's name. `position` counts the turn's candidates from 0. An extraction that is
    repeated after a crash gives the same ids.
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

    `extracted` counts the turns that were read. `known` counts the given turns that had been stored
    before. `pending` counts turns and questions that wait for the model; `problem` says why they
    wait. `already_remembered` counts facts dropped because a recalled memory states them.
    `over_limit` counts facts dropped because the model found too many for turns of this number and
    length.
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    over_limit: int = 0
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
