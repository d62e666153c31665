"""The agent's tools as MCP clients see them: descriptions, arguments and answers.

Importing this file does not load the store, so the tools can be listed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from memory.models import MAX_CONTENT, MAX_NAME, Bounded, LinkType, Memory, SearchResult

Emotion = Literal[
    "happy", "sad", "surprised", "moved", "excited", "nostalgic", "curious", "neutral",
    "melancholy", "anxious", "contentment", "frustrated", "calm", "contemplative", "thoughtful",
    "grateful", "vulnerable", "anger", "fear", "love",
]  # fmt: skip
Category = Literal[
    "daily", "philosophical", "technical", "memory", "observation", "feeling", "conversation",
    "introspection", "relationship", "self_discovery", "dream", "lesson",
    "fact", "opinion", "interaction", "event",
]  # fmt: skip
Id = Annotated[str, Field(min_length=1, max_length=100)]
Moment = Annotated[str, Field(max_length=40)]
_KNOWN_WORD = WithJsonSchema({"type": "string"})
"""Makes clients see an argument as any string, although it must be one of certain words.

The list of the allowed words is long. Clients already see it in the schema of `remember`.
"""
_NOT_SHOWN = {"title", "minLength", "maxLength", "minItems", "maxItems"}
"""JSON schema keywords that clients do not see, to save tokens; they are enforced all the same."""


class Arguments(Bounded):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Remember(Arguments):
    content: str = Field(min_length=1, description="What to remember, in your own words.")
    emotion: Emotion = "neutral"
    importance: int = Field(default=3, ge=1, le=5)
    category: Category = "daily"
    intensity: float = Field(default=0.5, ge=0, le=1, description="Of the emotion.")
    tags: list[str] = Field(default=[], max_length=50)
    is_private: bool = Field(default=False, description="Never written to the workspace.")
    user: str | None = Field(
        default=None,
        max_length=MAX_NAME,
        description="The user it belongs to; by default the server's user, if any.",
    )
    force: bool = Field(default=False, description="Save although a very similar memory exists.")
    replaces: Id | None = Field(default=None, description="Id of the memory that this corrects.")
    expires_at: Moment | None = Field(default=None, description="From when it is hidden.")


class Recall(Arguments):
    context: str = Field(min_length=1, max_length=MAX_CONTENT, description="What to look for.")
    n_results: int = Field(default=3, ge=1, le=10)
    emotion_filter: Annotated[Emotion | None, _KNOWN_WORD] = Field(
        default=None, description="One that remember takes."
    )
    category_filter: Annotated[Category | None, _KNOWN_WORD] = Field(
        default=None, description="One that remember takes."
    )
    date_from: Moment | None = Field(default=None, description="A day, 2026-05-01, or a time.")
    date_to: Moment | None = Field(default=None, description="A day (all of it), or a time.")
    user: str | None = Field(
        default=None, max_length=MAX_NAME, description="Only what is about this user."
    )
    include_superseded: bool | None = Field(
        default=None,
        description="Also what holds no longer; by default if asked for.",
    )
    as_of: Moment | None = Field(default=None, description="Only what held then: a day or a time.")


class Forget(Arguments):
    memory_id: Id = Field(description="ID of the memory to delete")
    lineage: bool = Field(default=False, description="Also what this memory had superseded.")


class LinkMemories(Arguments):
    source_id: Id
    target_id: Id
    link_type: LinkType = "related"
    note: str = Field(default="", max_length=1_000)


class CreateEpisode(Arguments):
    memory_ids: list[Id] = Field(min_length=1, max_length=1_000)
    summary: str = Field(min_length=1, description="What they were about.")
    importance: int = Field(default=3, ge=1, le=5)


class GetEpisode(Arguments):
    episode_id: Id


class MergeMemories(Arguments):
    keep_id: Id = Field(description="The memory that stays.")
    remove_id: Id = Field(description="The memory that is retired in its favour.")
    merged_content: str | None = Field(
        default=None, min_length=1, description="One text for both; without it, the kept one's."
    )


def shown_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments or answer as clients see it.

    An optional argument is shown with the type of its value, without null.
    """
    shown: dict[str, Any] = _short(model.model_json_schema(), optional=issubclass(model, Arguments))
    return shown


def _short(schema: Any, *, optional: bool) -> Any:
    if isinstance(schema, list):
        return [_short(item, optional=optional) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in _NOT_SHOWN}
    if optional and kept.get("default", ...) is None:
        del kept["default"]
        kept |= kept.pop("anyOf", [{}])[0]
    return {key: _short(value, optional=optional) for key, value in kept.items()}


# --- answers ------------------------------------------------------------------------------------


