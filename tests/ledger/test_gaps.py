"""What is forgotten is not in the unused bytes of the ledger's pages either."""

from __future__ import annotations

import random
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from memory.ledger import Ledger
from memory.ledger.gaps import NotErased, gap_eraser, gaps
from memory.models import Vectors
from memory.store import MemoryStore, forget_user
from memory.upkeep import back_up
from tests.doubles import START
from tests.test_forget import holders

PAGE = 4_096


class ScatteredEmbedder:
    """An embedder that puts each text somewhere else."""

    fingerprint = "scattered-16"

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = [np.random.default_rng(crc32(text.encode())).normal(size=16) for text in texts]
        return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[MemoryStore]:
    """A store whose pages were often divided and rebuilt: its memories grew and shrank."""
    rng = random.Random(0)
    url = f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"
    with MemoryStore(Ledger.create(url), ScatteredEmbedder()) as store:
        names = []
        for n in range(150):
            names.append(store.add(store.new_memory(_words(rng, 1, 3, 10, 40), user="Mia")).id)
            if n % 2:
                store.update(rng.choice(names), _words(rng, 1, 10, 60))
        rng.shuffle(names)
        yield store


def _words(rng: random.Random, *counts: int) -> str:
    return " ".join(f"zq{rng.getrandbits(60):015x}" for _ in range(rng.choice(counts)))


def forget_mia(store: MemoryStore) -> tuple[list[bytes], bool]:
    """Forget Mia's memories, three one by one; return their words, and whether all is erased."""
    with store.ledger.reading() as reader:
        rows = [row for table, page in reader.dump() for row in page if table == "memories"]
    words = re.findall(r"zq[0-9a-f]{15}", " ".join(row["content"] for row in rows))
    names = [memory.id for memory in store.memories() if memory.user == "Mia"][:3]
    gone = [store.forget(name) for name in names]
    rest = forget_user(store.ledger, store.index, "Mia", START)
    return [word.encode() for word in words], rest.erased and all(one.erased for one in gone)


def left_of(words: Sequence[bytes], folder: Path) -> list[bytes]:
    data = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return [word for word in words if word in data]


def test_no_word_of_a_forgotten_memory_is_left(lived: MemoryStore, tmp_path: Path) -> None:
    words, erased = forget_mia(lived)
    assert erased
    assert len(words) > 3_000
    assert left_of(words, tmp_path / "data") == []
    assert lived.ledger.database.problems() == []
    back_up(lived.ledger, tmp_path / "backup.db")
    assert left_of(words, tmp_path) == []


def test_without_the_process_that_erases_it_is_pending_until_there_is_one(
    lived: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    words, erased = forget_mia(lived)
    assert not erased
    monkeypatch.undo()
    assert lived.scrub()
    assert left_of(words, tmp_path / "data") == []


def rebuilt(file: Path, log: str) -> sqlite3.Connection:
    """Make a file of rows that grew and shrank, so that pages have gaps with earlier bytes."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute(f"PRAGMA journal_mode={log}")
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY, name TEXT UNIQUE, text TEXT)")
    rng = random.Random(1)
    for n in range(400):
        connection.execute(
            "INSERT INTO t VALUES (?, ?, ?)", (n, f"name {n}", "x" * rng.randint(1, 900))
        )
        changed = ("y" * rng.randint(1, 900), rng.randint(0, n))
        connection.execute("UPDATE t SET text = ? WHERE seq = ?", changed)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


@pytest.mark.parametrize("log", ["WAL", "DELETE"])
def test_only_gaps_are_overwritten(tmp_path: Path, log: str) -> None:
    with closing(rebuilt(tmp_path / "t.db", log)) as connection:
        before = connection.execute("SELECT * FROM t").fetchall()
    with gap_eraser(tmp_path / "t.db") as eraser:
        assert eraser.left > 0
        eraser.erase(1)
        eraser.erase(10_000)
        assert eraser.left == 0
    assert list(gaps((tmp_path / "t.db").read_bytes()[PAGE:], PAGE, PAGE)) == []
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == before
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with gap_eraser(tmp_path / "t.db") as eraser:
        assert eraser.left == 0


@pytest.mark.parametrize("spoil", [b"", b"no database at all" * 10])
def test_what_is_no_database_is_not_touched(tmp_path: Path, spoil: bytes) -> None:
    (tmp_path / "t.db").write_bytes(spoil)
    with pytest.raises(NotErased), gap_eraser(tmp_path / "t.db"):
        pass
    assert (tmp_path / "t.db").read_bytes() == spoil


def test_a_file_with_pages_of_another_kind_is_not_touched(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum=FULL")
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(NotErased), gap_eraser(tmp_path / "t.db"):
        pass


def test_no_other_connection_writes_the_old_bytes_back(tmp_path: Path, lived: MemoryStore) -> None:
    """Its cached pages still hold them; it must read the pages again before it writes."""
    file = tmp_path / "data" / "ledger.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        lived.add(lived.new_memory("Leo rows.", user="Leo"))
        lived.ledger.database.checkpoint()
        assert other.execute("SELECT count(*) FROM memories").fetchone()
        assert other.execute("SELECT sum(length(content)) FROM memories").fetchone()
        words, erased = forget_mia(lived)
        assert erased
        other.execute("UPDATE memories SET importance = 1 + importance % 2")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert left_of(words, tmp_path / "data") == []


def test_a_reader_of_the_log_leaves_it_pending(lived: MemoryStore, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data" / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM memories").fetchone()
        memory = lived.add(lived.new_memory("zqsecretword", user="Mia"))
        assert not lived.forget(memory.id).erased
        other.execute("COMMIT")
        assert lived.scrub()
    assert holders(tmp_path / "data", b"zqsecretword") == []
