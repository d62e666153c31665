"""A copy of the public memories as Markdown files in a workspace folder, for people to read.

There is a log for each day, and a page of the important memories (`MEMORY.md`). A third file has
the latest monologue, which is a memory of the category `introspection`. In the logs and on the
page, each memory has an entry: one line that ends with the memory's marker, `[id:mem_...]`. Other
lines and other files belong to people and are left alone.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import filelock

from memory import Config, MemoryStore
from memory.assembly import DecisionRecord, Forgotten, ForgottenUser, Ledger
from memory.errors import InputError
from memory.models import Memory
from memory.runtime import clear_parts, own_lock, read_bounded, write_whole
from memory.text import one_line, visible

Gone = TypeVar("Gone", bound=Forgotten | ForgottenUser)

CURATION_CATEGORIES = frozenset({"introspection", "relationship", "self_discovery", "lesson"})
_CURATED_IMPORTANCE = 4
_MONOLOGUE = "introspection"
_DAILY = "????-??-??.md"
_MARKER = re.compile(r"\[id:(mem_[0-9a-f]{12})\]")

_OPENING = re.compile(r"- \[(?:\d\d:\d\d|\d{4}-\d\d-\d\d)\] ")
_MARKUP = re.compile(r"(?<!\\)(\\*+)(<(?=[a-zA-Z/!?])|\](?=[(\[:]))")
"""Matches the `<` of an HTML tag, and the `]` that ends the text of a Markdown link.

