"""What is said in a conversation, and what is found in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
)

from memory.models.decision import Outcome, Usage
from memory.models.memory import Memory
from memory.models.values import (
    MAX_CONTENT,
    MAX_NAME,
    Cleaned,
    Content,
    Frozen,
    Name,
    UtcTime,
    as_tuple,
)
from memory.text import clean


def _number_as_name(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


class Turn(Frozen):
    """One thing that somebody said in a conversation."""

    speaker: Name
    text: Annotated[str, AfterValidator(clean), Field(max_length=MAX_CONTENT)]
    at: UtcTime
    is_bot: bool = False
    """What the bot says gives context, and is never remembered."""
    id: Annotated[Name | None, BeforeValidator(_number_as_name)] = None
    """Unique within the conversation; without one, the turn's position names it."""
    conversation: Name = Field(default_factory=lambda given: given.get("speaker", ""))
    """Turns of one conversation are read together; without one, a turn is its speaker's alone."""
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Memories that were recalled around this turn: what they say is not extracted again."""


def as_numbers(value: object) -> object:
    """Numbers as a tuple; a single one stands for itself, None for no number."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else as_tuple(value)


class Candidate(Frozen):
    """Something worth remembering that a model found in some turns."""

    content: Content
    """What these turns alone say."""
    user: Name | None = None
    """Whom it is about. It becomes a memory of somebody who speaks in its turns, in any case."""
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turns: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = Field(
        default=(), validation_alias=AliasChoices("turns", "turn")
    )
    """Positions, from 0, of the turns that say it; empty where the model does not say."""
    replaces: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = ()
    """Positions, from 0, of the remembered memories that it repeats, updates or extends."""
    merged: Cleaned = ""
    """One text for `content` and the memories that it replaces."""
    asked: bool = False
    """Whether somebody said "remember that ..."."""


class NamedMemory(Frozen):
    """A stored memory as a model was shown it: another text key means that it has changed."""

    id: str
    text_key: str


class KeptCandidate(Candidate):
    """A candidate as it waits in the ledger: its turns and memories by name, not by position."""

    said_in: tuple[Name, ...] = ()
    """Names of the turns that say it; empty: the one that it is kept with."""
    named: tuple[NamedMemory, ...] = ()
    """What it replaces if `merged` is accepted: memories of its own user."""


@dataclass(frozen=True)
class Extracted:
    """A new memory, and what the model that extracted it said of the memories it was shown."""

    memory: Memory
    named: tuple[NamedMemory, ...] = ()
    """Memories that it repeats, updates or extends."""
    merged: str = ""
    """One text for it and for these."""
    shown: frozenset[str] = frozenset()
    """Keys of the texts that the model was shown beside the turns."""


def name_of_candidate(conversation: str, turn: str, position: int) -> str:
    """The external id of the memory that a candidate becomes, known again after a crash.

    A hash where the whole name is longer than a name may be.
    """
    whole = f"{conversation}/{turn}/{position}"
    return whole if len(whole) <= MAX_NAME else hashlib.sha256(whole.encode()).hexdigest()


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

    `pending` is what waits in the ledger for the model: turns, and questions about what these turns
    said; `memory-dedup stats` counts both. `known` turns were there before and add nothing.
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    """Candidates dropped because a recalled memory says them."""
    over_limit: int = 0
    """Candidates dropped because a model found more than turns of this length can say."""
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
    """Why turns are pending."""

    def with_waiting(self, turns: int) -> ExtractionResult:
        """Return the same with so many waiting turns, and its open questions, as pending."""
        questions = sum(outcome.pending for outcome in self.outcomes)
        return replace(self, pending=turns + questions)
