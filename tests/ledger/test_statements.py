"""Prepared statements answer as SQLAlchemy would, and those of a write read no whole table."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.deduplicator import MemoryDeduplicator
from memory.ledger import tables as t
from memory.ledger.ledger import Ledger, open_database
from memory.ledger.tables import Prepared, among
from memory.models import Verdict
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel

TEXTS = ["plain", "it's", '"quoted"', "50 %(ids)s", "back\\slash", "ねこ", "🙂", ""]
AMONG = sa.select(t.meta.c.key).where(among(t.meta.c.key, "keys"))


@pytest.fixture
def connection(empty_url: str) -> Iterator[Connection]:
    Ledger.create(empty_url).close()
    with (
        closing(open_database(empty_url, create=True)) as database,
        database.writing() as opened,
    ):
        yield opened


def test_every_value_is_read_as_sqlalchemy_reads_it(connection: Connection) -> None:
    table = t.turns
    Prepared(table.insert()).run(
        connection,
        [
            {"conversation": "c", "name": text, "digest": "d", "pending": n % 2 == 0}
            | {"attempts": n, "turn": text or None, "candidates": None, "heard_at": n / 3}
            for n, text in enumerate(TEXTS)
        ],
    )
    everything = sa.select(table).order_by(table.c.seq)
    rows = Prepared(everything).rows(connection)
    assert [row._asdict() for row in rows] == [
        dict(row) for row in connection.execute(everything).mappings()
    ]
    assert [type(row.pending) for row in rows] == [bool] * len(TEXTS)
    vector = {"text_key": "k", "vector": bytes(range(256))}
    Prepared(t.vectors.insert()).run(connection, [vector])
    assert Prepared(sa.select(t.vectors.c.vector)).rows(connection) == [(vector["vector"],)]


def test_two_queries_can_be_read_in_pages_at_once(connection: Connection) -> None:
    rows = [{"key": f"key {n}", "value": "here"} for n in range(9)]
    connection.execute(t.meta.insert(), rows)
    every = Prepared(sa.select(t.meta.c.key).where(t.meta.c.value == "here").order_by("key"))
    both = zip(every.pages(connection, 4), every.pages(connection, 4), strict=True)
    sizes = [(len(first), len(second)) for first, second in both]
    assert sizes == [(4, 4), (4, 4), (1, 1)]


def test_a_missing_parameter_is_an_error(connection: Connection) -> None:
    with pytest.raises(KeyError, match="value"):
        Prepared(t.meta.insert()).run(connection, [{"key": "k"}])
    with pytest.raises(KeyError, match="keys"):
        Prepared(AMONG).rows(connection)


@pytest.mark.parametrize("wanted", [[], TEXTS, [*TEXTS, *map(str, range(40_000))]], ids=len)
def test_any_number_of_texts_is_one_parameter(connection: Connection, wanted: list[str]) -> None:
    rows = [{"key": text, "value": "here"} for text in [*TEXTS, "another"]]
    connection.execute(t.meta.insert(), rows)
    found = [row[0] for row in Prepared(AMONG).rows(connection, keys=wanted)]
    assert sorted(found) == sorted({*TEXTS} & {*wanted})
    assert sorted(connection.scalars(AMONG, {"keys": wanted})) == sorted(found)


def test_a_value_that_no_database_can_hold_is_not_found(connection: Connection) -> None:
    connection.execute(t.meta.insert(), [{"key": "a", "value": "here"}])
    assert Prepared(AMONG).rows(connection, keys=["a\0", "\ud800", "\udfffa"]) == []


def test_no_statement_of_a_write_reads_a_whole_table(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place("Mia has a cat.")
    embedder.place("Mia had a dog.", 0.92, "Mia has a cat.")
    deduplicator = MemoryDeduplicator(store, ScriptedModel(Verdict()))
    asyncio.run(deduplicator.check_and_merge(make_memory("Jonas sails.", user="Jonas")))
    with heard() as statements:  # once in a process all vectors may be read
        for text in ("Mia has a cat.", "Mia had a dog."):
            asyncio.run(deduplicator.check_and_merge(make_memory(text, user="Mia")))
    assert any("distinct_pairs" in statement for statement, _ in statements)
    for statement, values in statements:
        if statement.startswith(("SELECT", "UPDATE memories", "INSERT")):
            assert whole_tables(store, statement, values) <= {"revision", "decisions"}, statement


def whole_tables(store: MemoryStore, statement: str, values: Any) -> set[str]:
    """The tables that SQLite reads from end to end; a LIMIT may stop it long before."""
    with store.ledger.database.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        steps = [row[3].split() for row in plan]
    return {step[1] for step in steps if step[0] == "SCAN"} - {"json_each"}


@contextmanager
def heard() -> Iterator[list[tuple[str, Any]]]:
    """The statements of the block, with the values of the first of many."""
    seen: list[tuple[str, Any]] = []

    def hear(_connection: Any, _cursor: Any, said: str, values: Any, _c: Any, many: bool) -> None:
        seen.append((said, values[0] if many else values))

    sa.event.listen(sa.Engine, "before_cursor_execute", hear)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", hear)


def test_some_indexes_have_only_the_rows_that_are_looked_for(empty_url: str) -> None:
    """On both databases; only one of them loads what PostgreSQL needs."""
    table = "pg_indexes" if empty_url.startswith("postgresql") else "sqlite_master"
    column = "indexdef" if table == "pg_indexes" else "sql"
    name = "indexname" if table == "pg_indexes" else "name"
    query = f"SELECT {name}, {column} FROM {table} WHERE {name} LIKE 'ix\\_%' ESCAPE '\\'"
    with Ledger.create(empty_url) as ledger, ledger.database.reading() as connection:
        made = {row[0]: row[1] for row in connection.execute(sa.text(query))}
    partial = {name for name, statement in made.items() if " WHERE " in statement}
    assert partial == {
        "ix_decisions_by_person", "ix_items_expires_at", "ix_memories_expires_at", "ix_turns_told",
    }  # fmt: skip


def test_a_sqlite_ledger_does_not_load_the_dialect_of_postgresql(tmp_path: Path) -> None:
    code = (
        "import sys; from memory.ledger import Ledger\n"
        f"Ledger.create('sqlite:///{tmp_path / 'l.db'}').close()\n"
        "print('sqlalchemy.dialects.postgresql' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
