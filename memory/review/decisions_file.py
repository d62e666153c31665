"""The decisions file: a person's answers about the groups of a report, as JSON Lines.

The first line is `{"decisions": 1}`, the version of the format. Each further line is the answer
about one group, in the order of answering. If a group occurs twice, the later line counts:

    {"key": "1f3a5c7e9b2d4f60",
     "members": [{"id": "mem_0123456789ab", "hash": "0f1e2d3c4b5a6978"}, ...],
     "answer": "apply", "left_out": ["mem_0123456789ab"], "text": null,
     "insist": false, "retired": ["mem_0123456789ab"], "stays": null}

- `members`: all members of the group, oldest to newest, each with the hash of its exact text
  (`content_hash`), so that a text that has changed is noticed. `key` is their `card_key`.
- `answer`: one of `ReviewAnswer`.
- `left_out`: members that stay as they are while the answer is applied to the others.
- `text`: a merged text that the person wrote; null if they wrote none.
- `insist`: apply the text even if the check objects to it.
- `retired`: the members that the report showed as retired, if the plan is applied as shown.
- `stays`: the member that stands for the others if the answer is `same`.

`left_out`, `insist`, `retired` and `stays` may be missing. The file contains no text of a memory,
only what the person wrote.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from memory.errors import InputError
from memory.interchange import read_objects
from memory.models import Content, Frozen, first_problem
from memory.text import clean_json

_FIRST = {"decisions": 1}


class ReviewAnswer(StrEnum):
    """A person's answer about a group of near-copies.

    APPLY: apply the plan, the proposal, or the person's own text. SAME: all members say the same,
    so one member replaces the others. KEEP_ALL: all members differ. LATER: the question is
    postponed.
    """

    APPLY = "apply"
    SAME = "same"
    KEEP_ALL = "keep_all"
    LATER = "later"


class AnsweredMember(Frozen):
    """A member's id, and the hash of the text that the person saw."""

    id: str
    hash: str


class Answered(Frozen):
    """A person's answer about one group: the members, and what to do with them.

    The docstring of this module describes each field.
    """

    key: str
    members: tuple[AnsweredMember, ...]
    answer: ReviewAnswer
    left_out: tuple[str, ...] = ()
    text: Content | None = None
    insist: bool = False
    stays: str | None = None
    """The id of the member that replaces the others, if the answer is `same`.

    If None, it is a member whose text states everything that the others say, or else the newest
    member.
    """
    retired: tuple[str, ...] | None = None
    """The ids of the members that the report showed as retired; None if the answer does not say."""

    @property
    def plain(self) -> Answered:
        """Return this answer; return `keep_all` if it would merge fewer than two members.

        This can happen if the person left out all members but one.
        """
        rest = {member.id for member in self.members} - set(self.left_out)
        joins = self.answer in (ReviewAnswer.APPLY, ReviewAnswer.SAME)
        if joins and self.left_out and len(rest) < 2:
            update = {"answer": ReviewAnswer.KEEP_ALL, "left_out": (), "text": None, "stays": None}
            return self.model_copy(update=update)
        return self

    @property
    def takes_plan(self) -> bool:
        """Whether the answer applies the plan or proposal shown, and not the person's own text."""
        return self.answer is ReviewAnswer.APPLY and self.text is None


def read_decisions(path: Path) -> list[tuple[int, Answered | InputError]]:
    """Read a decisions file; return pairs of a line number and an answer, in the order of the file.

    If several lines are about the same group, only the last one counts. For a line that is not
    valid, an InputError takes the place of the answer.

    Raises: InputError if this is not a decisions file of a known version.
    """
    answers: dict[object, tuple[int, Answered | InputError]] = {}
    lines = read_objects(path)
    number, first = next(lines, (1, {}))
    if first != _FIRST:
        problem = f"is not a decisions file: line 1 is not {json.dumps(_FIRST)}"
        raise InputError(path, problem, "save one from a report", number)
    for number, fields in lines:
        if isinstance(fields, ValueError):
            answers[number] = number, InputError(path, str(fields), line=number)
            continue
        try:
            answered = Answered.model_validate_json(json.dumps(clean_json(fields)))
        except ValidationError as exc:
            answers[number] = number, InputError(path, str(first_problem(exc)), line=number)
        else:
            answers.pop(answered.key, None)
            answers[answered.key] = number, answered
    return list(answers.values())
