"""Memories and links, their scopes, and memories as a ledger holds them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    JsonValue,
)

from memory.errors import InputError
from memory.models.arguments import MAX_NAME, check_length
from memory.models.values import (
    Checked,
    Cleaned,
    Content,
    Frozen,
    LocalTime,
    Metadata,
    Name,
    UtcTime,
    Vector,
    as_tuple,
)
from memory.models.vectors import VectorTable
from memory.text import (
    Period,
    clean,
    dated,
    dated_key,
    periods,
    text_key,
    to_json,
)


def new_memory_id() -> str:
    """Return a random id for a memory.

    >>> is_memory_id(new_memory_id()), new_memory_id() == new_memory_id()
    (True, False)
    """
    return "mem_" + secrets.token_hex(6)


def is_memory_id(text: str) -> bool:
    """Return whether a text has the form of a memory's id; no memory needs to have it.

    >>> is_memory_id("mem_0123456789ab"), is_memory_id("mem_1")
    (True, False)
    """
    return re.fullmatch(r"mem_[0-9a-f]{12}", text) is not None


LinkType = Literal["similar", "caused_by", "leads_to", "related"]


INVERSE_LINK: Mapping[LinkType, LinkType] = {
    "similar": "similar",
    "related": "related",
    "caused_by": "leads_to",
    "leads_to": "caused_by",
}


class MemoryLink(Frozen):
    """A link from one memory to another, whose id is `target_id`.

    The other memory has a link back, of the inverse type (see INVERSE_LINK).

    >>> link = MemoryLink(target_id="mem_0123456789ab", link_type="caused_by", note="the cat")
    >>> INVERSE_LINK[link.link_type]  # the type of the link back
    'leads_to'
    """

    target_id: Cleaned
    link_type: LinkType = "related"
    note: Cleaned = ""
    confidence: float = Field(default=0.5, ge=0.0, le=1.0)


@lru_cache(maxsize=16_384)
def _times(
    text: str,
    said: datetime | None,
    offset: timedelta | None,  # noqa: ARG001 - equal times of two offsets are not the same day
) -> tuple[tuple[Period, ...], str]:
    """Return the time expressions of a text, and the same as JSON, "" if there are none."""
    found = periods(text, said)
    return found, to_json(found) if found else ""


def _without_repeats(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


class Memory(Checked):
    """A short text that states something worth remembering, with its user and its time.

    >>> now = datetime.now(UTC)
    >>> Memory(content="Mia rows.", user="Mia", tags=("sport",), timestamp=now).tags
    ('sport',)
    """

    id: str = Field(default_factory=new_memory_id, pattern=r"^mem_[0-9a-f]{12}$")
    external_id: Name | None = None
    """The memory's id in the source that it came from, such as a file or a conversation."""
    content: Content
    user: Name | None = None
    """The user that the memory is about; None means that it belongs to no user."""
    category: Name = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    importance: int = Field(default=3, ge=1, le=5)
    emotion: Name = "neutral"
    tags: Annotated[
        tuple[Name, ...], BeforeValidator(as_tuple), AfterValidator(_without_repeats)
    ] = ()
    is_private: bool = False
    linked_ids: tuple[MemoryLink, ...] = ()
    timestamp: UtcTime
    """The last time that the fact was stated; each restatement moves it."""
    said: LocalTime | None = Field(default=None, validation_alias=AliasChoices("said", "timestamp"))
    """The moment from which relative words of the text, such as "yesterday", count.

    It has the offset of the speaker, whose local day counts, and is never inherited. None means
    that the moment is unknown. If it is not given, it is `timestamp` as it was given.
    """
    expires_at: UtcTime | None = None
    """From then on the memory is retired; None means never."""
    merged_from: tuple[str, ...] = ()
    metadata: Metadata = Field(default_factory=dict)

    def lasts_as_long_as(self, other: Memory) -> bool:
        """Return whether this memory does not expire before the other one."""
        ends = self.expires_at, other.expires_at
        return ends[0] is None or (ends[1] is not None and ends[0] >= ends[1])

    @property
    def periods(self) -> tuple[Period, ...]:
        """The time expressions of the text, resolved against `said`, in order."""
        return _times(self.content, self.said, self.said and self.said.utcoffset())[0]

    @property
    def when(self) -> str:
        """The periods as JSON, "" if there are none."""
        return _times(self.content, self.said, self.said and self.said.utcoffset())[1]

    @property
    def dated_key(self) -> str:
        """The key of the text and of the dates that it means, under which verdicts are stored."""
        return dated_key(text_key(self.content), self.when)

    @property
    def dated(self) -> str:
        """The text with its day and the dates of its relative words, ready for a bot's prompt.

        >>> said = datetime(2026, 1, 20, tzinfo=UTC)
        >>> Memory(content="Mia sees the dentist tomorrow.", timestamp=said).dated
        '[Tue 2026-01-20] Mia sees the dentist tomorrow [= 2026-01-21].'
        """
        return dated(self.content, self.said)


