"""A store, or its ledger alone: opened, made, upgraded, or only read."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memory.assembly.embedders import build_embedder, build_scale, own_embedder
from memory.assembly.index import open_index
from memory.errors import LedgerError, LedgerOutdated

if TYPE_CHECKING:
    from memory.config import Config
    from memory.ledger import Ledger
    from memory.protocols import Embedder, VectorIndex
    from memory.store import MemoryStore

logger = logging.getLogger(__name__)


def open_store(
    config: Config,
    embedder: Embedder | None = None,
    index: Callable[[Ledger], VectorIndex] | None = None,
) -> MemoryStore:
    """The store at the configured place, made where there is none.

    `embedder` is one's own, else the configured one. `index` opens one's own index for users whose
    vectors do not fit into `memory.search.vectors_mb`, else Chroma does.

    Raises: LedgerError, EmbedderMismatch.
    """
    own = own_embedder(embedder) if embedder is not None else None
    opener = index or (lambda ledger: open_index(ledger, config))
    store = _store(open_ledger(config), config, opener, own)
    try:
        with store.ledger.reading() as reader:
            store.embeddings.check(reader)
        store.scrub()  # what a crash, or another process, left of the forgotten
    except BaseException:  # Ctrl-C too must not leave the ledger open
        store.close()
        raise
    return store


def open_existing_store(config: Config) -> MemoryStore:
    """The same where there is one; nothing is made.

    Raises: LedgerMissing, LedgerError, EmbedderMismatch.
    """
    open_existing_ledger(config).close()
    return open_store(config)


def read_store(config: Config) -> MemoryStore:
    """The existing store for reading only: nothing on disk changes, Chroma stays closed.

    Raises: LedgerMissing, LedgerOutdated, LedgerError, EmbedderMismatch.
    """
    from memory.ledger import Ledger

    return _store(Ledger.open(config.memory.effective_ledger_url), config, open_index=None)


@contextlib.contextmanager
def open_to_examine(config: Config) -> Iterator[tuple[MemoryStore, str]]:
    """Open the store without changing its record, and say how far it could be opened.

    An older ledger is read as an upgraded copy, which is gone afterwards; one that cannot be
    written, for reading only. The text is empty where neither was needed.

    Raises: LedgerMissing, LedgerError.
    """
    from memory.ledger import Ledger

    try:
        read_ledger(config).close()
    except LedgerOutdated as exc:
        with tempfile.TemporaryDirectory(prefix="memory-doctor-") as folder:
            url = config.memory.effective_ledger_url
            copy = Ledger.upgraded_copy(url, Path(folder) / "ledger.db")
            with _store(copy, config, open_index=None) as store:
                yield store, str(exc)
        return
    try:
        store = open_store(config)
    except LedgerError as exc:
        with read_store(config) as store:
            yield store, f"it can only be read: {exc}"
        return
    with store:
        yield store, ""


def open_ledger(config: Config) -> Ledger:
    """The ledger alone, whatever embedder it was made with; an older one is upgraded first.

    Raises: LedgerError.
    """
    from memory.ledger import Ledger

    url = config.memory.effective_ledger_url
    try:
        return Ledger.create(url)
    except LedgerOutdated:
        copy = upgrade_ledger(config)
        logger.warning("the ledger was upgraded; as it was before, it is kept in %s", copy)
        return Ledger.create(url)


def open_existing_ledger(config: Config) -> Ledger:
    """The same where there is one; nothing is made.

    Raises: LedgerMissing, LedgerError.
    """
    with contextlib.suppress(LedgerOutdated):
        read_ledger(config).close()
    return open_ledger(config)


def upgrade_ledger(config: Config) -> Path | None:
    """Bring the ledger to this version; gives the copy of it as it was, None where it is already.

    Raises: LedgerMissing, LedgerError.
    """
    from memory.ledger import Ledger

    return Ledger.upgrade(config.memory.effective_ledger_url, Path(config.memory.data_dir))


def read_ledger(config: Config) -> Ledger:
    """The existing ledger alone, for reading only.

    Raises: LedgerMissing, LedgerOutdated, LedgerError.
    """
    from memory.ledger import Ledger

    return Ledger.open(config.memory.effective_ledger_url)


def _store(
    ledger: Ledger,
    config: Config,
    open_index: Callable[[Ledger], VectorIndex] | None,
    own: Embedder | None = None,
) -> MemoryStore:
    from memory.store import MemoryStore

    try:
        embedder = own or build_embedder(config)
        return MemoryStore(
            ledger,
            embedder,
            open_index,
            index_at_once=config.memory.chroma.host is not None,
            vectors_mb=config.memory.search.vectors_mb,
            scope_fields=config.memory.dedup_scope,
            hybrid=config.memory.search.hybrid,
            scale=build_scale(config, embedder),
        )
    except BaseException:  # Ctrl-C too must not leave the ledger open
        ledger.close()
        raise
