"""A ledger of an earlier version is brought to this one whole, or stays as it was."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memory.deduplicator import MemoryDeduplicator
from memory.errors import LedgerError, LedgerMissing, LedgerOutdated
from memory.extractor import MemoryExtractor
from memory.ledger.ledger import Ledger, open_database
from memory.ledger.migrations import STEPS
from memory.models import Action, KeptCandidate, Turn
from memory.store import MemoryStore
from memory.upkeep import back_up, examine, restore
from tests import commands
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder, ScriptedModel
from tests.ledger import version_1

ROOT = Path(__file__).parent.parent.parent
LIVE = 18
"""Memories that live in the fixture."""


@pytest.fixture
def old_url(ledger_url: str) -> str:
    """Where a ledger of version 1 is, on each database in turn."""
    version_1.put_at(ledger_url)
    return ledger_url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data folder: a SQLite ledger lies in it."""
    (tmp_path / "data").mkdir(exist_ok=True)
    return tmp_path / "data"


def upgraded(url: str, folder: Path) -> Path:
    copy = Ledger.upgrade(url, folder)
    assert copy is not None
    return copy


def statements(url: str, *several: str) -> None:
    """What a process of another version does."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            for statement in several:
                connection.exec_driver_sql(statement)
    finally:
        engine.dispose()


# --- an upgrade keeps everything ------------------------------------------------------------------


def test_an_upgrade_keeps_every_row(old_url: str, folder: Path) -> None:
    before = version_1.dump_of(old_url)
    copy = upgraded(old_url, folder)
    after = version_1.comparable(version_1.dump_of(old_url))
    assert after == version_1.as_newest(before, copy)


def test_the_copy_that_an_upgrade_leaves_is_the_ledger_as_it_was(
    old_url: str, folder: Path
) -> None:
    before = version_1.comparable(version_1.dump_of(old_url))
    copy = upgraded(old_url, folder)
    assert copy == folder / "ledger.db.before-2-1"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert version_1.comparable(version_1.dump_of(f"sqlite:///{copy}")) == before
    assert [path.name for path in folder.iterdir() if path.name.endswith(".part")] == []


def test_an_upgraded_ledger_has_the_tables_of_a_new_one(
    old_url: str, folder: Path, tmp_path: Path
) -> None:
    upgraded(old_url, folder)
    new_url = f"sqlite:///{tmp_path / 'new.db'}"
    if not old_url.startswith("sqlite"):
        new_url = old_url
        old = shape(old_url)
        statements(old_url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    else:
        old = shape(old_url)
    Ledger.create(new_url).close()
    assert old == shape(new_url)


def shape(url: str) -> dict[str, object]:
    engine = sa.create_engine(url)
    looked = sa.inspect(engine)
    found: dict[str, object] = {
        name: (
            {
                one["name"]: (str(one["type"]), one["nullable"], one["default"])
                for one in looked.get_columns(name)
            },
            looked.get_pk_constraint(name)["constrained_columns"],
            {one["name"]: one["column_names"] for one in looked.get_indexes(name)},
            [one["column_names"] for one in looked.get_unique_constraints(name)],
        )
        for name in looked.get_table_names()
    }
    engine.dispose()
    return found


@pytest.mark.parametrize("version", range(2, int(version_1.NEWEST)))
def test_a_ledger_of_a_version_between_keeps_every_row_too(
    old_url: str, folder: Path, version: int
) -> None:
    before = version_1.dump_of(old_url)
    with (
        closing(open_database(old_url, create=True)) as database,
        database.writing() as connection,
    ):
        for number in range(1, version):
            STEPS[str(number)](connection)
        told = f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'"
        connection.exec_driver_sql(told)
    copy = upgraded(old_url, folder)
    assert copy == folder / f"ledger.db.before-{version + 1}-1"
    after = version_1.comparable(version_1.dump_of(old_url))
    assert after == version_1.as_newest(before, copy)


def at_version_3(url: str) -> None:
    """Take a ledger of version 1 to version 3, as its own code did."""
    with (
        closing(open_database(url, create=True)) as database,
        database.writing() as connection,
    ):
        STEPS["1"](connection)
        STEPS["2"](connection)
        connection.exec_driver_sql("UPDATE meta SET value = '3' WHERE key = 'schema_version'")


def test_turns_of_the_conversation_that_all_shared_go_to_their_speakers(
    old_url: str, folder: Path
) -> None:
    """What waits of two people is read apart from then on, and known to wait."""
    at_version_3(old_url)
    texts = [("Mia", "I sail."), ("Eve", "I ski."), ("bot", "Nice!"), ("Mia", "I am done.")]
    said = [
        Turn(speaker=who, text=text, at=START, id=str(n), conversation="default", is_bot=n == 2)
        for n, (who, text) in enumerate(texts)
    ]
    keep_as_version_3(old_url, said, extracted=said[-1:])
    upgraded(old_url, folder)
    model = ScriptedModel()
    model.extractions = [[], [], []]
    with MemoryStore(Ledger.create(old_url), PlacedEmbedder()) as store:
        extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
        again = [one.model_copy(update={"conversation": one.speaker}) for one in said]
        unnamed = [Turn(**one.model_dump(exclude={"conversation"})) for one in again[:-1]]
        assert asyncio.run(extractor.keep(unnamed)) == 3
        asyncio.run(extractor.extract_and_store())
    shown = [[one.text for one in turns] for turns in model.shown]
    assert sorted(shown) == [["I sail."], ["I ski."]]


def test_the_bots_turns_go_to_the_only_person_of_the_shared_conversation(
    old_url: str, folder: Path
) -> None:
    at_version_3(old_url)
    said = [
        Turn(speaker="Mia", text="I sail.", at=START, id="1", conversation="default"),
        Turn(speaker="bot", text="Ah!", at=START, id="2", conversation="default", is_bot=True),
    ]
    clash = Turn(speaker="Mia", text="I sail.", at=START, id="1", conversation="Mia")
    keep_as_version_3(old_url, [clash, *said], extracted=[])
    upgraded(old_url, folder)
    with Ledger.create(old_url) as ledger, ledger.reading() as reader:
        waiting = reader.turns.waiting()
    assert [one.turn.conversation for one in waiting] == ["Mia", "Mia", "Mia"]
    assert waiting[0].name == "1"
    assert waiting[1].name.startswith("1~")


def test_a_memory_of_the_shared_conversation_is_forgotten_where_its_turn_went(
    old_url: str, folder: Path, make_memory: MakeMemory
) -> None:
    """The upgrade gave the turn, its candidates and the bot's answer to Mia."""
    at_version_3(old_url)
    said = [
        Turn(
            speaker="Mia", text="I drive a van, I sail.", at=START, id="1", conversation="default"
        ),
        Turn(speaker="bot", text="Yes?", at=START, id="2", conversation="default", is_bot=True),
    ]
    keep_as_version_3(old_url, said, extracted=[])
    upgraded(old_url, folder)
    with Ledger.create(old_url) as ledger, MemoryStore(ledger, PlacedEmbedder()) as store:
        came_from = {"conversation": "default", "turn": "1"}
        told = make_memory("Her car?", user="Mia", external_id="default/1/0", metadata=came_from)
        memory = store.add(told)
        found = [KeptCandidate(content=text) for text in ("Mia drives a van.", "Mia sails.")]
        with ledger.writing() as writer:
            writer.turns.keep_candidates(writer.turns.waiting()[0].seq, found)
        store.forget(memory.id)
        with ledger.reading() as reader:
            [left] = reader.turns.waiting()
    assert left.turn.speaker == "Mia"
    assert [one and one.content for one in left.candidates or ()] == [None, "Mia sails."]


