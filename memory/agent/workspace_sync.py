"""Public memories as Markdown that people read: a daily log, a curated page, the last monologue.

An entry is one line that ends with the memory's marker, `[id:mem_...]`. Whatever else stands in
these files, and every other file, is left alone.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import filelock

from memory.errors import InputError
from memory.files import read_bounded, write_whole
from memory.ledger import DecisionRecord
from memory.models import Memory
from memory.store import Forgotten, MemoryStore, forget_user
from memory.text import one_line, visible

CURATION_CATEGORIES = frozenset({"introspection", "relationship", "self_discovery", "lesson"})
_CURATED_FROM = 4
"""The importance from which a memory of any category is curated."""
_MONOLOGUE = "introspection"
_DAILY = "????-??-??.md"
_NO_MARKER = r"[id\:"
"""What a marker's beginning becomes inside a text; Markdown shows it as it was typed."""
_OPENING = re.compile(r"- \[(?:\d\d:\d\d|\d{4}-\d\d-\d\d)\] ")
"""How a line that was written as an entry begins."""
_MARKUP = re.compile(r"(\\*)(<(?=[a-zA-Z/!?])|\](?=[(\[:]))")
"""What begins a tag, and what makes a link of the word in brackets before it."""
_PATIENCE_S = 10.0
"""How long a server waits for another one that writes the same workspace."""
_MOST_BYTES = 64_000_000
"""A larger file is not one that people read."""
_REMEDY = "make it a folder that can be written, or change agent.workspace_dir"


class WorkspaceMemorySync:
    """Keeps a workspace folder in step with the memories: one line each, none that is private."""

    def __init__(self, workspace: Path) -> None:
        self.folder = workspace
        self._memory_dir = workspace / "memory"
        self._curated_memory = workspace / "MEMORY.md"
        self._latest_monologue = self._memory_dir / "inner-monologue-latest.md"

    def check(self) -> None:
        """Make the folder where it is missing, and try to write in it.

        Raises: InputError where it cannot be written.
        """
        try:
            self._memory_dir.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, self._memory_dir):
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as exc:
            problem = f"the workspace cannot be written: {exc.strerror}"
            raise InputError(self.folder, problem, _REMEDY) from exc

    # --- writing ---

    def sync_memory(self, memory: Memory) -> None:
        """Write a new memory's entries; nothing of a private one.

        Raises: OSError.
        """
        self.refresh(memory)
        if memory.category == _MONOLOGUE and not memory.is_private:
            with self._only_writer():
                _write(self._latest_monologue, _monologue(memory))

    def refresh(self, memory: Memory) -> None:
        """Write a memory's entries in place of those it had; make the folder if it is missing.

        Raises: OSError.
        """
        if not memory.is_private:
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._only_writer():
            self._remove_entries(memory.id)
            if not memory.is_private:
                self._add_entries(memory)

    def _add_entries(self, memory: Memory) -> None:
        when = memory.timestamp.astimezone()
        daily = self._memory_dir / f"{when:%Y-%m-%d}.md"
        self._append(daily, f"# {when:%Y-%m-%d}", f"- [{when:%H:%M}] {_entry(memory)}")
        if _is_curated(memory):
            entry = f"- [{when:%Y-%m-%d}] ({_on_one_line(memory.category)}) {_entry(memory)}"
            self._append(self._curated_memory, "# Memory", entry)

    def remove_memory(self, memory_id: str) -> bool:
        """Remove all entries of a memory; whether any file was changed.

        Raises: OSError.
        """
        with self._only_writer():
            return self._remove_entries(memory_id)

    def erase(self, forgotten: Forgotten) -> list[str]:
        """Leave nothing of a forgotten memory, and of what it was made from; what to say of that.

        What a person added behind an entry stays; what they wrote about it stays as it is.

        Raises: OSError.
        """
        gone = [one for one in (forgotten.memory, *forgotten.origins) if not one.is_private]
        if not gone:  # nothing private was ever written
            return []
        with self._only_writer():
            said = [line for memory in gone for line in self._erase_one(memory)]
            return said + [line for memory in gone for line in self._erase_monologue(memory)]

    def _erase_monologue(self, memory: Memory) -> list[str]:
        """Only where it is this one: a short text may be part of another's."""
        before = _read(self._latest_monologue)
        for told in (_monologue(memory), memory.content + "\n"):
            if memory.category == _MONOLOGUE and before.startswith(told):
                added = before.removeprefix(told)
                _write(self._latest_monologue, added)
                return [_added_to(self._latest_monologue)] if added.strip() else []
        return []

    def _erase_one(self, memory: Memory) -> list[str]:
        self._remove_entries(memory.id)
        marker, said = _marker(memory.id), []
        for path in self._files():
            before = _read(path)
            if marker not in before:
                continue
            lines = (_without_entry(line, memory) for line in before.split("\n"))
            after = "\n".join(lines)
            if after != before:
                _write(path, after)
                said.append(_added_to(path))
            if marker in after:
                said.append(f"a line of {path.name} that is not an entry still names {memory.id}")
        return said

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
        """Whether the file held an entry with the marker."""
        lines = _read(path).split("\n")
        kept = [line for line in lines if not _is_entry(line, marker)]
        if len(kept) == len(lines):
            return False
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
    """Forget a memory in the store and, as far as it can be written, in the workspace.

    Gives what there is to say of the latter, or an empty text.

    Raises: MemoryNotFound, StillStatedBy.
    """
    forgotten = store.forget(memory_id)
    return forgotten, _erase_in(workspace, [forgotten])


