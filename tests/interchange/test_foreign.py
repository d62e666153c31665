"""Rows of other people's stores: whose they are, what they say, and when it was recorded."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from memory.errors import InputError
from memory.interchange.foreign import (
    ForeignRow,
    Reading,
    as_memories,
    as_memory,
    users_of_several_agents,
)
from memory.models import Memory

WHEN = "2026-05-01T08:00:00+00:00"
MEM0 = {
    "data": "Mia likes tea.",
    "hash": "8d3c",
    "text_lemmatized": "mia like tea",
    "user_id": "mia-17",
    "created_at": "2026-05-01T08:00:00+00:00",
    "updated_at": "2026-05-02T08:00:00+00:00",
    "topic": "drinks",
}


def row(document: str | None = "Mia likes tea.", name: str = "7", **metadata: Any) -> ForeignRow:
    return ForeignRow(name, document, {"user_id": "mia", "created_at": WHEN} | metadata)


def test_a_row_of_mem0_says_what_its_data_say_of_its_user() -> None:
    memory = as_memory(ForeignRow("uuid", None, MEM0), Reading())
    assert (memory.external_id, memory.content, memory.user) == ("uuid", "Mia likes tea.", "mia-17")
    assert memory.timestamp.day == 2, "its wording is as old as its last update"
    assert memory.metadata == {
        "created_at": MEM0["created_at"], "updated_at": MEM0["updated_at"], "topic": "drinks",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "user"),
    [
        ({"user_id": "mia"}, "mia"),
        ({"user_id": 17}, "17"),
        ({"user": "mia", "agent_id": "x"}, "mia"),
        ({"user_id": "", "agent_id": "x", "run_id": "r"}, "agent:x"),
        ({"run_id": "r"}, "run:r"),
    ],
)
def test_whose_a_row_is(metadata: dict[str, Any], user: str) -> None:
    kept = ForeignRow("7", "Tea.", {"created_at": WHEN} | metadata)
    assert as_memory(kept, Reading()).user == user


def test_a_row_that_is_too_large_is_not_read() -> None:
    for large in (row("x" * 50_000_000), row(name="x" * 50_000_000), row(topics=[1] * 10_000)):
        with pytest.raises(ValueError, match=r"more than (2,000,000 char|10,000 val)"):
            as_memory(large, Reading())


@pytest.mark.parametrize("owner", ["agent:x", "run:r", " mia", "mia\n"])
def test_a_name_that_could_become_somebody_elses_is_refused(owner: str) -> None:
    with pytest.raises(ValueError, match="its user_id"):
        as_memory(row(user_id=owner), Reading())


@pytest.mark.parametrize(
    ("user_key", "user", "metadata"),
    [
        ("user_id", "17", {"user": "Mia", "agent_id": "a"}),
        ("user", "Mia", {"user_id": 17, "agent_id": "a"}),
        ("agent_id", "a", {"user_id": 17, "user": "Mia"}),
    ],
)
def test_a_row_is_whose_the_named_key_says(
    user_key: str, user: str, metadata: dict[str, object]
) -> None:
    kept = {"user": "Mia", "user_id": 17, "agent_id": "a", "timestamp": WHEN}
    memory = as_memory(ForeignRow("7", "Tea.", kept), Reading(user_key=user_key))
    assert (memory.user, memory.metadata) == (user, metadata)


def test_a_row_that_does_not_say_whose_it_is_is_nobodys_only_when_told_so() -> None:
    nobodys = ForeignRow("7", "Tea.", {"created_at": WHEN})
    with pytest.raises(ValueError, match="whose memory is it"):
        as_memory(nobodys, Reading())
    with pytest.raises(ValueError, match="has no owner"):
        as_memory(row(), Reading(user_key="owner"))
    assert as_memory(nobodys, Reading(no_user=True)).user is None
    assert as_memory(row(), Reading(no_user=True)).user == "mia", "who names a user keeps it"


def test_a_store_that_names_no_user_is_refused_as_a_whole() -> None:
    nobodys = ForeignRow("7", "Tea.", {"created_at": WHEN, "mood": "calm"})
    with pytest.raises(InputError, match="the keys: created_at, mood; name the user's"):
        list(as_memories([nobodys], "notes", Reading()))
    assert list(as_memories([], "notes", Reading())) == []


@pytest.mark.parametrize(
    "reading", [Reading(text_key="said"), Reading(time_key="said"), Reading(id_key="said")]
)
def test_a_key_that_no_row_has_is_named(reading: Reading) -> None:
    with pytest.raises(InputError, match="no row has 'said'; its metadata has the keys"):
        list(as_memories([row()], "notes", reading))


@pytest.mark.parametrize(
    ("metadata", "year"),
    [
        ({"timestamp": "2021-01-01T00:00:00Z", "created_at": WHEN}, 2021),
        ({"created_at": 1_600_000_000}, 2020),
        ({"created_at": 1_600_000_000_000}, 2020),
        ({"created_at": None, "date": "2019-01-01T00:00:00+09:00"}, 2018),
        ({"updated_at": "never", "created_at": WHEN}, 2026),
        ({"created_at": ""}, 2001),
    ],
)
def test_when_a_row_was_recorded(metadata: dict[str, Any], year: int) -> None:
    undated = datetime(2001, 1, 1, tzinfo=UTC)
    assert as_memory(row(**metadata), Reading(default_time=undated)).timestamp.year == year


def test_a_row_without_a_time_or_a_zone_says_which_option_helps() -> None:
    with pytest.raises(ValueError, match=r"timestamp is missing.*--default-time"):
        as_memory(row(created_at=""), Reading())
    naive = row(created_at="2026-05-01 08:00:00")
    with pytest.raises(ValueError, match=r"no time zone.*--assume-utc"):
        as_memory(naive, Reading())
    assert as_memory(naive, Reading(assume_utc=True)).timestamp.hour == 8


def test_keys_of_theirs_that_mean_something_else_are_kept_as_metadata() -> None:
    theirs: dict[str, Any] = {
        "importance": 0.8, "intensity": 11, "category": "", "emotion": ["calm", "glad"],
        "tags": "tea, food", "id": 5, "metadata": "m", "external_id": "e", "linked_ids": "none",
    }  # fmt: skip
    memory = as_memory(row(**theirs), Reading())
    assert (memory.tags, memory.importance, memory.category) == (("tea", "food"), 3, "fact")
    assert memory.external_id == "7"
    kept = {key: value for key, value in theirs.items() if key != "tags"}
    assert memory.metadata == {"created_at": WHEN} | kept


def test_what_ours_mean_too_is_taken_over() -> None:
    memory = as_memory(row(importance=5, category="taste", is_private=1, tags="[]"), Reading())
    assert (memory.importance, memory.category, memory.is_private) == (5, "taste", True)


def test_nothing_private_becomes_public_for_a_wrong_value() -> None:
    with pytest.raises(ValueError, match="is_private"):
        as_memory(row(is_private="yes"), Reading())


def test_the_text_is_the_documents_else_what_is_under_a_known_key() -> None:
    assert as_memory(row(data="other"), Reading()).content == "Mia likes tea."
    assert as_memory(row(None, text="Mia sails."), Reading()).content == "Mia sails."
    assert as_memory(row(said="Mia sails."), Reading(text_key="said")).content == "Mia sails."
    for empty in (row(None), row(" ", data=5), row("\x00")):
        with pytest.raises(ValueError, match="content is empty"):
            as_memory(empty, Reading())


def test_what_is_wrong_with_a_row_names_it_and_leaves_the_others() -> None:
    wrong = row(name="x" * 500, created_at="soon")
    first, problem, last = as_memories([row(), wrong, row(name="8")], "notes", Reading())
    assert isinstance(first, Memory)
    assert isinstance(last, Memory)
    assert str(problem).startswith("notes: xxxx")
    assert "timestamp 'soon' is not ISO 8601; this memory is left out" in str(problem)
    assert len(str(problem)) < 200


def test_an_external_id_may_be_a_key_of_the_metadata() -> None:
    assert as_memory(row(doc_id="d1"), Reading(id_key="doc_id")).external_id == "d1"
    with pytest.raises(ValueError, match="has no doc_id"):
        as_memory(row(), Reading(id_key="doc_id"))


def test_users_of_several_agents_are_counted() -> None:
    rows = [row(agent_id="a"), row(agent_id="b"), row(user_id="jonas", agent_id="a")]
    memories = [as_memory(one, Reading()) for one in rows]
    assert users_of_several_agents(memories) == 1


JANUARY, MARCH = "2026-01-05T08:00:00+09:00", "2026-03-05T08:00:00+09:00"


@pytest.mark.parametrize(
    ("metadata", "how", "said"),
    [
        ({"created_at": JANUARY, "updated_at": MARCH}, {}, JANUARY),
        ({"created_at": None, "updated_at": MARCH}, {}, None),
        ({"created_at": None, "timestamp": MARCH}, {}, MARCH),
        ({"created_at": None}, {"default_time": datetime(2026, 1, 1, tzinfo=UTC)}, None),
        ({"created_at": MARCH, "heard": JANUARY}, {"time_key": "heard"}, JANUARY),
        ({"created_at": JANUARY, "updated_at": MARCH}, {"time_key": "updated_at"}, JANUARY),
        ({"created_at": "2026-01-05T08:00:00"}, {"timezone": "Asia/Tokyo"}, JANUARY),
        ({"created_at": 1_767_567_600}, {"timezone": "Asia/Tokyo"}, JANUARY),
        ({"created_at": MARCH, "said": JANUARY}, {}, JANUARY),
        ({"created_at": MARCH, "said": "unknown"}, {}, None),
        ({"created_at": MARCH, "said": "hello"}, {}, MARCH),
    ],
)
def test_relative_words_of_a_row_count_from_its_creation_never_from_an_edit(
    metadata: dict[str, Any], how: dict[str, Any], said: str | None
) -> None:
    memory = as_memory(row("Mia flies today.", **metadata), Reading(**how))
    assert (memory.said and memory.said.isoformat()) == said


def test_a_time_of_creation_outside_of_the_metadata_counts_first() -> None:
    edited = ForeignRow(
        "7", "Mia flies today.", {"user_id": "m", "created_at": MARCH}, created=JANUARY
    )
    memory = as_memory(edited, Reading())
    assert (memory.timestamp.month, memory.periods[0].first) == (3, date(2026, 1, 5))
