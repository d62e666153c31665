"""Tables with a pgvector column, mem0's, LangChain's and one's own: written back and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.engine import URL

from memory.errors import InputError
from memory.interchange.foreign import Reading
from memory.interchange.tables import PgvectorStore
from memory.store import MemoryStore
from tests.frameworks.word_server import WordEmbeddings, word_vector
from tests.interchange.backs import (
    MERGED,
    TEXTS,
    WHEN,
    bring_in,
    carried_out,
    killed,
    merge,
    planned,
    replace,
    run_again,
    taken_back,
    word_vectors,
    written,
)
from tests.servers import postgres_database, postgres_server

pytestmark = pytest.mark.framework
IDS = {name: str(UUID(int=number)) for number, name in enumerate(TEXTS, start=1)}


@dataclass(frozen=True)
class Place:
    """A database in which a library has made its store, and the tables that are compared."""

    address: str
    name: str
    tables: tuple[str, ...]

    @property
    def theirs(self) -> PgvectorStore:
        return PgvectorStore(self.address, self.name)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def held(self) -> dict[str, str]:
        """Every row of every table, each column as the database says it."""
        rows = [
            row for name in self.tables for row in self.run(f"SELECT t.*, t::text FROM {name} t")
        ]
        return {f"{row[0]}": row[-1] for row in rows}

    def texts(self) -> dict[str, str]:
        return {row.id: said(row.document, row.metadata) for row in self.theirs.found().rows}


def said(document: str | None, metadata: dict[str, Any]) -> str:
    return document or metadata.get("data") or metadata["content"]


def mem0(address: str) -> Place:
    from mem0.vector_stores.pgvector import PGVector

    made = PGVector(None, "mem0", 256, None, None, None, None, False, True,
                    connection_string=address)  # fmt: skip
    payloads = [
        {"data": text, "hash": "x", "text_lemmatized": text, "user_id": "mia",
         "created_at": WHEN, "updated_at": WHEN, "more": {"née": [1.5, None]}, "n": 1.0}
        for text in TEXTS.values()
    ]  # fmt: skip
    made.insert(word_vectors(list(TEXTS.values())), payloads, list(IDS.values()))
    made.connection_pool.close()
    place = Place(address, "mem0", ("mem0",))
    place.run("""UPDATE mem0 SET payload = payload || '{"n": 1.500}'""")  # as jsonb keeps it
    return place


def langchain_collections(address: str) -> Place:
    """PGVector: all collections in one table, another one beside ours with the same texts."""
    from langchain_postgres import PGVector

    place = Place(address, "notes", ("langchain_pg_embedding", "langchain_pg_collection"))
    for name in ("others", "notes"):
        made = PGVector(WordEmbeddings(), connection=sqlalchemy_url(address), collection_name=name)
        ids = [IDS[one] if name == "notes" else f"other {one}" for one in TEXTS]
        made.add_texts(list(TEXTS.values()), [metadata() for _ in TEXTS], ids=ids)
    return place


def langchain_table(address: str) -> Place:
    """PGVectorStore: a table of its own, a key of the metadata in a column of its own."""
    from langchain_postgres import Column, PGEngine, PGVectorStore

    engine = PGEngine.from_connection_string(sqlalchemy_url(address))
    engine.init_vectorstore_table("notes", 256, metadata_columns=[Column("user_id", "TEXT")])
    made = PGVectorStore.create_sync(
        engine, WordEmbeddings(), "notes", metadata_columns=["user_id"]
    )
    made.add_texts(list(TEXTS.values()), [metadata() for _ in TEXTS], ids=list(IDS.values()))
    return Place(address, "notes", ("notes",))


def own_table(address: str) -> Place:
    place = Place(address, "Memories", ('"Memories"',))
    place.run("CREATE EXTENSION IF NOT EXISTS vector")
    place.run(
        'CREATE TABLE "Memories" (id uuid PRIMARY KEY, content varchar(200) NOT NULL, user_id text,'
        " created_at timestamptz, updated_at timestamptz, stars int, share numeric, small real,"
        " tags text[], embedding halfvec(256),"
        " length int GENERATED ALWAYS AS (length(content)) STORED)"
    )
    for name, text in TEXTS.items():
        place.run(
            'INSERT INTO "Memories" VALUES '
            f"('{IDS[name]}', '{text}', 'mia', '{WHEN}', '{WHEN}', 3, 1.50, 0.1, '{{a,\"b c\"}}',"
            f" '{word_vector(text)}')"
        )
    return place


def metadata() -> dict[str, Any]:
    return {"user_id": "mia", "created_at": WHEN, "more": {"née": [1.5, None]}}


def sqlalchemy_url(address: str) -> str:
    return address.replace("postgresql://", "postgresql+psycopg://")


MAKERS = [mem0, langchain_collections, langchain_table, own_table]


@pytest.fixture(scope="module")
def server() -> Iterator[URL]:
    with postgres_server() as opened:
        yield opened


@pytest.fixture
def address(server: URL) -> Iterator[str]:
    with postgres_database(server) as url:
        yield url.replace("postgresql+psycopg://", "postgresql://")


@pytest.fixture(params=MAKERS, ids=lambda one: one.__name__)
def place(request: pytest.FixtureRequest, address: str) -> Place:
    made: Place = request.param(address)
    return made


@pytest.fixture
def own(address: str) -> Place:
    return own_table(address)


def cleaned(store: MemoryStore, place: Place) -> MemoryStore:
    known = bring_in(store, place.theirs)
    assert {memory.user for memory in known.values()} == {"mia"}
    replace(store, known[IDS["a"]], known[IDS["b"]])
    merge(store, known[IDS["c"]], known[IDS["d"]])
    return store


def test_rows_are_written_back_as_their_library_keeps_them_and_taken_back_to_the_bit(
    place: Place, store: MemoryStore, tmp_path: Path
) -> None:
    before = place.held()
    plan = written(cleaned(store, place), place.theirs, tmp_path / "undo.jsonl")
    assert {one.row.id for one in plan.deletions} == {IDS["a"], IDS["c"]}
    assert place.texts() == {IDS["b"]: TEXTS["b"], IDS["d"]: MERGED, IDS["e"]: TEXTS["e"]}
    after = place.held()
    untouched = {name: row for name, row in after.items() if name != IDS["d"]}
    assert untouched.items() < before.items(), "no other row, no other collection"
    done = taken_back(place.theirs, tmp_path / "undo.jsonl")
    assert (done.restored, done.left_alone) == (3, ())
    assert place.held() == before


def test_langchain_answers_with_what_was_written(
    address: str, store: MemoryStore, tmp_path: Path
) -> None:
    place = langchain_table(address)
    written(cleaned(store, place), place.theirs, tmp_path / "undo.jsonl")
    assert asked_of_langchain(address, TEXTS["c"]) == MERGED
    taken_back(place.theirs, tmp_path / "undo.jsonl")
    assert asked_of_langchain(address, TEXTS["c"]) == TEXTS["c"]


def asked_of_langchain(address: str, query: str) -> str:
    from langchain_postgres import PGEngine, PGVectorStore

    engine = PGEngine.from_connection_string(sqlalchemy_url(address))
    made = PGVectorStore.create_sync(
        engine, WordEmbeddings(), "notes", metadata_columns=["user_id"]
    )
    return str(made.similarity_search(query, k=1)[0].page_content)


def test_what_mem0_makes_of_a_text_is_made_anew(
    address: str, store: MemoryStore, tmp_path: Path
) -> None:
    place = mem0(address)
    written(cleaned(store, place), place.theirs, tmp_path / "undo.jsonl")
    [(payload,)] = place.run(f"SELECT payload::text FROM mem0 WHERE id = '{IDS['d']}'")
    kept = json.loads(payload)
    assert (kept["data"], kept["text_lemmatized"]) == (MERGED, MERGED)
    assert kept["hash"] != "x"
    assert kept["updated_at"] > WHEN
    assert '"n": 1.500' in payload, "what is not touched stays as the database wrote it"


@pytest.mark.parametrize("step", [1, 2, 3])
def test_after_a_kill_the_same_command_does_the_rest_and_the_first_undo_file_undoes_all(
    place: Place, store: MemoryStore, tmp_path: Path, step: int
) -> None:
    theirs, undo = place.theirs, tmp_path / "undo.jsonl"
    cleaned(store, place)
    before = place.held()
    assert killed(theirs, tmp_path / "data", undo, step) == 9
    run_again(store, theirs, undo)
    assert place.texts() == {IDS["b"]: TEXTS["b"], IDS["d"]: MERGED, IDS["e"]: TEXTS["e"]}
    taken_back(theirs, undo)
    assert place.held() == before


def test_a_row_that_changed_since_it_was_read_is_left_alone(
    own: Place, store: MemoryStore, tmp_path: Path
) -> None:
    plan = planned(cleaned(store, own), own.theirs)
    own.run(f"UPDATE \"Memories\" SET stars = 4 WHERE id = '{IDS['a']}'")
    done = carried_out(own.theirs, plan, tmp_path / "undo.jsonl")
    assert IDS["a"] in {one.id for one in done.left_alone}
    assert own.texts()[IDS["a"]] == TEXTS["a"]


def test_a_row_of_another_user_and_one_that_was_not_imported_stay(
    own: Place, store: MemoryStore, tmp_path: Path
) -> None:
    cleaned(store, own)
    added = str(UUID(int=99))
    row = f"('{added}', '{TEXTS['a']}', 'tomo')"
    own.run(f'INSERT INTO "Memories" (id, content, user_id) VALUES {row}')
    written(store, own.theirs, tmp_path / "undo.jsonl")
    assert own.texts()[added] == TEXTS["a"]


def test_a_text_search_column_that_nobody_here_makes_keeps_its_row(
    own: Place, store: MemoryStore, tmp_path: Path
) -> None:
    own.run('ALTER TABLE "Memories" ADD words tsvector')
    own.run("UPDATE \"Memories\" SET words = to_tsvector('simple', content)")
    before = own.held()
    plan = planned(cleaned(store, own), own.theirs)
    done = carried_out(own.theirs, plan, tmp_path / "undo.jsonl")
    assert {one.id for one in done.left_alone} >= {IDS["d"]}
    assert own.held()[IDS["d"]] == before[IDS["d"]]
    assert taken_back(own.theirs, tmp_path / "undo.jsonl").left_alone == ()
    assert own.held() == before


def test_what_cannot_be_read_or_written_is_one_clear_line_without_the_password(
    own: Place, store: MemoryStore, tmp_path: Path
) -> None:
    plan = planned(cleaned(store, own), own.theirs)
    own.run("DROP ROLE IF EXISTS reader")
    own.run("CREATE ROLE reader LOGIN PASSWORD 'secret'")
    own.run('GRANT SELECT ON "Memories" TO reader')
    user, at, rest = own.address.removeprefix("postgresql://").partition("@")
    reader = PgvectorStore(f"postgresql://reader:secret@{rest if at else user}", own.name)
    try:
        with pytest.raises(InputError, match="cannot be written") as refused:
            carried_out(reader, plan, tmp_path / "undo.jsonl")
        assert "secret" not in str(refused.value)
        assert not (tmp_path / "undo.jsonl").exists()
    finally:
        own.run('REVOKE ALL ON "Memories" FROM reader')
        own.run("DROP ROLE reader")
    with pytest.raises(InputError, match="'mem0'; name one with --collection; there are: Memories"):
        PgvectorStore(own.address, "mem0").found()
    own.run('ALTER TABLE "Memories" DROP CONSTRAINT "Memories_pkey"')
    with pytest.raises(InputError, match="has no primary key of one column"):
        own.theirs.found()


def test_a_text_and_a_user_may_be_named(own: Place, store: MemoryStore) -> None:
    own.run('ALTER TABLE "Memories" RENAME content TO wording')
    own.run('ALTER TABLE "Memories" RENAME user_id TO whose')
    known = bring_in(store, own.theirs, Reading(text_key="wording", user_key="whose"))
    assert {name: one.content for name, one in known.items()} == {
        IDS[name]: text for name, text in TEXTS.items()
    }
