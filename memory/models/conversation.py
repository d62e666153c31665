"""Turns of a conversation, the facts that a model found in them, and results of extractions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
)

from memory.models.arguments import MAX_CONTENT, MAX_NAME
from memory.models.decision import Outcome, Usage
from memory.models.memory import Memory
from memory.models.values import Checked, Cleaned, Content, Frozen, LocalTime, Name, as_tuple


def _number_as_name(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


class Turn(Checked):
    """One message of a conversation, said by a person or by the bot.

    >>> Turn(speaker="Mia", text="I have a cat.", at=datetime.now(UTC)).speaker
    'Mia'
    """

    speaker: Name
    text: Annotated[Cleaned, Field(max_length=MAX_CONTENT)]
    at: LocalTime
    """When it was said, with the speaker's offset, which says which day "today" is."""
    is_bot: bool = False
    """Whether the bot said the message. A bot's message is context, and never becomes a memory."""
    id: Annotated[Name | None, BeforeValidator(_number_as_name)] = None
    """A name that is unique in the conversation; if None, the store names the turn."""
    conversation: Name = Field(default_factory=lambda given: given.get("speaker", ""))
    recalled_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Ids of the memories that the bot recalled for this turn.

    If such a memory covers a new fact about the same user, the fact is dropped. It is not dropped
    if the user asked the bot to remember the fact.
    """


def as_numbers(value: object) -> object:
    """Convert None, an integer or a list to a tuple; return any other value unchanged.

    >>> as_numbers(3), as_numbers([1, 2]), as_numbers(None)
    ((3,), (1, 2), ())
    """
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else as_tuple(value)


class Candidate(Frozen):
    """A fact that a language model found in some turns, before it is stored as a memory.

    >>> turn = Turn(speaker="Mia", text="I have a cat and a dog.", at=datetime.now(UTC))
    >>> found = (await model.extract([turn])).candidates
    >>> [(one.content, one.turns) for one in found]
    [('Mia has a cat and a dog.', (0,))]
    """

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
    """The stored memories that the fact repeats or changes, as positions in a list.

    The list is the argument `remembered` of `LanguageModel.extract`. Its first position is 0.
    """
    merged: Cleaned = ""
    """One text for the fact and the memories in `replaces` together; "" if the model gave none."""
    ends: Annotated[tuple[int, ...], BeforeValidator(as_numbers)] = ()
    """The stored memories of which, because of the fact, nothing holds any more; as `replaces`."""
    asked: bool = False
    """Whether the speaker asked the bot to remember the fact."""


class NamedMemory(Frozen):
    """A stored memory that a model named, because a new fact repeats or changes the memory.

    `text_key` is a hash of the text that the memory had when the model saw it.

    >>> from memory.text import text_key
    >>> cat = memories.remember("Uwe has a cat.", user="Uwe").memory
    >>> seen = NamedMemory(id=cat.id, text_key=text_key(cat.content))
    >>> changed = memories.update(cat.id, "Uwe has two cats.")  # not what the model saw any more
    >>> text_key(store.get(seen.id).content) == seen.text_key
    False
    """

    id: str
    text_key: str


class KeptCandidate(Candidate):
    """A candidate in the form in which it is stored in the ledger, until it becomes a memory.

    `said_in`: the names of the turns in which people state the fact, if the model named several
    turns; otherwise empty. `named`: the stored memories that the fact repeats or changes. `ended`:
    the ids of those that it ends. `owner`: the person to whom the memory will belong; None stands
    for the speaker of its turn.

    These fields take the place of `turns`, `replaces` and `ends`, which are empty. Their positions
    are only valid during one call of the model.

    >>> kept = KeptCandidate(content="Uwe rows.", owner="Uwe", said_in=("7", "9"))
    >>> KeptCandidate.model_validate_json(kept.model_dump_json()).turns, kept.said_in
    ((), ('7', '9'))
    """

    said_in: tuple[Name, ...] = ()
    named: tuple[NamedMemory, ...] = ()
    ended: tuple[str, ...] = ()
    owner: Name | None = None


@dataclass(frozen=True)
class Extracted:
    """A new memory from a conversation, and the stored memories that it may be merged with.

    `named`: the stored memories that the new memory repeats or changes, according to the model.
    `merged`: the model's text for a merge of the new memory and the memories in `named`; "" if
    `named` is empty. `shown`: the text keys (hashes of texts) of stored memories with which the
    model has already compared the new memory. `ended`: the ids of stored memories that, according
    to the model, the new memory ends.

    >>> from memory.text import text_key
    >>> boat = memories.remember("Vic has a boat.", user="Vic").memory
    >>> named = NamedMemory(id=boat.id, text_key=text_key(boat.content))
    >>> new = store.new_memory("Vic has a red boat.", user="Vic")
    >>> fact = Extracted(new, named=(named,), merged="Vic has a red boat.")
    >>> [outcome] = await deduplicator.check_and_merge_all([fact])
    >>> outcome.action.value, outcome.memory.content
    ('merge', 'Vic has a red boat.')
    """

    memory: Memory
    named: tuple[NamedMemory, ...] = ()
    merged: str = ""
    shown: frozenset[str] = frozenset()
    ended: tuple[str, ...] = ()


def name_of_candidate(conversation: str, turn: str, position: int) -> str:
    """Return the external id of the memory that a candidate becomes.

    `turn` is a turn's name. `position` counts the turn's candidates from 0. An extraction that is
    repeated after a crash gives the same ids.

    >>> name_of_candidate("chat-1", "7", 0)
    'chat-1/7/0'
    >>> len(name_of_candidate("chat-1" * 1000, "7", 0))  # a hash, because names have a limit
    64
    """
    whole = f"{conversation}/{turn}/{position}"
    return whole if len(whole) <= MAX_NAME else hashlib.sha256(whole.encode()).hexdigest()


class Extraction(Frozen):
    """A language model's answer: the facts that it found in some turns, and what it cost.

    >>> turn = Turn(speaker="Mia", text="Nice weather today!", at=datetime.now(UTC))
    >>> extraction = await model.extract([turn])
    >>> extraction.candidates, extraction.usage.calls  # nothing worth remembering, and no cost
    ((), 0)
    """

    candidates: tuple[Candidate, ...] = ()
    usage: Usage = Usage(calls=1)


class Reply(Frozen):
    """The bot's next message, and what it cost.

    >>> turn = Turn(speaker="Mia", text="Which pets do I have?", at=datetime.now(UTC))
    >>> reply = await model.reply([turn], [store.new_memory("Mia has a cat.", user="Mia")])
    >>> reply.text
    'I remember: Mia has a cat.'
    """

    text: str
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class ExtractionResult:
    """The result of extracting memories from turns of conversations.

    `extracted`: the number of turns whose extraction is finished. `pending`: the number of turns
    that are not extracted yet, plus the number of new memories about which a later batch will ask
    the model. `known`: the number of turns that the caller gave, but that were already stored.
    `already_remembered`: the number of facts dropped because a memory that the bot recalled covers
    them. `over_limit`: the number of facts dropped because the model found too many. The limit
    grows with the number and the length of the turns. `problem`: the first error; "" if there was
    none.

    >>> turn = Turn(speaker="Wim", text="I have a parrot.", at=datetime.now(UTC))
    >>> extractor = build_extractor(store, config, model)
    >>> result = await extractor.extract_and_store([turn])
    >>> result.pending, [outcome.memory.content for outcome in result.outcomes]
    (0, ['Wim has a parrot.'])
    """

    outcomes: tuple[Outcome, ...] = ()
    extracted: int = 0
    pending: int = 0
    known: int = 0
    already_remembered: int = 0
    over_limit: int = 0
    usage: Usage = field(default_factory=Usage)
    problem: str = ""
