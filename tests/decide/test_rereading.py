"""What a second reading says of a doubtful merge, in words for the judge."""

from __future__ import annotations

import pytest

from memory.decide.rereading import still_wrong
from memory.models import Doubt, SecondReading
from memory.text import verify
from tests.conftest import Tell

OLDER, NEWER = "Mia has a passion for tea.", "Mia collects tea pots."
TEXT = "Mia is passionate about tea and gathers tea cups."


@pytest.fixture
def doubt(tell: Tell) -> Doubt:
    return Doubt((tell(OLDER), tell(NEWER)), TEXT, verify(TEXT, (OLDER, NEWER)))


def test_where_every_doubtful_word_is_well_nothing_is_wrong(doubt: Doubt) -> None:
    lost, new = doubt.verification.lost, doubt.verification.new
    reading = SecondReading(stated=(True,) * len(lost), sources=(0,) * len(new))
    assert still_wrong(doubt, reading) == ""


def test_the_judge_is_told_each_word_that_is_lost_or_invented(doubt: Doubt) -> None:
    lost, new = doubt.verification.lost, doubt.verification.new
    reading = SecondReading(
        stated=tuple(one.words != "pots" for one in lost),
        sources=tuple(None if words == "cups" else 0 for words in new),
    )
    assert still_wrong(doubt, reading) == (
        "the merged text does not state 'pots' of memory 2 and states what no memory states: 'cups'"
    )


def test_a_reading_that_leaves_a_word_out_is_no_reading(doubt: Doubt) -> None:
    with pytest.raises(ValueError, match="zip"):
        still_wrong(doubt, SecondReading())
