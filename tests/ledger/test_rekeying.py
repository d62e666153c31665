"""Version 5 called texts the same that differ in case and signs; an upgrade tells them apart."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from memory import MemoryDeduplicator
from memory.ledger.ledger import Ledger, open_database
from memory.models import JUDGES, Action, Decision, Judge, Memory, Survivor, Verdict
from memory.store import MemoryStore
from memory.text import normalise, text_key
from memory.upkeep import examine
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel
from tests.ledger import version_1

MILLI, MEGA = "The laser has mW.", "The laser has MW."
KEPT, BESIDE = "The key is a-B.", "The key is A-b."
CAT = "Runa has a cat."
TEXTS = (MILLI, MEGA, KEPT, BESIDE, CAT)


def old_key(text: str) -> str:
    """By which version 5 named a text."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:32]


@pytest.fixture
def version_5(ledger_url: str, make_memory: MakeMemory) -> str:
    """A ledger as version 5 left it.

    One memory was replaced as the same text. A person keeps two of one key apart, and one of these
    from a third; a model told that which was replaced from the third.
    """
    with MemoryStore(Ledger.create(ledger_url), PlacedEmbedder()) as store:
        memories = dict(zip(TEXTS, map(store.add, map(make_memory, TEXTS)), strict=True))
        milli, mega = memories[MILLI], memories[MEGA]
        stays = Survivor(mega, (milli.id,))
        store.apply(Decision(Action.REPLACE, "same text", (milli, mega), (stays,)))
        tell_apart(store, memories, "person", (KEPT, BESIDE), (BESIDE, CAT))
        tell_apart(store, memories, "model", (MILLI, CAT))
        with store.ledger.writing() as writer:
            read = [(store.scope_of(memories[text]).key, text_key(text)) for text in (MILLI, CAT)]
            writer.readings.record(read, "scripted", thorough=False)
    with (
        closing(open_database(ledger_url, create=True)) as database,
        database.writing() as connection,
    ):
        back_to_version_5(connection)
    return ledger_url


def tell_apart(
    store: MemoryStore, memories: Mapping[str, Memory], by: Judge, *pairs: tuple[str, str]
) -> None:
    with store.ledger.writing() as writer:
        told = [
            (store.scope_of(memories[a]), text_key(a), text_key(b), "said so") for a, b in pairs
        ]
        writer.distinct.mark_all(told, by)


def back_to_version_5(connection: sa.Connection) -> None:
    """Every key as that version made it: several texts have one, and one vector."""
    instead = {text_key(text): old_key(text) for text in TEXTS}
    for later in version_1.TERMS:
        connection.exec_driver_sql(f"DROP TABLE {later}")
    for new, old in instead.items():
        for table, column in (
            ("memories", "text_key"),
            ("distinct_pairs", "low_key"),
            ("distinct_pairs", "high_key"),
            ("readings", "text_key"),
        ):
            connection.exec_driver_sql(
                f"UPDATE {table} SET {column} = '{old}' WHERE {column} = '{new}'"
            )
        connection.exec_driver_sql(
            f"UPDATE decisions SET before = REPLACE(before, '{new}', '{old}')"
        )
        if new != old:
            connection.exec_driver_sql(
                f"DELETE FROM vectors WHERE text_key = '{new}' "
                f"AND EXISTS (SELECT 1 FROM vectors WHERE text_key = '{old}')"
            )
            connection.exec_driver_sql(
                f"UPDATE vectors SET text_key = '{old}' WHERE text_key = '{new}'"
            )
    connection.exec_driver_sql(
        "UPDATE distinct_pairs SET low_key = high_key, high_key = low_key WHERE low_key > high_key"
    )
    connection.exec_driver_sql("UPDATE meta SET value = '5' WHERE key = 'schema_version'")