class MemoryView(BaseModel):
    id: str
    content: str
    dated: str = Field(description="The content with its day and the dates of its relative words")
    timestamp: str
    emotion: str
    importance: int
    category: str
    user: str | None
    is_private: bool
    linked_ids: list[str]
    similarity: float | None = None
    also: list[str] = []
    """The ids of memories that state the same and are not shown on their own."""
    newer: str | None = None
    """The id of a newer memory, by which this one may be outdated."""
    until: str | None = None
    """When a superseded memory ceased to hold."""

    @classmethod
    def of(cls, memory: Memory, hit: SearchResult | None = None) -> MemoryView:
        return cls(
            id=memory.id,
            content=memory.content,
            dated=(hit or memory).dated,
            timestamp=memory.timestamp.isoformat(),
            emotion=memory.emotion,
            importance=memory.importance,
            category=memory.category,
            user=memory.user,
            is_private=memory.is_private,
            linked_ids=[link.target_id for link in memory.linked_ids],
            similarity=hit.similarity if hit else None,
            also=[one.id for one in hit.also] if hit else [],
            newer=hit.newer if hit else None,
            until=hit.until.isoformat() if hit and hit.until else None,
        )


class Remembered(BaseModel):
    saved: bool
    id: str | None = None
    links: int = 0
    related: list[MemoryView] = []
    duplicate_of: MemoryView | None = None
    differs: str = ""
    differs_from: str | None = None
    replaced: str | None = None
    """The id of the retired memory, which `memory-dedup undo` takes.

    It takes a decision's number too, but that would say how many decisions other users have.
    """
    warnings: list[str] = []


class MemoryList(BaseModel):
    memories: list[MemoryView]


class Introspected(BaseModel):
    recent: list[MemoryView]
    still_open: list[str]


@dataclass(frozen=True)
class MergeCandidate:
    """A pair of memories that are near-copies of each other."""

    memory_a_id: str
    memory_b_id: str
    distance: float
    snippet_a: str
    snippet_b: str


@dataclass(frozen=True)
class MergeProposal:
    """A group of memories that a model would merge, with its text for all of them, and why."""

    members: dict[str, str]
    text: str
    reason: str


class Consolidated(BaseModel):
    replay_events: int
    coactivation_updates: int
    link_updates: int
    refreshed_memories: int
    merge_candidates: list[MergeCandidate]
    proposals: list[MergeProposal] = []
    unread: str = ""
    """Why a model has not read all new memories; "" if it has, or if there is none."""


class Forgot(BaseModel):
    found: bool
    memory: MemoryView | None = None
    erased: bool | None = None
    """Whether the text was erased completely; None if no memory was found.

    False means that a search index, the database's files or a copy of the ledger may still contain
    the text.
    """
    remaining: list[str] = []
    """The ids of live memories that state the same."""
    superseded: list[str] = []
    """The ids of memories that it had superseded; they stay retired."""
    warnings: list[str] = []


class Linked(BaseModel):
    source_id: str
    target_id: str
    link_type: LinkType
    created: bool


class EpisodeAnswer(BaseModel):
    found: bool
    id: str
    summary: str = ""
    memory_ids: list[str] = []
    start_time: str = ""
    end_time: str = ""
    importance: int = 0
    gone: int = 0


class Merged(BaseModel):
    kept: MemoryView
    removed_id: str
    warnings: list[str] = []


# --- the list -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """A tool as clients see it. The method of `AgentTools` with the same name runs it."""

    name: str
    description: str
    arguments: type[Arguments]
    answer: type[BaseModel]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


SURFACE_TOOLS = (
    Tool(
        "remember",
        "Save a memory. Blocked where a very similar one exists: then correct that one with "
        "replaces, or save all the same with force.",
        Remember,
        Remembered,
    ),
    Tool(
        "recall",
        "Search memories by meaning; filter by emotion, category or time.",
        Recall,
        MemoryList,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "introspect",
        "See recent memories and what is still open, and reflect on them.",
        Arguments,
        Introspected,
        read_only=True,
        idempotent=True,
    ),
)
BACKEND_TOOLS = (
    Tool(
        "consolidate",
        "Replay and link recent memories, and propose pairs that may be one. Merges nothing.",
        Arguments,
        Consolidated,
    ),
    Tool(
        "forget",
        "Delete a memory by ID. Returns the deleted memory's summary for confirmation.",
        Forget,
        Forgot,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "link_memories",
        "Link two memories, both ways. A link that is there takes the new type and note.",
        LinkMemories,
        Linked,
        idempotent=True,
    ),
    Tool(
        "merge_memories",
        "Make one memory of two: one is kept, with merged_content where given; the other is "
        "retired in its favour. Can be undone by a person.",
        MergeMemories,
        Merged,
        destructive=True,
    ),
    Tool(
        "create_episode",
        "Tie memories together as one episode.",
        CreateEpisode,
        EpisodeAnswer,
    ),
    Tool(
        "get_episode",
        "See an episode and those of its memories that still exist.",
        GetEpisode,
        EpisodeAnswer,
        read_only=True,
        idempotent=True,
    ),
)
TOOLS = (*SURFACE_TOOLS, *BACKEND_TOOLS)
