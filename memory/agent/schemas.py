"""What each tool takes, and what it gives beside its text: the schemas that clients see."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from memory.models import LinkType, Memory, SearchResult

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
_ONE_OF_THOSE = WithJsonSchema({"type": "string"})
"""A list of words that a model has read once already, with `remember`."""
_NOT_TOLD = {"title", "minLength", "maxLength", "minItems", "maxItems"}
"""Keywords that are checked and not told: a model reads all schemas with every question."""


class Arguments(BaseModel):
    """Strict: nothing is converted, and an argument that is not named here is refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Remember(Arguments):
    content: str = Field(min_length=1, description="What to remember, in your own words.")
    emotion: Emotion = "neutral"
    importance: int = Field(default=3, ge=1, le=5)
    category: Category = "daily"
    intensity: float = Field(default=0.5, ge=0, le=1, description="Of the emotion.")
    tags: list[str] = Field(default=[], max_length=50)
    is_private: bool = Field(default=False, description="Never written to the workspace.")
    user: str | None = Field(default=None, description="Whom it is about; none is everyone.")
    force: bool = Field(default=False, description="Save although a very similar memory exists.")
    replaces: Id | None = Field(default=None, description="Id of the memory that this corrects.")


class Recall(Arguments):
    context: str = Field(min_length=1, max_length=100_000, description="What to look for.")
    n_results: int = Field(default=3, ge=1, le=10)
    emotion_filter: Annotated[Emotion | None, _ONE_OF_THOSE] = Field(
        default=None, description="One that remember takes."
    )
    category_filter: Annotated[Category | None, _ONE_OF_THOSE] = Field(
        default=None, description="One that remember takes."
    )
    date_from: Moment | None = Field(default=None, description="A day, 2026-05-01, or a time.")
    date_to: Moment | None = Field(default=None, description="A day (all of it), or a time.")
    user: str | None = Field(default=None, description="Only what is about this user.")


class Introspect(Arguments):
    pass


class Consolidate(Arguments):
    pass


class Forget(Arguments):
    memory_id: Id = Field(description="ID of the memory to delete")


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


def told_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema that clients see, as short as it can be.

    Arguments that may be left out have the type that they have where they are given.
    """
    optional = issubclass(model, Arguments)
    told: dict[str, Any] = _short(model.model_json_schema(), optional=optional)
    return told


def _short(schema: Any, *, optional: bool) -> Any:
    if isinstance(schema, list):
        return [_short(one, optional=optional) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in _NOT_TOLD}
    if optional and kept.get("default", ...) is None:
        del kept["default"]
        kept |= kept.pop("anyOf", [{}])[0]
    return {key: _short(value, optional=optional) for key, value in kept.items()}


# --- answers ------------------------------------------------------------------------------------


class MemoryView(BaseModel):
    """A memory as an answer names it."""

    id: str
    content: str
    timestamp: str
    emotion: str
    importance: int
    category: str
    user: str | None
    is_private: bool
    linked_ids: list[str]
    similarity: float | None = None

    @classmethod
    def of(cls, memory: Memory) -> MemoryView:
        return cls(
            id=memory.id,
            content=memory.content,
            timestamp=memory.timestamp.isoformat(),
            emotion=memory.emotion,
            importance=memory.importance,
            category=memory.category,
            user=memory.user,
            is_private=memory.is_private,
            linked_ids=[link.target_id for link in memory.linked_ids],
        )

    @classmethod
    def found(cls, hit: SearchResult) -> MemoryView:
        return cls.of(hit.memory).model_copy(update={"similarity": hit.similarity})


class Remembered(BaseModel):
    saved: bool
    id: str | None = None
    links: int = 0
    related: list[MemoryView] = []
    duplicate_of: MemoryView | None = None
    differs: str = ""
    differs_from: str | None = None
    replaced: str | None = None
    undo: int | None = None
    """What `memory-dedup undo` takes, where a memory was replaced."""
    warnings: list[str] = []


class Recalled(BaseModel):
    memories: list[MemoryView]


class Introspected(BaseModel):
    recent: list[MemoryView]
    still_open: list[str]


class Candidate(BaseModel):
    memory_a_id: str
    memory_b_id: str
    distance: float
    snippet_a: str
    snippet_b: str


class Consolidated(BaseModel):
    replay_events: int
    coactivation_updates: int
    link_updates: int
    refreshed_memories: int
    merge_candidates: list[Candidate]


class Forgot(BaseModel):
    found: bool
    memory: MemoryView | None = None
    erased: bool | None = None
    """False while an index or a log still has to be cleared of it."""
    warnings: list[str] = []


class Linked(BaseModel):
    source_id: str
    target_id: str
    link_type: LinkType
    created: bool


class EpisodeTold(BaseModel):
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
    undo: int
    """What `memory-dedup undo` takes."""
    warnings: list[str] = []