@pytest.fixture
def store(version_5: str, tmp_path: Path) -> Iterator[MemoryStore]:
    Ledger.upgrade(version_5, tmp_path)
    with MemoryStore(Ledger.create(version_5), PlacedEmbedder()) as store:
        yield store


def test_the_fixture_is_as_version_5_left_it(version_5: str) -> None:
    assert old_key(MILLI) == old_key(MEGA)
    assert old_key(KEPT) == old_key(BESIDE)
    engine = sa.create_engine(version_5)
    with engine.connect() as connection:
        keys = set(connection.exec_driver_sql("SELECT text_key FROM memories").scalars())
        vectors = set(connection.exec_driver_sql("SELECT text_key FROM vectors").scalars())
    engine.dispose()
    assert keys == vectors == {old_key(text) for text in TEXTS}


def test_each_text_has_a_key_of_its_own_and_its_vector(store: MemoryStore) -> None:
    with store.ledger.reading() as reader:
        rows = list(reader.memories.all())
        assert {row.text_key for row in rows} == {text_key(text) for text in TEXTS}
        assert len(reader.vectors.of(row.text_key for row in rows)) == len(TEXTS)
        assert [one for one in examine(store) if one.kind == "damage"] == []


def test_a_persons_verdict_holds_for_every_text_that_had_the_key(store: MemoryStore) -> None:
    with store.ledger.reading() as reader:
        told = {pair[1:] for pair in reader.distinct.all(("person",))}
    assert told == {
        ordered(KEPT, BESIDE),  # of which each is said by one memory, and stays one
        ordered(KEPT, CAT),
        ordered(BESIDE, CAT),
    }


def ordered(a: str, b: str) -> tuple[str, str]:
    low, high = sorted((text_key(a), text_key(b)))
    return low, high


def test_a_models_verdict_on_a_key_that_became_two_is_asked_again(store: MemoryStore) -> None:
    with store.ledger.reading() as reader:
        assert reader.distinct.all(("model",)) == set()
        assert reader.distinct.all(JUDGES) == reader.distinct.all(("person",))
        assert {key for _, key in reader.readings.all("scripted")} == {text_key(CAT)}


def test_a_replacement_as_the_same_text_is_reviewed_by_the_next_batch(
    store: MemoryStore,
) -> None:
    model = ScriptedModel(Verdict(reason="a thousandth and a million"))
    assert {memory.content for memory in store.memories()} == {MEGA, KEPT, BESIDE, CAT}
    asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    [asked] = model.asked
    assert [member.content for member in asked.members] == [MILLI, MEGA]
    assert {memory.content for memory in store.memories()} == set(TEXTS)


def test_a_replacement_built_upon_stays_open_until_that_is_undone(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    [mega] = [one for one in store.memories() if one.content == MEGA]
    more = store.add(make_memory("The laser has MW, and a red case."))
    stays = Survivor(more, (mega.id,))
    store.apply(Decision(Action.REPLACE, "covers", (mega, more), (stays,)))
    model = ScriptedModel(*[Verdict(reason="a thousandth and a million")] * 3)
    deduplicator = MemoryDeduplicator(store, model)
    asyncio.run(deduplicator.deduplicate_all())
    assert (model.asked, store.counts().pending) == ([], 1)
    [later] = [one for one in store.history() if one.reason == "covers"]
    store.undo(later.number)
    asyncio.run(deduplicator.deduplicate_all())
    asked = [{member.content for member in question.members} for question in model.asked]
    assert any({MILLI, MEGA} <= texts for texts in asked)
    assert {MILLI, MEGA, more.content} <= {memory.content for memory in store.memories()}
    assert store.counts().pending == 0


def test_an_undo_goes_back_to_the_key_of_its_text(store: MemoryStore) -> None:
    [replaced] = [one for one in store.history() if one.survivors]
    store.undo(replaced.number)
    with store.ledger.reading() as reader:
        keys = {row.memory.content: row.text_key for row in reader.memories.live()}
    assert keys == {text: text_key(text) for text in TEXTS}
