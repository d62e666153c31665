"""The agent's tools: each is a method that returns a text and structured data.

Some texts end with a question or a hint to the agent, one of the constants `_SCAFFOLD_...`.

The tools read and change the memory store. If there is a workspace folder with Markdown copies of
the memories, the tools also keep these copies up to date.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from memory import Config, MemoryStore
from memory.agent import schemas
from memory.agent.memory_store import AgentMemory, ConsolidationEngine, OnSaved, Propose
from memory.agent.workspace_sync import WorkspaceMemorySync, build_workspace
from memory.assembly import differing, still_stated
from memory.errors import InputError, MemoryNotFound
from memory.models import Episode, Memory, Problem, SearchResult, first_problem
from memory.runtime import in_thread, in_thread_if_long
from memory.text import counted, one_line, shortened

logger = logging.getLogger(__name__)

T = TypeVar("T")
_SCAFFOLD_SAVED = "Do any of these connections surprise you? Is there a pattern forming?"
_SCAFFOLD_DUPLICATE = (
    "Is there truly something new here, or is this a repetition?\n"
    "If your understanding has deepened, try expressing what changed specifically."
)
_SCAFFOLD_INTROSPECT = (
    "Reflect on these in your own words. How do you feel right now?\n"
    "If this is a genuinely new insight, save with remember (category: introspection).\n"
    "If memory feels fragmented, run consolidate."
)
_SCAFFOLD_FORGOT = (
    "This memory is gone. Was there anything worth preserving in a new form?\n"
    "If this was part of a merge, save the consolidated version with remember."
)
_SCAFFOLD_NOT_FOUND = "Double-check the ID. Use recall to search for the memory you're looking for."
_INDEX_PENDING = (
    "Index pending: it is gone from the record; what is left of it in an index or a log is "
    "cleared by the process that has them open."
)
_MERGE_ADVICE = (
    "Review each pair with recall. If one is redundant, use forget to remove it.\n"
    "If both have value, consider which perspective to keep."
)
_PROPOSAL_ADVICE = (
    "Take one with merge_memories: merged_content is the text, once for each memory that goes. "
    "What you leave stays as it is."
)
_WHOLE = 2_000
_QUOTE = 120
_RELATED_QUOTE = 70
_RELATED = 3
_AGES = (
    (365 * 86_400, "y"),
    (30 * 86_400, "mo"),
    (7 * 86_400, "w"),
    (86_400, "d"),
    (3_600, "h"),
    (60, "m"),
)
_RECENT = 5
_OPEN = 5


class ToolAnswer(NamedTuple):
    text: str
    data: BaseModel


class AgentTools:
    """The agent's tools: one method for each tool. `call` runs a tool by its name.

    `near`: from this similarity on, the answer to `remember` says how a stored memory differs from
    the new one.

    Some answers end with a question or a hint to the agent; with `quiet`, these are left out.
    """

    def __init__(
        self,
        store: AgentMemory,
        engine: ConsolidationEngine,
        workspace: WorkspaceMemorySync | None = None,
        *,
        near: float = 0.90,
        quiet: bool = False,
    ) -> None:
        self._store = store
        self._engine = engine
        self._near = near
        self._workspace = workspace
        self._quiet = quiet

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Check the arguments, run the tool with this name, and return its answer.

        Raises: MemoryPipelineError. In this case nothing was written.
        """
        tool = next((tool for tool in schemas.TOOLS if tool.name == name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in schemas.TOOLS)
            raise InputError(name[:100], "there is no such tool", f"there are: {known}")
        try:
            checked = tool.arguments.model_validate(dict(arguments))
        except ValidationError as exc:
            raise InputError(name, _explained(first_problem(exc), tool.arguments)) from exc
        try:
            answer: ToolAnswer = await getattr(self, tool.name)(checked)
            return answer
        except MemoryNotFound as exc:
            raise InputError(
                name, f"there is no memory {exc.memory_id}", "use recall to find its id"
            ) from exc

    def _answer(self, text: str, scaffold: str, data: BaseModel) -> ToolAnswer:
        return ToolAnswer(text if self._quiet else compose_response(text, scaffold), data)

    # --- surface ---

    async def remember(self, request: schemas.Remember) -> ToolAnswer:
        memory, links, linked, existing = await self._store.save_with_auto_link(
            request.content,
            replaces=request.replaces,
            force=request.force,
            emotion=request.emotion,
            importance=request.importance,
            category=request.category,
            intensity=request.intensity,
            tags=request.tags,
            is_private=request.is_private,
            user=request.user,
            expires_at=_moment("expires_at", request.expires_at, time.max),
        )
        if memory is None:
            assert existing is not None
            return await self._not_saved(existing, request)
        warnings = await self._write(memory, lambda workspace: workspace.sync_memory(memory))
        text, related = await _rendered(
            [hit.memory for hit in linked],
            lambda: (_saved_text(memory, linked, self._store.now()), _views(linked)),
        )
        lines = [text]
        data = schemas.Remembered(saved=True, id=memory.id, links=links, related=related)
        if existing is not None:
            old = existing.memory
            data.replaced = old.id
            lines.append(
                f"Replaces (id: {old.id}): {shortened(old.content, _QUOTE)}\n"
                f"The old wording is retired; `memory-dedup undo {old.id}` brings it back."
            )
            warnings += await self._in_workspace(lambda workspace: workspace.remove_memory(old.id))
        elif request.replaces is not None:
            kept = await self._store.get_by_id(request.replaces)
            lines += [] if kept is None else [_not_replaced_text(kept, request.content)]
        elif linked and linked[0].similarity >= self._near:
            near = linked[0].memory
            data.differs_from, data.differs = near.id, await _differs(near.content, memory.content)
            if data.differs:
                lines.append(
                    f"Differs from [{near.id}]: {data.differs}. To correct that one, use "
                    f'merge_memories(keep_id="{memory.id}", remove_id="{near.id}").'
                )
        data.warnings = warnings
        return self._answer("\n".join([*lines, *warnings]), _SCAFFOLD_SAVED, data)

    async def _not_saved(self, existing: SearchResult, request: schemas.Remember) -> ToolAnswer:
        stated = request.importance if "importance" in request.model_fields_set else None
        kept = await self._store.add_labels(existing.memory.id, request.tags, stated)
        warnings, labels = list[str](), ""
        if kept is not None:
            labels = _added_text(existing.memory, kept)
            existing = replace(existing, memory=kept)
            warnings = await self._write(kept, lambda workspace: workspace.refresh(kept))
        differs = await _differs(existing.memory.content, request.content)
        [view] = await _rendered([existing.memory], lambda: _views([existing]))
        text = _not_saved_text(existing, differs, self._store.now(), labels)
        return self._answer(
            "\n".join([text, *warnings]),
            _SCAFFOLD_DUPLICATE,
            schemas.Remembered(saved=False, duplicate_of=view, differs=differs, warnings=warnings),
        )

    async def recall(self, request: schemas.Recall) -> ToolAnswer:
        found = await self._store.search(
            request.context,
            n_results=request.n_results,
            user=request.user,
            emotion=request.emotion_filter,
            category=request.category_filter,
            date_from=_moment("date_from", request.date_from, time.min),
            date_to=_moment("date_to", request.date_to, time.max),
            include_superseded=request.include_superseded,
            as_of=_moment("as_of", request.as_of, time.max),
        )
        text, memories = await _rendered(
            [hit.memory for hit in found],
            lambda: (_recalled_text(found, self._store.now()), _views(found)),
        )
        return ToolAnswer(text, schemas.MemoryList(memories=memories))

    async def introspect(self, _request: schemas.Arguments) -> ToolAnswer:
        recent = await self._store.list_recent(_RECENT)
        still_open = (await self._store.still_open())[:_OPEN]
        text, views = await _rendered(
            recent,
            lambda: (
                _introspected_text(recent, still_open, self._store.now()),
                list(map(schemas.MemoryView.of, recent)),
            ),
        )
        data = schemas.Introspected(recent=views, still_open=still_open)
        return self._answer(text, _SCAFFOLD_INTROSPECT, data)

    # --- backend ---

    async def consolidate(self, _request: schemas.Arguments) -> ToolAnswer:
        stats = await self._engine.run(self._store)
        data = schemas.Consolidated.model_validate(stats.to_dict())
        return ToolAnswer(_consolidated_text(data), data)

    async def forget(self, request: schemas.Forget) -> ToolAnswer:
        forgotten = await self._store.forget(request.memory_id, lineage=request.lineage)
        if forgotten is None:
            text = f"Memory not found: {request.memory_id}"
            return self._answer(text, _SCAFFOLD_NOT_FOUND, schemas.Forgot(found=False))
        said: list[str] = []
        problems = await self._in_workspace(
            lambda workspace: said.extend(workspace.erase(forgotten))
        )
        warnings = [*(f"The workspace: {what}." for what in said), *problems]
        lines = [_forgotten_text(forgotten.memory, forgotten.remaining, self._store.now())]
        lines += [
            f"It had superseded (id: {one.id}), which stays retired until you forget that id."
            for one in forgotten.superseded
        ]
        lines += [] if forgotten.erased else [_INDEX_PENDING]
        memory = forgotten.memory
        view = await _rendered([memory], lambda: schemas.MemoryView.of(memory))
        data = schemas.Forgot(
            found=True,
            memory=view,
            erased=forgotten.erased,
            remaining=[one.id for one in forgotten.remaining],
            superseded=[one.id for one in forgotten.superseded],
            warnings=warnings,
        )
        return self._answer("\n".join([*lines, *warnings]), _SCAFFOLD_FORGOT, data)

    async def link_memories(self, request: schemas.LinkMemories) -> ToolAnswer:
        asked = request.source_id, request.target_id
        linked = await self._store.link_memories(*asked, request.link_type, request.note)
        source, target = linked.source_id, linked.target_id
        done = "Linked" if linked.created else "Already linked, now"
        ends = zip(asked, (source, target), strict=True)
        moved = [f"{name} was merged into {end}." for name, end in ends if name != end]
        return ToolAnswer(
            " ".join([f"{done} {source} -> {target} ({linked.link_type}).", *moved]), linked
        )

    async def create_episode(self, request: schemas.CreateEpisode) -> ToolAnswer:
        episode = await self._store.create_episode(
            request.memory_ids, request.summary, request.importance
        )
        return ToolAnswer(
            f"Created episode {episode.id} with {counted(len(episode.memory_ids), 'memory')}.",
            _episode_answer(episode),
        )

    async def get_episode(self, request: schemas.GetEpisode) -> ToolAnswer:
        found = await self._store.get_episode(request.episode_id)
        if found is None:
            return ToolAnswer(
                f"Episode not found: {request.episode_id}",
                schemas.EpisodeAnswer(found=False, id=request.episode_id),
            )
        return ToolAnswer(_episode_text(*found), _episode_answer(*found))

    async def merge_memories(self, request: schemas.MergeMemories) -> ToolAnswer:
        kept = await self._store.merge(request.keep_id, request.remove_id, request.merged_content)

        def follow(workspace: WorkspaceMemorySync) -> None:
            workspace.remove_memory(request.remove_id)
            workspace.refresh(kept)

        warnings = await self._write(kept, follow)
        view = await _rendered([kept], lambda: schemas.MemoryView.of(kept))
        gone = request.remove_id
        text = (
            f"Merged {gone} into {kept.id}: {shortened(kept.content, _QUOTE)}\n"
            f"Linked to {counted(len(kept.linked_ids), 'memory')}. "
            f"{gone} is retired; `memory-dedup undo {gone}` takes it back."
        )
        return ToolAnswer(
            "\n".join([text, *warnings]),
            schemas.Merged(kept=view, removed_id=gone, warnings=warnings),
        )

    # --- the workspace ---

    async def _write(
        self, memory: Memory, work: Callable[[WorkspaceMemorySync], object]
    ) -> list[str]:
        """Call `work`, which writes `memory` into the workspace's files; return warnings.

        If another process has forgotten the memory meanwhile, it is also erased from the files.
        """
        warnings = await self._in_workspace(work)
        if self._workspace is not None and await self._store.get_by_id(memory.id) is None:
            warnings += await self._in_workspace(lambda workspace: workspace.erase_ids({memory.id}))
        return warnings

    async def _in_workspace(self, work: Callable[[WorkspaceMemorySync], object]) -> list[str]:
        """Call `work` with the workspace, if there is one; return a warning if `work` fails.

        The failure is not an error, because the store has committed already.
        """
        if self._workspace is None:
            return []
        try:
            await in_thread(work, self._workspace)
        except OSError as exc:
            problem = exc.strerror or type(exc).__name__
            logger.warning("the workspace is not up to date: %s", problem)
            return [f"The workspace could not be brought up to date: {problem}."]
        return []


# --- small parts ----------------------------------------------------------------------------------


async def _rendered(memories: Sequence[Memory], render: Callable[[], T]) -> T:
    """Render what an answer shows of memories, in a thread if finding their dates takes long."""
    return await in_thread_if_long([memory.content for memory in memories], render)


def _views(hits: Sequence[SearchResult]) -> list[schemas.MemoryView]:
    return [schemas.MemoryView.of(hit.memory, hit) for hit in hits]


async def _differs(old: str, new: str) -> str:
    return await in_thread_if_long((old, new), difference, old, new)


def _episode_answer(episode: Episode, gone: int = 0) -> schemas.EpisodeAnswer:
    return schemas.EpisodeAnswer(
        found=True,
        id=episode.id,
        summary=episode.summary,
        memory_ids=list(episode.memory_ids),
        start_time=episode.start_time.isoformat(),
        end_time=episode.end_time.isoformat(),
        importance=episode.importance,
        gone=gone,
    )


def _moment(name: str, text: str | None, of_day: time) -> datetime | None:
    """Parse a date or a date with a time. A date alone gets the time `of_day`.

    A text without a time zone is in local time.

    Raises: InputError, which names the argument `name`.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if len(text) <= len("2026-05-01"):
            moment = datetime.combine(moment, of_day)
        return moment.astimezone()
    except (ValueError, OverflowError) as exc:
        raise InputError(
            name, f"{text!r} is not a date or a time", "write it like 2026-05-01"
        ) from exc


def _explained(problem: Problem, arguments: type[schemas.Arguments]) -> str:
    if problem.kind == "missing":
        return f"the argument {problem.field} is missing"
    if problem.kind == "extra_forbidden":
        known = ", ".join(arguments.model_fields) or "none"
        return f"there is no argument {problem.field[:100]!r}; there are: {known}"
    if problem.kind == "literal_error":
        return f"{problem.field} must be one of {problem.expected}".replace("'", "")
    return str(problem)


# --- the texts ------------------------------------------------------------------------------------


def compose_response(data: str, scaffold: str) -> str:
    return f"{data}\n\n---\n{scaffold}"


def relative_time(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was: `just now`, `5m ago`, `2h ago`, `3d ago`, `1y ago`."""
    seconds = (now - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)}{unit} ago"
    return "just now"


