"""Memory for chatbots and agents that does not fill up with near-copies and never loses a fact.

The public names are loaded when first used, so that `--help` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory.deduplicator import MemoryDeduplicator
    from memory.errors import MemoryPipelineError
    from memory.extractor import MemoryExtractor
    from memory.models import DeduplicationReport, Memory, MemoryLink, SearchResult, Turn
    from memory.store import MemoryStore

__version__ = "0.1.0"

_HOME = {
    "DeduplicationReport": "memory.models",
    "Memory": "memory.models",
    "MemoryDeduplicator": "memory.deduplicator",
    "MemoryExtractor": "memory.extractor",
    "MemoryLink": "memory.models",
    "MemoryPipelineError": "memory.errors",
    "MemoryStore": "memory.store",
    "SearchResult": "memory.models",
    "Turn": "memory.models",
}

__all__ = [
    "DeduplicationReport",
    "Memory",
    "MemoryDeduplicator",
    "MemoryExtractor",
    "MemoryLink",
    "MemoryPipelineError",
    "MemoryStore",
    "SearchResult",
    "Turn",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'memory' has no attribute {name!r}")
