"""Overwrite the unused bytes in the pages of a SQLite file, which may hold deleted rows.

SQLite overwrites what it deletes (`secure_delete`). But if it rebuilds a page, for example from the
rows of two neighbouring pages, earlier bytes stay in the gap between the page's cell pointers and
its cells (https://sqlite.org/fileformat.html#b_tree_pages). No SQL statement reaches the gap.

This file runs as a process of its own and imports only the standard library: if a process closes a
file that SQLite has open in the same process, the operating system releases SQLite's locks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BTREE_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}
"""Length of the header of a B-tree page, by the type of page, which is the page's first byte."""
_MOST_PAGES = 2 << 24
"""In larger files, a page that is no B-tree page may begin with the same byte as one that is."""
_AT_ONCE = 1_024


class NotErased(Exception):
    """The gaps of a file could not be found or overwritten."""


class GapEraser:
    """Talks to the process that overwrites gaps. `left`: how many pages have a gap to overwrite."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.left = self._answer()

    def erase(self, pages: int) -> None:
        """Overwrite the gaps of the next `pages` pages, as the file is now.

        No process may write to the file meanwhile, and the write-ahead log must be empty.

        Raises: NotErased.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{pages}\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise NotErased from exc
        self.left = self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.strip().isdigit():
            raise NotErased
        return int(line)


@contextmanager
def gap_eraser(file: Path) -> Iterator[GapEraser]:
    """Look for gaps that are not empty; after the block, what was overwritten is on disk.

    Raises: NotErased.
    """
    if getattr(sys, "frozen", False):  # then the executable is the whole program
        raise NotErased
    command = [sys.executable, "-I", "-S", __file__, str(file)]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own code
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError as exc:
        raise NotErased from exc
    with process:
        yield GapEraser(process)
    if process.returncode:
        raise NotErased


# --- in the process of its own --------------------------------------------------------------------


def gaps(data: bytes, page_size: int, usable: int) -> Iterator[tuple[int, int, int]]:
    """Yield the gaps of consecutive pages that are not empty: page, start and end.

    Pages are counted from 0; start and end are offsets in `data`. The first page of a file must not
    be among them. `usable`: how many bytes of a page SQLite uses.
    """
    for page in range(len(data) // page_size):
        first = page * page_size
        header = _BTREE_HEADERS.get(data[first])
        if header is None:
            continue
        cells = int.from_bytes(data[first + 3 : first + 5], "big")
        start = first + header + 2 * cells
        end = first + (int.from_bytes(data[first + 5 : first + 7], "big") or 65_536)
        if start < end <= first + usable and data.count(0, start, end) < end - start:
            yield page, start, end


def _serve(file: str) -> None:
    handle = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
    header = _read(handle, 100, 0)
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65_536 if page_size == 1 else page_size
    usable = page_size - header[20]
    auto_vacuum = any(header[52:56])  # has pages of another kind
    if not header.startswith(b"SQLite format 3\0") or auto_vacuum:
        raise ValueError
    count = os.fstat(handle).st_size // page_size
    if count >= _MOST_PAGES:
        raise ValueError
    found = [
        first + page
        for first in range(1, count, _AT_ONCE)
        for page, _, _ in gaps(
            _read(handle, _AT_ONCE * page_size, first * page_size), page_size, usable
        )
    ]
    _tell(len(found))
    for line in sys.stdin:
        some, found = found[: int(line)], found[int(line) :]
        for page in some:
            data = _read(handle, page_size, page * page_size)
            for _, start, end in gaps(data, page_size, usable):
                os.lseek(handle, page * page_size + start, os.SEEK_SET)
                os.write(handle, bytes(end - start))
        _tell(len(found))
    os.fsync(handle)


def _tell(left: int) -> None:
    sys.stdout.write(f"{left}\n")
    sys.stdout.flush()


def _read(handle: int, length: int, offset: int) -> bytes:
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, length)


if __name__ == "__main__":
    _serve(sys.argv[1])
