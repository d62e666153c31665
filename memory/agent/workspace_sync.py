"""Public memories as Markdown that people read: a daily log, a curated page, the last monologue.

An entry is one line that ends with the memory's marker, `[id:mem_...]`. Whatever else stands in
these files, and every other file, is left alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import filelock

from memory.errors import InputError
from memory.files import read_bounded, write_whole
from memory.ledger import DecisionRecord
from memory.models import Memory
from memory.store import Forgotten, MemoryStore
from memory.text import one_line

CURATION_CATEGORIES = frozenset({"introspection", "relationship", "self_discovery", "lesson"})
_CURATED_FROM = 4
"""The importance from which a memory of any category is curated."""
_MONOLOGUE = "introspection"
_DAILY = "????-??-??.md"
_NO_MARKER = r"[id\:"
"""What a marker's beginning becomes inside a text; Markdown shows it as it was typed."""
_PATIENCE_S = 10.0
"""How long a server waits for another one that writes the same workspace."""
_MOST_BYTES = 64_000_000
"""A larger file is not one that people read."""
_REMEDY = "create the folder, or change agent.workspace_dir"


class WorkspaceMemorySync:
    """Keeps a workspace folder in step with the memories: one line each, none that is private."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._memory_dir = workspace / "memory"
        self._curated_memory = workspace / "MEMORY.md"
        self._latest_monologue = self._memory_dir / "inner-monologue-latest.md"

    def check(self) -> None:
        """Raises: InputError where the workspace is not there or cannot be written."""
        if not self._workspace.is_dir():
            raise InputError(self._workspace, "the workspace is not a folder", _REMEDY)
        try:
            self._memory_dir.mkdir(exist_ok=True)
            for folder in (self._workspace, self._memory_dir):
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as exc:
            problem = f"the workspace cannot be written: {exc.strerror}"
            raise InputError(self._workspace, problem, _REMEDY) from exc

    # --- writing ---

    def sync_memory(self, memory: Memory) -> None:
        """Write a new memory's entries; nothing of a private one.

        Raises: OSError.
        """
        self.refresh(memory)
        if memory.category == _MONOLOGUE and not memory.is_private:
            with self._only_writer():
                _write(self._latest_monologue, memory.content + "\n")

    def refresh(self, memory: Memory) -> None:
        """Write a memory's entries in place of those it had.

        Raises: OSError.
        """
        with self._only_writer():
            self._remove_entries(memory.id)
            if not memory.is_private:
                self._add_entries(memory)

    def _add_entries(self, memory: Memory) -> None:
        when = memory.timestamp.astimezone()
        daily = self._memory_dir / f"{when:%Y-%m-%d}.md"
        self._append(daily, f"# {when:%Y-%m-%d}", f"- [{when:%H:%M}] {_entry(memory)}")
        if _is_curated(memory):
            entry = f"- [{when:%Y-%m-%d}] ({memory.category}) {_entry(memory)}"
            self._append(self._curated_memory, "# Memory", entry)

    def remove_memory(self, memory_id: str) -> bool:
        """Remove all entries of a memory; whether any file was changed.

        Raises: OSError.
        """
        with self._only_writer():
            return self._remove_entries(memory_id)

    def erase(self, forgotten: Forgotten) -> None:
        """Leave nothing of a forgotten memory, and of what it was made from.

        Raises: OSError.
        """
        gone = (forgotten.memory, *forgotten.origins)
        with self._only_writer():
            for memory in gone:
                self._remove_entries(memory.id)
            said = _read(self._latest_monologue)
            if any(memory.content in said for memory in gone):
                _write(self._latest_monologue, "")

    def follow_undo(
        self, recorded: Sequence[DecisionRecord], get: Callable[[str], Memory | None]
    ) -> None:
        """After decisions were taken back: entries again for those that live, where any had one.

        Raises: OSError.
        """
        for one in recorded:
            involved = (*one.members, *one.created)
            if not any(self._has_entry(name) for name in involved):
                continue
            for name in involved:
                memory = get(name)
                if memory is None:
                    self.remove_memory(name)
                else:
                    self.refresh(memory)

    def _has_entry(self, memory_id: str) -> bool:
        marker = _marker(memory_id)
        lines = (line for path in self._files() for line in _read(path).split("\n"))
        return any(_is_entry(line, marker) for line in lines)

    def _files(self) -> list[Path]:
        return [*sorted(self._memory_dir.glob(_DAILY)), self._curated_memory]

    def _remove_entries(self, memory_id: str) -> bool:
        marker = _marker(memory_id)
        changed = [self._remove_lines_with_marker(path, marker) for path in self._files()]
        return any(changed)

    def _remove_lines_with_marker(self, path: Path, marker: str) -> bool:
        """Whether the file held the marker."""
        content = _read(path)
        if marker not in content:
            return False
        kept = [line for line in content.split("\n") if not _is_entry(line, marker)]
        _write(path, "\n".join(kept))
        return True

    def _append(self, path: Path, title: str, line: str) -> None:
        before = _read(path) or f"{title}\n\n"
        _write(path, before + ("" if before.endswith("\n") else "\n") + line + "\n")

    @contextmanager
    def _only_writer(self) -> Iterator[None]:
        """Several servers may share a workspace; an entry of one is not lost to another."""
        self._memory_dir.mkdir(exist_ok=True)
        lock = filelock.FileLock(self._memory_dir / ".sync.lock", timeout=_PATIENCE_S)
        try:
            with lock:
                yield
        except filelock.Timeout as exc:
            raise OSError(None, "another process is writing it") from exc


def forget_everywhere(
    store: MemoryStore, workspace: WorkspaceMemorySync | None, memory_id: str
) -> tuple[Forgotten, str]:
    """Forget a memory in the store and in the workspace; why the latter failed, or empty.

    Raises: MemoryNotFound, StillStatedBy, InputError where the workspace cannot be written: then
    nothing is forgotten yet.
    """
    if workspace is None:
        return store.forget(memory_id), ""
    workspace.check()
    forgotten = store.forget(memory_id)
    try:
        workspace.erase(forgotten)
    except OSError as exc:
        return forgotten, f"the workspace still mentions it: {exc.strerror or type(exc).__name__}"
    return forgotten, ""


def _is_curated(memory: Memory) -> bool:
    return memory.importance >= _CURATED_FROM or memory.category in CURATION_CATEGORIES


def _is_entry(line: str, marker: str) -> bool:
    """Whether a line is the entry of a memory; one that only cites it is somebody's own."""
    return line.rstrip().endswith(marker)


def _marker(memory_id: str) -> str:
    return f"[id:{memory_id}]"


def _entry(memory: Memory) -> str:
    """On one line; a marker that somebody typed into a text is no marker."""
    line = one_line(memory.content)
    return f"{line.replace('[id:', _NO_MARKER)} {_marker(memory.id)}"


def _read(path: Path) -> str:
    """Empty where there is no file; bytes that are no UTF-8 come back as they were."""
    try:
        return read_bounded(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "surrogateescape"))
