"""A value in a JSON text is replaced, and not a character of it changed otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.interchange.json_splice import spliced

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.text(), st.booleans(), st.data())
def test_the_value_at_a_key_becomes_another_and_all_else_is_read_as_before(
    whole: dict[str, Any], new: str, loose: bool, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(whole)))
    text = json.dumps(whole, indent=2 if loose else None, ensure_ascii=loose)
    told = spliced(text, [key], new)
    assert json.loads(told) == whole | {key: new}
    assert spliced(told, [key], whole[key]) == spliced(text, [key], whole[key])


def test_what_is_not_asked_for_stays_to_the_character() -> None:
    text = '{"a": 1.50, "content": {"content": "old", "b": 1E16}, "c" :\t"\\u00e9", "a": 1.500}'
    told = spliced(text, ["content", "content"], "né\n")
    assert told == text.replace('"old"', '"né\\n"')
    assert spliced(text, ["a"], 2) == text.replace("1.500", "2"), "the last is the one that is read"


@pytest.mark.parametrize("path", [["none"], ["a", "b"], ["c", "b"]])
def test_keys_that_lead_nowhere_are_refused(path: list[str]) -> None:
    with pytest.raises(ValueError, match="there is no"):
        spliced('{"a": 1, "c": {}}', path, "x")
