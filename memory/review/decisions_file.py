"""A decisions file: what somebody answered about the groups of a report, as JSON Lines.

The first line is `{"decisions": 1}`, the format's version. Then one object a group, in the order in
which they were answered; where a group comes twice, the later one counts:

    {"key": "1f3a5c7e9b2d4f60",
     "members": [{"id": "mem_0123456789ab", "hash": "0f1e2d3c4b5a6978"}, ...],
     "answer": "apply", "left_out": ["mem_0123456789ab"], "text": null}

`members` are all that the card showed, oldest to newest, each with the hash of its exact text
(`content_hash`), so that an answer about another text is noticed; `key` is `card_key` of them. The
answer is one of `Answer`; `left_out` are the members that stay as they are while the others become
what was planned; `text` is a merged text that the person wrote, or null for the planned one. The
file holds ids, and beside them no text but what was written.
"""

from __future__ import annotations

from enum import StrEnum

from memory.models import Frozen

VERSION = 1


class Answer(StrEnum):
    """What a person says about a group."""

    APPLY = "apply"
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
    text: str | None = None