def _dated(memory: Memory, most: int) -> str:
    """Return a memory's text, cut after about `most` characters, and dated if it has time words."""
    text = memory.dated if memory.periods else memory.content
    return shortened(text, most + len(text) - len(memory.content))


def _shown_similarity(distance: float) -> float:
    return max(0.0, min(1.0, 1.0 - distance))


# --- remember -----------------------------------------------------------------------------------


def _saved_text(memory: Memory, related: Sequence[SearchResult], now: datetime) -> str:
    lines = [f"Saved (id: {memory.id}). Linked to {len(related)} existing memories."]
    lines += ["Most related:"] if related else []
    lines += [
        f"- [{relative_time(hit.memory.timestamp, now)}] "
        f"{_dated(hit.memory, _RELATED_QUOTE)} "
        f"(similarity: {_shown_similarity(hit.distance):.2f})"
        for hit in related[:_RELATED]
    ]
    return "\n".join(lines)


def _not_replaced_text(old: Memory, content: str) -> str:
    kept = "; ".join(f'"{part}"' for part in still_stated(content, old.content))
    return (
        f"Both are kept: the new text says nothing about a part of {old.id}: "
        f"{shortened(kept, _QUOTE)}. To retire that one all the same, use "
        "remember(..., replaces=..., force=true), or merge_memories with one text for both."
    )