def keep_as_version_3(url: str, said: Sequence[Turn], extracted: Sequence[Turn]) -> None:
    """Write these turns only; the extracted ones as no more than how they are known."""
    engine = sa.create_engine(url)
    turns = sa.Table("turns", sa.MetaData(), autoload_with=engine)
    rows = [
        {
            "conversation": one.conversation,
            "name": one.id,
            "digest": hashlib.sha256(one.text.encode()).hexdigest()[:32],
            "pending": one not in extracted,
            "attempts": 0,
            "turn": None if one in extracted else one.model_dump_json(),
        }
        for one in said
    ]
    with engine.begin() as connection:
        connection.execute(turns.delete())
        connection.execute(turns.insert(), rows)
    engine.dispose()


def test_a_decision_of_version_1_can_be_undone_after_an_upgrade(old_url: str, folder: Path) -> None:
    upgraded(old_url, folder)
    with MemoryStore(Ledger.create(old_url), PlacedEmbedder()) as store:
        merges = [one for one in store.history() if one.model == "scripted" and one.survivors]
        [merge] = [one for one in merges if one.action is Action.MERGE and not one.scrubbed][:1]
        store.undo(merge.number)
        texts = {memory.content for memory in store.memories()}
        assert {"Tomo plays the cello.", "Tomo teaches it on Mondays."} <= texts
        judges = [row["by"] for row in version_1.dump_of(old_url)["distinct_pairs"]]
        assert judges.count("person") == 2
        assert [finding for finding in examine(store) if finding.kind == "damage"] == []


