"""A ledger of an earlier version is brought to this one whole, or stays as it was."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memory.errors import LedgerError, LedgerMissing, LedgerOutdated
from memory.ledger.ledger import Ledger, open_database
from memory.models import Action, Scope
from memory.store import MemoryStore
from memory.text import text_key
from memory.upkeep import back_up, examine, restore
from tests import commands
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder
from tests.ledger import version_8

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def old_url(ledger_url: str) -> str:
    """Where a ledger of schema 8 is, on each database in turn."""
    version_8.put_at(ledger_url)
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
    before = version_8.dump_of(old_url)
    copy = upgraded(old_url, folder)
    after = version_8.comparable(version_8.dump_of(old_url))
    assert after == version_8.as_newest(before, copy)


def test_an_upgrade_adds_the_columns_that_a_ledger_of_schema_9_lacks(
    old_url: str, folder: Path
) -> None:
    """Commits before the release made such ledgers."""
    upgraded(old_url, folder)
    before = version_8.dump_of(old_url)
    lacking = "ttl_minutes", "expires_at"
    statements(
        old_url,
        "DROP INDEX ix_items_expires_at",
        *(f"ALTER TABLE items DROP COLUMN {name}" for name in lacking),
    )
    for opening in (Ledger.open, Ledger.create):
        with pytest.raises(LedgerOutdated, match="has schema 9 without all its columns"):
            opening(old_url)
    copy = upgraded(old_url, folder)
    after = version_8.dump_of(old_url)
    [noted] = [row for row in after["meta"] if row["key"] == "upgrade_copies"]
    assert json.loads(noted["value"])[-1] == str(copy)
    assert [after | {"meta": []}] == [before | {"meta": []}]
    assert Ledger.upgrade(old_url, folder) is None


def test_an_upgrade_dates_the_relative_words_of_a_memory(old_url: str, folder: Path) -> None:
    where = "WHERE content = 'Ida knits silk.'"
    statements(
        old_url,
        f"UPDATE memories SET timestamp = '2026-01-20T09:00:00+00:00' {where}",
        f"UPDATE memories SET content = 'Ida flies tomorrow.' {where}",
    )
    upgraded(old_url, folder)
    [row] = [one for one in version_8.dump_of(old_url)["memories"] if "flies" in one["content"]]
    assert row["said"] == "2026-01-20T09:00:00+00:00"
    assert "2026-01-21" in row["when"]
    with Ledger.create(old_url) as ledger, ledger.reading() as reader:
        found = reader.memories.row(row["id"])
    assert found is not None
    assert found.memory.dated == "[Tue 2026-01-20] Ida flies tomorrow [= 2026-01-21]."


def test_an_upgrade_carries_over_what_was_judged_and_read_if_one_memory_has_the_text(
    old_url: str, folder: Path
) -> None:
    """A model's verdict without dates counts for none of two days, a person's for each."""
    texts = {
        "once": "Ida flies tomorrow.",
        "twice": "Ida rows tomorrow.",
        "no day": "Ida has a cat.",
    }
    keys = {name: text_key(text) for name, text in texts.items()}
    with MemoryStore(Ledger.create(f"sqlite:///{folder / 'new.db'}"), PlacedEmbedder()) as made:
        memory = made.new_memory("Ida.", user="Ida")
        scope = made.scope_of(memory).key
    days = {"once": ["2026-01-20"], "twice": ["2026-01-20", "2026-03-20"], "no day": ["2026-01-20"]}
    columns = ", ".join(
        f'"{name}"'
        for name in version_8.dump_of(old_url)["memories"][0]
        if name not in ("seq", "id")
    )
    dated = [(name, day) for name, of_text in days.items() for day in of_text]
    statements(
        old_url,
        *(
            f"INSERT INTO memories (id, {columns}) SELECT 'mem_fff00000000{n}', {columns} "
            "FROM memories WHERE content = 'Ida knits silk.' LIMIT 1"
            for n in range(len(dated))
        ),
        *(
            f"UPDATE memories SET content = '{texts[name]}', text_key = '{keys[name]}', "
            f"timestamp = '{day}T09:00:00+00:00' WHERE id = 'mem_fff00000000{n}'"
            for n, (name, day) in enumerate(dated)
        ),
        *(
            f"INSERT INTO readings VALUES ('{scope}', '{key}', 'reader', {json.dumps(True)})"
            for key in keys.values()
        ),
        *(
            f"INSERT INTO distinct_pairs VALUES ('{scope}', '{low}', '{high}', 'two', '{by}')"
            for by, pair in (("model", ("once", "no day")), ("model", ("twice", "no day")),
                             ("person", ("once", "twice")))
            for low, high in [sorted(keys[name] for name in pair)]
        ),
    )  # fmt: skip
    upgraded(old_url, folder)
    with Ledger.create(old_url) as ledger, ledger.reading() as reader:
        [once], [*twice], [cat] = (
            [row.dated_key for row in reader.memories.live_with_texts([keys[name]], Scope(()))]
            for name in ("once", "twice", "no day")
        )
        assert (len({*twice}), cat) == (2, keys["no day"])
        read = {key for where, key in reader.readings.all("reader") if where == scope}
        assert read == {once, keys["twice"], cat}
        of = Scope.from_key(scope)
        found = reader.distinct.of_all([(of, key) for key in (once, cat, *twice)])
        assert {*twice} <= found[0]
        assert [of_one & {once, cat, *twice} for of_one in found] == [
            {cat, *twice}, {once}, {once}, {once},
        ]  # fmt: skip


def test_an_upgrade_moves_what_is_stored_by_an_old_key_of_a_text(
    old_url: str, folder: Path
) -> None:
    old, text = "a" * 32, "Ida knits silk."
    where = f"WHERE text_key = '{text_key(text)}'"
    statements(
        old_url,
        f"UPDATE memories SET text_key = '{old}' {where}",
        f"UPDATE vectors SET text_key = '{old}' {where}",
        f"INSERT INTO readings VALUES ('s', '{old}', 'reader', {json.dumps(True)})",
        f"INSERT INTO distinct_pairs VALUES ('s', '{old}', 'ffff', 'two', 'person')",
    )
    upgraded(old_url, folder)
    found = version_8.dump_of(old_url)
    for table in ("memories", "vectors", "readings"):
        keys = [row["text_key"] for row in found[table]]
        assert text_key(text) in keys
        assert old not in keys
    [pair] = [row for row in found["distinct_pairs"] if row["scope"] == "s"]
    assert {pair["low_key"], pair["high_key"]} == {text_key(text), "ffff"}


def test_an_upgrade_deletes_a_note_that_nothing_reads(old_url: str, folder: Path) -> None:
    statements(old_url, "INSERT INTO meta VALUES ('last_turn_with_defaults', '7')")
    upgraded(old_url, folder)
    assert "last_turn_with_defaults" not in [
        row["key"] for row in version_8.dump_of(old_url)["meta"]
    ]


def test_the_copy_that_an_upgrade_leaves_is_the_ledger_as_it_was(
    old_url: str, folder: Path
) -> None:
    before = version_8.comparable(version_8.dump_of(old_url))
    copy = upgraded(old_url, folder)
    assert copy == folder / "ledger.db.before-9-1"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert version_8.comparable(version_8.dump_of(f"sqlite:///{copy}")) == before
    assert [path.name for path in folder.iterdir() if path.name.endswith(".part")] == []


# SQLAlchemy reflects no index of an expression on SQLite
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
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
            {
                one["name"]: one.get("expressions", one["column_names"])
                for one in looked.get_indexes(name)
            },
            [one["column_names"] for one in looked.get_unique_constraints(name)],
        )
        for name in looked.get_table_names()
    }
    engine.dispose()
    return found


def test_a_decision_of_schema_8_can_be_undone_after_an_upgrade(old_url: str, folder: Path) -> None:
    upgraded(old_url, folder)
    with MemoryStore(Ledger.create(old_url), PlacedEmbedder()) as store:
        merges = [one for one in store.history() if one.model == "scripted" and one.survivors]
        [merge] = [one for one in merges if one.action is Action.MERGE and not one.scrubbed][:1]
        store.undo(merge.number)
        texts = {memory.content for memory in store.memories()}
        assert {"Tomo plays the cello.", "Tomo teaches it on Mondays."} <= texts
        judges = [row["by"] for row in version_8.dump_of(old_url)["distinct_pairs"]]
        assert judges.count("person") == 2
        assert [finding for finding in examine(store) if finding.kind == "damage"] == []


def test_an_undo_gives_a_memory_of_schema_8_the_dates_of_its_words(
    old_url: str, folder: Path
) -> None:
    """The row that schema 8 saved for undo says neither `said` nor `when`."""
    statements(
        old_url,
        "UPDATE decisions SET before = replace(before, 'the cello.', 'the cello tomorrow.')",
    )
    upgraded(old_url, folder)
    with MemoryStore(Ledger.create(old_url), PlacedEmbedder()) as store:
        [merge] = [
            one
            for one in store.history()
            if one.action is Action.MERGE and one.model == "scripted" and "cello" in one.before
        ][:1]
        store.undo(merge.number)
        [cello] = [one for one in store.memories() if "cello" in one.content]
        assert cello.said == cello.timestamp
        [period] = cello.periods
        [row] = [row for row in version_8.dump_of(old_url)["memories"] if row["id"] == cello.id]
        assert (row["said"], row["when"]) == (cello.timestamp.isoformat(), cello.when)
        assert str(period.first) in row["when"]


def test_arrivals_of_schema_8_are_recognised(
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
        attempts = {one.name: one.attempts for one in waiting}
        assert attempts == {"#1": 0, "#2": 2, "#3": 0, "#r": 0}
        assert [len(one.candidates or ()) for one in waiting] == [3, 0, 0, 0]


def test_an_upgrade_has_nothing_to_do_where_there_is_nothing_old(
    ledger_url: str, folder: Path
) -> None:
    with pytest.raises(LedgerMissing):
        Ledger.upgrade(ledger_url, folder)
    Ledger.create(ledger_url).close()
    before = version_8.dump_of(ledger_url)
    assert Ledger.upgrade(ledger_url, folder) is None
    assert version_8.dump_of(ledger_url) == before
    assert list(folder.glob("*.before-*")) == []


# --- whatever happens meanwhile -------------------------------------------------------------------


@pytest.mark.drill
def test_an_upgrade_killed_at_any_write_leaves_the_old_or_the_new(
    old_url: str, folder: Path
) -> None:
    before = version_8.dump_of(old_url)
    run = subprocess.run(
        [sys.executable, "-m", "tests.ledger.killed_upgrade", old_url, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    attempts = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(attempts) > 5
    assert [one["killed"] for one in attempts] == [True] * (len(attempts) - 1) + [False]
    versions = [one["version"] for one in attempts]
    assert versions == sorted(versions)
    assert (versions[0], versions[-1]) == ("8", version_8.NEWEST)
    copies = folder.glob("ledger.db.before-9-*")  # each killed run may have left one
    last = max(copies, key=lambda path: int(path.name.rpartition("-")[2]))
    after = version_8.comparable(version_8.dump_of(old_url))
    assert after == version_8.as_newest(before, last)


def test_one_of_several_upgrading_processes_does_the_step(old_url: str, folder: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        copies = list(threads.map(lambda _: Ledger.upgrade(old_url, folder), range(4)))
    [copy] = [copy for copy in copies if copy is not None]
    assert [path.name for path in folder.glob("*.before-*")] == [copy.name]
    assert copy.name == "ledger.db.before-9-1"


def test_an_upgrade_that_cannot_keep_a_copy_changes_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    version_8.put_at(postgres_url)
    before = version_8.dump_of(postgres_url)
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(LedgerError, match="no copy can be written"):
        Ledger.upgrade(postgres_url, tmp_path / "data")
    assert version_8.dump_of(postgres_url) == before


def test_an_upgrade_whose_disk_is_full_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"
    version_8.put_at(url)
    before = version_8.dump_of(url)
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
    assert version_8.dump_of(url) == before
    assert [path.name for path in (tmp_path / "data").glob("*before*")] == []


def test_a_running_process_writes_nothing_once_a_later_version_has_upgraded(
    ledger_url: str, make_memory: MakeMemory
) -> None:
    newest = version_8.NEWEST
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
    before = version_8.dump_of(ledger_url)
    with pytest.raises(LedgerError, match="has schema 99") as caught:
        opening(ledger_url)  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 1
    assert version_8.dump_of(ledger_url) == before


@pytest.mark.parametrize("schema", [1, 7])
def test_a_ledger_that_is_too_old_is_refused_in_one_line_that_says_what_to_do(
    old_url: str, folder: Path, tmp_path: Path, schema: int
) -> None:
    statements(old_url, f"UPDATE meta SET value = '{schema}' WHERE key = 'schema_version'")
    before = version_8.dump_of(old_url)
    name = "ledger.db" if old_url.startswith("sqlite") else "postgresql"
    for refused in (Ledger.open, Ledger.create, lambda url: Ledger.upgrade(url, folder)):
        with pytest.raises(LedgerError, match=f"{name}.* has schema {schema}, .*too old") as caught:
            refused(old_url)
        assert "`memory-dedup store upgrade` of commit e64dc8b" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    assert version_8.dump_of(old_url) == before
    assert list(folder.glob("*.before-*")) == []


def test_commands_and_a_restore_refuse_a_ledger_that_is_too_old(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    version_8.put_at(url)
    statements(url, "UPDATE meta SET value = '3' WHERE key = 'schema_version'")
    kept = (tmp_path / "ledger.db").read_bytes()
    for command in ("stats", "upgrade", "reembed", "doctor"):
        run = memory_dedup(url, tmp_path, command)
        [line] = run.stderr.splitlines()
        assert (run.returncode, "upgrade` of commit e64dc8b" in line) == (1, True), line
    into = tmp_path / "new"
    run = memory_dedup(f"sqlite:///{into / 'ledger.db'}", into, "restore", f"{tmp_path}/ledger.db")
    [line] = run.stderr.splitlines()
    assert (run.returncode, "upgrade` of commit e64dc8b" in line) == (1, True), line
    assert (tmp_path / "ledger.db").read_bytes() == kept


def test_only_an_upgrade_changes_an_older_ledger(old_url: str) -> None:
    before = version_8.dump_of(old_url)
    for opening in (Ledger.open, Ledger.create):
        with pytest.raises(LedgerOutdated, match="run `memory-dedup store upgrade`"):
            opening(old_url)
    assert version_8.dump_of(old_url) == before


# --- backups of earlier versions ------------------------------------------------------------------


def test_a_backup_of_schema_8_comes_back_and_stays_as_it_is(ledger_url: str) -> None:
    file = version_8.LEDGER
    before = file.read_bytes()
    assert restore(file, ledger_url) == version_8.LIVE
    assert file.read_bytes() == before
    then = version_8.as_newest(version_8.dump_of(f"sqlite:///{file}"), Path())
    now = version_8.comparable(version_8.dump_of(ledger_url))
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
    assert restore(copy, url) == version_8.LIVE
    with Ledger.open(old_url) as ledger, Ledger.open(url) as again:
        back_up(ledger, tmp_path / "a.db")
        back_up(again, tmp_path / "b.db")
    of_both = [version_8.dump_of(f"sqlite:///{tmp_path / name}") for name in ("a.db", "b.db")]
    assert of_both[0] == of_both[1]


@pytest.mark.parametrize("page", range(2, 40, 9))
def test_a_damaged_ledger_of_schema_8_is_set_aside_for_what_is_restored(
    tmp_path: Path, page: int
) -> None:
    path = tmp_path / "ledger.db"
    whole = version_8.LEDGER.read_bytes()
    path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
    assert restore(version_8.LEDGER, f"sqlite:///{path}") == version_8.LIVE
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
    version_8.put_at(url)
    before = (tmp_path / "ledger.db").read_bytes()
    run = memory_dedup(url, tmp_path, *command)
    assert (run.returncode, run.stdout) == (1, "")
    [line] = run.stderr.splitlines()
    needed = (
        f"has schema 8, this version needs {version_8.NEWEST}; run `memory-dedup store upgrade`"
    )
    assert needed in line
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_the_upgrade_command_says_where_the_copy_is(old_url: str, folder: Path) -> None:
    first, second = (memory_dedup(old_url, folder, "upgrade") for _ in range(2))
    copy = folder / "ledger.db.before-9-1"
    told = "upgraded; the old ledger is kept in"
    assert (first.returncode, first.stderr.splitlines()) == (0, [f"{told} {copy}"])
    assert (second.returncode, second.stderr.splitlines()) == (
        0, ["the ledger is up to date already"],
    )  # fmt: skip
    assert version_8.version_at(old_url) == version_8.NEWEST


def test_a_command_that_writes_upgrades_and_says_so(old_url: str, folder: Path) -> None:
    run = memory_dedup(old_url, folder, "reembed")
    assert run.returncode == 0, run.stderr
    assert f"kept in {folder / 'ledger.db.before-9-1'}" in run.stderr
    assert version_8.version_at(old_url) == version_8.NEWEST


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
