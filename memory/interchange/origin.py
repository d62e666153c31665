"""How a collection was read: whoever writes back to it reads it the same way."""

from __future__ import annotations

from memory.interchange.foreign import Reading
from memory.ledger import Ledger

_KEY = "read_from:"
"""And the collection's lasting name."""


def note_reading(ledger: Ledger, collection_id: str, reading: Reading) -> None:
    with ledger.writing() as writer:
        writer.set_meta(_KEY + collection_id, reading.model_dump_json())


def noted_reading(ledger: Ledger, collection_id: str) -> Reading | None:
    """None where nothing was ever imported from it."""
    with ledger.reading() as reader:
        noted = reader.meta(_KEY + collection_id)
    return None if noted is None else Reading.model_validate_json(noted)
