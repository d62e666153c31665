"""No regular expression of the package is slow on any text."""

from __future__ import annotations

import re
from functools import cache

import pytest

import memory
from tests.patterns import Use, patterns_of, superlinear

_PARTS = 6


@cache
def uses() -> list[Use]:
    return patterns_of(memory)


def test_the_patterns_of_all_rooms_are_found() -> None:
    rooms = {use.where.split(".")[1] for use in uses()}
    assert rooms >= {"agent", "config", "coverage", "interchange", "providers", "text"}
    assert {"memory.store.forgetting._BETWEEN_CLAUSES", "memory.text.tokens._PIECES"} <= {
        use.where for use in uses()
    }, "as a pattern, and as one of its methods"
    assert len(uses()) > 200


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_pattern_takes_quadratic_time(part: int) -> None:
    assert [(use.where, slow) for use in uses()[part::_PARTS] if (slow := superlinear(use))] == []


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_pattern_takes_quadratic_time_on_more_texts(seed: int) -> None:
    assert [(use.where, slow) for use in uses() if (slow := superlinear(use, seed=seed))] == []


@pytest.mark.parametrize(
    "slow",
    [
        r"(a+)+$",  # exponential
        r"\s+(?:and|but)\s+",
        *(
            pytest.param(slow, marks=pytest.mark.drill)
            for slow in (
                r"a.*b.*c",
                r"(\\*)(<|\])",
                r"(?:\w+\s?)*$",
                r"\d+(?:,\d+)*;",
                r"^\s+|\s+$",
                r"\w+@\w+",
                r"(?:^|[.\n]\s*)([^\W\d_]\w*)",
            )
        ),
    ],
)
def test_a_slow_pattern_is_caught(slow: str) -> None:
    assert superlinear(Use("slow", re.compile(slow), "search")) is not None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\d+(?:,\d+)*;", "match"),  # slow only if a search begins anew at every digit
        (r"(?<!\s)\s++(?:and|but)\s++", "search"),
        (r"\b\w+\b", "search"),
    ],
)
def test_a_quick_pattern_is_not(pattern: str, method: str) -> None:
    assert superlinear(Use("quick", re.compile(pattern), method)) is None
