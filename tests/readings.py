"""Answers of a careful reader to a second reading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memory.deduplicator import FAITHFUL, TRIAL
from memory.models import MergeReading, ProposedMerge, Rereading

WRONG = {
    merge.text: "the merge is wrong"
    for merge, faithful in zip(TRIAL, FAITHFUL, strict=True)
    if not faithful
}


def readings(
    merges: Sequence[ProposedMerge], found: Sequence[MergeReading | None] = ()
) -> Rereading:
    """Pass the trial; answer other merges with `found`, or find no fault."""
    told = iter(found)
    return Rereading(
        readings=tuple(
            MergeReading(lost=(WRONG[merge.text],))
            if merge.text in WRONG
            else next(told, MergeReading())
            for merge in merges
        )
    )


def answered(data: dict[str, Any], lost: Mapping[str, str]) -> str:
    """Return the answer as JSON; `lost` maps words of a text to what that text loses."""
    told = [
        {"number": one["number"], "lost": _lost(one["text"], lost), "added": []}
        for one in data["merges"]
    ]
    return json.dumps({"merges": told})


def memories_shown(data: dict[str, Any]) -> list[tuple[int, str]]:
    """Return the number and the text of each memory in the data of a question."""
    return [
        (one[0], [*filter(_is_text, one)][-1])
        for of_day in data["memories"].values()
        for one in of_day
    ]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _lost(text: str, lost: Mapping[str, str]) -> list[str]:
    found = [what for words, what in lost.items() if words in text]
    return [WRONG[text]] if text in WRONG else found