class Episode(Frozen):
    """Memories that belong together in time, with a summary of all of them.

    >>> first, last = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 9, tzinfo=UTC)
    >>> ids = ["mem_0123456789ab", "mem_0123456789ac"]
    >>> trip = Episode(summary="Mia went to Rome.", memory_ids=ids, start_time=first, end_time=last)
    >>> trip.id[:3], trip.importance, trip.memory_ids
    ('ep_', 3, ('mem_0123456789ab', 'mem_0123456789ac'))
    """

    id: str = Field(
        default_factory=lambda: "ep_" + secrets.token_hex(6), pattern=r"^ep_[0-9a-f]{12}$"
    )
    user: Name | None = None
    summary: Content
    memory_ids: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(min_length=1)
    start_time: UtcTime
    end_time: UtcTime
    importance: int = Field(default=3, ge=1, le=5)


class Recalled(Memory):
    """A memory that a search found, with the `score` by which the results were ranked.

    `also`: other memories that state the same and are not shown on their own. `newer`: the id of a
    newer memory, by which this one may be outdated. `until`: when a superseded memory ceased to
    hold; None if it is live.

    >>> outcome = memories.remember("Ray rows.", user="Ray")
    >>> [(found.content, found.until) for found in memories.recall("rows", user="Ray")]
    [('Ray rows.', None)]
    """

    score: float
    also: tuple[Memory, ...] = ()
    newer: str | None = None
    until: datetime | None = None

    @property
    def dated(self) -> str:
        """The content as in `Memory`, and when a superseded memory ceased to hold."""
        return dated(self.content, self.said, self.until)


@dataclass(frozen=True)
class Embedded:
    """A memory and the vector of its normalised text; `vector` is None if the embedder failed.

    >>> from memory.text import normalise
    >>> cat = store.new_memory("Mia has a cat.", user="Mia")
    >>> [vector] = build_embedder(config).embed([normalise(cat.content)])
    >>> Embedded(cat, vector).vector.shape
    (256,)
    """

    memory: Memory
    vector: Vector | None


@dataclass(frozen=True)
class Collapsed:
    """One of the texts that `collapse` returns. Positions are those in the given list, from 0.

    `also`: the positions of texts that `text` states too. `contradicts`: those of returned texts
    that say otherwise in one place.

    >>> cats = ["Mia has a cat.", "Mia really has a cat!", "Mia has no cat."]
    >>> [(hit.text, hit.also, hit.contradicts) for hit in collapse(cats)]
    [('Mia has a cat.', (1,), (2,)), ('Mia has no cat.', (), (0,))]
    """

    text: str
    position: int
    also: tuple[int, ...] = ()
    contradicts: tuple[int, ...] = ()


@dataclass(frozen=True)
class SearchResult:
    """A memory that a search found, with its similarity to the query, rounded to 6 decimals.

    `relevance` is None if the search ranked by similarity alone. If the search also used BM25, a
    score for matching words, `relevance` is the sum of two standard scores: that of the cosine and
    that of BM25. A standard score is the distance from the mean, in standard deviations.

    `also`: other memories that the search found and that `memory` states, best first. They are not
    shown on their own.

    >>> outcome = memories.remember("Cleo has a tabby cat.", user="Cleo")
    >>> [hit] = store.search("Cleo has a tabby cat!", user="Cleo")
    >>> hit.similarity, hit.distance, hit.memory.content
    (1.0, 0.0, 'Cleo has a tabby cat.')
    """

    memory: Memory
    similarity: float
    cosine: float | None = None
    relevance: float | None = None
    also: tuple[Memory, ...] = ()
    newer: str | None = None
    """The id of a newer memory, by which this one may be outdated; None if there is none."""
    until: datetime | None = None
    """When a superseded memory ceased to hold; None if it is live."""

    @property
    def dated(self) -> str:
        """The content with its days, and when a superseded memory ceased to hold."""
        return dated(self.memory.content, self.memory.said, self.until)

    @property
    def score(self) -> float:
        """The value by which results are ranked: `relevance` or, if that is None, `similarity`."""
        return self.similarity if self.relevance is None else self.relevance

    @property
    def distance(self) -> float:
        return round(1.0 - self.similarity, 6)


