"""Back up a ledger into one file while others use it, and restore it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from memory.errors import InputError, LedgerDamaged, LedgerError, LedgerMissing, LedgerOutdated
from memory.ledger import UPGRADE_COPIES, Ledger, set_aside
from memory.runtime import replacing_alone, temporary_folder

_NOT_COPIED = ("store_id", UPGRADE_COPIES)
"""Facts that a restored ledger must not have: it is a store with an index of its own."""


def back_up(ledger: Ledger, file: Path) -> int:
    """Write one committed state of a ledger into a new file; return the number of live memories.

    The file is a ledger too, with retired memories and decisions. It is whole or not there at all.

    Raises: InputError if the file exists or cannot be written, LedgerError.
    """
    try:
        if file.is_dir():
            raise InputError(file, "is a folder", "name a new file")
        if file.exists():
            raise InputError(file, "exists already", "name a new file")
        if not file.absolute().parent.is_dir():
            raise InputError(
                file, "cannot be written: its folder does not exist", "create the folder"
            )
        with replacing_alone(file) as part, Ledger.create(f"sqlite:///{part}") as copy:
            _copy(ledger, copy)
            with copy.reading() as reader:
                return reader.counts().live
    except OSError as exc:
        raise InputError(file, f"cannot be written: {exc.strerror}") from exc


def restore(file: Path, url: str) -> int:
    """Restore a backup as the ledger at the URL; return the number of live memories.

    A damaged ledger there is renamed; one that holds memories is an error. A backup of an earlier
    version is upgraded in a copy.

    Raises: InputError if the file is no backup, LedgerError.
    """
    with (
        temporary_folder() as folder,  # the backup's folder may be read-only
        _opened(file, folder) as backup,
        _empty_ledger(url, file.parent) as ledger,
    ):
        _copy(backup, ledger)
        with ledger.reading() as reader:
            return reader.counts().live


def _opened(file: Path, folder: Path) -> Ledger:
    url = f"sqlite:///{file}"
    try:
        with contextlib.suppress(LedgerOutdated):
            return Ledger.open(url, untouched=True)
        return Ledger.upgraded_copy(url, folder / "ledger.db", untouched=True)
    except LedgerError as exc:
        remedy = f"name a file that `memory-dedup backup` wrote ({exc.problem})"
        raise InputError(file, "is not a backup of a ledger", remedy) from exc


def _empty_ledger(url: str, folder: Path) -> Ledger:
    try:
        with contextlib.suppress(LedgerMissing):
            Ledger.upgrade(url, folder)  # so that a damaged older one can be replaced
        ledger = Ledger.create(url)
        held = _held(ledger)
    except LedgerDamaged:
        set_aside(url)
        return Ledger.create(url)
    if held:
        ledger.close()
        raise LedgerError(
            f"{ledger.name} holds {held} already",
            "move it away, or set memory.data_dir to an empty folder",
        )
    return ledger


def _held(ledger: Ledger) -> str:
    """Return what a ledger holds, as a phrase; empty for a new one.

    Raises: LedgerDamaged, after closing the ledger.
    """
    try:
        if found := ledger.problems():
            raise LedgerDamaged(f"{ledger.name} is damaged: {found[0]}")
        with ledger.reading() as reader:
            counts = reader.counts()
    except LedgerDamaged:
        ledger.close()
        raise
    if not (counts.live or counts.retired or counts.decisions or counts.turns):
        return ""
    return f"{counts.live:,} memories"


def _copy(source: Ledger, target: Ledger) -> None:
    with source.reading() as reader, target.writing() as writer:
        for table, rows in reader.dump():
            writer.load(table, rows)
        for key in _NOT_COPIED:
            writer.drop_meta(key)
