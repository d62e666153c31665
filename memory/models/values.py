"""Base classes and field types of values, limits of their size, and why a value was refused.

Cleaning, validating and quoting a value all take time that grows with its size, and some of it
holds every thread. So the size is checked first, by looking at no more than the limits allow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
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
    model_validator,
)

from memory.errors import InputError
from memory.text import (
    clean,
    clean_json,
    shortened,
)

MAX_NAME = 1_000
"""The maximum number of characters in a name, a category or a tag."""
MAX_CONTENT = 100_000
MAX_CHARACTERS = 2_000_000
"""The maximum number of characters in all texts of one memory, turn or request."""
MAX_VALUES = 10_000
"""The maximum number of values in one memory, turn or request, metadata and list items included."""
MAX_QUOTED = 100
"""The maximum number of characters that a message quotes of a value."""


class Bounded(BaseModel):
    """Base class of models that refuse input of too many values or characters, in one problem.

    It is for models that are made from Python values: with such a validator, a strict model no
    longer reads a JSON text's times and lists.

    >>> class Tags(Bounded):
    ...     tags: list[str]
    >>> try:
    ...     Tags(tags=["x" * 3_000_000])
    ... except ValueError as error:
    ...     print(error.errors()[0]["msg"])
    Value error, has more than 2,000,000 characters in all
    """

    @model_validator(mode="before")
    @classmethod
    def _check_sizes(cls, value: Any) -> Any:
        if problem := too_large(value):
            raise ValueError(problem)
        return value


def too_large(value: Any, most_values: int = MAX_VALUES) -> str:
    """Return what is too large about a value made of mappings, sequences and texts, or "".

    >>> too_large({"text": "Mia sails."})
    ''
    >>> too_large({"text": "x" * 3_000_000})
    'has more than 2,000,000 characters in all'
    """
    values = characters = 0
    todo: list[Any] = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str | bytes):
            characters += len(one)
        elif isinstance(one, Mapping | Sequence | Set):
            values += len(one)
            if values > most_values:
                return f"has more than {most_values:,} values"
            todo.extend(one)
            if isinstance(one, Mapping):
                todo.extend(one.values())
        if characters > MAX_CHARACTERS:
            return f"has more than {MAX_CHARACTERS:,} characters in all"
    return ""


def check_length(what: str, text: str, most: int) -> None:
    """Check that a text has at most `most` characters; `what` names the text in the message.

    Raises: InputError.
    """
    if len(text) > most:
        raise InputError(what, f"has {len(text):,} characters, more than {most:,}")


# --- base classes and field types -----------------------------------------------------------------

ModelT = TypeVar("ModelT", bound=BaseModel)
Vector = npt.NDArray[np.float32]
"""A unit vector of shape (dim,)."""
Vectors = npt.NDArray[np.float32]
"""A matrix of shape (n, dim) whose rows are unit vectors."""


def _valid_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if problem := too_large(value):
        raise ValueError(f"metadata {problem}")
    json.dumps(value, allow_nan=False)
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


class _NamesTheArgument(type(BaseModel)):  # type: ignore[misc]
    """Metaclass whose models raise an InputError if they are called with a wrong argument.

    Validation of JSON and of nested models raises a ValidationError as with other models.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as exc:
            raise InputError(cls.__name__, str(first_problem(exc))) from exc


if TYPE_CHECKING:  # type checkers see the fields as arguments only without a metaclass
    Checked = Frozen
else:

    class Checked(Frozen, metaclass=_NamesTheArgument):
        """Base class of the models that callers make."""


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
    importance: input should be less than or equal to 5
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


def first_problem(exc: ValidationError) -> Problem:
    """Return the first problem that a pydantic error reports.

    >>> try:
    ...     Scale(anchor=2.0)
    ... except ValidationError as error:
    ...     print(first_problem(error), first_problem(error).given)
    anchor: input should be less than 0.95 2.0
    """
    error = exc.errors()[0]
    what = error["msg"].removeprefix("Value error, ")
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
