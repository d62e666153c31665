"""Import: what is right is taken, what is wrong is named with its line, the rest is unharmed."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.errors import InputError
from memory.interchange.jsonl import read_memories, with_links_resolved
from memory.models import MAX_CONTENT, Memory

GOOD = {"content": "Mia likes tea.", "timestamp": "2026-05-01T08:00:00+09:00"}


def read(folder: Path, *lines: object, assume_utc: bool = False) -> list[Memory | InputError]:
    path = folder / "in.jsonl"
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw))
    return list(read_memories(path, assume_utc=assume_utc))


def test_unknown_keys_become_metadata_and_a_foreign_id_an_external_one(tmp_path: Path) -> None:
    [memory] = read(tmp_path, GOOD | {"id": 17, "mood": ["calm"], "metadata": {"a": 1}})
    assert isinstance(memory, Memory)
    assert (memory.external_id, memory.metadata) == ("17", {"a": 1, "mood": ["calm"]})


def test_an_id_of_ours_is_kept(tmp_path: Path) -> None:
    [memory] = read(tmp_path, GOOD | {"id": "mem_0123456789ab"})
    assert isinstance(memory, Memory)
    assert (memory.id, memory.external_id) == ("mem_0123456789ab", None)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"content": "cut o', "is not JSON"),
        (b"[1, 2]", "is not a JSON object"),
        (b'{"content": "\xff"}', "is not UTF-8"),
        (b'{"content": "x", "n": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "is nested too deeply"),
        ({"timestamp": "2026-05-01T08:00:00Z"}, "content: is missing"),
        (GOOD | {"content": ""}, "content is empty"),
        (GOOD | {"content": " \0 "}, "content is empty"),
        (GOOD | {"content": 7}, "content: must be a text"),
        (GOOD | {"content": "x" * (MAX_CONTENT + 1)}, "content has 100,001 characters"),
        ({"content": "x"}, "timestamp is missing"),
        (b'[{"content": "x"}, 2]', "is not a JSON object"),
        (GOOD | {"timestamp": "2026-05-01T08:00:00"}, "has no time zone"),
        (GOOD | {"timestamp": "yesterday"}, "is not ISO 8601"),
        (GOOD | {"timestamp": "0001-01-01T00:00:00+14:00"}, "outside of the years"),
        (GOOD | {"mood": 1, "metadata": {"mood": 2}}, "mood is given both"),
        (GOOD | {"importance": 9}, "importance: must be at most 5"),
        (GOOD | {"metadata": [1]}, "metadata is not an object"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_is_kept(
    tmp_path: Path, line: object, problem: str
) -> None:
    first, bad, last = read(tmp_path, GOOD, line, GOOD)
    assert isinstance(first, Memory)
    assert isinstance(last, Memory)
    assert isinstance(bad, InputError)
    assert str(bad).startswith(f"{tmp_path / 'in.jsonl'}:2: ")
    assert problem in str(bad)
    assert "\n" not in str(bad)


def test_nul_and_lone_surrogates_are_cleaned_wherever_they_stand(tmp_path: Path) -> None:
    [memory] = read(
        tmp_path,
        b'{"content": "a\\u0000b \\ud800", "timestamp": "2026-05-01T08:00:00Z", "k": "\\udfff"}',
    )
    assert isinstance(memory, Memory)
    assert (memory.content, memory.metadata) == ("ab \ufffd", {"k": "\ufffd"})


def test_a_naive_time_can_be_taken_as_utc_and_seconds_are_utc(tmp_path: Path) -> None:
    naive = GOOD | {"timestamp": "2026-05-01T08:00:00"}
    seconds = GOOD | {"timestamp": 1_777_622_400}
    one, two = read(tmp_path, naive, seconds, assume_utc=True)
    assert isinstance(one, Memory)
    assert isinstance(two, Memory)
    assert one.timestamp == two.timestamp


def test_the_same_id_for_another_content_is_wrong_and_names_the_first_line(tmp_path: Path) -> None:
    lines = [GOOD | {"id": "a"}, GOOD | {"id": "a"}, GOOD | {"id": "a", "content": "other"}]
    one, two, three = read(tmp_path, *lines)
    assert isinstance(one, Memory)
    assert isinstance(two, Memory)
    assert isinstance(three, InputError)
    assert "already used on line 1" in str(three)


def test_lines_without_an_id_are_memories_of_their_own(tmp_path: Path) -> None:
    lines = [GOOD | {"id": None}, GOOD | {"id": None, "content": "other"}]
    assert all(isinstance(one, Memory) for one in read(tmp_path, *lines))


def test_metadata_too_deep_to_read_is_one_bad_line(tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    _, bad, last = read(tmp_path, GOOD, GOOD | {"deep": deep}, GOOD)
    assert isinstance(bad, InputError)
    assert isinstance(last, Memory)


def test_links_between_lines_lead_to_our_ids(tmp_path: Path) -> None:
    link = {"linked_ids": [{"target_id": "b", "link_type": "leads_to"}]}
    one, two = read(tmp_path, GOOD | {"id": "a"} | link, GOOD | {"id": "b", "content": "other"})
    assert isinstance(one, Memory)
    assert isinstance(two, Memory)
    [first, _] = with_links_resolved([one, two])
    assert first.linked_ids[0].target_id == two.id


def test_a_line_may_be_an_array(tmp_path: Path) -> None:
    [one, two] = read(tmp_path, json.dumps([GOOD, GOOD | {"content": "Mia rows."}]).encode())
    assert isinstance(one, Memory)
    assert isinstance(two, Memory)
    assert two.content == "Mia rows."


def test_a_line_without_a_timestamp_has_the_time_of_its_creation_or_none(tmp_path: Path) -> None:
    created = {"content": "Mia rows.", "created_at": "2025-03-01T08:00:00Z", "updated_at": "2026"}
    lines = [json.dumps(line) for line in (created, {"content": "Mia sails."})]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    now = datetime(2026, 5, 1, tzinfo=UTC)
    dated, undated = read_memories(tmp_path / "in.jsonl", default_time=now)
    assert isinstance(dated, Memory)
    assert isinstance(undated, Memory)
    assert dated.said == dated.timestamp == datetime(2025, 3, 1, 8, tzinfo=UTC)
    assert (undated.timestamp, undated.said) == (now, None)


def test_a_byte_order_mark_and_blank_lines_are_no_matter(tmp_path: Path) -> None:
    raw = b"\xef\xbb\xbf" + json.dumps(GOOD).encode()
    assert len(read(tmp_path, raw, b"", b"  ")) == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([b'[{"content": "one"},', b'{"content": "two"}]'], ":1: is one JSON array; jq -c '.[]'"),
        ([b"{", b'"content": "one"', b"}"], ":1: no line is a JSON object: is not JSON"),
        ([b"", b"content,timestamp", b"one,2026"], ":2: no line is a JSON object: is not JSON"),
        ([b"\xff\xfe{", b"\x00"], ":1: no line is a JSON object: is not UTF-8 text; give JSON"),
    ],
)
def test_a_file_of_another_kind_is_told_once_and_not_line_by_line(
    tmp_path: Path, lines: list[bytes], said: str
) -> None:
    with pytest.raises(InputError) as told:
        read(tmp_path, *lines)
    assert f"in.jsonl{said}" in str(told.value)


def test_a_line_that_no_memory_fills_is_named_and_not_taken_up(tmp_path: Path) -> None:
    long = b'{"content": "' + b"x" * (64 * 2**20) + b'"}'
    first, bad, last = read(tmp_path, GOOD, long, GOOD)
    assert isinstance(first, Memory)
    assert isinstance(last, Memory)
    assert "in.jsonl:2: is longer than 64 MB" in str(bad)
    [end] = read(tmp_path, GOOD, b'{"content": "' + b"x" * (64 * 2**20))[1:]
    assert "is longer than 64 MB" in str(end)


@pytest.mark.parametrize("name", ["none.jsonl", "."])
def test_a_missing_file_or_a_folder_is_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(read_memories(tmp_path / name))


def test_a_pipe_or_a_device_is_no_file_to_import(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="cannot be read: it is not a regular file"):
            list(read_memories(path))
