"""Write files completely or not at all, lock them, set them aside, and read JSON Lines."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import filelock

from memory.errors import InputError

_WRITING = ".writing"
_TEMPORARY = "memory-dedup-"
_LOCK = ".lock"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_LINE = 64 * 2**20  # bytes; parsing takes far more memory
_OWN = 0o600  # only the owner can read what people told a chatbot


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; the block must write a file there, which then replaces `path`.

    If the block fails, the old file stays. After the block, the new file is safely on disk. If the
    process is killed, its unfinished file stays until the next call with this path. Only one
    process may write to a path at a time.

    >>> size = Path("kept.txt").write_text("old")
    >>> with replacing(Path("kept.txt")) as new:
    ...     size = new.write_text("new")
    >>> Path("kept.txt").read_text()
    'new'

    Raises: OSError.
    """
    part = path.with_name(f".{path.name}.part")
    pattern = path.with_name(glob.escape(path.name))
    try:
        clear_parts(pattern)
        yield part
        _sync(part, os.O_RDWR)
        part.replace(path)
        with contextlib.suppress(OSError):  # Windows opens no folders
            _sync(path.parent, os.O_RDONLY)
    finally:
        with contextlib.suppress(OSError):  # whoever made the folder unwritable knows why
            clear_parts(pattern)


