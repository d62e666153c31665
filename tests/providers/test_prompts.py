"""What a model is shown of time: days, weekdays, and the dates that relative words mean."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from memory.decide import MOST_IN_GROUP
from memory.models import Memory, ProposedMerge, Question, Turn, Usage
from memory.providers.prompts import (
    EXTRACT,
    JUDGE,
    PAGE,
    REREAD,
    PageJudgement,
    extraction_question,
    judge_question,
    read_verdict,
    reply_question,
    rereading_question,
)

TUESDAY = datetime.fromisoformat("2026-01-20T23:30:00-05:00")
OLDER, NEWER = "Mia saw the dentist yesterday.", "Mia sees the dentist in Porto every May."


def memory(text: str, said: datetime | None = TUESDAY, user: str = "Mia") -> Memory:
    """Return a memory that was said on the Tuesday, wherever UTC's Wednesday has begun."""
    return Memory(content=text, timestamp=TUESDAY, said=said, user=user)


def question(*members: Memory) -> dict[str, Any]:
    asked: dict[str, Any] = json.loads(judge_question(Question(members, "test", 0.92)))
    return asked


def test_memories_stand_under_the_speakers_day_with_the_dates_of_their_relative_words() -> None:
    assert question(memory(OLDER), memory(NEWER))["memories"] == {
        "Tue 2026-01-20": [
            [1, OLDER, {"when": {"yesterday": "2026-01-19"}}],
            [2, NEWER],
        ]
    }
    named = question(memory(OLDER), memory("Leo rows.", user="Leo"))["memories"]["Tue 2026-01-20"]
    assert named == [
        [1, "Mia", OLDER, {"when": {"yesterday": "2026-01-19"}}],
        [2, "Leo", "Leo rows."],
    ]


def test_nothing_is_resolved_if_the_day_is_unknown() -> None:
    assert question(memory(OLDER, None))["memories"] == {"on an unknown day": [[1, OLDER]]}


def test_a_day_that_comes_back_keeps_the_order_of_the_memories() -> None:
    monday = datetime.fromisoformat("2026-01-19T12:00:00-05:00")
    shown = question(memory("Mia rows."), memory("Mia runs.", monday), memory("Mia swims."))
    assert [*shown["memories"].items()] == [
        ("Tue 2026-01-20", [[1, "Mia rows."]]),
        ("Mon 2026-01-19", [[2, "Mia runs."]]),
        ("Tue 2026-01-20 (said again later)", [[3, "Mia swims."]]),
    ]


def test_the_second_reader_sees_under_which_day_the_text_will_stand() -> None:
    later = datetime.fromisoformat("2026-02-03T09:00:00-05:00")
    members = (memory(OLDER), memory("Mia saw the dentist.", later))
    [shown] = json.loads(rereading_question([ProposedMerge(members, OLDER + " It hurt.")]))[
        "merges"
    ]
    assert shown == {
        "number": 1,
        "of": {
            "Tue 2026-01-20": [[OLDER, {"when": {"yesterday": "2026-01-19"}}]],
            "Tue 2026-02-03": ["Mia saw the dentist."],
        },
        "text": OLDER + " It hurt.",
        "under": "Tue 2026-02-03",
        "when": {"yesterday": "2026-02-02"},
    }
    kept = ProposedMerge(members, OLDER)  # the older one stays, and keeps its day
    assert json.loads(rereading_question([kept]))["merges"][0]["under"] == "Tue 2026-01-20"


def test_turns_carry_weekday_and_local_time_and_memories_their_dates() -> None:
    turn = Turn(speaker="Mia", text="I rested yesterday.", at=TUESDAY)
    local = f"{turn.at:%H:%M}"
    data = json.loads(extraction_question([turn], [turn], [memory(OLDER)]))
    [shown], [before] = data["turns"], data["said_before"]
    assert shown == {"number": 1, **before}
    assert shown["at"][:3] in "Tue Wed"
    assert shown["at"][4:] == f"{turn.at.date()} {local}"
    assert [*shown["when"]] == ["yesterday"]
    [[[number, user, text, dates]]] = data["already_remembered"].values()
    assert (number, user, text) == (1, "Mia", OLDER)
    assert dates == {"when": {"yesterday": "2026-01-19"}}
    [recalled] = json.loads(reply_question([turn], [memory(OLDER)]))["memories"]
    dated = "[Tue 2026-01-20] Mia saw the dentist yesterday [= 2026-01-19]."
    assert recalled == {"user": "Mia", "content": dated}


@pytest.mark.parametrize("instructions", [JUDGE, PAGE])
def test_the_key_of_a_question_that_is_repeated_is_explained(instructions: str) -> None:
    members = (memory(OLDER), memory(NEWER))
    asked = json.loads(judge_question(Question(members, "test", 0.92, objection="group 1, 2: ...")))
    assert [*asked] == ["user", "refused", "memories"]
    assert 'If there is "refused"' in instructions


def test_each_group_has_a_reason_of_its_own() -> None:
    pair = Question((memory(OLDER), memory(NEWER), memory("Mia rows.")), "test", 0.0, is_page=True)
    groups = [{"members": [1, 2], "reason": "who cares for her teeth", "text": NEWER}]
    groups.append({"members": [3], "reason": "alone", "text": "Mia rows."})
    [group] = read_verdict(json.dumps({"groups": groups}), pair, Usage()).parts
    assert (group.members, group.reason) == ((0, 1), "who cares for her teeth")
    shown = PageJudgement.model_json_schema()["$defs"]["Group"]["properties"]["members"]
    assert (shown["minItems"], shown["maxItems"]) == (2, MOST_IN_GROUP)


@pytest.mark.parametrize("instructions", [JUDGE, PAGE, EXTRACT, REREAD])
def test_each_question_says_once_under_which_day_a_merged_text_will_stand(
    instructions: str,
) -> None:
    words = " ".join(instructions.split())
    assert words.count("stand under the day") == 1
    assert '"when"' in words
