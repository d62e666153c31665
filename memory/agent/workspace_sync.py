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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import filelock

from memory.errors import InputError
from memory.ledger import DecisionRecord, Ledger
from memory.models import Memory
from memory.runtime import clear_parts, read_bounded, write_whole
from memory.store import Forgotten, ForgottenUser, MemoryStore
from memory.text import one_line, visible

Gone = TypeVar("Gone", bound=Forgotten | ForgottenUser)

CURATION_CATEGORIES = frozenset({"introspection", "relationship", "self_discovery", "lesson"})
_CURATED_FROM = 4
"""A memory of at least this importance is put on the page `MEMORY.md`, whatever its category."""
_MONOLOGUE = "introspection"
_DAILY = "????-??-??.md"
_MARKER = re.compile(r"\[id:(mem_[0-9a-f]{12})\]")
_NO_MARKER = r"[id\:"
"""Text that replaces `[id:` in a memory's text, so that the text contains no marker.

Markdown shows it as `[id:`.
"""
_OPENING = re.compile(r"- \[(?:\d\d:\d\d|\d{4}-\d\d-\d\d)\] ")
"""Matches the time or date with which each entry begins."""
_MARKUP = re.compile(r"(\\*)(<(?=[a-zA-Z/!?])|\](?=[(\[:]))")
"""Matches the `<` of an HTML tag or the `]` of a link, with the backslashes before it."""
_PATIENCE_S = 10.0
"""Seconds that a process waits while another process writes in the workspace."""
_MOST_BYTES = 64_000_000
"""The most bytes of a file; a larger file is not read."""
_REMEDY = "make it a folder that can be written, or change agent.workspace_dir"


class _MonologueNote(NamedTuple):
    """Identifies a monologue without quoting it.

    `id`: the id of the memory. `characters`, `digest`: the length and the SHA-256 digest of the
    text that was written to the monologue file.
    """

    id: str
    characters: int
    digest: str


