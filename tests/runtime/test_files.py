"""A file is there whole or not at all; what is set aside is never overwritten."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest

from memory.runtime.files import (
    all_set_aside,
    clear_temporary_folders,
    own_lock,
    read_bounded,
    replacing,
    replacing_alone,
    set_aside,
    temporary_folder,
    write_whole,
)


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    write_whole(path, b"old")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    write_whole(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_ends_early_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(path) as part:
            part.write_bytes(b"half")
            part.with_name(part.name + "-wal").write_bytes(b"its log")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_larger_than_expected_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(OSError, match="too large"):
        read_bounded(path, 4)


def test_a_symbolic_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    real, link = tmp_path / "vault" / "log.md", tmp_path / "log.md"
    real.parent.mkdir()
    link.symlink_to(real)
    for content in (b"made", b"written again"):
        write_whole(link, content)
        assert link.is_symlink()
        assert real.read_bytes() == content


def test_a_pipe_or_a_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_bounded(path, 5)
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, 5)


def test_a_file_set_aside_takes_the_next_free_number_with_its_companions(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger[1].db"
    for content in ("first", "second"):
        path.write_text(content)
        path.with_name("ledger[1].db-wal").write_text(content)
        set_aside(path, "damaged", beside=("-wal", "-shm"))
    found = {aside.name: aside.read_text() for aside in all_set_aside(path, "damaged")}
    assert found == {
        "ledger[1].db.damaged-1": "first",
        "ledger[1].db.damaged-1-wal": "first",
        "ledger[1].db.damaged-2": "second",
        "ledger[1].db.damaged-2-wal": "second",
    }
    assert not path.exists()


# --- what killed processes leave ------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
from memory.runtime import replacing_alone, temporary_folder
with temporary_folder() as folder, replacing_alone(Path(sys.argv[1])) as part:
    (folder / "copy").write_text("a secret")
    part.write_text("a secret")
    part.with_name(part.name + "-wal").write_text("a secret")
    print(flush=True)
    if sys.argv[2] == "dies":
        os._exit(9)
    sys.stdin.read()
"""


def writing(file: Path, how: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", KILLED, str(file), how]
    environment = os.environ | {"TMPDIR": str(file.parent)}
    pipe = subprocess.PIPE
    started = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
    assert started.stdout is not None
    started.stdout.readline()
    return started


def test_leftovers_of_a_killed_process_go_with_the_next_and_files_in_use_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    writing(tmp_path / "killed.db", "dies").communicate()
    with writing(tmp_path / "busy.db", "waits") as busy:
        names = {path.name for path in tmp_path.iterdir()}
        assert {".busy.db.part", ".busy.db.part-wal"} <= names
        with temporary_folder() as mine, replacing_alone(tmp_path / "next.db") as part:
            part.write_text("new")
            kept = {path.name for path in tmp_path.rglob("*")}
            assert mine.is_dir()
            assert not [name for name in kept if "killed" in name]
        assert (tmp_path / ".busy.db.part-wal").read_text() == "a secret"
        assert len(list(tmp_path.glob("memory-dedup-*/copy"))) == 1
        busy.communicate()
    assert {path.name for path in tmp_path.iterdir()} == {"busy.db", "next.db"}


def test_a_folder_that_another_process_clears_before_it_is_locked_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared, own = tmp_path / "memory-dedup-a", tmp_path / "memory-dedup-b"
    cleared.mkdir()
    own.mkdir()
    names = iter([cleared, own])
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(next(names)))
    with own_lock(cleared / ".lock"), temporary_folder() as folder:
        assert folder == own
    assert not own.exists()


def test_an_abandoned_folder_stays_locked_while_it_is_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    writing(tmp_path / "killed.db", "dies").communicate()
    [abandoned] = tmp_path.glob("memory-dedup-*")
    locked = []

    def rmtree(folder: Path, ignore_errors: bool) -> None:
        with pytest.raises(filelock.Timeout), own_lock(folder / ".lock", 0):
            pass
        locked.append(folder)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    clear_temporary_folders()
    assert locked == [abandoned]


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_lock_does_not_empty_the_file_that_it_is_a_link_to(
    tmp_path: Path, link: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ledger.db").write_bytes(b"precious")
    planted = tmp_path / "memory-dedup-planted"
    planted.mkdir()
    link(planted / ".lock", tmp_path / "ledger.db")
    clear_temporary_folders()
    with pytest.raises(OSError, match="link"), own_lock(planted / ".lock"):
        pass
    assert (tmp_path / "ledger.db").read_bytes() == b"precious"
    assert planted.exists()


def test_files_of_another_account_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / "memory-dedup-planted"
    planted.mkdir()
    (planted / ".lock").write_text("theirs")
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    clear_temporary_folders()
    assert planted.exists()
    monkeypatch.setattr(os, "getuid", lambda: real)
    clear_temporary_folders()
    assert not planted.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_lock_that_another_account_made_in_our_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.lock").write_text("theirs")
    os.chown(tmp_path / "a.lock", 65_534, 65_534)
    with pytest.raises(OSError, match="another account"), own_lock(tmp_path / "a.lock"):
        pass
    os.chown(tmp_path, 65_534, 65_534)
    with own_lock(tmp_path / "a.lock"):
        pass
