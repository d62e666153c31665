"""The tools as clients see them; to list them, nothing of the store is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from memory.agent import schemas


@dataclass(frozen=True)
class Tool:
    """One tool as a client sees it; it runs the method of `AgentTools` of its name."""

    name: str
    description: str
    arguments: type[schemas.Arguments]
    answer: type[BaseModel]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


SURFACE_TOOLS = (
    Tool(
        "remember",
        "Save a memory. Blocked where a very similar one exists: then correct that one with "
        "replaces, or save all the same with force.",
        schemas.Remember,
        schemas.Remembered,
    ),
    Tool(
        "recall",
        "Search memories by meaning; filter by emotion, category or time.",
        schemas.Recall,
        schemas.Recalled,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "introspect",
        "See recent memories and what is still open, and reflect on them.",
        schemas.Introspect,
        schemas.Introspected,
        read_only=True,
        idempotent=True,
    ),
)
BACKEND_TOOLS = (
    Tool(
        "consolidate",
        "Replay and link recent memories, and propose pairs that may be one. Merges nothing.",
        schemas.Consolidate,
        schemas.Consolidated,
    ),
    Tool(
        "forget",
        "Delete a memory by ID. Returns the deleted memory's summary for confirmation.",
        schemas.Forget,
        schemas.Forgot,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "link_memories",
        "Link two memories, both ways. A link that is there takes the new type and note.",
        schemas.LinkMemories,
        schemas.Linked,
        idempotent=True,
    ),
    Tool(
        "merge_memories",
        "Make one memory of two: one is kept, with merged_content where given; the other is "
        "retired in its favour. Can be undone by a person.",
        schemas.MergeMemories,
        schemas.Merged,
        destructive=True,
    ),
    Tool(
        "create_episode",
        "Tie memories together as one episode.",
        schemas.CreateEpisode,
        schemas.EpisodeTold,
    ),
    Tool(
        "get_episode",
        "See an episode and those of its memories that still exist.",
        schemas.GetEpisode,
        schemas.EpisodeTold,
        read_only=True,
        idempotent=True,
    ),
)
TOOLS = (*SURFACE_TOOLS, *BACKEND_TOOLS)
