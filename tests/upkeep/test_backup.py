"""A backup is one file, whole or not there; what it brings back is what was there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from memory.errors import InputError, LedgerError
from memory.ledger import Ledger
from memory.models import Action, Decision, Memory, Outcome, Survivor
from memory.store import MemoryStore
from memory.upkeep.doctor import back_up, restore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, under


def everything(ledger: Ledger) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    with ledger.reading() as reader:
        for table, rows in reader.dump():
            found.setdefault(table, []).extend(
                row for row in rows if row.get("key") not in ("store_id", "restored")
            )
    return {table: sorted(rows, key=str) for table, rows in found.items()}


@pytest.fixture
def lived(store: MemoryStore, make_memory: MakeMemory) -> MemoryStore:
    """A store with a retired memory, a link, a decision and something forgotten."""
    old, new = (
        store.add(make_memory("Mia sails.")),
        store.add(make_memory("Mia sails a lot.", tags=("sea",))),
    )
    gone = store.add(make_memory("Mia sneezed."))
    with store.ledger.reading() as reader:
        since = reader.revision()
    decision = Decision(Action.REPLACE, "test", (old, new), (Survivor(new, (old.id,)),))
    assert isinstance(store.apply(under(decision, since)), Outcome)
    store.forget(gone.id)
    return store


@pytest.fixture
def ledger(empty_url: str) -> Ledger:
    return Ledger.create(empty_url)


def test_a_backup_is_restored_on_any_database_with_its_whole_history(
    lived: MemoryStore, tmp_path: Path, embedder: PlacedEmbedder
) -> None:
    file = tmp_path / "backup.db"
    assert back_up(lived.ledger, file) == 1
    url = f"sqlite:///{tmp_path / 'again' / 'ledger.db'}"
    assert restore(file, url) == 1
    with Ledger.open(url) as again:
        assert everything(again) == everything(lived.ledger)
    with MemoryStore(Ledger.create(url), embedder) as store:
        [number] = [one.number for one in store.history() if one.action is Action.REPLACE]
        store.undo(number)
        assert {memory.content for memory in store.memories()} == {"Mia sails.", "Mia sails a lot."}


def test_a_backup_comes_back_on_postgresql_and_goes_on_counting(
    tmp_path: Path, postgres_url: str, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    with MemoryStore(Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}"), embedder) as store:
        store.add(make_memory("Mia sails."))
        back_up(store.ledger, tmp_path / "backup.db")
    assert restore(tmp_path / "backup.db", postgres_url) == 1
    with MemoryStore(Ledger.create(postgres_url), embedder) as store:
        store.add(make_memory("Mia dives."))
        assert [memory.content for memory in store.memories()] == ["Mia sails.", "Mia dives."]


def test_a_backup_while_others_write_is_of_one_moment(store: MemoryStore, tmp_path: Path) -> None:
    """Each write stores a pair; a backup holds both or neither."""
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            store.add_batch([store.new_memory("left"), store.new_memory("right")])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = [back_up(store.ledger, tmp_path / f"backup-{n}.db") for n in range(5)]
    finally:
        stop.set()
        writer.join()
    assert all(count % 2 == 0 for count in counts)
    assert counts[-1] > 0


def test_a_backup_never_overwrites(lived: MemoryStore, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    file.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        back_up(lived.ledger, file)
    assert file.read_text() == "mine"
    with pytest.raises(InputError, match="cannot be written"):
        back_up(lived.ledger, file / "below" / "backup.db")
    assert list(tmp_path.glob("*.part*")) == []


def test_a_restore_never_overwrites_memories(lived: MemoryStore, tmp_path: Path) -> None:
    file, url = tmp_path / "backup.db", f"sqlite:///{tmp_path / 'other.db'}"
    back_up(lived.ledger, file)
    restore(file, url)
    with pytest.raises(LedgerError, match="holds 1 memory already"):
        restore(file, url)


def test_a_damaged_ledger_is_set_aside_for_what_is_restored(
    lived: MemoryStore, tmp_path: Path
) -> None:
    file, broken = tmp_path / "backup.db", tmp_path / "broken.db"
    back_up(lived.ledger, file)
    broken.write_bytes(b"no database at all, but long enough to look at" * 100)
    assert restore(file, f"sqlite:///{broken}") == 1
    assert (tmp_path / "broken.db.damaged-1").read_bytes().startswith(b"no database")


def test_a_ledger_with_torn_pages_is_set_aside_too(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory
) -> None:
    file, broken = tmp_path / "backup.db", tmp_path / "broken.db"
    store.add_batch(
        [make_memory(f"Mia sails {n}.", metadata={"log": "x" * 20_000}) for n in range(30)]
    )
    back_up(store.ledger, file)
    whole = file.read_bytes()
    for share in (0.2, 0.4, 0.6, 0.8):
        at = int(len(whole) * share) // 4096 * 4096
        broken.write_bytes(whole[:at] + b"\xa5" * 12 * 4096 + whole[at + 12 * 4096 :])
        assert restore(file, f"sqlite:///{broken}") == 30
    assert len(list(tmp_path.glob("broken.db.damaged-*"))) == 4


def test_a_backup_touches_no_neighbour(lived: MemoryStore, tmp_path: Path) -> None:
    neighbours = [tmp_path / name for name in ("b.part", "b.partners.csv", "b.db-wal")]
    for one in neighbours:
        one.write_text("mine")
    back_up(lived.ledger, tmp_path / "b")
    assert all(one.read_text() == "mine" for one in neighbours)


@pytest.mark.parametrize("content", [None, b"", b"something else entirely" * 100])
def test_a_file_that_is_no_backup_is_refused_and_nothing_is_made(
    tmp_path: Path, content: bytes | None
) -> None:
    file, target = tmp_path / "backup.db", tmp_path / "new" / "ledger.db"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match="is not a backup"):
        restore(file, f"sqlite:///{target}")
    assert not target.exists()


def test_an_export_imported_elsewhere_exports_the_same(
    lived: MemoryStore, tmp_path: Path, embedder: PlacedEmbedder
) -> None:
    def exported(store: MemoryStore) -> list[Memory]:
        return list(store.memories())

    with MemoryStore(Ledger.create(f"sqlite:///{tmp_path / 'copy.db'}"), embedder) as copy:
        copy.add_batch(exported(lived))
        assert exported(copy) == exported(lived)


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_backup_is_not_written_over_a_folder(lived: MemoryStore, name: str) -> None:
    with pytest.raises(InputError, match="is a folder"):
        back_up(lived.ledger, Path(name))
