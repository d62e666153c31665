"""The place of a store's one collection: a folder of its own, or a Chroma server.

There it is opened, made again and closed. Of the ledger it knows nothing.
"""

from __future__ import annotations

import contextlib

from memory.errors import IndexFault
from memory.search.chroma_client import (
    Holder,
    Rows,
    chroma_faults,
    close_client,
    open_collection,
)
from memory.search.chroma_process import ChromaProcess
from memory.search.folder import IndexFolder


class Place:
    """A collection where it is. Its users see to it that it changes while nobody else uses it."""

    rows: Rows
    """What is in the collection that is here now."""

    def __init__(
        self,
        client: Holder,
        collection: str,
        folder: IndexFolder | None,
        sync_threshold: int | None,
    ) -> None:
        """`folder` is what this process owns of an embedded Chroma; None where a server has it.

        Raises: IndexFault.
        """
        self._client: Holder | None = client
        self._collection = collection
        self._folder = folder
        self._sync_threshold = sync_threshold
        self._faulty = False
        self.open_again()

    @property
    def name(self) -> str:
        """What stays the same when the collection is made again."""
        return self._collection if self._folder is None else str(self._folder.path.absolute())

    @property
    def id(self) -> str:
        """Another one for each collection that was ever here."""
        return str(self.rows.id)

    @property
    def served(self) -> bool:
        return self._folder is None

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open_again(self) -> None:
        """The collection that is here now: somebody may have made it again.

        Raises: IndexFault.
        """
        self.rows = self._opened_by(self._open_client)

    def make_again(self) -> None:
        """With nothing in it, whatever was.

        Chroma's files may hold anything that its process's memory ever held: another one makes
        them again.

        Raises: IndexFault.
        """
        if self._folder is None:
            with chroma_faults():
                self._open_client.delete_collection(self._collection)
        else:
            close_client(self._open_client)
            self._folder.set_aside("damaged")
            self._folder.remove_damaged()
            self._client = ChromaProcess().open(self._folder.path)
        self.open_again()

    def remove_damaged(self) -> None:
        """Delete what was set aside: it holds vectors of memories since forgotten."""
        if self._folder is not None:
            self._folder.remove_damaged()

    def suspect(self) -> None:
        """Something has failed: let the next start look at the folder closely."""
        self._faulty = True

    def close(self) -> None:
        """Close the files as they are; the folder stays this process's."""
        client, self._client = self._client, None
        if client is not None:
            close_client(client)
        if isinstance(client, ChromaProcess) and not client.ended_well:
            self._faulty = True

    def let_go(self) -> None:
        """Close the files as they are, and let another process have the folder."""
        self.close()
        if self._folder is not None:
            if not self._faulty:
                with contextlib.suppress(OSError):  # then the next start looks closer
                    self._folder.closed()
            self._folder.release()

    @property
    def _open_client(self) -> Holder:
        """Raises: IndexFault once it is closed."""
        if self._client is None:
            raise IndexFault("the index is closed")
        return self._client

    def _opened_by(self, client: Holder) -> Rows:
        return open_collection(client, self._collection, self._sync_threshold)