SCOPE_FIELDS = ("user", "category", "emotion", "is_private")
"""The fields of a memory that a scope may use. Any other name in a scope is a metadata key."""


def _is_scope_field(name: str) -> str:
    if name in Memory.model_fields and name not in SCOPE_FIELDS:
        raise ValueError(f"{name} cannot divide memories; use user, category, emotion, or your own")
    return name


ScopeField = Annotated[Name, AfterValidator(_is_scope_field)]
"""A name in SCOPE_FIELDS, or a metadata key such as agent, channel or tenant."""


def scope_values(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a memory's metadata, with values that scopes can compare.

    Strings and None stay as they are; other values become JSON. Keys that are also in SCOPE_FIELDS
    are left out, because a scope reads these from the memory's own fields.

    >>> scope_values({"tenant": "acme", "room": 7, "user": "not this one"})
    {'tenant': 'acme', 'room': '7'}
    """
    return {
        name: value
        if value is None or isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for name, value in metadata.items()
        if name not in SCOPE_FIELDS
    }


@dataclass(frozen=True)
class Scope:
    """A set of memories: all that have certain values in certain fields.

    `values` holds (field name, value) pairs. Only memories of one scope are compared with each
    other.

    >>> Scope.of_user("Mia") == Scope.of_user("Ben")
    False
    """

    values: tuple[tuple[str, str | bool | None], ...]

    @classmethod
    def of_all(cls, *, private: bool = False) -> Scope:
        """Return the scope of all public memories; with `private`, that of all memories."""
        return cls(() if private else (("is_private", False),))

    @classmethod
    def of_user(cls, user: str, **others: str | bool | None) -> Scope:
        check_length("user", user, MAX_NAME)
        if not (name := clean(user)):
            raise InputError("user", "user is empty", "give a name")
        return cls((("user", name), *others.items()))

    @classmethod
    def of(cls, memory: Memory, fields: tuple[ScopeField, ...]) -> Scope:
        """Return the scope of a memory: its values of `fields` and, always, of `is_private`."""
        values = scope_values(memory.metadata) if memory.metadata else {}
        return cls(
            tuple(
                (name, getattr(memory, name) if name in SCOPE_FIELDS else values.get(name))
                for name in sorted({*fields, "is_private"})
            )
        )

    @property
    def user(self) -> str | None:
        """The user whose memories the scope holds.

        None if the scope has no field `user`, or if it holds memories that belong to no user.
        """
        return next((str(value) for name, value in self.values if name == "user" and value), None)

    @classmethod
    def from_key(cls, key: str) -> Scope:
        return cls(tuple(json.loads(key).items()))

    @property
    def metadata_fields(self) -> list[str]:
        return [name for name, _ in self.values if name not in SCOPE_FIELDS]

    def has(self, memory: Memory) -> bool:
        own = {name: getattr(memory, name) for name in SCOPE_FIELDS}
        return self.holds(scope_values(memory.metadata) | own)

    @property
    def key(self) -> str:
        return json.dumps(dict(self.values), ensure_ascii=False)

    def agrees_with(self, other: Scope) -> bool:
        """Return whether the two scopes have equal values in every field that both of them have."""
        mine = dict(self.values)
        return all(mine.get(name, value) == value for name, value in other.values)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether a memory with these values, by field name, is in the scope.

        A missing value counts as None.
        """
        return all(values.get(name) == value for name, value in self.values)


def turns_of(metadata: Mapping[str, JsonValue]) -> dict[str, list[str]]:
    """Return the turns from which a memory comes, by conversation, the oldest first.

    `metadata` is that of the memory: `conversation`, `turn` (the last one) and `turns` of the
    conversation, and in `other_turns` those of other conversations, if it was merged.

    >>> turns_of({"conversation": "c", "turn": "9", "turns": ["3", "9"]})
    {'c': ['3', '9']}
    """
    others, conversation = metadata.get("other_turns"), metadata.get("conversation")
    listed = [*others.items()] if isinstance(others, dict) else []
    if isinstance(conversation, str):
        turns, turn = metadata.get("turns"), metadata.get("turn")
        listed.append((conversation, [*(turns if isinstance(turns, list) else ()), turn]))
    found: dict[str, dict[str, None]] = {}
    for name, names in listed:
        for one in names if isinstance(names, list) else ():
            if isinstance(one, str):
                found.setdefault(name, {})[one] = None
    return {name: list(turns) for name, turns in found.items()}


def with_turns(members: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return the metadata of the last of `members`, with the turns of all of them.

    >>> with_turns([{"conversation": "c", "turn": "3"}, {"conversation": "c", "turn": "9"}])
    {'conversation': 'c', 'turn': '9', 'turns': ['3', '9']}
    >>> with_turns([{"conversation": "a", "turn": "3"}, {"conversation": "c", "turn": "9"}])
    {'conversation': 'c', 'turn': '9', 'other_turns': {'a': ['3']}}
    """
    kept = dict(members[-1])
    found: dict[str, dict[str, None]] = {}
    for metadata in members:
        for name, turns in turns_of(metadata).items():
            found.setdefault(name, {}).update(dict.fromkeys(turns))
    own = [*found.pop(str(kept.get("conversation")), ())]
    if len(own) > 1:
        kept["turns"] = list[JsonValue](own)
    if found:
        kept["other_turns"] = {name: list[JsonValue](turns) for name, turns in found.items()}
    return kept


# --- memories as the ledger holds them ---

TextPair = tuple[str, str, str]
"""The key of a scope, and the `dated_key` of two texts in sorted order."""
ScopedText = tuple[str, str]
"""The key of a scope and the `dated_key` of a text."""


@dataclass(frozen=True)
class Row:
    """A memory as stored. `seq` numbers the rows in order of arrival.

    `text_key`: a key made from the text alone; "" if the memory was forgotten. `dated_key`: the key
    of the text and of the dates that it means, under which verdicts are stored. `identity_hash`: a
    hash that recognises the memory if it arrives again. `revision`: the number of the transaction
    that wrote the row last. `until`: when what a superseded memory states ceased to hold; None for
    all others. Its successor supersedes it.

    >>> outcome = memories.remember("Ivo rows.", user="Ivo")
    >>> [row] = [row for row in store.snapshot().rows if row.memory.user == "Ivo"]
    >>> row.live, row.successor_id, row.forgotten
    (True, None, False)
    """

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    dated_key: str
    identity_hash: str
    seq: int
    revision: int
    until: datetime | None = None

    @property
    def forgotten(self) -> bool:
        return not self.text_key


@dataclass(frozen=True)
class Snapshot:
    """All live memories at one revision, oldest first, with the verdicts on their texts.

    - `ancestors`: maps a memory's id to the text keys of the memories that were merged into it,
      directly or in several steps. If the snapshot was taken with `whole_lineage`, and the memory
      has replaced others, its id is mapped to the text keys of all these retired memories instead.
    - `judged`: pairs of texts that a judge called distinct before the snapshot was taken.
    - `distinct`: pairs that the model is not asked about. These are the pairs in `judged`, and the
      pairs that the model failed to judge recently or too often.
    - `waiting`: the number of pairs that the model failed to judge recently or too often.
    - `kept_apart`: pairs that a person keeps as two memories.
    - `stands_for`: maps a memory's id to the `dated_key` of all retired memories that it has
      replaced, directly or in several steps. It is empty if `kept_apart` is empty.
    - `read`: texts that the model has already read on a page, a question about many memories.

    >>> outcome = memories.remember("Uma rows.", user="Uma")
    >>> snapshot = store.snapshot()
    >>> outcome.memory.id in {row.memory.id for row in snapshot.rows}, snapshot.waiting
    (True, 0)
    """

    rows: tuple[Row, ...]
    vectors: VectorTable
    ancestors: Mapping[str, tuple[str, ...]]
    distinct: frozenset[TextPair]
    revision: int
    waiting: int = 0
    judged: frozenset[TextPair] = frozenset()
    kept_apart: frozenset[TextPair] = frozenset()
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: frozenset[ScopedText] = frozenset()
