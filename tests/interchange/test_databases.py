"""Somebody else's SQLite file is read as it stood at one moment, and stays as it is."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

from memory.errors import InputError
from memory.interchange.databases import busy_limit, copied, sqlite_file

ROWS = 2_000
DIES = """
import os, sqlite3, sys
theirs = sqlite3.connect(sys.argv[1], isolation_level=None)
theirs.execute("PRAGMA cache_size = 1")
theirs.execute("PRAGMA wal_autocheckpoint = 0")
theirs.execute("BEGIN")
theirs.execute("UPDATE t SET n = n + 1, filler = hex(randomblob(100))")
if sys.argv[2] == "wal":
    theirs.execute("COMMIT")
os._exit(9)
"""


def made(folder: Path, mode: str) -> Path:
    with closing(sqlite3.connect(folder / "their.db")) as theirs, theirs:
        theirs.execute(f"PRAGMA journal_mode = {mode}")
        theirs.execute("CREATE TABLE t (n, filler)")
        theirs.executemany("INSERT INTO t VALUES (0, hex(zeroblob(50)))", [()] * ROWS)
    return folder / "their.db"


def numbers(file: Path) -> set[int]:
    """What the rows say: one number, where all are of one moment."""
    with copied(file, [file]) as folder, sqlite_file(file, folder) as copy:
        read = copy.run("SELECT * FROM t")
    assert len(read) == ROWS
    return {row["n"] for row in read}


def writing(file: Path, ended: Event) -> None:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=60)) as theirs:
        theirs.execute("PRAGMA synchronous = OFF")
        while not ended.is_set():
            theirs.execute("UPDATE t SET n = n + 1, filler = hex(randomblob(n % 90))")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_file_that_is_written_to_meanwhile_is_read_as_it_stood_at_one_moment(
    tmp_path: Path, mode: str
) -> None:
    file, ended = made(tmp_path, mode), Event()
    writer = Thread(target=writing, args=(file, ended))
    writer.start()
    try:
        found = [numbers(file) for _ in range(20)]
    finally:
        ended.set()
        writer.join()
    assert all(len(said) == 1 for said in found)


@pytest.mark.parametrize(("mode", "says"), [("delete", {0}), ("wal", {1})])
def test_what_a_killed_writer_left_is_read_as_it_was_committed(
    tmp_path: Path, mode: str, says: set[int]
) -> None:
    file = made(tmp_path, mode)
    subprocess.run([sys.executable, "-c", DIES, str(file), mode], check=False)
    beside = file.with_name(file.name + ("-journal" if mode == "delete" else "-wal"))
    before = file.read_bytes(), beside.read_bytes()
    assert before[1]
    assert numbers(file) == says
    assert (file.read_bytes(), beside.read_bytes()) == before


def test_of_a_folder_each_sqlite_file_is_whole_and_all_else_is_copied(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "inner").mkdir(parents=True)
    file = made(tmp_path / "theirs" / "inner", "wal")
    (tmp_path / "theirs" / "other-wal").write_text("no log of anything")
    with closing(sqlite3.connect(file)) as open_there:
        open_there.execute("UPDATE t SET n = 7")
        open_there.commit()
        with copied(tmp_path, [tmp_path / "theirs"]) as copy:
            assert (copy / "theirs" / "other-wal").read_text() == "no log of anything"
            assert not list((copy / "theirs" / "inner").glob("*-*"))
            assert numbers(copy / "theirs" / "inner" / "their.db") == {7}


def test_who_never_stops_writing_is_named(tmp_path: Path) -> None:
    on_progress = busy_limit(tmp_path / "their.db")
    for status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_OK) * 20:
        on_progress(status, 1, 1)
    with pytest.raises(InputError, match="is being written by another program"):
        on_progress(sqlite3.SQLITE_BUSY, 1, 1)
