"""Memories and links, their scopes, and how alike they are: cosines, and scales for them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    JsonValue,
    model_validator,
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
    Vectors,
    as_tuple,
)
from memory.text import (
    Period,
    clean,
    dated,
    dated_key,
    has_cjk,
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

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if name != "said" or value != self.timestamp:
                yield name, f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else value

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

    A score is relative to one search: 0 is an average memory of those searched, 3 stands out.
    `also`: other memories that state the same and are not shown on their own. `newer`: the id of a
    newer memory, by which this one may be outdated; `dated` does not say so, since both may hold.
    `until`: when a superseded memory ceased to
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

    >>> outcome = memories.remember("Cleo has a black cat.", user="Cleo")
    >>> [hit] = store.search("Cleo has a black cat!", user="Cleo")
    >>> hit.similarity, hit.distance, hit.memory.content
    (1.0, 0.0, 'Cleo has a black cat.')
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


_TURNS = frozenset({"conversation", "turn", "turns", "other_turns"})


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
    """Return the metadata of all `members`, with the turns of all of them.

    If several have a key, the last one's value counts.

    >>> with_turns([{"conversation": "c", "turn": "3"}, {"conversation": "c", "turn": "9"}])
    {'conversation': 'c', 'turn': '9', 'turns': ['3', '9']}
    >>> with_turns([{"conversation": "a", "turn": "3"}, {"conversation": "c", "turn": "9"}])
    {'conversation': 'c', 'turn': '9', 'other_turns': {'a': ['3']}}
    >>> with_turns([{"room": "kitchen", "by": "app"}, {"by": "chat"}])
    {'room': 'kitchen', 'by': 'chat'}
    """
    values = {name: value for one in members for name, value in one.items() if name not in _TURNS}
    kept: dict[str, JsonValue] = {**values, **members[-1]}
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


# --- cosines of vectors, and the scales that turn them into similarities -------------------------

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
LOWER = 0.90
"""The default of the setting `dedup_lower_threshold`, a similarity.

About half of the pairs of memories with this similarity are copies or worth merging. The `anchor`
of a scale is the cosine that the scale turns into this similarity.
"""
NEAR_COPY = 0.95
"""At this cosine and above, similarity equals cosine for every embedder."""
_PLACES = 6
_STEP = 10.0**-_PLACES


def cosine_of(a: Vector, b: Vector) -> float:
    """Return the cosine of two vectors, computed in float64 and rounded to 6 decimals.

    >>> cosine_of(np.array([1, 0], np.float32), np.array([0.6, 0.8], np.float32))
    0.6
    """
    return float(cosines_of(a[None, :], b[None, :])[0])


def cosines_of(a: Vectors, b: Vectors) -> Floats:
    """Return the cosine of each row of `a` (n, dim) with the same row of `b`, as an array (n,).

    If `b` has only one row, each row of `a` is compared with it. The cosines are computed in
    float64 and rounded to 6 decimals.

    >>> rows = np.array([[1, 0], [0.6, 0.8]], np.float32)
    >>> cosines_of(rows, rows[:1])
    array([1. , 0.6])
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    products: Floats = np.einsum("nd,nd->n", a64, b64) / np.maximum(lengths, 1e-30)
    return np.round(products, 6)


def scores_of(vectors: Vectors, i: Ints, j: Ints) -> Floats:
    """Return the cosine of each pair of rows `i[n]`, `j[n]` of `vectors`, as an array (len(i),).

    The cosines are those of `cosines_of`, but each row's length is computed once. Few pairs are
    computed at a time, so that they fit into the processor's cache.

    >>> scores_of(np.array([[1, 0], [0.6, 0.8]], np.float32), np.array([0]), np.array([1]))
    array([0.6])
    """
    rows, place = np.unique(np.concatenate([i, j]), return_inverse=True)
    lengths = np.empty(len(rows))
    for part in chunks(len(rows)):
        lengths[part] = np.linalg.norm(vectors[rows[part]].astype(np.float64), axis=1)
    products = lengths[place[: len(i)]] * lengths[place[len(i) :]]
    cosines = np.empty(len(i))
    for part in chunks(len(i)):
        a, b = vectors[i[part]].astype(np.float64), vectors[j[part]].astype(np.float64)
        cosines[part] = np.einsum("nd,nd->n", a, b) / np.maximum(products[part], 1e-30)
    return np.round(cosines, 6)


def slack(dim: int) -> float:
    """Return the maximum error of a float32 product of two unit vectors of `dim` numbers.

    The error is the difference from the cosine that `cosine_of` computes.

    >>> slack(256) < 0.0001
    True
    """
    return (dim + 8) * 2.0**-24 + 5e-6


def chunks(size: int, step: int = 512) -> Iterator[slice]:
    """Cut the positions from 0 to `size` into slices of `step`.

    >>> list(chunks(600))
    [slice(0, 512, None), slice(512, 1024, None)]
    """
    return (slice(start, start + step) for start in range(0, size, step))


