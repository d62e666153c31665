"""The benchmark of extraction: ratings are kept without text, and counted for the sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extraction import Drawn, draw, key, load, rated, report, save
from memory.models import Turn
from tests.doubles import START

SAID = ("I have two parrots.", "My brother studies law in Bonn.", "Nice one!")


def turns() -> list[Turn]:
    return [Turn(speaker="Mia", text=text, at=START) for text in SAID]


def test_the_sample_holds_the_lowest_hashes_of_what_is_extracted() -> None:
    whole = draw(turns(), 60)
    assert (whole.turns, whole.memories) == (3, 2)
    assert list(whole.sample) == sorted(whole.sample, key=key)
    assert draw(turns(), 1).sample == whole.sample[:1]


def test_the_file_of_ratings_holds_no_text(tmp_path: Path) -> None:
    save(tmp_path / "ratings.json", rated(["Mia has two parrots."], "y"))
    kept = (tmp_path / "ratings.json").read_text(encoding="utf-8")
    assert "parrots" not in kept
    assert load(tmp_path / "ratings.json") == json.loads(kept) == {key("Mia has two parrots."): "y"}


@pytest.mark.parametrize("given", ["", "yy", "x"])
def test_a_letter_is_needed_for_each_memory(given: str) -> None:
    with pytest.raises(SystemExit, match="1 letters out of y, u, g are needed"):
        rated(["Mia has two parrots."], given)


def test_useful_memories_are_counted_by_thousand_turns(capsys: pytest.CaptureFixture[str]) -> None:
    report(Drawn(turns=100, memories=20, sample=["a", "b"]), rated(["a", "b"], "yg"))
    printed = capsys.readouterr().out
    assert "20 memories of 100 turns; 2 rated" in printed
    assert "1 garbled (50%)" in printed
    assert "100 useful memories per 1,000 turns" in printed
