"""Why a value was refused, told as one clause."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from memory.models.memory import Memory
from memory.models.values import Problem, first_problem

GOOD = {"content": "Mia sails.", "timestamp": datetime(2026, 5, 1, tzinfo=UTC)}


def problem_of(**fields: object) -> Problem:
    with pytest.raises(ValidationError) as caught:
        Memory.model_validate({**GOOD, **fields})
    return first_problem(caught.value)


def test_the_field_is_named_once() -> None:
    assert str(problem_of(content=" ")) == "content is empty"
    assert str(problem_of(user=5)) == "user: must be a text"


def test_a_field_inside_another_is_named_by_its_path() -> None:
    assert problem_of(tags=["a", 5]).field == "tags.1"


def test_a_given_memory_is_not_repeated() -> None:
    assert "secret" not in str(problem_of(importance="secret"))
    assert problem_of(importance="secret").given == "secret"
