from .chroma import read_collection as read_collection
from .jsonl import from_chroma_row as from_chroma_row
from .jsonl import read_memories as read_memories
from .jsonl import read_objects as read_objects
from .jsonl import to_memory as to_memory
from .jsonl import to_turn as to_turn
from .jsonl import with_links_resolved as with_links_resolved
from .jsonl import write_memory as write_memory
