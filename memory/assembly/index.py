"""The index of a store: Chroma, or exact search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory.assembly.access import chroma_headers

if TYPE_CHECKING:
    from memory.config import Config
    from memory.ledger import Ledger
    from memory.protocols import Index
    from memory.search import Following


def open_index(ledger: Ledger, config: Config, following: Following | None) -> Index | None:
    """Chroma, embedded or served; None, exact search, where another process owns the embedded."""
    from memory.search import ChromaIndex, ChromaServer, Following

    following = following or Following()
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
        return ChromaIndex.served(server, ledger, ledger.store_id(), following)
    folder = Path(config.memory.data_dir) / "chroma"
    return ChromaIndex.embedded(folder, ledger, following)
