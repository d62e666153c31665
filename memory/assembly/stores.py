"""Open, make, upgrade or read a store, or its ledger alone."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memory.assembly.providers import build_embedder, build_scale, chroma_headers
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
    """Open the store at the configured place; make it where there is none.

    `embedder` replaces the configured one. `index` opens an index in place of Chroma, for users
    whose vectors do not fit into `memory.search.vectors_mb`.

    Raises: LedgerError, EmbedderMismatch.
    """
    opener = index or (lambda ledger: _open_index(ledger, config))
    store = _store(open_ledger(config), config, opener, embedder)
    try:
        with store.ledger.reading() as reader:
            store.embeddings.check(reader)
        store.scrub()  # clear what a crash or another process left of forgotten memories
    except BaseException:  # Ctrl-C too must not leave the ledger open
        store.close()
        raise
    return store


def open_existing_store(config: Config) -> MemoryStore:
    """Open the store if there is one; make nothing.

    Raises: LedgerMissing, LedgerError, EmbedderMismatch.
    """
    open_existing_ledger(config).close()
    return open_store(config)


def read_store(config: Config) -> MemoryStore:
    """Open the existing store for reading only: nothing on disk changes, Chroma stays closed.

    Raises: LedgerMissing, LedgerOutdated, LedgerError, EmbedderMismatch.
    """
    from memory.ledger import Ledger

    return _store(Ledger.open(config.memory.effective_ledger_url), config, open_index=None)


@contextlib.contextmanager
def open_to_examine(config: Config) -> Iterator[tuple[MemoryStore, str]]:
    """Yield the store, its record unchanged, and what limits it (empty if nothing does).

    An older ledger is read as an upgraded copy, which is deleted afterwards; a ledger that cannot
    be written is opened for reading only.

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
    """Open or make the ledger alone, whatever its embedder; upgrade an older one first.

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
    """Open the ledger if there is one; make nothing.

    Raises: LedgerMissing, LedgerError.
    """
    with contextlib.suppress(LedgerOutdated):
        read_ledger(config).close()
    return open_ledger(config)


def upgrade_ledger(config: Config) -> Path | None:
    """Upgrade the ledger; return the path of the old one's copy, None if it is of this version.

    Raises: LedgerMissing, LedgerError.
    """
    from memory.ledger import Ledger

    return Ledger.upgrade(config.memory.effective_ledger_url, Path(config.memory.data_dir))


def read_ledger(config: Config) -> Ledger:
    """Open the existing ledger alone, for reading only.

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
    from memory.providers import OwnEmbedder
    from memory.store import MemoryStore

    try:
        embedder = OwnEmbedder(own) if own is not None else build_embedder(config)
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


def _open_index(ledger: Ledger, config: Config) -> VectorIndex:
    """Open Chroma, for users whose vectors do not fit into memory.

    Raises: IndexFault where another process has the folder, or no server answers.
    """
    from memory.search import ChromaServer, EmbeddedChroma, ServedChroma

    chroma = config.memory.chroma
    if chroma.host is not None:
        server = ChromaServer(
            host=chroma.host,
            port=chroma.port,
            ssl=chroma.ssl,
            tenant=chroma.tenant,
            database=chroma.database,
            headers=chroma_headers(),
        )
        return ServedChroma(server, ledger.store_id())
    return EmbeddedChroma(Path(config.memory.data_dir) / "chroma")
