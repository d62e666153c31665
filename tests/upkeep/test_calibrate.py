"""`memory-dedup store calibrate` on a real store: the model asked, a person asked, on two days."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memory.cli import app
from memory.errors import InputError, ModelError
from memory.models import MergeGroup, Verdict
from memory.store import MemoryStore
from memory.upkeep.calibration import (
    Answer,
    CalibrationLog,
    ask_model,
    ask_person,
    pairs_of,
    still_open,
)
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel

TEXTS = ["Mia has a cat.", "Mia has a black cat.", "Mia has 2 dogs.", "Mia has 3 dogs."]
SAME = Verdict(parts=(MergeGroup(members=(0, 1), text=TEXTS[1]),))


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory) -> MemoryStore:
    embedder.place(TEXTS[0])
    embedder.place(TEXTS[1], 0.96, TEXTS[0])
    embedder.place(TEXTS[2])
    embedder.place(TEXTS[3], 0.99, TEXTS[2])
    store.add_batch([make_memory(text, user="Mia") for text in TEXTS])
    store.add_batch([make_memory(TEXTS[0], user="Jo"), make_memory(TEXTS[0], user="Mia")])
    return store


@pytest.fixture
def answers(tmp_path: Path) -> CalibrationLog:
    return CalibrationLog(tmp_path / "data" / "calibration.jsonl", "scripted")


def _extend(told: list[int], done: int, total: int) -> None:
    told += [done, total]


def hearing(*lines: str) -> Callable[[], str]:
    left = list(lines)
    return lambda: f"{left.pop(0)}\n" if left else ""


def test_pairs_are_of_one_scope_and_of_different_texts(filled: MemoryStore) -> None:
    pairs = pairs_of(filled, 5)
    told = {(pair.older.content, pair.newer.content, pair.cosine) for pair in pairs}
    assert told == {(TEXTS[0], TEXTS[1], 0.96), (TEXTS[2], TEXTS[3], 0.99)}


def test_only_the_nearest_few_of_each_text_are_asked_about(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    centre = embedder.place("Mia has a cat.")
    others = [embedder.place(f"Mia has {n} cats.", 0.9 - n / 100, centre) for n in range(9)]
    store.add_batch([make_memory(text) for text in (centre, *others)])
    assert len(pairs_of(store, 100)) == 45
    nearest = [pair for pair in pairs_of(store, 2) if pair.older.content == centre]
    assert max(pair.cosine for pair in nearest) == 0.9
    assert len(pairs_of(store, 2)) < 20


def test_the_model_is_asked_and_what_it_said_is_kept(filled: MemoryStore, tmp_path: Path) -> None:
    """One text that says all is the same; a new one of both is a merge; none is apart."""
    pairs = sorted(pairs_of(filled, 5), key=lambda pair: -pair.cosine)
    for verdict, answer in [
        (Verdict(parts=(MergeGroup(members=(0, 1), text=TEXTS[3]),)), Answer.SAME),
        (Verdict(parts=(MergeGroup(members=(0, 1), text="Mia has dogs, 2 or 3."),)), Answer.MERGE),
        (Verdict(), Answer.APART),
    ]:
        log = CalibrationLog(tmp_path / f"{answer}.jsonl", "scripted")
        told: list[int] = []
        model = ScriptedModel(verdict, Verdict())
        ask_model(pairs, model, log, 9, 1, partial(_extend, told))
        assert log.read() == {pairs[0].key: answer, pairs[1].key: Answer.APART}
        assert told == [2, 2]


def test_no_more_is_asked_than_was_said_all_days_together(
    filled: MemoryStore, answers: CalibrationLog
) -> None:
    pairs = pairs_of(filled, 5)
    for _ in range(2):
        ask_model(pairs, ScriptedModel(Verdict()), answers, 1, 1, lambda _done, _of: None)
    assert len(answers.read()) == 1
    assert still_open(pairs, answers, 1) == 0
    assert still_open(pairs, answers, 100) == 1


def test_a_model_that_fails_loses_no_answer(filled: MemoryStore, answers: CalibrationLog) -> None:
    model = ScriptedModel(SAME, ModelError("503"))
    with pytest.raises(ModelError, match="503"):
        ask_model(pairs_of(filled, 5), model, answers, 9, 1, lambda _done, _of: None)
    assert len(answers.read()) == 1


def test_a_person_says_which_skips_mistypes_and_goes_on_another_day(
    filled: MemoryStore, answers: CalibrationLog
) -> None:
    pairs = sorted(pairs_of(filled, 5), key=lambda pair: -pair.cosine)
    said: list[str] = []
    ask_person(pairs, answers, 9, said.append, hearing("perhaps", "s", "q"))
    assert answers.read() == {}
    ask_person(pairs, answers, 9, said.append, hearing("m"))
    assert answers.read() == {pairs[0].key: Answer.MERGE}
    ask_person(pairs, answers, 9, said.append, hearing("n", "y"))
    assert answers.read() == {pairs[0].key: Answer.MERGE, pairs[1].key: Answer.APART}
    shown = "\n".join(said)
    assert TEXTS[0] in shown
    assert 'differs  "2" / "3"' in shown or 'differs  one adds "black"' in shown


def test_each_judge_has_answers_of_its_own_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "calibration.jsonl"
    model, person = CalibrationLog(path, "m"), CalibrationLog(path, "person")
    model.add("a b", Answer.SAME)
    person.add("a b", Answer.SAME)
    person.add("a b", Answer.APART)
    assert (model.read(), person.read()) == ({"a b": Answer.SAME}, {"a b": Answer.APART})


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calibration.jsonl"
    path.write_text('{"pair": "a b", "answer": "same", "by": "m"}\n{"pair"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"calibration\.jsonl:2"):
        CalibrationLog(path, "m").read()


def test_the_command_prints_bands_and_gives_no_advice_on_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes no memory; the second time nobody is asked again; the offline judge never is."""
    for key in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tmp_path / "data"))
    memories = tmp_path / "memories.jsonl"
    times = ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    texts = ("Mia keeps a black cat in Porto.", "Mia really keeps a black cat in Porto.")
    rows = [
        json.dumps({"content": text, "timestamp": at})
        for text, at in zip(texts, times, strict=True)
    ]
    memories.write_text("\n".join(rows), encoding="utf-8")
    runner = CliRunner()
    assert runner.invoke(app, ["import", "--raw", str(memories)]).exit_code == 0
    offline = runner.invoke(app, ["calibrate"])
    assert isinstance(offline.exception, InputError)
    assert "the offline judge only compares words" in str(offline.exception)
    options = ["calibrate", "--person", "--wanted", "0.9"]
    first = runner.invoke(app, options, input="y\n")
    again = runner.invoke(app, options, input="n\n")
    assert first.exit_code == again.exit_code == 0
    for done in (first, again):
        assert "      1      1     1      0  0" in done.stdout
        assert "too few answers" in done.stdout
        assert "threshold:" not in done.stdout
    kept = (tmp_path / "data" / "calibration.jsonl").read_text(encoding="utf-8")
    assert len(kept.splitlines()) == 1
    assert "black" not in kept
    assert len(runner.invoke(app, ["export"]).stdout.splitlines()) == 2
