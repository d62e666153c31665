"""What is said in a conversation, and what is found in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
)

from memory.models.decision import Outcome, Usage
from memory.models.values import MAX_CONTENT, MAX_NAME, Content, Frozen, Name, UtcTime, as_tuple
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


class Candidate(Frozen):
    """Something worth remembering that a model found in some turns."""

    content: Content
    user: Name | None = None
    """Whom it is about. It becomes a memory of the speaker of its turn, whoever this names."""
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turn: int | None = None
    """Position, from 0, of the turn that says it; None where the model does not say."""
    asked: bool = False
    """Whether somebody said "remember that ..."."""


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

    `pending` turns wait in the ledger for the next try; `known` were there before and add nothing.
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