class Scale(Frozen):
    """A piecewise linear curve from an embedder's cosine to similarity.

    The curve goes through (0, 0), (`anchor`, 0.90) and (0.95, 0.95). If at least one of two
    compared texts has kana or Han, `anchor_kana_han` takes the place of `anchor`. Below 0 and from
    0.95 on, the similarity equals the cosine.

    Two embedders give the same two texts different cosines. If each embedder has its own scale, the
    same thresholds fit all embedders.

    >>> scale = Scale(anchor=0.70)
    >>> scale.similarity(0.70, "Mia has a cat.", "Mia got a cat."), scale.cosine(0.90)
    (0.9, 0.7)
    """

    anchor: float = Field(gt=0.0, lt=NEAR_COPY)
    anchor_kana_han: float | None = Field(default=None, gt=0.0, lt=NEAR_COPY)
    """The anchor for pairs in which a text has kana or Han; None means `anchor`."""

    @model_validator(mode="after")
    def _check_anchors(self) -> Scale:
        if self.cjk_anchor < self.anchor:
            raise ValueError(f"anchor_kana_han {self.cjk_anchor} is below anchor {self.anchor}")
        return self

    @property
    def cjk_anchor(self) -> float:
        return self.anchor if self.anchor_kana_han is None else self.anchor_kana_han

    def similarity(self, cosine: float, a: str, b: str) -> float:
        """Return the similarity of texts `a` and `b`, to 6 decimals, given their cosine."""
        return float(self.similarities(np.array([cosine]), has_cjk(a) or has_cjk(b))[0])

    def similarities(self, cosines: Floats, has_cjk: Flags | bool) -> Floats:
        """Return the similarities of n pairs of texts, given the cosines of their vectors.

        `cosines` and the result have shape (n,). `has_cjk` says whether at least one text of a pair
        has kana or Han. It is an array of shape (n,), or one value for all pairs.
        """
        cosines = np.round(cosines, _PLACES)  # 0.95 can be slightly lower in float32
        anchors = np.where(has_cjk, self.cjk_anchor, self.anchor)
        rise = (NEAR_COPY - LOWER) / (NEAR_COPY - anchors)
        below, above = cosines * (LOWER / anchors), LOWER + (cosines - anchors) * rise
        bent = np.round(np.where(cosines <= anchors, below, above), _PLACES)
        # Rounding must not lift a similarity to 0.95.
        bent = np.minimum(bent, round(NEAR_COPY - _STEP, _PLACES))
        return np.where((cosines <= 0.0) | (cosines >= NEAR_COPY), cosines, bent)

    def cosine(self, similarity: float, text: str = "") -> float:
        """Return the lowest cosine at which `text` and another text can reach this similarity.

        The other text may be any text. `text` is only checked for kana and Han; "" has neither.
        """
        return _lowest_cosine(self, similarity, has_cjk(text))

    def cosines(self, similarity: float, has_cjk: Flags) -> Floats:
        """Return the result of `cosine` for each of n texts.

        `has_cjk`, shape (n,), says which texts have kana or Han. The result has shape (n,).
        """
        return np.where(
            has_cjk, _lowest_cosine(self, similarity, True), _lowest_cosine(self, similarity, False)
        )


@lru_cache(maxsize=256)
def _lowest_cosine(scale: Scale, similarity: float, has_cjk: bool) -> float:
    if similarity < 0.0 or similarity >= NEAR_COPY:
        return similarity
    anchor = scale.cjk_anchor if has_cjk else scale.anchor
    curve = (0.0, LOWER, NEAR_COPY), (0.0, anchor, NEAR_COPY)
    found = round(float(np.interp(similarity, *curve)), _PLACES)

    def of(cosine: float) -> float:
        return float(scale.similarities(np.array([cosine]), has_cjk)[0])

    while of(found) < similarity:
        found = round(found + _STEP, _PLACES)
    while of(round(found - _STEP, _PLACES)) >= similarity:
        found = round(found - _STEP, _PLACES)
    return found


PLAIN = Scale(anchor=LOWER)
"""The scale that changes nothing: the similarity equals the cosine."""

_OWN = {
    "wordllama-": Scale(anchor=0.70, anchor_kana_han=0.88),
    "chroma-all-MiniLM-": Scale(anchor=0.77),
}
"""The scales of known embedders. A key is the beginning of an embedder's fingerprint.

Each `anchor` is fitted to a reader's verdicts on pairs of memories. A model had extracted these
memories from conversations, and none has kana or Han. WordLlama has a higher anchor for texts with
kana or Han, because a third of random pairs of such texts have a cosine above 0.70.
"""


def scale_of(fingerprint: str) -> Scale:
    """Return the scale of the embedder with this fingerprint.

    For an unknown embedder, return `PLAIN`, with which the similarity equals the cosine.

    >>> scale_of("wordllama-256").anchor, scale_of("own-model") == PLAIN
    (0.7, True)
    """
    own = (scale for start, scale in _OWN.items() if fingerprint.startswith(start))
    return next(own, PLAIN)
