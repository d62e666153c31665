"""How large a value may be: the limits, and the check that comes before anything reads the value.

Cleaning, validating and quoting a value all take time that grows with its size, and some of it
holds every thread. So the size is checked first, by looking at no more than the limits allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from pydantic import BaseModel, model_validator

from memory.errors import InputError

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