def test_arrivals_of_version_1_are_recognised(
    old_url: str, folder: Path, make_memory: MakeMemory
) -> None:
    upgraded(old_url, folder)
    with MemoryStore(Ledger.create(old_url), PlacedEmbedder()) as store:
        known = next(store.memories())
        again = known.model_copy(update={"id": "mem_000000000fff", "linked_ids": ()})
        assert store.add(again).id == known.id
        added = store.add(make_memory("Runa met a fox."))
        assert store.get(added.id) == added


def test_turns_that_waited_wait_on_with_what_was_found_in_them(old_url: str, folder: Path) -> None:
    upgraded(old_url, folder)
    with Ledger.create(old_url) as ledger, ledger.writing() as writer:
        waiting = writer.turns.waiting()
        assert [(one.name, one.attempts) for one in waiting] == [("#1", 0), ("#2", 2), ("#3", 0)]
        assert [len(one.candidates or ()) for one in waiting] == [1, 0, 0]


def test_an_episode_with_a_forgotten_memory_gets_neither_owner_nor_summary(
    old_url: str, folder: Path
) -> None:
    """The memory that is left does not say whose the forgotten one was."""
    at_version_3(old_url)
    known = [row for row in version_1.dump_of(old_url)["memories"] if row["user"] and row["live"]]
    gone, left = (row["id"] for row in known[:2])
    statements(
        old_url,
        f"UPDATE memories SET text_key = '', \"user\" = NULL, live = false WHERE id = '{gone}'",
        "UPDATE episodes SET summary = 'Of therapy, and sailing.', "
        f"memory_ids = '{json.dumps([gone, left])}'",
    )
    upgraded(old_url, folder)
    with Ledger.create(old_url) as ledger, ledger.reading() as reader:
        told = [(one.user, one.summary) for one in reader.episodes.all()]
    assert set(told) == {(None, "(forgotten)")}


def test_a_ledger_of_version_1_from_before_there_were_episodes_is_upgraded(
    old_url: str, folder: Path
) -> None:
    statements(old_url, "DROP TABLE episodes")
    upgraded(old_url, folder)
    with Ledger.create(old_url) as ledger, ledger.reading() as reader:
        assert reader.episodes.all() == []
        assert reader.counts().live == LIVE


def test_an_upgrade_has_nothing_to_do_where_there_is_nothing_old(
    ledger_url: str, folder: Path
) -> None:
    with pytest.raises(LedgerMissing):
        Ledger.upgrade(ledger_url, folder)
    Ledger.create(ledger_url).close()
    before = version_1.dump_of(ledger_url)
    assert Ledger.upgrade(ledger_url, folder) is None
    assert version_1.dump_of(ledger_url) == before
    assert list(folder.glob("*.before-*")) == []


# --- whatever happens meanwhile -------------------------------------------------------------------


