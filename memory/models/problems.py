"""Why a value was refused, in words that can be shown to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; as a string, one clause that never repeats what was given."""

    where: tuple[str, ...]
    """The path of the field, from outside in."""
    what: str
    kind: str
    """Pydantic's name for it."""
    given: Any
    expected: str
    """What would have been right, where only a few values are."""

    @property
    def field(self) -> str:
        return ".".join(self.where)

    def __str__(self) -> str:
        return self.what if self.what.startswith(self.field) else f"{self.field}: {self.what}"


def first_problem(exc: ValidationError) -> Problem:
    """What to say of a refused value: people mend one thing at a time."""
    error = exc.errors()[0]
    told = error["msg"].removeprefix("Value error, ")
    return Problem(
        where=tuple(str(part) for part in error["loc"]),
        what=told[0].lower() + told[1:],
        kind=error["type"],
        given=error["input"],
        expected=str(error.get("ctx", {}).get("expected", "")),
    )