def _added_text(was: Memory, now: Memory) -> str:
    tags = now.tags[len(was.tags) :]
    parts = [f"tags {', '.join(tags)}"] if tags else []
    parts += [f"importance {now.importance}"] if now.importance != was.importance else []
    return f"Added to it: {'; '.join(parts)}."


def _not_saved_text(
    duplicate_of: SearchResult, differs: str, now: datetime, labels: str = ""
) -> str:
    existing = duplicate_of.memory
    lines = [
        "Not saved — very similar memory already exists.",
        f"Existing (id: {existing.id}, {relative_time(existing.timestamp, now)}): "
        f"{shortened(existing.content, _QUOTE)}",
        f"Similarity: {_shown_similarity(duplicate_of.distance):.2f}",
        "If this is a meaningful update, use recall to review the existing memory "
        "and consider whether the new perspective adds value.",
    ]
    lines += [f"Differs: {differs}"] if differs else []
    lines += [labels] if labels else []
    lines.append(f'To correct the existing memory, use remember(..., replaces="{existing.id}").')
    return "\n".join(lines)


def difference(old: str, new: str) -> str:
    """Return the parts in which two texts differ, such as `192.168.7.1 -> 192.168.9.1`.

    Return "" if the two texts state the same.
    """
    changes = []
    for sides in differing(old, new):
        before, after = (shortened(side, _QUOTE) for side in sides)
        both = f"{before} -> {after}"
        alone = f"adds {after}" if after else f"leaves out {before}"
        changes.append(both if before and after else alone)
    return "; ".join(changes)