@pytest.mark.drill
def test_an_upgrade_killed_at_any_write_leaves_the_old_or_the_new(
    old_url: str, folder: Path
) -> None:
    before = version_1.dump_of(old_url)
    run = subprocess.run(
        [sys.executable, "-m", "tests.ledger.killed_upgrade", old_url, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    attempts = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(attempts) > 20
    assert [one["killed"] for one in attempts] == [True] * (len(attempts) - 1) + [False]
    versions = [one["version"] for one in attempts]
    assert versions == sorted(versions)
    assert (versions[0], versions[-1]) == ("1", version_1.NEWEST)
    made = [[*folder.glob(f"*.before-{to}-*")] for to in range(2, int(version_1.NEWEST) + 1)]
    copies = [  # a run keeps one before its first step, whatever steps follow
        max(some, key=lambda path: int(path.name.rpartition("-")[2])) for some in made if some
    ]
    assert copies[0].name.startswith("ledger.db.before-2-")
    after = version_1.comparable(version_1.dump_of(old_url))
    assert after == version_1.as_newest(before, *copies)


def test_one_of_several_upgrading_processes_does_each_step(old_url: str, folder: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        copies = list(threads.map(lambda _: Ledger.upgrade(old_url, folder), range(4)))
    names = sorted(copy.name for copy in copies if copy is not None)
    steps = range(2, int(version_1.NEWEST) + 1)
    assert names[0] == "ledger.db.before-2-1"
    assert set(names) <= {f"ledger.db.before-{to}-1" for to in steps}, "others may do later steps"
    assert sorted(path.name for path in folder.glob("*.before-*")) == names


def test_an_upgrade_that_cannot_keep_a_copy_changes_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    version_1.put_at(postgres_url)
    before = version_1.dump_of(postgres_url)
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(LedgerError, match="no copy can be written"):
        Ledger.upgrade(postgres_url, tmp_path / "data")
    assert version_1.dump_of(postgres_url) == before


def test_an_upgrade_whose_disk_is_full_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"
    version_1.put_at(url)
    before = version_1.dump_of(url)
    code = (
        "import resource, sys; from pathlib import Path; from memory.ledger import Ledger\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from memory.errors import LedgerError\n"
        f"try: Ledger.upgrade({url!r}, Path())\n"
        "except LedgerError as exc: sys.exit(f'error: {exc}')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith("error: the ledger ")
    assert len(run.stderr.splitlines()) == 1
    assert version_1.dump_of(url) == before
    assert [path.name for path in (tmp_path / "data").glob("*before*")] == []


def test_a_running_process_of_version_1_fails_at_its_next_write(old_url: str, folder: Path) -> None:
    upgraded(old_url, folder)
    for statement in (
        "SELECT arrival FROM memories",
        "UPDATE memories SET arrival = ''",
        "INSERT INTO distinct_pairs (scope, low_key, high_key, reason) VALUES ('', '', '', '') "
        "ON CONFLICT DO NOTHING",
    ):
        with pytest.raises(sa.exc.DBAPIError):
            statements(old_url, statement)


def test_a_running_process_writes_nothing_once_a_later_version_has_upgraded(
    ledger_url: str, make_memory: MakeMemory
) -> None:
    newest = version_1.NEWEST
    with Ledger.create(ledger_url) as ledger:
        statements(ledger_url, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
        with (
            pytest.raises(LedgerError, match=f"schema 99, this version knows {newest} at most"),
            ledger.writing() as writer,
        ):
            writer.memories.insert_all([make_memory("Runa met a fox.")])
        with ledger.reading() as reader:
            assert reader.counts().live == 0


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.create], ids=["read", "write"])
def test_a_ledger_of_a_later_version_is_refused_in_one_line(
    ledger_url: str, opening: type[Ledger]
) -> None:
    Ledger.create(ledger_url).close()
    statements(ledger_url, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    before = version_1.dump_of(ledger_url)
    with pytest.raises(LedgerError, match="has schema 99") as caught:
        opening(ledger_url)  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 1
    assert version_1.dump_of(ledger_url) == before


def test_only_an_upgrade_changes_an_older_ledger(old_url: str) -> None:
    before = version_1.dump_of(old_url)
    for opening in (Ledger.open, Ledger.create):
        with pytest.raises(LedgerOutdated, match="run `memory-dedup upgrade`"):
            opening(old_url)
    assert version_1.dump_of(old_url) == before


# --- backups of earlier versions ------------------------------------------------------------------


@pytest.mark.parametrize("file", [version_1.BACKUP, version_1.LEDGER], ids=["backup", "ledger"])
def test_a_backup_of_version_1_comes_back_and_stays_as_it_is(ledger_url: str, file: Path) -> None:
    before = file.read_bytes()
    assert restore(file, ledger_url) == LIVE
    assert file.read_bytes() == before
    then = version_1.as_newest(version_1.dump_of(f"sqlite:///{file}"), Path())
    now = version_1.comparable(version_1.dump_of(ledger_url))
    of_its_own = {"store_id", "restored", "upgrade_copies"}
    for dump in (then, now):
        dump["meta"] = [row for row in dump["meta"] if row["key"] not in of_its_own]
        del dump["index_state"]
    assert now == then


def test_the_copy_of_an_upgrade_comes_back_as_a_backup_does(
    old_url: str, folder: Path, tmp_path: Path
) -> None:
    copy = upgraded(old_url, folder)
    url = f"sqlite:///{tmp_path / 'again.db'}"
    assert restore(copy, url) == LIVE
    with Ledger.open(old_url) as ledger, Ledger.open(url) as again:
        back_up(ledger, tmp_path / "a.db")
        back_up(again, tmp_path / "b.db")
    of_both = [version_1.dump_of(f"sqlite:///{tmp_path / name}") for name in ("a.db", "b.db")]
    assert of_both[0] == of_both[1]


@pytest.mark.parametrize("page", range(2, 40, 3))
def test_a_damaged_ledger_of_version_1_is_set_aside_for_what_is_restored(
    tmp_path: Path, page: int
) -> None:
    path = tmp_path / "ledger.db"
    whole = version_1.LEDGER.read_bytes()
    path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
    assert restore(version_1.BACKUP, f"sqlite:///{path}") == LIVE
    assert (tmp_path / "ledger.db.damaged-1").exists()


def test_forgetting_names_the_copy_that_an_upgrade_left(old_url: str, folder: Path) -> None:
    copy = upgraded(old_url, folder)
    with MemoryStore(Ledger.create(old_url), PlacedEmbedder()) as store:
        first, second, *_ = store.memories()
        forgotten = store.forget(first.id)
        assert (forgotten.erased, forgotten.set_aside) == (False, (str(copy),))
        copy.unlink()
        assert store.forget(second.id).set_aside == ()


# --- the commands ---------------------------------------------------------------------------------


def memory_dedup(url: str, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    env |= {"MEMORY_DATA_DIR": str(folder), "MEMORY_LEDGER_URL": url}
    return subprocess.run(
        [commands.python(), "-m", "memory", *args],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", [["stats"], ["export"], ["audit"], ["backup", "b.db"]])
def test_reading_commands_refuse_an_older_ledger_and_name_the_command(
    tmp_path: Path, command: list[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    version_1.put_at(url)
    before = (tmp_path / "ledger.db").read_bytes()
    run = memory_dedup(url, tmp_path, *command)
    assert (run.returncode, run.stdout) == (1, "")
    [line] = run.stderr.splitlines()
    needed = f"has schema 1, this version needs {version_1.NEWEST}; run `memory-dedup upgrade`"
    assert needed in line
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_the_upgrade_command_says_where_the_copy_is(old_url: str, folder: Path) -> None:
    first, second = (memory_dedup(old_url, folder, "upgrade") for _ in range(2))
    copy = folder / "ledger.db.before-2-1"
    told = "upgraded; the old ledger is kept in"
    assert (first.returncode, first.stderr.splitlines()) == (0, [f"{told} {copy}"])
    assert (second.returncode, second.stderr.splitlines()) == (
        0, ["the ledger is up to date already"],
    )  # fmt: skip
    assert version_1.version_at(old_url) == version_1.NEWEST


def test_a_command_that_writes_upgrades_and_says_so(old_url: str, folder: Path) -> None:
    run = memory_dedup(old_url, folder, "reembed")
    assert run.returncode == 0, run.stderr
    assert f"kept in {folder / 'ledger.db.before-2-1'}" in run.stderr
    assert version_1.version_at(old_url) == version_1.NEWEST


def test_the_database_is_closed_after_an_upgrade(old_url: str, folder: Path) -> None:
    """Nothing holds the writer's lock."""
    upgraded(old_url, folder)
    database = open_database(old_url, create=True)
    with database.writing():
        pass
    database.close()


def test_a_role_that_owns_no_table_writes_to_a_ledger(
    postgres_url: str, make_memory: MakeMemory
) -> None:
    Ledger.create(postgres_url).close()
    url = sa.engine.make_url(postgres_url)
    role = f"writer_{uuid4().hex[:8]}"
    owner = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN PASSWORD 'w'",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
        ):
            connection.exec_driver_sql(statement)
        as_writer = url.set(username=role, password="w").render_as_string(hide_password=False)
        with Ledger.create(as_writer) as ledger, ledger.writing() as writer:
            writer.memories.insert_all([make_memory("Mia has a cat.")])
        connection.exec_driver_sql(f"DROP OWNED BY {role}")
        connection.exec_driver_sql(f"DROP ROLE {role}")
    owner.dispose()
    with Ledger.create(postgres_url) as ledger, ledger.reading() as reader:
        assert len(list(reader.memories.all())) == 1
