from .chroma import read_collection as read_collection
from .jsonl import (
    from_chroma_row as from_chroma_row,
    read_memories as read_memories,
    read_objects as read_objects,
    to_memory as to_memory,
    to_turn as to_turn,
    with_links_resolved as with_links_resolved,
    write_memory as write_memory,
)