# --- recall and introspect ------------------------------------------------------------------------


def _recalled_text(results: Sequence[SearchResult], now: datetime) -> str:
    lines = (
        f"- [{relative_time(hit.memory.timestamp, now)}] {shortened(hit.dated, _WHOLE)}\n"
        f"  emotion: {hit.memory.emotion} | importance: {hit.memory.importance} | "
        f"similarity: {_shown_similarity(hit.distance):.2f} | id: {hit.memory.id}"
        + (" | private" if hit.memory.is_private else "")
        + (f"\n  also: {', '.join(one.id for one in hit.also)}" if hit.also else "")
        + (f"\n  may be outdated by: {hit.newer}" if hit.newer else "")
        for hit in results
    )
    return "\n".join(lines) or "No memories found."


def _introspected_text(recent: Sequence[Memory], still_open: Sequence[str], now: datetime) -> str:
    lines = ["Recent memories:"] if recent else ["No memories yet."]
    lines += [
        f"- [{relative_time(memory.timestamp, now)}] {_dated(memory, _QUOTE)} "
        f"(emotion: {memory.emotion}, id: {memory.id})"
        for memory in recent
    ]
    lines += ["", "Still open:"] if still_open else ["", "Still open: nothing."]
    return "\n".join([*lines, *(f"- {question}" for question in still_open)])


