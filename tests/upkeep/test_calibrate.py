"""`memory-dedup calibrate` on a real store: the model asked, a person asked, on two days."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memory.cli import app
from memory.errors import InputError, ModelError
from memory.models import MergeGroup, Verdict
from memory.store import MemoryStore
from memory.upkeep.calibrate import ask_model, ask_person, pairs_of
from memory.upkeep.calibration_log import CalibrationLog
from tests.conftest import Tell
from tests.doubles import PlacedEmbedder, ScriptedModel

TEXTS = ["Mia has a cat.", "Mia has a tabby cat.", "Mia has 2 dogs.", "Mia has 3 dogs."]
SAME = Verdict(parts=(MergeGroup(members=(0, 1), text=TEXTS[1]),))


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, tell: Tell) -> MemoryStore:
    embedder.place(TEXTS[0])
    embedder.place(TEXTS[1], 0.96, TEXTS[0])
    embedder.place(TEXTS[2])
    embedder.place(TEXTS[3], 0.99, TEXTS[2])
    store.add_batch([tell(text, user="Mia") for text in TEXTS])
    store.add_batch([tell(TEXTS[0], user="Jo"), tell(TEXTS[0], user="Mia")])
    return store


@pytest.fixture
def answers(tmp_path: Path) -> CalibrationLog:
    return CalibrationLog(tmp_path / "data" / "calibration.jsonl", "scripted")


def hearing(*lines: str) -> Callable[[], str | None]:
    left = list(lines)
    return lambda: left.pop(0) if left else None


def test_pairs_are_of_one_scope_and_of_different_texts(filled: MemoryStore) -> None:
    found = {(p.older.content, p.newer.content, p.similarity) for p in pairs_of(filled)}
    assert found == {(TEXTS[0], TEXTS[1], 0.96), (TEXTS[2], TEXTS[3], 0.99)}


def test_the_model_is_asked_and_what_it_said_is_kept(
    filled: MemoryStore, answers: CalibrationLog
) -> None:
    model = ScriptedModel(SAME, Verdict())
    told: list[tuple[int, int]] = []
    pairs = sorted(pairs_of(filled), key=lambda pair: pair.similarity)
    ask_model(pairs, model, answers, 1, lambda done, of: told.append((done, of)))
    assert answers.read() == {pairs[0].key: True, pairs[1].key: False}
    assert told == [(1, 2), (2, 2)]


def test_a_model_that_fails_loses_no_answer(filled: MemoryStore, answers: CalibrationLog) -> None:
    model = ScriptedModel(SAME, ModelError("503"))
    with pytest.raises(ModelError, match="503"):
        ask_model(pairs_of(filled), model, answers, 1, lambda _done, _of: None)
    assert len(answers.read()) == 1


def test_a_person_says_yes_or_no_skips_mistypes_and_goes_on_another_day(
    filled: MemoryStore, answers: CalibrationLog
) -> None:
    pairs = pairs_of(filled)
    said: list[str] = []
    assert ask_person(pairs, answers, said.append, hearing("perhaps", "s", "q")) == 0
    assert ask_person(pairs, answers, said.append, hearing("y")) == 1
    assert ask_person(pairs[1:], answers, said.append, hearing("n")) == 1
    assert answers.read() == {pairs[0].key: True, pairs[1].key: False}
    shown = "\n".join(said)
    assert TEXTS[0] in shown
    assert 'differs  "2" / "3"' in shown or 'differs  one adds "tabby"' in shown


def test_each_judge_has_answers_of_its_own_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "calibration.jsonl"
    model, person = CalibrationLog(path, "m"), CalibrationLog(path, "person")
    model.add("a b", True)
    person.add("a b", True)
    person.add("a b", False)
    assert (model.read(), person.read()) == ({"a b": True}, {"a b": False})


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calibration.jsonl"
    path.write_text('{"pair": "a b", "duplicate": true, "by": "m"}\n{"pair"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"calibration\.jsonl:2"):
        CalibrationLog(path, "m").read()


@pytest.mark.parametrize("judge", ["model", "person"])
def test_the_command_prints_bands_and_lines_for_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    """And changes no memory; the second time nobody is asked again."""
    for key in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tmp_path / "data"))
    memories = tmp_path / "memories.jsonl"
    times = ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    texts = ("Mia keeps a tabby cat in Porto.", "Mia really keeps a tabby cat in Porto.")
    rows = [
        json.dumps({"content": text, "timestamp": at})
        for text, at in zip(texts, times, strict=True)
    ]
    memories.write_text("\n".join(rows), encoding="utf-8")
    runner = CliRunner()
    assert runner.invoke(app, ["import", "--raw", str(memories)]).exit_code == 0
    options = ["calibrate", *(["--person"] if judge == "person" else []), "--wanted", "0.9"]
    first = runner.invoke(app, options, input="y\n")
    again = runner.invoke(app, options, input="n\n")
    assert first.exit_code == again.exit_code == 0
    for done in (first, again):
        assert "100% (21%-100%)" in done.stdout
        assert "  dedup_upper_threshold: 0.9" in done.stdout
        assert "  dedup_lower_threshold: 0.9" in done.stdout
    kept = (tmp_path / "data" / "calibration.jsonl").read_text(encoding="utf-8")
    assert len(kept.splitlines()) == 1
    assert "tabby" not in kept
    assert len(runner.invoke(app, ["export"]).stdout.splitlines()) == 2
