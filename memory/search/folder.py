"""The folder of an embedded index: whose it is, whether it was closed whole, and setting it aside.

Chroma is not crash-safe: a kill while it rewrites its files leaves a collection that never opens
again, or one that ends the whole process with a segmentation fault. So a folder that is not
provably as it was closed is looked at by a process of its own first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import filelock

from memory import files
from memory.errors import IndexFault
from memory.search.probe import PROBE_CODE, STARTED, alone_at, bare_environment, python_that

_PROBE_S = 120
"""How long looking at a folder may take before it counts as damaged."""
_RECORD_BYTES = 1_000_000
"""More than any record of ours: a larger one is somebody else's."""


class IndexFolder:
    """A folder that one process owns at a time; the lock ends with the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record = path.with_suffix(".closed")
        self._lock = files.own_lock(path.with_suffix(".lock"))

    def acquire(self) -> bool:
        """Whether this process owns the folder now.

        Raises: IndexFault where no lock can be made there.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            return False
        except OSError as exc:
            raise IndexFault(f"{self.path} cannot be locked: {exc.strerror}") from exc
        return True

    def release(self) -> None:
        self._lock.release()

    def closed_whole(self) -> bool:
        """Whether every file is as it was when the index was last closed; true of no folder."""
        if not self.path.exists():
            return True
        try:
            recorded = json.loads(files.read_bounded(self._record, _RECORD_BYTES))
        except (OSError, ValueError):
            return False
        return bool(recorded == self._files())

    def opened(self) -> None:
        """From here on, only `closed` makes the folder whole again."""
        self._record.unlink(missing_ok=True)

    def closed(self) -> None:
        """The index has let go of its files: note how they are."""
        files.write_whole(self._record, json.dumps(self._files()).encode())

    def damage(self) -> str:
        """What is wrong with the folder, seen by a process of its own; empty where nothing is.

        Raises: IndexFault where that process did not get as far as looking.
        """
        with alone_at(self.path):
            missing = self._missing()
        return missing or self._seen_by_another()

    def _missing(self) -> str:
        if not (self.path / "chroma.sqlite3").exists():
            return "chroma.sqlite3 is missing"
        for links in self.path.glob("*/link_lists.bin"):
            linked = links.with_name("data_level0.bin")
            if not linked.exists():
                return f"{linked.name} is missing"
            if links.stat().st_size > max(linked.stat().st_size, 1):
                return f"{links.name} is larger than what it links"
        return ""

    def _seen_by_another(self) -> str:
        command = python_that(PROBE_CODE, str(self.path.absolute()))
        try:
            seen = subprocess.run(  # noqa: S603 - our own code
                command,
                capture_output=True,
                text=True,
                timeout=_PROBE_S,
                check=False,
                env=bare_environment(),
            )
        except subprocess.TimeoutExpired:
            return f"it did not open within {_PROBE_S} s"
        except OSError as exc:
            raise IndexFault(f"{self.path} could not be looked at: {exc.strerror}") from exc
        said = seen.stdout.splitlines()
        if STARTED not in said:
            why = (seen.stderr.strip().splitlines() or [f"exit code {seen.returncode}"])[-1]
            raise IndexFault(f"{self.path} could not be looked at: {why}")
        if seen.returncode < 0:
            return f"opening it ended the process with signal {-seen.returncode}"
        return said[-1] if seen.returncode else ""

    def set_aside(self, kind: str) -> Path:
        """Rename the folder, to `NAME.KIND-1` or the next free number."""
        try:
            return files.set_aside(self.path, kind)
        except OSError as exc:
            raise IndexFault(f"{self.path} cannot be set aside: {exc.strerror}") from exc

    def remove_damaged(self) -> None:
        """Delete what was set aside as damaged: it holds vectors of memories since forgotten."""
        for aside in files.all_set_aside(self.path, "damaged"):
            if aside.is_dir():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.unlink(missing_ok=True)

    def _files(self) -> dict[str, list[int]]:
        found = {}
        for folder, _, names in os.walk(self.path):
            for name in names:
                file = Path(folder) / name
                state = file.stat()
                found[str(file.relative_to(self.path))] = [state.st_size, state.st_mtime_ns]
        return found