Backslashes right before either character belong to the match.
"""
_PATIENCE_S = 10.0
_WORKSPACE = "workspace"
_MOST_BYTES = 64_000_000
_REMEDY = "make it a folder that can be written, or change agent.workspace_dir"


class _MonologueNote(NamedTuple):
    id: str
    characters: int
    digest: str


class WorkspaceMemorySync:
    """Keeps the Markdown files of a workspace folder in step with the store.

    Private memories are never written. Several processes may share a folder: a file lock orders
    their writes. Methods that read or write files raise OSError.
    """

    def __init__(self, workspace: Path) -> None:
        self.folder = workspace
        self._memory_dir = workspace / "memory"
        self._curated_memory = workspace / "MEMORY.md"
        self._latest_monologue = self._memory_dir / "inner-monologue-latest.md"
        self._monologue_note = self._memory_dir / ".inner-monologue-latest.json"

    def check(self) -> None:
        """Create the folder if it is missing, and check that files can be written in it.

        Raises: InputError if no file can be written.
        """
        try:
            self._memory_dir.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, self._memory_dir):
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as exc:
            raise InputError(
                self.folder, f"the workspace cannot be written: {exc.strerror}", _REMEDY
            ) from exc

    # --- writing ---

    def sync_memory(self, memory: Memory) -> None:
        """Write a new memory's entries; for an introspection, also the monologue file."""
        self.refresh(memory)
        if memory.category == _MONOLOGUE and not memory.is_private:
            text = _inert(visible(memory.content)) + "\n"
            with self._locked():
                _write(self._latest_monologue, "")  # the note of a killed process names no text
                _write(self._monologue_note, json.dumps([(memory.id, len(text), _digest(text))]))
                _write(self._latest_monologue, text)

    def refresh(self, memory: Memory) -> None:
        """Replace a memory's entries by entries with its present text; add missing ones.

        The entries of a private memory are removed. The monologue file is not changed.
        """
        if memory.is_private:
            self.remove_memory(memory.id)
            return
        when = memory.timestamp.astimezone()
        day = when.date().isoformat()  # "%Y" has no four digits before the year 1000
        entry = f"{_on_one_line(memory.content)} [id:{memory.id}]"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._remove_entries(memory.id)
            daily = self._memory_dir / f"{day}.md"
            _append(daily, f"# {day}", f"- [{when:%H:%M}] {entry}")
            if memory.importance >= _CURATED_IMPORTANCE or memory.category in CURATION_CATEGORIES:
                _append(
                    self._curated_memory,
                    "# Memory",
                    f"- [{day}] ({_on_one_line(memory.category)}) {entry}",
                )

    def remove_memory(self, memory_id: str) -> bool:
        """Remove a memory's entries; return whether any file was changed."""
        with self._locked():
            return self._remove_entries(memory_id)

    def erase(self, forgotten: Forgotten) -> list[str]:
        memories = (forgotten.memory, *forgotten.origins)
        written = {memory.id for memory in memories if not memory.is_private}
        return self.erase_ids(written) if written else []

    def erase_ids(self, gone: Set[str]) -> list[str]:
        """Erase memories from all files. Text that people wrote stays.

        Return messages about the files in which a person's text may still tell of an erased memory.
        """
        with self._locked():
            said = [line for path in self._files() for line in self._erase_from(path, gone)]
            return said + self._erase_monologue(gone)

    def forgotten(self, ledger: Ledger) -> set[str]:
        """Return the ids of the forgotten memories that the files still mention."""
        named = {name for path in self._files() for name in _MARKER.findall(_read(path))}
        if note := self._read_note():
            named.add(note.id)
        with ledger.reading() as reader:
            rows = reader.memories.rows(sorted(named))
        return {name for name, row in rows.items() if row.forgotten}

    def _erase_from(self, path: Path, gone: Set[str]) -> list[str]:
        before = _read(path)
        if gone.isdisjoint(_MARKER.findall(before)):
            return []
        kept, added = list[str](), False
        for line in before.split("\n"):
            first = _MARKER.search(line)
            if first is None or first[1] not in gone:
                kept.append(line)
            elif not _is_entry(line, first[1]):
                if opening := _OPENING.match(line):  # an entry: keep what a person wrote at its end
                    line = opening[0] + line.partition(first[0])[2].lstrip()
                    added = True
                kept.append(line)
        after = "\n".join(kept)
        if after != before:
            _write(path, after)
        left = dict.fromkeys(name for name in _MARKER.findall(after) if name in gone)
        said = [f"a line of {path.name} that is not an entry still names {name}" for name in left]
        return [_added_to(path), *said] if added else said

    # --- the latest monologue, and whose it is ---

    def _read_note(self) -> _MonologueNote | None:
        try:
            note, *_ = json.loads(_read(self._monologue_note) or "[]")
            return _MonologueNote(*note)
        except (ValueError, TypeError):  # there is no note, or it is no file of ours
            return None

    def _erase_monologue(self, gone: Set[str]) -> list[str]:
        note = self._read_note()
        if note is None or note.id not in gone:
            return []
        path, said = self._latest_monologue, list[str]()
        before = _read(path)
        if _digest(before[: note.characters]) == note.digest:
            added = before[note.characters :]
            _write(path, added)
            said = [_added_to(path)] if added.strip() else []
        elif before.strip():
            said = [f"{path.name} was edited: it may still tell of a forgotten memory"]
        _write(self._monologue_note, "[]")
        return said

    def follow_undo(
        self, recorded: Sequence[DecisionRecord], get: Callable[[str], Memory | None]
    ) -> None:
        """Bring entries up to date after the decisions `recorded` were undone.

        A decision is skipped if none of its memories has an entry. `get` takes an id and returns
        the live memory with this id, or None if there is none.
        """
        for record in recorded:
            involved = (*record.members, *record.created)
            lines = (line for path in self._files() for line in _read(path).split("\n"))
            shown = any(_is_entry(line, name) for line in lines for name in involved)
            for name in involved if shown else ():
                memory = get(name)
                if memory is None:
                    self.remove_memory(name)
                else:
                    self.refresh(memory)

    def _files(self) -> list[Path]:
        return [*sorted(self._memory_dir.glob(_DAILY)), self._curated_memory]

    def _remove_entries(self, memory_id: str) -> bool:
        changed = False
        for path in self._files():
            lines = _read(path).split("\n")
            kept = [line for line in lines if not _is_entry(line, memory_id)]
            if len(kept) < len(lines):
                _write(path, "\n".join(kept))
                changed = True
        return changed

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the workspace while the block runs.

        First delete the unfinished files of killed processes, which may contain a forgotten memory.
        """
        self._memory_dir.mkdir(exist_ok=True)
        try:
            with own_lock(self._memory_dir / ".sync.lock", _PATIENCE_S):
                curated = self._curated_memory.resolve()
                clear_parts(curated.with_name(glob.escape(curated.name)))
                for name in (_DAILY, self._latest_monologue.name, self._monologue_note.name):
                    clear_parts(self._memory_dir / name)
                yield
        except filelock.Timeout as exc:
            raise OSError(None, "another process is writing it") from exc


def build_workspace(config: Config, ledger: Ledger | None = None) -> WorkspaceMemorySync | None:
    """Return the object that keeps Markdown copies of memories; None if no folder is known.

    If no folder is configured, use the folder that `keep_workspace` recorded in `ledger`.
    """
    folder = config.agent.workspace_dir
    if folder is None and ledger is not None:
        with ledger.reading() as reader:
            folder = reader.meta(_WORKSPACE)
    return None if folder is None else WorkspaceMemorySync(Path(folder))


def keep_workspace(config: Config, ledger: Ledger) -> None:
    """Record the configured folder of Markdown copies in the ledger, so that all commands find it.

    Also erase leftover copies of forgotten memories from the folder. Copies are left over if a
    process was killed after it erased memories from the store.
    """
    if config.agent.workspace_dir is not None:
        with ledger.writing() as writer:
            writer.set_meta(_WORKSPACE, config.agent.workspace_dir)
    workspace = build_workspace(config, ledger)
    if workspace is not None:
        with contextlib.suppress(OSError):  # the next write to the folder reports the error
            workspace.erase_ids(workspace.forgotten(ledger))


def forget_everywhere(
    store: MemoryStore, workspace: WorkspaceMemorySync | None, forget: Callable[[], Gone]
) -> tuple[Gone, str]:
    """Erase memories from the store by calling `forget`, then from the files of the workspace.

    Return the result of `forget`, and a message: it says where the files may still mention the
    memories, or is "". If the process is killed before the files are changed, the next call of this
    function also erases these memories from the files.
    """
    if workspace is None:
        return forget(), ""
    before = set[str]()
    with contextlib.suppress(OSError):  # reported below
        workspace.erase_ids(workspace.forgotten(store.ledger))
        before = workspace.forgotten(store.ledger)  # in lines that people wrote
    done = forget()
    try:
        said = workspace.erase_ids(workspace.forgotten(store.ledger) - before)
    except OSError as exc:
        why = exc.strerror or type(exc).__name__
        said = [f"the workspace may still mention it: {workspace.folder}: {why}"]
    if isinstance(done, Forgotten) and all(
        memory.is_private for memory in (done.memory, *done.origins)
    ):
        said = []  # it was never written there
    return done, "; ".join(said)


def follow_undo(
    store: MemoryStore, workspace: WorkspaceMemorySync | None, undone: Sequence[DecisionRecord]
) -> str:
    """Update the workspace after decisions were undone; return why this failed, or ""."""
    try:
        if workspace is not None:
            workspace.follow_undo(undone, store.get)
    except OSError as exc:  # the store has committed
        return f"the workspace is not up to date: {exc.strerror or type(exc).__name__}"
    return ""


def _added_to(path: Path) -> str:
    return f"an entry of {path.name} had been added to: only what was added stays"


def _is_entry(line: str, memory_id: str) -> bool:
    """Return whether a line is the memory's entry, not a person's line that mentions the memory."""
    first = _MARKER.search(line)
    is_own = first is not None and first[1] == memory_id and line.rstrip().endswith(first[0])
    return is_own and _OPENING.match(line) is not None


def _on_one_line(text: str) -> str:
    return _inert(one_line(text)).replace("[id:", r"[id\:")  # Markdown shows it as it was


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _inert(text: str) -> str:
    return _MARKUP.sub(lambda found: f"{found[1] * 2}\\{found[2]}", text)


def _read(path: Path) -> str:
    """Return a file's text; empty if there is none. Bytes that are not UTF-8 are kept."""
    try:
        return read_bounded(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _append(path: Path, title: str, line: str) -> None:
    before = _read(path) or f"{title}\n\n"
    _write(path, before + ("" if before.endswith("\n") else "\n") + line + "\n")


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "surrogateescape"))
