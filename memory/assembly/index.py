"""The approximate index of a store: Chroma, embedded or a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory.assembly.access import chroma_headers

if TYPE_CHECKING:
    from memory.config import Config
    from memory.ledger import Ledger
    from memory.protocols import VectorIndex


def open_index(ledger: Ledger, config: Config) -> VectorIndex:
    """Open the configured index, for users whose vectors do not fit into memory.

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
    folder = chroma_folder(config)
    with ledger.reading() as reader:
        is_ours = str(folder.absolute()) in reader.followers.places()
    return EmbeddedChroma(folder, is_ours=is_ours)


def chroma_folder(config: Config) -> Path:
    """Where an embedded Chroma is, once it is needed."""
    return Path(config.memory.data_dir) / "chroma"