# --- the backend ----------------------------------------------------------------------------------


def _consolidated_text(stats: schemas.Consolidated) -> str:
    lines = [
        f"Consolidation complete. Replayed {stats.replay_events} events, "
        f"updated {stats.coactivation_updates} co-activations, "
        f"created {stats.link_updates} links, refreshed {stats.refreshed_memories} memories."
    ]
    if stats.proposals:
        lines.append(f"\nA model proposes {len(stats.proposals)} merge(s):")
        for one in stats.proposals:
            lines += [f"- {name}: {one_line(content)}" for name, content in one.members.items()]
            lines += [f"  Text: {one_line(one.text)}", f"  Reason: {one_line(one.reason)}"]
        lines.append(_PROPOSAL_ADVICE)
    if stats.unread:
        lines.append(f"\nNot all was read: {one_line(stats.unread)}")
    if not stats.merge_candidates:
        return "\n".join(lines)
    lines.append(f"\nFound {len(stats.merge_candidates)} near-duplicate pair(s):")
    for pair in stats.merge_candidates:
        lines += [
            f"- {pair.memory_a_id} <-> {pair.memory_b_id} "
            f"(similarity: {_shown_similarity(pair.distance):.2f})",
            f"  A: {one_line(pair.snippet_a)}",
            f"  B: {one_line(pair.snippet_b)}",
        ]
    return "\n".join([*lines, f"\n{_MERGE_ADVICE}"])


def _forgotten_text(memory: Memory, remaining: Sequence[Memory], now: datetime) -> str:
    lines = [
        f"Forgot (id: {memory.id}, {relative_time(memory.timestamp, now)}): "
        f"{shortened(memory.content, _QUOTE)}",
        f"Emotion: {memory.emotion} | Importance: {memory.importance}",
    ]
    lines += [
        f"Still remembered (id: {one.id}): {shortened(one.content, _QUOTE)}" for one in remaining
    ]
    return "\n".join(lines)


def _episode_text(episode: Episode, gone: int) -> str:
    lines = [
        f"Episode: {episode.id}",
        f"Summary: {one_line(episode.summary)}",
        f"Memories: {', '.join(episode.memory_ids) or 'none'}",
        f"Period: {episode.start_time:%Y-%m-%d %H:%M} to {episode.end_time:%Y-%m-%d %H:%M} UTC",
        f"Importance: {episode.importance}",
    ]
    lines += [f"Note: {gone} memory(ies) no longer exist."] if gone else []
    return "\n".join(lines)


# --- building them --------------------------------------------------------------------------------


def build_tools(
    store: MemoryStore,
    config: Config,
    observers: Sequence[OnSaved] = (),
    *,
    propose: Propose | None = None,
) -> AgentTools:
    """Build the tools with which an agent uses its memories.

    `observers`: functions that are called with each memory that the agent saves. `propose`: a
    `Proposer`, so that `consolidate` shows the merges that a model proposes.

    Raises: InputError if `agent.user` is set, but `memory.dedup_scope` does not contain `user`.
    """
    settings = config.agent
    if settings.user is not None:
        config.memory.check_users_apart("leave agent.user out")
    return AgentTools(
        AgentMemory(
            store,
            user=settings.user,
            observers=observers,
            rules=config.memory.rules,
        ),
        ConsolidationEngine(propose),
        build_workspace(config),
        near=config.memory.rules.lower,
        quiet=settings.quiet_scaffolds,
    )