def forget_user_everywhere(
    store: MemoryStore, workspace: WorkspaceMemorySync | None, user: str
) -> tuple[list[Forgotten], str]:
    """The same for all that is about a user."""
    forgotten = forget_user(store.ledger, store.index, user, store.clock())
    return forgotten, _erase_in(workspace, forgotten)


def follow_undo(
    store: MemoryStore, workspace: WorkspaceMemorySync | None, undone: Sequence[DecisionRecord]
) -> str:
    """Where a workspace tells of what was taken back, it tells what is true again.

    Gives what there is to say of that, or an empty text.
    """
    if workspace is None:
        return ""
    try:
        workspace.follow_undo(undone, store.get)
    except OSError as exc:  # the store has committed
        return f"the workspace is not up to date: {exc.strerror or type(exc).__name__}"
    return ""


def _erase_in(workspace: WorkspaceMemorySync | None, forgotten: Sequence[Forgotten]) -> str:
    """What there is to say of the workspace, or an empty text."""
    if workspace is None:
        return ""
    try:
        return "; ".join(line for one in forgotten for line in workspace.erase(one))
    except OSError as exc:
        why = exc.strerror or type(exc).__name__
        return f"the workspace may still mention it: {workspace.folder}: {why}"


def _added_to(path: Path) -> str:
    return f"an entry of {path.name} had been added to: only what was added stays"


def _is_curated(memory: Memory) -> bool:
    return memory.importance >= _CURATED_FROM or memory.category in CURATION_CATEGORIES


def _is_entry(line: str, marker: str) -> bool:
    """Whether a line is the entry of a memory; one that only cites it is somebody's own."""
    return line.rstrip().endswith(marker)


def _without_entry(line: str, memory: Memory) -> str:
    """Return what a person wrote behind an entry; where they edited its text, that goes too."""
    entry, marker = _entry(memory), _marker(memory.id)
    if entry in line:
        return line.replace(f"{entry} ", "").replace(entry, "")
    opening = _OPENING.match(line)
    if opening is None or marker not in line:
        return line
    return opening[0] + line.partition(marker)[2].lstrip()


def _marker(memory_id: str) -> str:
    return f"[id:{memory_id}]"


def _entry(memory: Memory) -> str:
    return f"{_on_one_line(memory.content)} {_marker(memory.id)}"


def _on_one_line(text: str) -> str:
    """A marker that somebody typed into a text is no marker."""
    return _inert(one_line(text)).replace("[id:", _NO_MARKER)


def _monologue(memory: Memory) -> str:
    return _inert(visible(memory.content)) + "\n"


def _inert(text: str) -> str:
    """As Markdown that shows the text as it was typed: no HTML, and links that lead nowhere."""
    return _MARKUP.sub(lambda found: f"{found[1] * 2}\\{found[2]}", text)


def _read(path: Path) -> str:
    """Empty where there is no file; bytes that are no UTF-8 come back as they were."""
    try:
        return read_bounded(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "surrogateescape"))