def clear_parts(path: Path) -> None:
    """Delete the temporary files of `path` that `replacing` left when its process was killed.

    The file name of `path` may be a glob pattern. No process may be writing `path` meanwhile.

    Raises: OSError.
    """
    for left in path.parent.glob(f".{path.name}.part*"):  # a database has files beside it
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_alone(path: Path) -> Iterator[Path]:
    """Lock `path` against other writers, and yield a temporary path, as `replacing` does.

    Processes that write the same file wait for each other, without a time limit.

    >>> with replacing_alone(Path("shared.txt")) as new:
    ...     size = new.write_text("mine")
    >>> Path("shared.txt").read_text()
    'mine'

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
    """Delete files and locks that `replacing_alone` left when its process was killed."""
    for lock in folder.glob(f".*{_WRITING}"):
        with contextlib.suppress(filelock.Timeout, OSError), own_lock(lock, 0):
            name = lock.name.removesuffix(_WRITING).removeprefix(".")
            clear_parts(lock.with_name(glob.escape(name)))
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new temporary folder, and delete it after the block.

    If the process is killed, the next call of this function in any process deletes the folder.

    >>> with temporary_folder() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    clear_temporary_folders()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _locked_folder() -> tuple[Path, filelock.FileLock]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
        lock = own_lock(folder / _LOCK, 0)
        # Until it is locked, another process may take the folder for one to clear.
        with contextlib.suppress(filelock.Timeout, FileNotFoundError):
            lock.acquire()
            return folder, lock


def clear_temporary_folders() -> None:
    """Delete folders that `temporary_folder` made for processes that were killed.

    Folders of other accounts are left alone: anybody may make one with such a name.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        lock = folder / _LOCK
        if folder.is_symlink() or not lock.exists() or not _is_own(folder.lstat()):
            continue
        with contextlib.suppress(filelock.Timeout, OSError), own_lock(lock, 0):
            shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to a file, completely or not at all.

    An existing file keeps its permissions; a new one can be read only by its owner. If `path` is a
    symbolic link, its target is written.

    Raises: OSError.
    """
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else _OWN
    with replacing(path) as part:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWN), "wb") as file:
            file.write(data)
        part.chmod(mode)


def own_lock(path: Path, timeout_s: float = -1.0) -> filelock.FileLock:
    """Return a lock, not acquired yet, that uses the file `path`; only the owner can read the file.

    Any thread may release the lock. If `timeout_s` is negative, acquiring it has no time limit.
    Acquiring the lock empties the file. So it raises OSError if another account made the file, or
    if the file has another name too: it may be a link to a file that must not be lost.

    >>> with own_lock(Path("store.lock")) as lock:
    ...     lock.is_locked
    True
    """
    return _OwnLock(path, timeout=timeout_s, mode=_OWN, thread_local=False)


class _OwnLock(filelock.FileLock):
    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(FileNotFoundError):
            found = Path(self.lock_file).lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise OSError(errno.ELOOP, "it is a link, or no file", self.lock_file)
            if not _is_own(found) and found.st_uid != Path(self.lock_file).parent.stat().st_uid:
                raise OSError(errno.EPERM, "it belongs to another account", self.lock_file)
        return super().acquire(*args, **kwargs)


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading in binary mode; refuse pipes and devices, which may never end.

    >>> size = Path("note.txt").write_text("Mia rows.")
    >>> with open_regular(Path("note.txt")) as file:
    ...     file.read()
    b'Mia rows.'
    >>> open_regular(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    OSError: [Errno 22] it is not a regular file: '/dev/null'

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
    """Return the content of a regular file of at most `most` bytes.

    >>> size = Path("small.txt").write_text("Mia rows.")
    >>> read_bounded(Path("small.txt"), 100)
    b'Mia rows.'
    >>> read_bounded(Path("small.txt"), 3)
    Traceback (most recent call last):
        ...
    OSError: [Errno 27] File too large: 'small.txt'

    Raises: OSError, also if the file is larger.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def set_aside(path: Path, kind: str, beside: Sequence[str] = ()) -> Path:
    """Rename a file or folder, and return its new path.

    The new name has `kind` and the first free number: `a.db` becomes `a.db.damaged-1`. `beside`:
    the endings of companion files to rename too. With `-wal`, `a.db-wal` becomes
    `a.db.damaged-1-wal`.

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
    """Return the paths, sorted, to which `set_aside` renamed `path` and its companion files."""
    return sorted(path.parent.glob(f"{glob.escape(path.name)}.{kind}-*"))


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- JSON Lines -----------------------------------------------------------------------------------


def read_objects(
    path: Path, *, not_finite: bool = False
) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    """Yield the number (from 1) of each line that is not blank, and its JSON object or an error.

    A line may also be an array of objects, each of which is yielded.

    `not_finite`: whether a number may be NaN or infinite.

    >>> size = Path("lines.jsonl").write_text('{"a": 1}\\n\\n[2]\\n')
    >>> [(number, type(found).__name__) for number, found in read_objects(Path("lines.jsonl"))]
    [(1, 'dict'), (3, 'ValueError')]

    Raises: InputError if the file cannot be read at all.
    """
    try:
        with open_regular(path) as file:
            lines = iter(partial(file.readline, _LONGEST_LINE), b"")
            for number, raw in enumerate(lines, start=1):
                line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
                if len(raw) == _LONGEST_LINE and not raw.endswith(b"\n"):
                    next((rest for rest in lines if rest.endswith(b"\n")), None)  # skip it
                    yield (
                        number,
                        ValueError(f"is longer than {_LONGEST_LINE // 2**20} MB: split it"),
                    )
                elif line.strip():
                    try:
                        for fields in _objects(line.rstrip(b"\r\n"), not_finite=not_finite):
                            yield number, fields
                    except ValueError as exc:
                        yield number, exc
    except OSError as exc:
        raise InputError(path, f"cannot be read: {exc.strerror}", "name a JSON Lines file") from exc


def _objects(raw: bytes, *, not_finite: bool) -> list[dict[str, Any]]:
    """Return the JSON object of a line, or those of the array that the line is."""
    constant = float if not_finite else _no_constant
    try:
        fields = json.loads(raw.decode("utf-8"), parse_constant=constant, parse_int=_integer)
    except UnicodeDecodeError as exc:
        raise ValueError("is not UTF-8 text") from exc
    except json.JSONDecodeError as exc:
        raise ValueError(f"is not JSON: {exc.msg} (column {exc.colno})") from exc
    except RecursionError as exc:
        raise ValueError("is nested too deeply") from exc
    found = fields if isinstance(fields, list) and fields else [fields]
    if not all(isinstance(one, dict) for one in found):
        raise ValueError("is not a JSON object")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as exc:  # Python reads no more, for that would take long
        raise ValueError(f"has a number of {len(digits):,} digits") from exc
