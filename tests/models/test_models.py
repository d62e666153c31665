"""Values: what text is cleaned to, what counts as the same text, what a memory refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from memory.errors import InputError
from memory.models.arguments import MAX_CONTENT
from memory.models.memory import Memory, Scope
from memory.text import clean, identity, normalise, text_key

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_nul_is_removed_lone_surrogates_are_replaced_and_outer_space_is_trimmed() -> None:
    assert clean("  a\0b \ud800 c\n") == "ab \ufffd c"
    assert clean("a\x1b[31mb\tc\nd\x9b") == "a[31mb\tc\nd"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Mia likes tea", "mia  likes\ttea."),
        ("Mia likes tea!", "Mia likes tea…"),
        ("ﾐｱはお茶が好き", "ミアはお茶が好き。"),
        ("room １２", "room 12"),
    ],
)
def test_case_width_space_and_final_marks_make_no_other_text(a: str, b: str) -> None:
    assert text_key(a) == text_key(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Mia likes tea", "Mia likes tea?"),
        ("the area is 10²", "the area is 102"),
        ("version 1.2", "version 12"),
        ("the code is aB3x", "the code is Ab3x"),
        ("it takes 1½ hours", "it takes 11/2 hours"),
        ("Runa works in IT", "Runa works in it"),
        ("a laser of 5 mW", "a laser of 5 MW"),
        ("Runa likes iDesk", "Runa likes idesk"),
        ("the parser is in Objective-C", "the parser is in objective-c"),
        ("the dump is at s3://Runa", "the dump is at s3://runa"),
        ("the PIN word is fox7!", "the PIN word is fox7"),
        ("die Maße", "die Masse"),
    ],
)
def test_a_text_that_states_something_else_is_another_text(a: str, b: str) -> None:
    assert text_key(a) != text_key(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("RUNA LIKES TEA.", "Runa likes tea"),
        ("I sail", "i sail"),
        ("A fox ran. A hen sat", "a fox ran. a hen sat"),
        ("Runa's boat", "runa's boat"),
        ("Runa turned 30!", "Runa turned 30"),
        ("ルナはPythonで書く", "ルナはpythonで書く"),
    ],
)
def test_a_plain_word_is_the_same_in_any_case(a: str, b: str) -> None:
    assert text_key(a) == text_key(b)


_TEXTS = st.text() | st.from_regex(r"(?:[A-Ca-c1.!@'-]{1,3} ?){1,4}", fullmatch=True)


@example("0A㉮A", "")
@given(_TEXTS, _TEXTS)
def test_the_same_text_has_one_vector(a: str, b: str) -> None:
    """Vectors are kept by the key, and made of the normalised text."""
    once = identity(clean(a))
    assert identity(once) == once
    assert normalise(once) == normalise(clean(a))
    if identity(a) == identity(b):
        assert normalise(a) == normalise(b)


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = normalise(clean(text))
    assert normalise(once) == once


def test_a_text_of_marks_alone_stays_itself() -> None:
    assert normalise("!!!") == "!!!"


@pytest.mark.parametrize("content", ["", "   ", "\0", "x" * (MAX_CONTENT + 1)])
def test_empty_and_huge_contents_are_refused(content: str) -> None:
    with pytest.raises(InputError):
        Memory(content=content, timestamp=NOW)


def test_a_naive_time_is_refused_and_another_zone_becomes_utc() -> None:
    with pytest.raises(InputError):
        Memory(content="x", timestamp=datetime(2026, 5, 1))
    tokyo = datetime(2026, 5, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert Memory(content="x", timestamp=tokyo).timestamp == NOW


def test_a_time_that_utc_does_not_have_is_refused() -> None:
    ahead = timezone(timedelta(hours=14))
    with pytest.raises(InputError):
        Memory(content="x", timestamp=datetime(1, 1, 1, tzinfo=ahead))


def test_a_memory_cannot_be_changed_and_takes_no_unknown_field() -> None:
    memory = Memory(content="x", timestamp=NOW)
    with pytest.raises(ValidationError):
        memory.content = "y"
    with pytest.raises(InputError):
        Memory(content="x", timestamp=NOW, contents="y")  # type: ignore[call-arg]


def test_metadata_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError):
        Memory(content="x", timestamp=NOW, metadata={"score": float("nan")})


def test_privacy_is_part_of_every_scope() -> None:
    public = Memory(content="x", user="Mia", timestamp=NOW)
    private = public.model_copy(update={"is_private": True})
    assert Scope.of(public, ("user",)) != Scope.of(private, ("user",))
    assert Scope.of(public, ()) != Scope.of(private, ())


def test_a_repeated_tag_is_kept_once() -> None:
    tags = Memory(content="Mia sails.", timestamp=NOW, tags=("sea", "boat", "sea")).tags
    assert tags == ("sea", "boat")


def test_equal_times_of_two_offsets_are_two_days() -> None:
    tokyo = datetime.fromisoformat("2026-01-20T08:00:00+09:00")
    there = Memory(content="Mia flies today.", timestamp=tokyo)
    here = Memory(content="Mia flies today.", timestamp=there.timestamp)
    assert there.timestamp == here.timestamp
    assert there.dated == "[Tue 2026-01-20] Mia flies today [= 2026-01-20]."
    assert here.dated == "[Mon 2026-01-19] Mia flies today [= 2026-01-19]."


def test_a_memory_whose_time_is_unknown_has_no_date() -> None:
    memory = Memory(
        content="Mia flies today.", timestamp=datetime(2026, 1, 20, tzinfo=UTC), said=None
    )
    assert (memory.said, memory.dated) == (None, "Mia flies today.")


def test_an_offset_has_whole_minutes() -> None:
    old = datetime(1880, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    memory = Memory(content="Long ago.", timestamp=old)
    assert memory.said is not None
    assert memory.said.utcoffset() == timedelta(hours=9, minutes=18)
    assert Memory.model_validate_json(memory.model_dump_json()) == memory