class WorkspaceMemorySync:
    """Keeps the Markdown files of a workspace folder in step with the store.

    Each public memory has an entry of one line in the log of its day; important memories also have
    one in `MEMORY.md`. Private memories are never written. Several processes may share a folder: a
    file lock orders their writes.
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
            problem = f"the workspace cannot be written: {exc.strerror}"
            raise InputError(self.folder, problem, _REMEDY) from exc

    # --- writing ---

    def sync_memory(self, memory: Memory) -> None:
        """Write a new memory to the files: its entries and, for a monologue, the monologue file.

        A monologue is a memory of the category `introspection`. Nothing is written for a private
        memory.

        Raises: OSError.
        """
        self.refresh(memory)
        if memory.category == _MONOLOGUE and not memory.is_private:
            text = _inert(visible(memory.content)) + "\n"
            with self._locked():
                # A process killed between the two writes leaves the file to the previous monologue.
                note = _MonologueNote(memory.id, len(text), _digest(text))
                self._note_monologues([note, *self._monologue_notes()[:1]])
                _write(self._latest_monologue, text)

    def refresh(self, memory: Memory) -> None:
        """Replace a memory's entries in the logs and in `MEMORY.md` by new ones.

        The new entries have the memory's present text. Missing entries are added. The entries of a
        private memory are only removed. The monologue file is not changed. Create the folder if it
        is missing.

        Raises: OSError.
        """
        if memory.is_private:
            self.remove_memory(memory.id)
            return
        when = memory.timestamp.astimezone()
        entry = f"{_on_one_line(memory.content)} [id:{memory.id}]"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._remove_entries(memory.id)
            daily = self._memory_dir / f"{when:%Y-%m-%d}.md"
            _append(daily, f"# {when:%Y-%m-%d}", f"- [{when:%H:%M}] {entry}")
            if memory.importance >= _CURATED_FROM or memory.category in CURATION_CATEGORIES:
                dated = f"- [{when:%Y-%m-%d}] ({_on_one_line(memory.category)}) {entry}"
                _append(self._curated_memory, "# Memory", dated)

    def remove_memory(self, memory_id: str) -> bool:
        """Remove a memory's entries from the logs and from `MEMORY.md`.

        The monologue file is not changed. Return whether any file was changed.

        Raises: OSError.
        """
        with self._locked():
            return self._remove_entries(memory_id)

    def erase(self, forgotten: Forgotten) -> list[str]:
        """Erase a forgotten memory, and the memories it was made from, from all files.

        Text that people wrote stays. Return messages that name the files in which such text may
        still be about an erased memory; return [] if there are none.

        Raises: OSError.
        """
        memories = (forgotten.memory, *forgotten.origins)
        written = {memory.id for memory in memories if not memory.is_private}
        return self.erase_ids(written) if written else []

    def erase_ids(self, gone: Collection[str]) -> list[str]:
        """Erase the memories with the ids `gone` from all files.

        Lines that people wrote stay, and so does text that people added to an entry. Return
        messages that name the files in which such text may still be about an erased memory; return
        [] if there are none.

        Raises: OSError.
        """
        with self._locked():
            said = [line for path in self._files() for line in self._erase_from(path, gone)]
            return said + self._erase_monologue(gone)

    def erase_forgotten(self, ledger: Ledger) -> None:
        """Erase the entries of all memories that the ledger has recorded as forgotten.

        Such entries remain if a process was killed after it changed the store and before it changed
        the workspace.

        Raises: OSError.
        """
        self.erase_ids(self.forgotten(ledger))

    def forgotten(self, ledger: Ledger) -> set[str]:
        """Return the ids that the workspace files mention and that belong to forgotten memories.

        Raises: OSError.
        """
        texts = (_read(path) for path in self._files())
        named = {name for text in texts for name in _MARKER.findall(text)}
        named |= {note.id for note in self._monologue_notes()}
        with ledger.reading() as reader:
            rows = reader.memories.rows(sorted(named))
        return {name for name, row in rows.items() if row.forgotten}

    def _erase_from(self, path: Path, gone: Collection[str]) -> list[str]:
        before = _read(path)
        if not any(name in gone for name in _MARKER.findall(before)):
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

    def _monologue_notes(self) -> list[_MonologueNote]:
        """Return the notes about the last two monologues, newest first.

        Return [] if the file of notes is missing or not valid.
        """
        try:
            return [
                _MonologueNote(*note) for note in json.loads(_read(self._monologue_note) or "[]")
            ]
        except (ValueError, TypeError):  # no file of ours
            return []

    def _note_monologues(self, notes: Sequence[_MonologueNote]) -> None:
        _write(self._monologue_note, json.dumps(notes))

    def _erase_monologue(self, gone: Collection[str]) -> list[str]:
        """Erase the monologue from its file if it is a memory with one of the ids `gone`.

        Text that a person added after the monologue stays. If a person edited the monologue itself,
        it is no longer recognised, and everything stays. In these two cases return a list with one
        message, otherwise [].
        """
        notes = self._monologue_notes()
        if not any(note.id in gone for note in notes):
            return []
        path, before = self._latest_monologue, _read(self._latest_monologue)
        matching = (note for note in notes if _digest(before[: note.characters]) == note.digest)
        known = next(matching, None)
        said = list[str]()
        if known is None and before.strip():
            said = [f"{path.name} was edited: it may still tell of a forgotten memory"]
        elif known is not None and known.id in gone:
            added = before[known.characters :]
            _write(path, added)
            said = [_added_to(path)] if added.strip() else []
        self._note_monologues([note for note in notes if note.id not in gone])
        return said

    def follow_undo(
        self, recorded: Sequence[DecisionRecord], get: Callable[[str], Memory | None]
    ) -> None:
        """Bring the entries of memories up to date after decisions about them were undone.

        Live memories get entries with their present text; the entries of other memories are
        removed. `recorded`: the undone decisions. A decision is skipped if none of its memories has
        an entry. `get`: called with a memory's id; returns the memory if it is live, else None.

        Raises: OSError.
        """
        for record in recorded:
            involved = (*record.members, *record.created)
            lines = (line for path in self._files() for line in _read(path).split("\n"))
            if not any(_is_entry(line, name) for line in lines for name in involved):
                continue
            for name in involved:
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
        """Hold the lock of the workspace while the block runs, so that no other process writes.

        First delete the unfinished files of killed processes, as they may contain a forgotten
        memory.

        Raises: OSError if another process keeps the lock for `_PATIENCE_S` seconds.
        """
        self._memory_dir.mkdir(exist_ok=True)
        lock = filelock.FileLock(self._memory_dir / ".sync.lock", timeout=_PATIENCE_S)
        try:
            with lock:
                curated = self._curated_memory.resolve()
                clear_parts(curated.with_name(glob.escape(curated.name)))
                for name in (_DAILY, self._latest_monologue.name, self._monologue_note.name):
                    clear_parts(self._memory_dir / name)
                yield
        except filelock.Timeout as exc:
            raise OSError(None, "another process is writing it") from exc


def forget_everywhere(
    store: MemoryStore, workspace: WorkspaceMemorySync | None, forget: Callable[[], Gone]
) -> tuple[Gone, str]:
    """Erase memories from the store by calling `forget`, and then from the workspace.

    `forget` returns what it erased. Return this, and a message: what is left in the workspace, or
    why the workspace could not be written. The message is "" if there is nothing to report, or no
    workspace (`workspace` is None).

    If the process is killed between the two steps, the next call of this function finds the
    forgotten ids in the ledger and erases their entries.
    """
    if workspace is None:
        return forget(), ""
    before = set[str]()
    with contextlib.suppress(OSError):  # reported below
        workspace.erase_forgotten(store.ledger)
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
    """Update the workspace after the decisions `undone` were undone.

    Return "" if the update succeeded, or if there is no workspace (`workspace` is None). If the
    files cannot be written, return the reason.
    """
    if workspace is None:
        return ""
    try:
        workspace.follow_undo(undone, store.get)
    except OSError as exc:  # the store has committed
        return f"the workspace is not up to date: {exc.strerror or type(exc).__name__}"
    return ""


def _added_to(path: Path) -> str:
    return f"an entry of {path.name} had been added to: only what was added stays"


def _is_entry(line: str, memory_id: str) -> bool:
    """Return whether a line is the entry of this memory.

    A person's line that only mentions the memory's id is not an entry.
    """
    first = _MARKER.search(line)
    if first is None or first[1] != memory_id or _OPENING.match(line) is None:
        return False
    return line.rstrip().endswith(first[0])


def _on_one_line(text: str) -> str:
    """Return a text as one line of Markdown in which nothing can be taken for a marker."""
    return _inert(one_line(text)).replace("[id:", _NO_MARKER)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _inert(text: str) -> str:
    """Escape HTML tags and links, so that Markdown shows the text as it was typed."""
    return _MARKUP.sub(lambda found: f"{found[1] * 2}\\{found[2]}", text)


def _read(path: Path) -> str:
    """Return a file's text; "" if there is no file.

    Bytes that are not UTF-8 are kept as surrogates, so that writing the text restores them.

    Raises: OSError.
    """
    try:
        return read_bounded(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _append(path: Path, title: str, line: str) -> None:
    before = _read(path) or f"{title}\n\n"
    _write(path, before + ("" if before.endswith("\n") else "\n") + line + "\n")


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "surrogateescape"))
