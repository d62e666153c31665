"""Base classes and field types of values, and why a value was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)

from memory.errors import InputError
from memory.models.arguments import (
    MAX_CHARACTERS,
    MAX_CONTENT,
    MAX_NAME,
    MAX_QUOTED,
    MAX_VALUES,
    check_arguments,
    too_large,
)
from memory.text import (
    clean,
    clean_json,
    shortened,
)

# --- base classes and field types -----------------------------------------------------------------

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

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what `repr` shows: the fields that differ from their defaults."""
        for name, value in super().__repr_args__():
            field = type(self).model_fields.get(name or "")
            if field is None or value not in (field.default, None, (), {}):
                yield name, value


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
    "string_unicode": "is no Unicode text: it holds half of a surrogate pair",
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
        where=tuple(str(part)[:MAX_QUOTED] for part in error["loc"][:8]),
        what=what[0].lower() + what[1:],
        kind=error["type"],
        given=error["input"],
        expected=str(error.get("ctx", {}).get("expected", "")),
    )


def quoted(text: str) -> str:
    """Return the first words of a memory's text, as lines of the log quote it.

    >>> quoted("Mia has a black cat that sleeps on the piano and a dog that sings in the garden.")
    'Mia has a black cat that sleeps on the piano and a dog that...'
    """
    return shortened(text, 60)
