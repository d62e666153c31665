"""Memories, links and scopes, the types of their fields, and a class for validation problems."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)

from memory.errors import InputError
from memory.models.arguments import check_arguments
from memory.models.sizes import (
    MAX_CHARACTERS,
    MAX_CONTENT,
    MAX_NAME,
    MAX_QUOTED,
    MAX_VALUES,
    check_length,
    too_large,
)
from memory.text import (
    Period,
    clean,
    clean_json,
    dated,
    dated_key,
    periods,
    shortened,
    text_key,
    to_json,
)

ModelT = TypeVar("ModelT", bound=BaseModel)
Vector = npt.NDArray[np.float32]
"""A unit vector of shape (dim,)."""
Vectors = npt.NDArray[np.float32]
"""A matrix of shape (n, dim) whose rows are unit vectors."""


def _valid_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if problem := too_large(value):
        raise ValueError(f"metadata {problem}")
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as exc:
        raise ValueError(
            "metadata holds NaN or an infinite number, which JSON cannot hold"
        ) from exc
    cleaned = clean_json(value)
    assert isinstance(cleaned, dict)
    return cleaned


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(f"{moment.isoformat()} is outside of the years 1 to 9999 in UTC") from exc


def _local(moment: datetime) -> datetime:
    _utc(moment)
    offset = moment.utcoffset()
    assert offset is not None
    # A zone's mean local time of 1900 has seconds, which JSON cannot hold.
    return moment.astimezone(timezone(timedelta(minutes=offset // timedelta(minutes=1))))


def _cleaned(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"has more than {MAX_CHARACTERS:,} characters")
    return clean(text)


def _content(text: str) -> str:
    cleaned = clean(text)
    if not cleaned:
        raise ValueError("content is empty")
    if len(cleaned) > MAX_CONTENT:
        raise ValueError(
            f"content has {len(cleaned):,} characters, more than {MAX_CONTENT:,}: split it"
        )
    return cleaned


def _without_repeats(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


_Readable = Annotated[str, Field(max_length=MAX_CHARACTERS)]
"""A text that is short enough to be cleaned. This limit must come before the validators."""
Name = Annotated[_Readable, AfterValidator(clean), Field(min_length=1, max_length=MAX_NAME)]
Cleaned = Annotated[str, AfterValidator(_cleaned)]
"""A text that validation cleans: control characters and white space at both ends are removed.

Tabs and line breaks inside the text stay.
"""
Content = Annotated[_Readable, AfterValidator(_content)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_valid_json)]
UtcTime = Annotated[AwareDatetime, AfterValidator(_utc)]
LocalTime = Annotated[AwareDatetime, AfterValidator(_local)]
"""A time that keeps the offset from UTC with which it was given, in whole minutes."""


def as_tuple(value: object) -> object:
    """Return a list as a tuple, and any other value unchanged.

    >>> as_tuple(["cat", "dog"]), as_tuple("cat")
    (('cat', 'dog'), 'cat')
    """
    return tuple(value) if isinstance(value, list) else value


class Frozen(BaseModel):
    """Base class of strict, immutable pydantic models that reject unknown fields.

    >>> cat = memories.remember("Bea has a cat.", user="Bea").memory
    >>> changed = cat.model_copy(update={"tags": ("pet",)})
    >>> changed.tags, cat.tags  # the memory itself, and what is stored, did not change
    (('pet',), ())
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class _NamesTheArgument(type(BaseModel)):  # type: ignore[misc]
    """Metaclass whose models raise an InputError if they are called with a wrong argument.

    Validation of JSON and of nested models raises a ValidationError as with other models.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except (TypeError, ValidationError) as exc:
            check_arguments(cls.__name__, signature(cls), args, kwargs)
            if isinstance(exc, TypeError):
                raise
            raise InputError(cls.__name__, str(first_problem(exc))) from exc


Checked = Frozen
if not TYPE_CHECKING:  # type checkers see the fields as arguments only without a metaclass

    class Checked(Frozen, metaclass=_NamesTheArgument):
        """Base class of the models that callers make: a wrong argument raises an InputError.

        >>> from memory.config import Config
        >>> Config(model="gemini")
        Traceback (most recent call last):
            ...
        memory.errors.InputError: Config: has no argument model; it takes memory, llm, agent,...
        """


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


# --- why a value was refused ----------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """The reason why pydantic rejected a value. `str(problem)` never quotes the value.

    `where` is the path of field names that leads to the value, and `given` is the value. `what`
    says what is wrong with it. `kind` is pydantic's name for this type of error. `expected` lists
    the allowed values, if there are only a few.

    >>> try:
    ...     Memory.model_validate({"content": "Mia rows.", "importance": 9, "timestamp": "now"})
    ... except ValidationError as error:
    ...     print(first_problem(error))
    importance: must be at most 5
    """

    where: tuple[str, ...]
    what: str
    kind: str
    given: Any
    expected: str

    @property
    def field(self) -> str:
        return ".".join(self.where)

    def __str__(self) -> str:
        return self.what if self.what.startswith(self.field) else f"{self.field}: {self.what}"


def from_json(
    model: type[ModelT], fields: Mapping[str, Any], most_values: int = MAX_VALUES
) -> ModelT:
    """Return a model made from a JSON object, without control characters in its strings.

    The size is checked first, because cleaning takes time that grows with it. `most_values`: the
    maximum number of values, as in `too_large`.

    Raises: ValueError, whose message says in one line what is wrong.

    >>> from_json(MemoryLink, {"target_id": "mem_1\\x00", "link_type": "similar"}).target_id
    'mem_1'
    """
    if problem := too_large(fields, most_values):
        raise ValueError(problem)
    try:
        return model.model_validate_json(json.dumps(clean_json(dict(fields))))
    except ValidationError as exc:
        raise ValueError(str(first_problem(exc))) from exc
    except RecursionError as exc:
        raise ValueError("is nested too deeply") from exc


_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "string_type": "must be a text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "must be an object with names and values"),
    "invalid-json-value": "holds what JSON cannot hold; write texts, numbers, lists or dicts",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "string_too_long": "is longer than {max_length}",
    "too_long": "is longer than {max_length}",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must have the form {pattern}",
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "timezone_aware"),
        "must be a time with an offset from UTC, such as 2026-05-01T08:00:00Z",
    ),
}
"""What is wrong with a value, in our own words, by pydantic's name for the type of error."""


def first_problem(exc: ValidationError) -> Problem:
    """Return the first problem that a pydantic error reports.

    >>> try:
    ...     Scale(anchor=2.0)
    ... except ValidationError as error:
    ...     print(first_problem(error), first_problem(error).given)
    anchor: must be less than 0.95 2.0
    """
    error = exc.errors()[0]
    what = error["msg"].removeprefix("Value error, ")
    if error["type"] in _WORDS:
        limits = {  # 5, not 5.0
            name: int(limit) if limit in (0.0, 1.0) else limit
            for name, limit in error.get("ctx", {}).items()
        }
        what = _WORDS[error["type"]].format_map(limits)
    return Problem(
        where=tuple(str(part)[:MAX_QUOTED] for part in error["loc"]),
        what=what[0].lower() + what[1:],
        kind=error["type"],
        given=error["input"],
        expected=str(error.get("ctx", {}).get("expected", "")),
    )


def quoted(text: str) -> str:
    """Return the first words of a memory's text, as lines of the log quote it.

    >>> quoted("Mia has a tabby cat that sleeps on the piano and a dog that sings in the garden.")
    'Mia has a tabby cat that sleeps on the piano and a dog that...'
    """
    return shortened(text, 60)
