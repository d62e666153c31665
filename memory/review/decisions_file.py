"""A decisions file: what somebody answered about the groups of a report, as JSON Lines.

The first line is `{"decisions": 1}`, the format's version. Then one object a group, in the order in
which they were answered; where a group comes twice, the later one counts:

    {"key": "1f3a5c7e9b2d4f60",
     "members": [{"id": "mem_0123456789ab", "hash": "0f1e2d3c4b5a6978"}, ...],
     "answer": "apply", "left_out": ["mem_0123456789ab"], "text": null,
     "insist": false, "retired": ["mem_0123456789ab"], "stays": null}

`members` are all that the card showed, oldest to newest, each with the hash of its exact text
(`content_hash`), so that an answer about another text is noticed; `key` is `card_key` of them. The
answer is one of `Answer`; `left_out` are the members that stay as they are while the others become
what was planned; `text` is a merged text that the person wrote, or null for the planned one. Four
keys may be missing: `insist` says that the text is meant whatever can be said against it,
`left_out` is empty, `retired` are the members that the card showed as going, for a plan that is to
be applied as it was shown, and `stays` is the member whose text stands for the others where they
are `same`. The file holds ids, and beside them no text but what was written.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memory.errors import InputError
from memory.interchange import read_objects
from memory.models import Content, Frozen, first_problem
from memory.text import clean_json

VERSION = 1
_FROM = "save one from a report"


class Answer(StrEnum):
    """What a person says about a group."""

    APPLY = "apply"
    SAME = "same"
    KEEP_ALL = "keep_all"
    LATER = "later"


class AnsweredMember(Frozen):
    """A member, and which text of it was seen."""

    id: str
    hash: str


class Answered(Frozen):
    """One line of the file."""

    key: str
    members: tuple[AnsweredMember, ...]
    answer: Answer
    left_out: tuple[str, ...] = ()
    text: Content | None = None
    insist: bool = False
    """Whether a text of the person's is meant whatever can be said against it."""
    stays: str | None = None
    """The member that stands for the others where they are the same; None leaves the choice open:
    the one that covers all others, else the newest."""
    retired: tuple[str, ...] | None = None
    """Who was shown as going where the plan is applied; None where that was not said."""

    @property
    def plain(self) -> Answered:
        """The same said plainly: who leaves out all but one keeps all."""
        rest = {member.id for member in self.members} - set(self.left_out)
        joins = self.answer in (Answer.APPLY, Answer.SAME)
        if joins and self.left_out and len(rest) < 2:
            keep_all = {"answer": Answer.KEEP_ALL, "left_out": (), "text": None, "stays": None}
            return self.model_copy(update=keep_all)
        return self

    @property
    def takes_plan(self) -> bool:
        """Whether what was planned or proposed is to be done, rather than what the person wrote."""
        return self.answer is Answer.APPLY and self.text is None


def read_decisions(path: Path) -> list[tuple[int, Answered | InputError]]:
    """Each group's answer, the last one where it comes twice, or what is wrong with a line.

    Raises: InputError where this is no decisions file of a version that is known.
    """
    found: dict[object, tuple[int, Answered | InputError]] = {}
    lines = read_objects(path)
    number, first = next(lines, (1, {}))
    if isinstance(first, ValueError) or first != {"decisions": VERSION}:
        expected = json.dumps({"decisions": VERSION})
        raise InputError(path, f"is no decisions file: line 1 is not {expected}", _FROM, number)
    for number, fields in lines:
        one = _answered(path, number, fields)
        key = number if isinstance(one, InputError) else one.key
        found.pop(key, None)
        found[key] = number, one
    return list(found.values())


def _answered(
    path: Path, number: int, fields: dict[str, Any] | ValueError
) -> Answered | InputError:
    if isinstance(fields, ValueError):
        return InputError(path, str(fields), line=number)
    try:
        return Answered.model_validate_json(json.dumps(clean_json(fields)))
    except ValidationError as exc:
        return InputError(path, str(first_problem(exc)), line=number)
