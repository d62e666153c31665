"""The command lines as processes: what they print, where, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import chromadb
import numpy as np
import pytest
import typer.main
from chromadb.config import Settings
from typer.testing import CliRunner

from memory import assembly
from memory.assembly import open_store
from memory.cli.commands import app
from memory.config import Config, MemoryConfig
from memory.errors import InputError
from memory.interchange import Reading, langgraph_at, note_reading
from memory.ledger import Ledger
from memory.models import Action, Decision, Survivor
from memory.search import SearchRouter
from memory.text import counted
from orchestrator import app as chat
from tests import commands
from tests.gemini_server import GeminiServer
from tests.gemini_server import failed as gemini_failed
from tests.turns import turn

ROOT = Path(__file__).parent.parent.parent
MODULES = {"memory-dedup": "memory", "memory-chat": "orchestrator"}
WHEN = "2026-05-01T08:00:00Z"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in a folder with a config.yaml; with `ok`, it must succeed and not complain."""
    (tmp_path / "config.yaml").write_text("memory:\n  data_dir: data\n")

    def start(
        command: str, *args: str, ok: bool = True, before: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        if before:
            whole = [*before, sys.executable, "-W", "error", "-m", MODULES[command], *args]
            done = subprocess.run(
                whole, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
        else:
            done = commands.run(MODULES[command], *args, cwd=tmp_path, env=env)
        assert "Traceback" not in done.stderr, done.stderr
        if ok:
            assert done.returncode == 0, done.stderr
        return done

    return start


def lines(folder: Path, *memories: dict[str, object]) -> str:
    path = folder / "in.jsonl"
    told = ({"timestamp": WHEN, "user": "Mia"} | memory for memory in memories)
    path.write_text("".join(json.dumps(memory) + "\n" for memory in told), encoding="utf-8")
    return path.name


def exported(run: Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("memory-dedup", "export").stdout.splitlines()]


COPIES: list[dict[str, object]] = [
    {"content": "Mia adopted a cat in 2023.", "id": "1", "mood": "calm"},
    {"content": "mia adopted a cat in 2023", "id": "2"},
    {"content": "Mia adopted a cat in 2021.", "id": "3"},
    {"content": "Jonas sails on the lake.", "id": "4", "user": "Jonas"},
    {"content": "Jonas sails on the lake.", "id": "5", "user": "Jonas", "is_private": True},
]


def test_raw_import_audit_batch_and_again(run: Run, tmp_path: Path) -> None:
    said = run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    assert said.stderr == "imported 5: 5 add; memories 0 -> 5\n"
    before = run("memory-dedup", "export").stdout
    ledger = (tmp_path / "data" / "ledger.db").read_bytes()
    audit = run("memory-chat", "--dedup-dry-run").stdout
    assert re.search("reason +same text", audit)
    assert "pairs >= 0.98    1" in audit
    assert max(map(len, audit.splitlines())) <= 80
    assert (tmp_path / "data" / "ledger.db").read_bytes() == ledger
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["ledger.db"]
    assert run("memory-dedup", "export").stdout == before
    done = run("memory-chat", "--deduplicate-memories").stdout
    assert "memories after  4" in done
    assert {memory["content"] for memory in exported(run)} == {
        "Mia adopted a cat in 2023.",
        "Mia adopted a cat in 2021.",
        "Jonas sails on the lake.",
    }
    ledger = (tmp_path / "data" / "ledger.db").read_bytes()
    again = run("memory-chat", "--deduplicate-memories").stdout
    assert "decisions       none" in again
    assert (tmp_path / "data" / "ledger.db").read_bytes() == ledger


def test_import_goes_through_the_deduplicator_and_twice_adds_nothing(
    run: Run, tmp_path: Path
) -> None:
    name = lines(tmp_path, *COPIES)
    said = run("memory-dedup", "import", name).stderr
    assert said.endswith("memories 0 -> 4\n")
    before = exported(run)
    assert run("memory-dedup", "import", name).stderr.endswith("memories 4 -> 4\n")
    assert run("memory-dedup", "import", "--raw", name).stderr.endswith("memories 4 -> 4\n")
    assert exported(run) == before


def test_an_export_comes_back_exactly(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    text = run("memory-dedup", "export").stdout
    (tmp_path / "out.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "data" / "ledger.db").rename(tmp_path / "elsewhere.db")
    run("memory-dedup", "import", "--raw", "out.jsonl")
    assert run("memory-dedup", "export").stdout == text


def test_search_and_stats_say_what_there_is(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    found = run("memory-dedup", "search", "who sails?", "-k", "1", "--user", "Jonas").stdout
    assert "Jonas sails on the lake." in found
    found = run("memory-dedup", "search", "Who sails on the lake?", "-k", "9").stdout
    scores = [float(line.split()[0]) for line in found.splitlines()]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 1 > 0 > scores[-1]
    stats = run("memory-dedup", "show").stdout
    assert "4 live, 1 retired" in stats
    assert "wordllama" in stats
    assert run("memory-dedup", "stats").stdout == run("memory-dedup", "store", "stats").stdout


@pytest.mark.parametrize("module", ["memory", "orchestrator"])
def test_help_loads_no_heavy_library(module: str) -> None:
    code = (
        "import contextlib, runpy, sys; sys.argv = ['x', '--help']\n"
        f"with contextlib.suppress(SystemExit): runpy.run_module({module!r}, run_name='__main__')\n"
        "print({'numpy', 'sqlalchemy', 'chromadb', 'mcp', 'google.genai'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_one_memory_is_remembered_listed_and_recalled(run: Run, tmp_path: Path) -> None:
    done = run("memory-dedup", "remember", "Mia rows.", "--user", "Mia")
    assert re.fullmatch(r"stored in \S+/ledger\.db\n", done.stderr)
    said = done.stdout
    assert said.startswith("add: nothing similar\nmem_")
    again = run("memory-dedup", "remember", "mia rows", "--user", "Mia").stdout
    assert again.startswith("replace: same text\nmem_")
    [listed] = json.loads(run("memory-dedup", "list", "--user", "Mia", "--json").stdout)
    [found] = json.loads(run("memory-dedup", "recall", "who rows?", "--json").stdout)
    assert listed["content"] == found["content"] == "Mia rows."
    assert "Mia rows." in run("memory-dedup", "list", "--user", "Mia").stdout
    nobody = run("memory-dedup", "recall", "who rows?", "--user", " ", ok=False)
    assert failed(nobody) == "error: user: user is empty; give a name", "not everybody's"
    assert "there is Mia" in run("memory-dedup", "list", "--user", "mia").stderr
    *_, decision = json.loads(run("memory-dedup", "history", "--json").stdout)
    assert sorted(decision["texts"].values()) == ["Mia rows.", "Mia rows."]
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE memories SET expires_at = '2020-01-01T00:00:00+00:00'")
    assert "rows" not in run("memory-dedup", "list", "--user", "Mia").stdout, "it is over"


def test_a_memory_of_nobody_is_one_on_request_only(run: Run) -> None:
    for wrong in ((), ("--user", "Mia", "--no-user")):
        told = failed(run("memory-dedup", "remember", "It rains.", *wrong, ok=False), 2)
        assert told == "error: remember: needs a user; give --user NAME, or --no-user"
    run("memory-dedup", "remember", "It rains.", "--no-user")
    [stored] = exported(run)
    assert (stored.get("user"), stored["content"]) == (None, "It rains.")


def test_a_dry_run_says_why_near_copies_are_no_group(run: Run, tmp_path: Path) -> None:
    told: list[dict[str, object]] = [
        {"content": f"Mia is allergic to {nuts}"} for nuts in ("walnuts", "walnuts!", "peanuts.")
    ]
    run("memory-dedup", "import", lines(tmp_path, *told), "--raw")
    assert "groups           1, of which" in run("memory-dedup", "clean", "--dry-run").stdout
    done = run("memory-dedup", "clean").stdout
    assert "example       Mia is allergic to walnuts | Mia is allergic to walnuts!\n" in done
    assert "similarity 0.92 (cosine" in run("memory-dedup", "history").stdout
    again = run("memory-dedup", "clean", "--dry-run").stdout
    assert "groups           0: each pair was decided before and stays apart" in again


def test_what_a_description_names_is_shown_and_erased(run: Run) -> None:
    for text in ("Ana works at Orbis.", "Mia rows."):
        run("memory-dedup", "remember", text, "--user", "Mia")
    shown = run("memory-dedup", "forget", "--user", "Mia", "--matching", "Ana", "--yes")
    assert "Ana works at Orbis." in shown.stdout
    assert "Mia rows." not in shown.stdout
    assert [one["content"] for one in exported(run)] == ["Mia rows."]
    again = run("memory-dedup", "forget", "--user", "Mia", "--matching", "Ana").stderr
    assert again == ("nothing of Mia is named by 'Ana'; `memory-dedup list --user Mia` shows all\n")
    nobody = run("memory-dedup", "forget", "--user", "mia", "--matching", "Ana").stderr
    assert nobody == "nothing of mia is named by 'Ana': no memory is about 'mia'; there is Mia\n"


def test_a_file_is_audited_and_nothing_is_stored(run: Run, tmp_path: Path) -> None:
    assert "same text" in run("memory-dedup", "audit", lines(tmp_path, *COPIES)).stdout
    assert not (tmp_path / "data").exists()
    (tmp_path / "undated.jsonl").write_text('[{"content": "Mia rows."}, {"content": "Leo runs."}]')
    said = run("memory-dedup", "import", "undated.jsonl").stderr
    assert said.startswith("2 have no time: when they were said is unknown")


def test_history_shows_why_and_undo_takes_it_back(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    before = run("memory-dedup", "export").stdout
    run("memory-chat", "--deduplicate-memories")
    shown = run("memory-dedup", "history").stdout
    [number] = re.findall(r"^decision (\d+) .* replace$", shown, re.MULTILINE)
    assert "same text" in shown
    assert "retire" in shown
    assert str(COPIES[0]["content"]) in shown
    assert run("memory-dedup", "undo", number).stdout.startswith(
        f"undone {number}: replace of 2 memories"
    )
    assert run("memory-dedup", "export").stdout == before
    assert "replace  undone" in run("memory-dedup", "history").stdout
    assert "undone already" in failed(run("memory-dedup", "undo", number, ok=False))


def test_history_says_how_a_merge_was_verified_and_what_the_cosine_was(tmp_path: Path) -> None:
    text = "Mia has a black cat named Pip."
    with open_store(Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))) as store:
        cat, pip = (store.add(store.new_memory(one)) for one in ("Mia has a cat.", text))
        merge = Decision(
            Action.MERGE, "one cat", (cat, pip), (Survivor(pip, (cat.id,)),), similarity=0.92,
            cosine=0.76, verified="by a second reading",
        )  # fmt: skip
        store.apply(merge)
    (tmp_path / "config.yaml").write_text("memory:\n  data_dir: data\n")
    shown = CliRunner().invoke(app, ["--config", str(tmp_path / "config.yaml"), "history"]).output
    assert "0.92 (cosine 0.76)  merge" in shown
    assert re.search(r"reason   one cat\n.*verified by a second reading", shown)


ALIKE: list[dict[str, object]] = [
    {"content": "Mia pays 900 euros for her flat in Porto.", "timestamp": "2026-05-01T08:00:00Z"},
    {"content": "Mia pays 950 euros for her flat in Porto.", "timestamp": "2026-05-02T08:00:00Z"},
]
OWN = {"llm": {"provider": "gemini", "max_attempts": 1}}


def test_groups_beyond_the_limit_of_calls_are_left_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an import as in a batch; `retry --all` asks about all of it, whatever was judged."""
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    with GeminiServer().running() as server:
        server.default = json.dumps({"groups": [], "reason": "two rents"})
        settings = {"memory": {"data_dir": "data"}, "llm": OWN["llm"] | {"base_url": server.url}}
        (tmp_path / "config.yaml").write_text(json.dumps(settings))
        told = str(tmp_path / lines(tmp_path, *ALIKE))
        config = ["--config", str(tmp_path / "config.yaml")]

        def say(*args: str) -> str:
            return CliRunner().invoke(app, [*config, *args]).output

        said = say("import", told, "--max-calls", "0")
        assert "1 question left for the model: memory-dedup clean --retry asks them" in said
        none = CliRunner().invoke(chat, [*config, "--deduplicate-memories", "--max-calls", "0"])
        left = "pages left      1, for the next run (calls spent, or no answer)"
        assert left in none.output
        assert len(server.asked) == 0
        assert "pages read      1" in say("retry")
        assert "pages read" not in say("retry")
        assert "pages read      1" in say("retry", "--all")
        assert len(server.asked) == 2


def test_a_run_in_which_nothing_was_answered_ends_with_1_and_the_servers_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    with GeminiServer().running() as server:
        settings = {"memory": {"data_dir": "data"}, "llm": OWN["llm"] | {"base_url": server.url}}
        (tmp_path / "config.yaml").write_text(json.dumps(settings))
        told = str(tmp_path / lines(tmp_path, *ALIKE))
        config = ["--config", str(tmp_path / "config.yaml")]
        CliRunner().invoke(app, [*config, "import", "--raw", told])
        server.script = [gemini_failed(503, "the house is full")] * 3
        for command in ([*config, "dedup"], [*config, "retry", "--all"]):
            done = CliRunner().invoke(app, command)
            assert done.exit_code == 1, done.output
            assert "error: no call of" in done.output
            assert "Gemini answered 503" in done.output
        done = CliRunner().invoke(chat, [*config, "--deduplicate-memories"])
        assert done.exit_code == 1
        assert len(server.asked) == 3


def test_the_audit_counts_what_lies_just_below(run: Run, tmp_path: Path) -> None:
    near: list[dict[str, object]] = [
        {"content": "Mia keeps a cat and likes tea."},
        {"content": "Mia likes her cat."},
    ]
    run("memory-dedup", "import", "--raw", lines(tmp_path, *near))
    below = re.search(r"just below +(\d+) pairs from 0.85", run("memory-dedup", "audit").stdout)
    assert below is not None


def test_an_audit_a_batch_and_a_history_are_written_as_reports(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES[:2]))
    audited = run("memory-dedup", "audit", "--groups", "0", "--report", "audit.html")
    assert "group 1/" not in audited.stdout
    assert audited.stderr == (
        "report written to audit.html; `forget` cannot erase the texts in it\n"
    )
    run("memory-chat", "--deduplicate-memories", "--report", "batch.json")
    run("memory-dedup", "history", "--report", "history.csv")
    assert "1 group of near-copies among 2 memories" in (tmp_path / "audit.html").read_text()
    told = json.loads((tmp_path / "batch.json").read_text())
    assert (told["headline"], len(told["cards"])) == ("2 memories became 1", 1)
    assert (tmp_path / "history.csv").read_text("utf-8-sig").count("same text") == 2
    refused = run("memory-chat", "--deduplicate-memories", "--report", "batch.pdf", ok=False)
    assert "ends in none of .html, .json, .csv, .md" in refused.stderr


def test_one_memory_is_shown_with_all_it_stands_for(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES[:2]))
    run("memory-chat", "--deduplicate-memories")
    [live] = exported(run)
    told = json.loads(run("memory-dedup", "show", str(live["id"]), "--json").stdout)
    assert [one["content"] for one in told["wordings"]] == [
        "Mia adopted a cat in 2023.",
        "Mia adopted a cat in 2023.",
    ]
    assert told["decisions"][-1]["recorded"]["by"] == "the rules, without a model"
    [decided] = json.loads(run("memory-dedup", "history", "--json").stdout)
    shown = run("memory-dedup", "show", str(live["id"])).stdout
    assert "retired Mia adopted a cat in 2023." in shown
    told = shown.partition(f"decision {decided['number']}")[2]
    assert re.search(
        r"retire .* Mia adopted.*\n +keep .* mia adopted.*\n +reason   same text", told
    )
    assert f"to undo  memory-dedup undo {decided['number']}" in shown
    assert decided["survivors"][0]["id"] == live["id"]
    assert json.loads(run("memory-dedup", "stats", "--json").stdout)["live"] == 1
    assert len(json.loads(run("memory-dedup", "runs", "--json").stdout)) == 1
    assert json.loads(run("memory-dedup", "doctor", "--json").stdout) == []
    for command in ("history", "show"):
        refused = run("memory-dedup", command, "mem_000000000000", ok=False)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "no live memory has the id 'mem_000000000000'" in refused.stderr


def test_a_store_without_runs_says_so(run: Run) -> None:
    run("memory-dedup", "remember", "--user", "Mia", "Mia has a cat.")
    said = run("memory-dedup", "history", "--runs")
    assert (said.stdout.strip(), said.stderr) == ("", "no runs\n")


def test_a_run_is_listed_and_taken_back_whole(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    before = run("memory-dedup", "export").stdout
    run("memory-chat", "--deduplicate-memories")
    [shown] = run("memory-dedup", "runs").stdout.splitlines()
    name = shown.split()[0]
    assert "1 replace" in shown
    after = run("memory-dedup", "export").stdout
    planned = run("memory-dedup", "undo", name, "--dry-run").stdout
    assert all(str(one["content"]) in planned for one in COPIES[:3])
    assert run("memory-dedup", "export").stdout == after
    assert re.match(r"undone \d+: replace of 2 memories", run("memory-dedup", "undo", name).stdout)
    assert run("memory-dedup", "export").stdout == before
    assert "nothing left" in failed(run("memory-dedup", "undo", name, ok=False))
    assert "no such run" in failed(run("memory-dedup", "undo", "run_x", ok=False))
    run("memory-chat", "--deduplicate-memories")
    assert run("memory-dedup", "export").stdout == before, "kept apart by a person"


def test_an_imports_own_ids_are_taken_wherever_a_memory_is_named(run: Run, tmp_path: Path) -> None:
    theirs = [one | {"id": f"row-{n}"} for n, one in enumerate(COPIES[:2])]
    run("memory-dedup", "import", lines(tmp_path, *theirs))
    assert "1 live, 1 retired" in run("memory-dedup", "stats").stdout
    for name in ("row-0", "row-1"):
        assert str(COPIES[0]["content"]) in run("memory-dedup", "show", name).stdout
        assert "same text" in run("memory-dedup", "history", name).stdout
    run("memory-dedup", "undo", "row-1")
    assert "2 live, 0 retired" in run("memory-dedup", "stats").stdout
    run("memory-dedup", "forget", "row-0")
    assert [one["content"] for one in exported(run)] == [COPIES[1]["content"]]
    assert "no live memory has the id 'row-9'" in failed(
        run("memory-dedup", "show", "row-9", ok=False)
    )


def test_an_imports_id_that_several_memories_have_is_not_guessed(run: Run, tmp_path: Path) -> None:
    twice: list[dict[str, object]]
    twice = [{"id": "7", "content": "Mia sails.", "user": user} for user in ("Mia", "Ben")]
    run("memory-dedup", "import", lines(tmp_path, *twice))
    ids = sorted(str(one["id"]) for one in exported(run))
    said = failed(run("memory-dedup", "forget", "7", ok=False), 2)
    assert f"2 memories have this id; name one: {', '.join(ids)}" in said
    assert len(exported(run)) == 2


def test_a_name_that_nobody_has_is_answered_with_those_who_exist(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, {"content": "Priya sails.", "user": "Priya"}))
    said = run("memory-dedup", "search", "sailing", "--user", "priya").stderr
    assert said == "nothing found: no memory is about 'priya'; there is Priya\n"
    said = run("memory-dedup", "export", "--user", "priya").stderr
    assert said == "nothing to export: no memory is about 'priya'; there is Priya\n"
    said = failed(run("memory-dedup", "forget", "--user", "Prya", "--yes", ok=False))
    assert "there is Priya" in said


def test_an_import_reads_standard_input(run: Run, tmp_path: Path) -> None:
    told = (tmp_path / lines(tmp_path, *COPIES)).read_bytes() + b"nonsense\n"
    done = subprocess.run(
        [commands.python(), "-m", "memory", "import", "-"],
        cwd=tmp_path,
        input=told,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"error: standard input:6: is not JSON" in done.stderr
    assert len(exported(run)) == 4
    missing = run("memory-dedup", "import", "--from-mem0", "nope", ok=False)
    assert "nope: there is no such folder" in failed(missing)


def test_an_empty_configuration_keeps_the_data_beside_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("")
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    assert (tmp_path / "data" / "ledger.db").is_file()


def test_a_report_takes_the_place_of_what_is_printed(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    for command in ("audit", "history"):
        done = run("memory-dedup", command, "--report", f"{command}.html")
        assert done.stdout == ""
        assert done.stderr.startswith(f"report written to {command}.html")
        assert done.stderr.count("\n") == 1


def test_every_summary_of_the_help_is_a_whole_sentence(run: Run) -> None:
    listed = run("memory-dedup", "--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(listed) == 16
    for line in listed:
        assert line.endswith("."), line
        assert not line.endswith("..."), line
        assert len(line) <= 80


def test_a_run_that_later_decisions_build_on_is_not_taken_back(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES[:1]))
    run("memory-dedup", "import", lines(tmp_path, {"content": "Mia adopted a cat in 2023!"}))
    run("memory-dedup", "import", lines(tmp_path, {"content": "mia adopted a cat in 2023."}))
    runs = run("memory-dedup", "runs").stdout.splitlines()
    said = failed(run("memory-dedup", "undo", runs[1].split()[0], ok=False))
    assert re.search(r"decisions \[\d+\] build on it; undo those first", said)


def test_a_forgotten_text_is_in_no_file_of_the_data_folder(run: Run, tmp_path: Path) -> None:
    secret = "The access code of Mia is 4711-quartz."
    run(
        "memory-dedup",
        "import",
        lines(tmp_path, {"content": secret}, {"content": secret.replace("The", "the")}, *COPIES),
    )
    (tmp_path / "in.jsonl").unlink()
    [found] = [one for one in exported(run) if "4711" in str(one["content"])]
    vector = run("memory-dedup", "search", "access code").stdout
    assert str(found["id"]) in vector
    assert run("memory-dedup", "forget", str(found["id"])).stderr == "erased\n"
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert b"quartz" not in path.read_bytes().lower(), path
    assert len(exported(run)) == 4
    assert "no live memory" in failed(run("memory-dedup", "forget", str(found["id"]), ok=False))
    assert run("memory-dedup", "doctor").stderr.startswith("nothing is damaged: ")


def test_while_another_process_has_chroma_forget_says_what_is_left(
    run: Run, tmp_path: Path
) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    [first, *_] = exported(run)
    with open_store(Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))) as owner:
        owner.index.rebuild()
        assert owner.index.name == "Chroma"
        said = run("memory-dedup", "forget", str(first["id"])).stderr
        assert said.startswith("index pending: gone from the ledger")
        assert len(exported(run)) == 3
        assert owner.scrub()
    assert run("memory-dedup", "doctor").stderr.startswith("nothing is damaged: ")


def test_a_store_is_backed_up_lost_and_restored(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    before = run("memory-dedup", "export").stdout
    run("memory-dedup", "backup", "kept.db")
    (tmp_path / "data" / "ledger.db").write_bytes(b"torn" * 5_000)
    assert "restore" in failed(run("memory-dedup", "export", ok=False))
    run("memory-dedup", "restore", "kept.db")
    assert run("memory-dedup", "export").stdout == before
    assert run("memory-dedup", "doctor").stderr.startswith("nothing is damaged: 5 memories live")


def test_retry_with_nothing_pending_changes_nothing(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    before = (tmp_path / "data" / "ledger.db").read_bytes()
    assert "decisions       none" in run("memory-dedup", "retry").stdout
    assert (tmp_path / "data" / "ledger.db").read_bytes() == before


def test_the_audit_as_json_is_the_report(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    report = json.loads(run("memory-dedup", "audit", "--json").stdout)
    assert report["dry_run"] is True
    assert [group["action"] for group in report["groups"]] == ["replace + judge"]


def test_a_foreign_collection_is_imported_under_new_ids(run: Run, tmp_path: Path) -> None:
    settings = Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(tmp_path / "theirs"), settings=settings)
    collection = client.create_collection("notes", embedding_function=None)
    collection.add(
        ids=["mem_00000000000a", "b"],
        embeddings=np.eye(2, dtype=np.float32),
        documents=["Mia likes tea.", "undated"],
        metadatas=[{"user": "Mia", "created_at": WHEN, "mood": "calm"}, {"user": "Mia"}],
    )
    theirs = ("import", "--from-chroma", "theirs", "--collection", "notes")
    whose = (
        "error: theirs: whose memories are these? its metadata has the keys: created_at, mood, user"
    )
    other = run("memory-dedup", *theirs, "--user-key", "owner", ok=False)
    assert failed(other).startswith(whose)
    done = run("memory-dedup", *theirs, ok=False)
    assert done.returncode == 1
    assert "b: timestamp is missing" in done.stderr
    [memory] = exported(run)
    assert memory["external_id"] == "mem_00000000000a"
    assert memory["user"] == "Mia"
    assert memory["id"] != "mem_00000000000a"
    assert memory["metadata"] == {"created_at": WHEN, "mood": "calm"}


def test_a_foreign_store_is_audited_without_importing_anything(run: Run, tmp_path: Path) -> None:
    line = {"type": "entity", "name": "Mia", "entityType": "person"}
    told = ["Mia runs 12 kilometres.", "mia runs 12 kilometres", "Mia paints."]
    (tmp_path / "graph.jsonl").write_text(json.dumps(line | {"observations": told}))
    before = sorted(tmp_path.rglob("*"))
    theirs = ("--from-mcp-memory", "graph.jsonl", "--default-time", "2026-01-01")
    shown = run("memory-dedup", "audit", *theirs).stdout
    assert "retire 2026-01-01 Mia runs 12 kilometres." in shown
    assert "nothing changed" in shown
    assert sorted(tmp_path.rglob("*")) == before
    twice = run("memory-dedup", "audit", *theirs, "--from-mem0", ".", ok=False)
    assert failed(twice, 2).startswith("error: audit: needs one store at a time")


@pytest.mark.usefixtures("forked_chroma")
def test_a_cleaned_store_is_written_back_after_a_question_and_taken_back(tmp_path: Path) -> None:
    settings = Settings(anonymized_telemetry=False)
    with contextlib.chdir(tmp_path):
        Path("config.yaml").write_text("memory:\n  data_dir: data\n")
        client = chromadb.PersistentClient("theirs", settings=settings)
        collection = client.create_collection("memories", embedding_function=None)
        collection.add(
            ids=["a", "b", "c"],
            embeddings=np.eye(3, dtype=np.float32),
            documents=["Mia likes green tea.", "mia likes green tea", "Mia sails."],
            metadatas=[{"user": "Mia", "created_at": WHEN}] * 3,
        )
        say = partial(CliRunner().invoke, app, catch_exceptions=False)
        back = ["write-back", "--to-chroma", "theirs"]
        say(["import", lines(tmp_path, {"content": "Jonas rows."})])
        with pytest.raises(InputError, match="was never imported into this store"):
            say(back)
        say(["import", "--from-chroma", "theirs"])
        assert "0 rows updated, 1 deleted" in say([*back, "--yes"]).output
        assert collection.count() == 2
        assert "nothing to write back" in say(back).output
        assert "1 row put back" in say(["write-back", "--undo", "memories.undo-1.jsonl"]).output
        assert collection.count() == 3
        asked = say(back, input="n\n")
        assert (asked.exit_code, collection.count()) == (1, 3)
        assert "nothing was written" in asked.output


@pytest.mark.drill
def test_a_write_back_that_was_cut_off_is_finished_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def cut_off(what: str) -> Iterator[Callable[[int, int], None]]:
        def report(done: int, _whole: int) -> None:
            if what == "writing" and done:
                raise KeyboardInterrupt

        yield report

    with contextlib.chdir(tmp_path):
        Path("config.yaml").write_text("memory:\n  data_dir: data\n")
        client = chromadb.PersistentClient("boats", settings=Settings(anonymized_telemetry=False))
        collection = client.create_collection("memories", embedding_function=None)
        texts = [text for n in range(120) for text in (f"Mia owns boat {n}.", f"mia owns boat {n}")]
        collection.add(
            ids=[str(n) for n in range(240)],
            embeddings=np.eye(240, dtype=np.float32),
            documents=texts,
            metadatas=[{"user": "Mia", "created_at": WHEN}] * 240,
        )
        collection.add(
            ids=["x"], embeddings=np.eye(1, 240, dtype=np.float32), documents=[texts[0].upper()],
            metadatas=[{"user": "Mia", "created_at": WHEN, "run_id": "7"}],
        )  # fmt: skip
        say = partial(CliRunner().invoke, app, catch_exceptions=False)
        say(["import", "--from-chroma", "boats"])
        back = ["write-back", "--to-chroma", "boats", "--yes"]
        with monkeypatch.context() as patched:
            patched.setattr("memory.cli.other_stores.progress", cut_off)
            assert say(back).exit_code == 130
        assert collection.count() == 141
        done = " ".join(say(back).output.split())
        assert "own text kept by 1 row: different from the row that stands" in done
        assert "for the text in run_id (1); --across run_id lets one row stand for all" in done
        assert "20 deleted" in done
        assert collection.count() == 121
        assert "nothing to write back" in say(back).output
        assert "1 deleted" in say([*back, "--across", "run_id"]).output
        for number, restored in ((2, 1), (1, 120)):
            undone = say(["write-back", "--undo", f"memories.undo-{number}.jsonl"]).output
            assert f"{counted(restored, 'row')} put back" in undone
        assert collection.count() == 241
        assert not Path("memories.undo-3.jsonl").exists()
        with pytest.raises(InputError, match="'colour' is none of"):
            say([*back, "--across", "colour"])


def test_a_store_of_langgraph_is_brought_in_cleaned_written_back_and_taken_back(
    tmp_path: Path,
) -> None:
    with contextlib.chdir(tmp_path), contextlib.closing(sqlite3.connect("store.db")) as theirs:
        Path("config.yaml").write_text("memory:\n  data_dir: data\n")
        theirs.execute(
            "CREATE TABLE store (prefix, key, value, created_at, updated_at, expires_at)"
        )
        for key, text, expires in (
            ("a", "Mia likes green tea.", None),
            ("b", "mia likes green tea", None),
            ("c", "Mia sails.", "2026-01-01 00:00:00"),
        ):
            row = ["memories.mia", key, json.dumps({"text": text}), WHEN, None, expires]
            theirs.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?, ?)", row)
        theirs.commit()

        def keys() -> list[str]:
            return [key for (key,) in theirs.execute("SELECT key FROM store ORDER BY key")]

        say = partial(CliRunner().invoke, app, catch_exceptions=False)
        brought = say(["import", "--from-langgraph", "store.db"]).output
        assert "1 have expired, and are left where they are" in brought
        assert "imported 2: 1 add, 1 replace" in brought
        back = say(["write-back", "--to-langgraph", "store.db", "--yes"]).output
        assert "0 rows updated, 1 deleted" in back
        assert keys() == ["a", "c"]
        Path("store.db").rename("moved.db")
        undo = ["write-back", "--undo", "langgraph.undo-1.jsonl"]
        with pytest.raises(InputError, match="is not there"):
            say(undo)
        assert "1 row put back" in say([*undo, "--to-langgraph", "moved.db"]).output
        assert keys() == ["a", "b", "c"]


def test_files_and_prompts_of_a_langgraph_store_are_named_and_never_written(
    tmp_path: Path,
) -> None:
    tea, again = "Mia likes green tea.", "mia likes green tea"
    draft = {"content": ["Mia likes green tea."], "modified_at": WHEN}
    items = [
        ("memories.mia", "a", {"text": tea}),
        ("memories.mia", "b", {"text": again}),
        ("mia", "0a1b2c3d-0000-4000-8000-000000000001", {"memory": "Mia sails."}),
        ("files.proj", "/draft.md", {"text": tea}),
        ("files.proj", "/draft2.md", {"text": again}),
        ("scratch", "/c", draft),
        ("prompts", "greeting_de", {"text": tea}),
        ("prompts", "greeting_de2", {"text": again}),
        ("mine", "hello", {"text": tea}),
        ("mine", "hallo", {"text": again}),
    ]
    with contextlib.chdir(tmp_path), contextlib.closing(sqlite3.connect("store.db")) as theirs:
        Path("config.yaml").write_text("memory:\n  data_dir: data\n")
        theirs.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        for prefix, key, value in items:
            row = [prefix, key, json.dumps(value), WHEN, None]
            theirs.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?)", row)
        theirs.commit()

        def keys(prefix: str) -> list[str]:
            told = "SELECT key FROM store WHERE prefix = ? ORDER BY key"
            return [key for (key,) in theirs.execute(told, [prefix])]

        say = partial(CliRunner().invoke, app, catch_exceptions=False)
        brought = " ".join(say(["import", "--from-langgraph", "store.db"]).output.split())
        assert "files.proj (2), mine (2), prompts (2), scratch (1); --namespace" in brought
        assert "imported 3: 2 add, 1 replace" in brought
        assert "1 deleted" in say(["write-back", "--to-langgraph", "store.db", "--yes"]).output
        assert keys("memories.mia") == ["a"]
        before = {name: keys(name) for name in ("files.proj", "mine", "prompts", "scratch")}

        with pytest.raises(InputError, match="has no namespace 'min'; there are: files"):
            say(["import", "--from-langgraph", "store.db", "--namespace", "min"])
        chosen = ["--namespace", "mine", "--namespace", "memories"]
        brought = say(["import", "--from-langgraph", "store.db", *chosen]).output
        assert "imported 3: " in brought
        assert "namespaces left alone: files.proj (2), mia (1), prompts" in brought
        assert "1 deleted" in say(["write-back", "--to-langgraph", "store.db", "--yes"]).output
        assert len(keys("mine")) == 1
        assert {name: keys(name) for name in before} == before | {"mine": keys("mine")}

        everything = [*chosen, "--namespace", "files", "--namespace", "prompts"]
        say(["import", "--from-langgraph", "store.db", *everything])
        with open_store(Config(memory=MemoryConfig(data_dir="data"))) as store:
            found = langgraph_at("store.db").found()
            note_reading(store.ledger, found.collection_id, Reading(user_key="namespace"))
        back = say(["write-back", "--to-langgraph", "store.db", "--yes"]).output
        assert "nothing to write back" in back, "an older version noted no namespaces"


def test_the_doctor_names_an_index_that_cannot_be_opened_beside_the_rest(
    run: Run, tmp_path: Path
) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    (tmp_path / "config.yaml").write_text("memory: {data_dir: data, search: {vectors_mb: 0}}\n")
    (tmp_path / "data" / "chroma.lock").unlink(missing_ok=True)
    (tmp_path / "data" / "chroma.lock").mkdir()
    done = run("memory-dedup", "doctor", ok=False)
    assert done.returncode == 1
    assert "the index cannot be read" in done.stdout
    assert "cannot be locked" in done.stdout
    assert "error:" not in done.stderr


# --- what can go wrong --------------------------------------------------------------------------


def failed(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """The one line that a failed command says."""
    assert done.returncode == code
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("import", "--from-qdrant", "x.txt"), "x.txt: is no folder of Qdrant; give the folder"),
        (("audit", "--from-qdrant", "none", "--trust"), "none: is no folder of Qdrant; give the"),
        (("import", "--from-chroma", "none"), "none: is not a Chroma folder; give the folder"),
        (("import", "--from-mem0", "none"), "none: there is no such folder; give mem0's folder"),
        (("import", "--from-langgraph", "none"), "none: is not there; give the SQLite file"),
        (("import", "--from-mcp-memory", "none"), "none: cannot be read: No such file"),
        (("import", "none"), "none: cannot be read: No such file or directory; name a JSON Lines"),
        (("apply", "x.txt"), "x.txt:1: is not a decisions file: line 1 is not"),
        (("write-back", "--undo", "x.txt"), "x.txt:1: is not JSON: Expecting value (column 1); gi"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_give(
    run: Run, tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    (tmp_path / "x.txt").write_text("Mia rows.\n")
    assert failed(run("memory-dedup", *args, ok=False)).startswith(f"error: {said}")


def test_a_bad_line_is_named_and_the_rest_is_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        f'{{"content": "one", "timestamp": "{WHEN}"}}\n{{"content": "tw\n'
        f'{{"content": "three", "timestamp": "{WHEN}"}}\n'
    )
    done = run("memory-dedup", "import", "in.jsonl", ok=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: in.jsonl:2: is not JSON: Unterminated string starting at (column 13); "
        "this line is left out",
        "imported 2: 2 add; memories 0 -> 2",
        "1 left out; the reasons are above",
    ]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("import", "none.jsonl"), "error: none.jsonl: cannot be read: No such file"),
        (("import", "."), "error: .: cannot be read: Is a directory"),
        (("import", "--from-chroma", "."), "error: .: is not a Chroma folder"),
        (("export",), "error: there are no memories at"),
        (("search", "tea"), "error: there are no memories at"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(run: Run, args: tuple[str, ...], said: str) -> None:
    assert failed(run("memory-dedup", *args, ok=False)).startswith(said)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("import", "import: needs exactly one source"),
        ("import in.jsonl --text-key t", "import: the key options and --no-user are for"),
        ("import --from-mem0 x --default-time soon", "--default-time: 'soon' is not ISO 8601"),
        ("import --from-mem0 x --namespace y", "--namespace: is for --from-langgraph"),
        ("audit --from-mem0 x --from-langgraph y", "audit: needs one store at a time"),
        ("audit --report plan.pdf", "plan.pdf: ends in none of"),
        ("dedup --workers 2 --dask tcp://x", "clean: takes --workers or --dask"),
        ("forget", "forget: needs a memory's id or a user"),
        (
            "forget --matching cat",
            "forget: needs a memory's id or a user; give ID, or --user USER [-",
        ),
        ("store conflicts a b", "conflicts: needs two ids and an answer; give OLDER NEW"),
        ("write-back", "write-back: needs one store"),
        ("write-back --undo x.jsonl --collection y", "--undo: names what was written, and where"),
        ("serve --user ''", "--user: is empty"),
        ("serve --tokens x", "--tokens, --allow-host: are for HTTP"),
        ("serve --http nowhere", "'nowhere': is not HOST:PORT"),
        ("serve --http 0.0.0.0:0", "--http: others can reach 0.0.0.0"),
    ],
)
def test_a_wrong_command_line_ends_with_2_as_an_unknown_option_does(
    run: Run, args: str, said: str
) -> None:
    assert run("memory-dedup", "import", "--colour", ok=False).returncode == 2
    assert failed(run("memory-dedup", *shlex.split(args), ok=False), 2).startswith(f"error: {said}")


def test_a_workspace_that_cannot_be_written_is_a_warning(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no folder")
    said = run("memory-dedup", "serve", "--workspace", "notes").stderr
    assert "notes: the workspace cannot be written" in said
    (tmp_path / "config.yaml").write_text(
        "memory: {data_dir: data}\nagent: {workspace_dir: notes}\n"
    )
    served = run("memory-dedup", "serve")
    assert "warning: " in served.stderr
    assert "until then memories are stored without their entries" in served.stderr


def test_an_import_without_vectors_keeps_everything_and_says_what_is_missing(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(
        "memory:\n  data_dir: data\n  embedding: {provider: openai, model: m, dim: 64, "
        "base_url: 'http://127.0.0.1:9/v1'}\nllm: {max_attempts: 1, provider: offline}\n"
    )
    for _ in range(2):
        told = lines(tmp_path, *COPIES)
        done = run("memory-dedup", "--config", "config.yaml", "import", told, ok=False)
        assert done.returncode == 1
        assert "3 texts without a vector: their memories are kept" in done.stderr
    (tmp_path / "config.yaml").write_text("memory:\n  data_dir: data\n")
    assert len(exported(run)) == 4


def test_a_number_of_too_many_digits_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    told = f'{{"content": "one", "timestamp": "{WHEN}", "n": {"9" * 5000}}}'
    (tmp_path / "in.jsonl").write_text(told)
    done = run("memory-dedup", "import", "in.jsonl", ok=False)
    assert "in.jsonl:1: has a number of 5,000 digits; this line is left out" in done.stderr


def test_a_wrong_configuration_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("memory:\n  dedup_gaurd: true\n")
    said = failed(run("memory-chat", "--dedup-dry-run", ok=False))
    assert said == (
        "error: config.yaml:2: memory.dedup_gaurd: unknown key; did you mean memory.dedup_guard?"
    )


def test_a_dry_run_where_nothing_is_creates_nothing(run: Run, tmp_path: Path) -> None:
    done = run("memory-chat", "--dedup-dry-run")
    assert "no memories" in done.stderr
    assert not (tmp_path / "data").exists()


def test_another_embedder_is_refused_and_names_the_way_out(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    (tmp_path / "config.yaml").write_text(
        "memory:\n  data_dir: data\n  embedding:\n    provider: minilm\n"
    )
    assert "memory-dedup store reembed" in failed(
        run("memory-dedup", "import", "in.jsonl", ok=False)
    )
    assert len(exported(run)) == 4, "what needs no vector still works"


def test_reembed_makes_the_same_vectors_again(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    assert run("memory-dedup", "reembed").stderr == "3 texts embedded again\n"
    assert "Jonas" in run("memory-dedup", "search", "who sails?", "-k", "1").stdout


def test_a_chroma_server_that_is_not_there_is_one_warning_and_no_loss(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SEARCH_CHROMA_URL", "http://127.0.0.1:9")
    done = run("memory-dedup", "import", lines(tmp_path, *COPIES))
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == 1
    assert "memory.search.chroma_url" in warnings[0]
    assert len(exported(run)) == 4


ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Root may write everywhere, unless it gives up that right."""


@pytest.fixture
def as_anybody() -> tuple[str, ...]:
    """What to put before a command so that permissions count."""
    if os.geteuid() != 0:
        return ()
    if shutil.which(ORDINARY[0]) is None:
        pytest.skip("root may write everywhere, and there is no setpriv")
    return ORDINARY


def test_a_data_folder_that_cannot_be_written_is_one_clear_line(
    run: Run, tmp_path: Path, as_anybody: tuple[str, ...]
) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    told = lines(tmp_path, *COPIES)
    said = failed(run("memory-dedup", "import", told, ok=False, before=as_anybody))
    assert "cannot be opened: Permission denied" in said
    (tmp_path / "data").chmod(0o700)
    run("memory-dedup", "import", told)
    assert exported(run)


@pytest.mark.drill
def test_a_folder_that_became_read_only_is_read_and_not_written(
    run: Run, tmp_path: Path, as_anybody: tuple[str, ...]
) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    before = exported(run)
    data = tmp_path / "data"
    (data / "ledger.db").chmod(0o400)
    data.chmod(0o500)
    more = lines(tmp_path, {"content": "Mia learnt to juggle.", "id": "9"})
    said = failed(run("memory-dedup", "import", more, ok=False, before=as_anybody))
    assert "ledger" in said
    assert "Permission denied" in said or "cannot be written" in said
    found = run("memory-dedup", "search", "cat", before=as_anybody).stdout
    assert "adopted a cat" in found
    data.chmod(0o700)
    (data / "ledger.db").chmod(0o600)
    assert exported(run) == before
    run("memory-dedup", "import", more)
    assert len(exported(run)) == len(before) + 1


def test_the_doctor_reads_what_it_may_not_write(
    run: Run, tmp_path: Path, as_anybody: tuple[str, ...]
) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    data = tmp_path / "data"
    (data / "ledger.db").chmod(0o400)
    data.chmod(0o500)
    said = run("memory-dedup", "doctor", before=as_anybody)
    assert "note: it can only be read" in said.stderr
    assert "1 (" in said.stdout.partition("memories that repeat another one: ")[2]
    data.chmod(0o700)
    (data / "ledger.db").chmod(0o600)


def test_the_doctor_reads_an_older_ledger_and_leaves_it_as_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    ledger = tmp_path / "data" / "ledger.db"
    shutil.copy(ROOT / "tests" / "ledger" / "fixtures" / "version_8.db", ledger)
    before = ledger.read_bytes()
    said = run("memory-dedup", "doctor", ok=False)
    assert "has schema 8" in said.stderr
    assert "run `memory-dedup store upgrade`" in said.stderr
    assert "memories live" in said.stderr
    assert ledger.read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["ledger.db"]
    assert "has schema 8" in failed(run("memory-dedup", "doctor", "--fix", ok=False))
    assert ledger.read_bytes() == before


READER = """
import sys
from memory.errors import LedgerError
from memory.ledger import Ledger

try:
    with Ledger.open(f"sqlite:///{sys.argv[1]}") as ledger:
        for _ in range(2):
            with ledger.reading() as reader:
                rows = reader.memories.live()
                next(rows)
                if sys.argv[2] == "inside":
                    print("go", flush=True), sys.stdin.readline()
                print(1 + sum(1 for _ in rows), flush=True)
            if sys.argv[2] == "between":
                print("go", flush=True), sys.stdin.readline()
except LedgerError as exc:
    print(f"{type(exc).__name__}: {exc}", flush=True)
"""
"""Counts memories twice, and lets somebody write between or inside of these looks."""


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("between", ["5", "go", "505", "go"]),
        (
            "inside",
            ["go", "5", "LedgerError: the ledger data/ledger.db was written by another process"],
        ),
    ],
)
def test_a_folder_that_may_only_be_read_is_no_damage_when_another_process_writes_it(
    run: Run, tmp_path: Path, as_anybody: tuple[str, ...], when: str, told: list[str]
) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    more: list[dict[str, object]] = [
        {"content": f"Mia saw bird {n}.", "id": f"b{n}"} for n in range(500)
    ]
    name = lines(tmp_path, *more)
    (tmp_path / "data").chmod(0o500)
    with subprocess.Popen(
        [*as_anybody, sys.executable, "-c", READER, "data/ledger.db", when],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        said = []
        for line in reader.stdout:
            said.append(line.strip())
            if line == "go\n":
                (tmp_path / "data").chmod(0o700)
                run("memory-dedup", "import", "--raw", name)
                reader.stdin.write("\n")
                reader.stdin.flush()
    assert [line[: len(start)] for line, start in zip(said, told, strict=False)] == told


def test_a_data_folder_that_is_a_file_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    said = failed(run("memory-dedup", "import", lines(tmp_path, *COPIES), ok=False))
    assert "cannot be opened" in said


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_import_cleanly_and_keeps_what_was_stored(
    run: Run, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    many: list[dict[str, object]] = [
        {"content": f"Mia saw bird number {n}.", "id": str(n)} for n in range(8_000)
    ]
    name = lines(tmp_path, *many)
    process = subprocess.Popen(
        [commands.python(), "-m", "memory", "import", name],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if sum(file.stat().st_size for file in (tmp_path / "data").glob("ledger.db*")) > 300_000:
            break
        time.sleep(0.02)
    process.send_signal(sent)
    _, said = process.communicate(timeout=120)  # a loaded machine is slow, not wrong
    assert process.returncode == code
    assert said == "interrupted: what was decided is kept, the rest is untouched\n"
    kept = len(exported(run))
    assert 0 < kept < 8_000
    assert not (tmp_path / "data" / "chroma").exists(), "few vectors need no index"


def test_versions_are_said(run: Run) -> None:
    for command in MODULES:
        assert run(command, "--version").stdout.startswith(f"{command} 0.")


def test_every_command_and_option_says_what_it_does(run: Run) -> None:
    for command in typer.main.get_group(app).commands:
        help_text = run("memory-dedup", command, "--help").stdout
        options = [line for line in help_text.splitlines() if line.strip().startswith("--")]
        assert options
        assert all(len(line.split(maxsplit=1)) == 2 for line in options)


def test_a_full_output_device_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [commands.python(), "-m", "memory", "export"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: standard output: No space left on device\n"


def test_forget_names_a_damaged_ledger_that_was_set_aside(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES))
    run("memory-dedup", "backup", "kept.db")
    (tmp_path / "data" / "ledger.db").write_bytes(b"torn" * 5_000)
    run("memory-dedup", "restore", "kept.db")
    [first, *_] = exported(run)
    assert "ledger.db.damaged-1" in run("memory-dedup", "forget", str(first["id"])).stderr
    assert "was set aside; delete it" in run("memory-dedup", "doctor").stdout


def test_a_search_shows_no_unseen_characters_and_no_hit_of_many_pages(
    run: Run, tmp_path: Path
) -> None:
    name = lines(
        tmp_path,
        {"content": "Mia's file is pay\u202efdp\u200b.exe.", "id": "1"},
        {"content": "Mia's novel " + "begins and " * 9_000, "id": "2"},
    )
    run("memory-dedup", "import", "--raw", name)
    shown = run("memory-dedup", "search", "Mia's file").stdout
    assert "payfdp.exe" in shown
    assert len(shown) < 4_000
    assert "(99,011 characters; see export)" in " ".join(shown.split())
    file, novel = exported(run)
    assert file["content"] == "Mia's file is pay\u202efdp\u200b.exe.", "kept as told"
    for command in ("show", "history"):
        told = " ".join(run("memory-dedup", command, str(novel["id"])).stdout.split())
        assert "(99,011 characters; see export)" in told
        assert len(told) < 10_000


def test_forgetting_goes_on_where_the_workspace_is_gone(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    gone = tmp_path / "gone"
    (tmp_path / "config.yaml").write_text(
        f"memory:\n  data_dir: data\nagent:\n  workspace_dir: {gone}\n"
    )
    for memory in exported(run):
        private = bool(memory.get("is_private"))
        said = run("memory-dedup", "forget", str(memory["id"])).stderr
        assert ("the workspace may still mention it" in said) is not private
        assert "erased" in said
    assert exported(run) == []


def test_a_description_names_turns_that_wait_too(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "remember", "Mia rows.", "--user", "Mia")
    url = f"sqlite:///{tmp_path}/data/ledger.db"
    with Ledger.create(url) as ledger, ledger.writing() as writer:
        for n, text in enumerate(("my pin is 4711", "I sail.")):
            writer.turns.keep(turn(text, n), str(n))
    for words in (("list", "--user", "Mia"), ("recall", "rowing", "--user", "Mia")):
        assert (
            "2 turns of Mia not extracted yet: the bot does it"
            in run("memory-dedup", *words).stderr
        )
    assert run("memory-dedup", "recall", "rowing").stdout.endswith("Mia rows. [Mia]\n")
    shown = run("memory-dedup", "forget", "--user", "Mia", "--matching", "my pin", "--yes")
    assert shown.stdout.split() == ["not", "extracted", "yet", "my", "pin", "is", "4711"]
    assert shown.stderr.endswith("1 waiting turn erased\n")
    with Ledger.create(url) as ledger, ledger.reading() as reader:
        assert [one.turn.text for one in reader.turns.waiting()] == ["I sail."]
    assert b"4711" not in (tmp_path / "data" / "ledger.db").read_bytes()


def test_a_named_turn_that_becomes_a_memory_meanwhile_is_erased_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("memory-dedup", "remember", "Mia rows.", "--user", "Mia")
    url = f"sqlite:///{tmp_path}/data/ledger.db"
    with Ledger.create(url) as ledger, ledger.writing() as writer:
        writer.turns.keep(turn("my pin is 4711"), "0")
    erase = assembly.forget_turns

    def extracted_first(ledger: Ledger, index: SearchRouter, *named: str) -> int:
        with ledger.writing() as writer:
            for one in writer.turns.waiting():
                writer.turns.finish(one.seq)
        run("memory-dedup", "remember", "Mia's pin is 4711.", "--user", "Mia")
        return erase(ledger, index, *named)

    monkeypatch.setattr(assembly, "forget_turns", extracted_first)
    monkeypatch.chdir(tmp_path)
    words = ["forget", "--user", "Mia", "--matching", "Mia's pin", "--yes"]
    said = CliRunner().invoke(app, words).output
    assert "0 waiting turns erased" in said, said
    assert [one["content"] for one in exported(run)] == ["Mia rows."]


def test_a_users_name_with_space_around_it_is_the_same_name(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    found = run("memory-dedup", "search", "cat", "--user", "Mia ").stdout
    assert "Mia adopted a cat" in found
    mias = run("memory-dedup", "export", "--user", " Mia").stdout
    assert len(mias.splitlines()) == 3
    audits = [run("memory-dedup", "audit", "--json", "--user", name) for name in ("Mia", "Mia ")]
    first, second = (json.loads(audit.stdout)["groups"] for audit in audits)
    assert first == second != []
    run("memory-dedup", "forget", "--user", " Mia ", "--yes")
    assert {memory["user"] for memory in exported(run)} == {"Jonas"}


def test_all_about_a_user_is_erased_once_somebody_has_said_so(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", "--raw", lines(tmp_path, *COPIES))
    run("memory-chat", "--deduplicate-memories")
    of_jonas = run("memory-dedup", "export", "--user", "Jonas").stdout.splitlines()
    assert len(of_jonas) == 2
    asked = run("memory-dedup", "forget", "--user", "Mia", ok=False)
    assert asked.returncode == 1
    assert "2 memories and 0 waiting turns of Mia" in asked.stderr
    assert "nothing was erased" in asked.stderr
    assert len(exported(run)) == 4
    assert run("memory-dedup", "forget", "--user", "Mia", "--yes").stderr.endswith("erased\n")
    assert run("memory-dedup", "export").stdout.splitlines() == of_jonas
    assert b"adopted" not in (tmp_path / "data" / "ledger.db").read_bytes()
    assert "nothing about 'Mia'" in failed(run("memory-dedup", "forget", "--user", "Mia", ok=False))
    for wrong in ((), ("mem_000000000000", "--user", "Jonas")):
        said = failed(run("memory-dedup", "forget", *wrong, ok=False), 2)
        assert "needs a memory's id or a user" in said


def test_the_retired_wordings_of_a_memory_are_shown(run: Run, tmp_path: Path) -> None:
    run("memory-dedup", "import", lines(tmp_path, *COPIES[:2]))
    [memory] = exported(run)
    first, last = run("memory-dedup", "show", str(memory["id"])).stdout.splitlines()[:2]
    assert "retired Mia adopted a cat in 2023." in first
    assert last.endswith(f"{memory['id']} live    Mia adopted a cat in 2023.")
    unknown = failed(run("memory-dedup", "show", "mem_000000000000", ok=False))
    assert "no live memory has the id" in unknown


def test_conflicts_lists_what_may_be_outdated_and_takes_an_answer(run: Run, tmp_path: Path) -> None:
    lines = [
        json.dumps({"content": text, "user": "Ada", "timestamp": f"2026-0{month}-05T09:00:00Z"})
        for month, text in ((1, "Ada lives in Ghent."), (3, "Ada lives in Bruges."))
    ]
    (tmp_path / "told.jsonl").write_text("\n".join(lines))
    run("memory-dedup", "import", "told.jsonl")
    [pair] = json.loads(run("memory-dedup", "conflicts", "--json").stdout)
    assert [pair[side]["content"] for side in ("older", "newer")] == [
        "Ada lives in Ghent.", "Ada lives in Bruges."
    ]  # fmt: skip
    assert pair["older"]["id"] in run("memory-dedup", "conflicts", "--user", "Ada").stdout
    ids = pair["older"]["id"], pair["newer"]["id"]
    question = ("memory-dedup", "recall", "Where does Ada live?", "--user", "Ada")
    assert f"may be outdated by {ids[1]}" in run(*question).stdout
    hits = json.loads(run(*question, "--json").stdout)
    assert [(hit["id"], hit["newer"]) for hit in hits] == [(ids[1], None), (ids[0], ids[1])]
    assert "undo" in run("memory-dedup", "conflicts", *ids, "--holds", "newer").stderr
    assert json.loads(run("memory-dedup", "conflicts", "--json").stdout) == []
    assert ids[0] not in run(*question).stdout
    past = run(*question, "--include-superseded").stdout
    assert ids[0] in past
    assert "held until" in past
    january = json.loads(run(*question, "--as-of", "2026-01-05", "--json").stdout)
    assert [hit["id"] for hit in january] == [ids[0]]
    before = ("memory-dedup", "recall", "Where did Ada live before?", "--user", "Ada")
    assert "held until 2026-03-05" in run(*before).stdout
    assert json.loads(run(*before, "--json").stdout)[1]["until"].startswith("2026-03-05")
    text = run("memory-dedup", "export").stdout
    assert [json.loads(line).get("superseded_by") for line in text.splitlines()] == [None, ids[1]]
    (tmp_path / "out.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "data" / "ledger.db").rename(tmp_path / "elsewhere.db")
    for memories in ("0 -> 1", "1 -> 1"):
        assert run("memory-dedup", "import", "out.jsonl").stderr.endswith(f"{memories}\n")
        assert run("memory-dedup", "export").stdout == text
