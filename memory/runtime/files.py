"""Files that are written whole or not at all, and files that are renamed instead of deleted."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO

import filelock

_PERMISSIONS = 0o777
_WRITING = ".writing"
_TEMPORARY = "memory-dedup-"
_LOCK = ".lock"
_OWN = 0o600
"""Others may not read what people told a chatbot."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it becomes the file at `path` if the block succeeds.

    If the block fails, the old file stays. After the block the new file survives a crash. The next
    call deletes what a killed process left. Only one writer at a time for one path.

    Raises: OSError.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        _clear(part)
        yield part
        _sync(part, os.O_RDWR)
        part.replace(path)
        with contextlib.suppress(OSError):  # Windows opens no folders
            _sync(path.parent, os.O_RDONLY)
    finally:
        with contextlib.suppress(OSError):  # whoever made the folder unwritable knows why
            _clear(part)


def clear_parts(path: Path) -> None:
    """Delete what killed writes of a file left; the file's name may be a pattern.

    Only the single writer of these files may call it.

    Raises: OSError.
    """
    for left in path.parent.glob(f".{path.name}.part*"):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_alone(path: Path) -> Iterator[Path]:
    """Like `replacing`, for long writes: several processes can write, and clean up after kills.

    Raises: OSError.
    """
    clear_abandoned(path.parent)
    lock = path.with_name(f".{path.name}{_WRITING}")
    with own_lock(lock):
        try:
            with replacing(path) as part:
                yield part
        finally:
            lock.unlink(missing_ok=True)


def clear_abandoned(folder: Path) -> None:
    """Delete what killed processes left of `replacing_alone` in a folder."""
    for lock in folder.glob(f".*{_WRITING}"):
        held = own_lock(lock, 0)
        with contextlib.suppress(filelock.Timeout, OSError), held:
            name = lock.name.removesuffix(_WRITING)
            _clear(lock.with_name(f"{name}.part"))
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is deleted after the block; after a kill, the next call deletes it."""
    clear_temporary_folders()
    folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    try:
        with own_lock(folder / _LOCK):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_temporary_folders() -> None:
    """Delete the temporary folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        lock = folder / _LOCK
        if folder.is_symlink() or not lock.exists():
            continue
        with contextlib.suppress(filelock.Timeout, OSError):
            with own_lock(lock, 0):
                pass
            shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file and keep its permissions; only the owner can read a new one.

    The target of a symbolic link is written; the link stays.

    Raises: OSError.
    """
    path = path.resolve()
    mode = path.stat().st_mode & _PERMISSIONS if path.exists() else _OWN
    with replacing(path) as part:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWN), "wb") as file:
            file.write(data)
        part.chmod(mode)


def own_lock(path: Path, timeout_s: float = -1.0) -> filelock.FileLock:
    """Return a lock on a file that only its owner can open; any thread may release it."""
    return filelock.FileLock(path, timeout=timeout_s, mode=_OWN, thread_local=False)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; refuse pipes and devices, which may never end.

    Raises: OSError.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_bounded(path: Path, most: int) -> bytes:
    """Read a whole regular file of at most `most` bytes.

    Raises: OSError, also if it is larger.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def set_aside(path: Path, kind: str, beside: Sequence[str] = ()) -> Path:
    """Rename a file or folder to `NAME.KIND-1`, or the next free number, and return the new path.

    `beside` holds the endings of further files that are renamed with it, if they exist.

    Raises: OSError.
    """
    names = (path.with_name(f"{path.name}.{kind}-{number}") for number in count(1))
    aside = next(name for name in names if not name.exists())
    path.rename(aside)
    for ending in beside:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


def all_set_aside(path: Path, kind: str) -> list[Path]:
    """Return what `set_aside` renamed, with the further files."""
    return sorted(path.parent.glob(f"{glob.escape(path.name)}.{kind}-*"))


def _clear(part: Path) -> None:
    for left in part.parent.glob(f"{glob.escape(part.name)}*"):  # a database has files beside it
        left.unlink()


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
