"""The agent's tools: each tool is a method that returns a text and structured data.

The tools read and change the memory store. If there is a workspace folder with Markdown copies of
the memories, the tools also keep these copies up to date.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from memory.agent import scaffolds, schemas
from memory.agent.consolidation import ConsolidationEngine
from memory.agent.memory_store import AgentMemory
from memory.agent.workspace_sync import WorkspaceMemorySync
from memory.errors import InputError, MemoryNotFound
from memory.models import Episode, Memory, Problem, SearchResult, first_problem
from memory.runtime import in_thread, in_thread_if_long
from memory.text import counted

logger = logging.getLogger(__name__)

T = TypeVar("T")
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
        return ToolAnswer(text if self._quiet else scaffolds.compose_response(text, scaffold), data)

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
            return await self._not_saved(existing, request.content)
        warnings = await self._write(memory, lambda workspace: workspace.sync_memory(memory))
        text, related = await _rendered(
            [hit.memory for hit in linked],
            lambda: (scaffolds.saved(memory, linked, self._store.now()), _views(linked)),
        )
        lines = [text]
        data = schemas.Remembered(saved=True, id=memory.id, links=links, related=related)
        if existing is not None:
            old = existing.memory
            data.replaced = old.id
            lines.append(scaffolds.replaced(old))
            warnings += await self._in_workspace(lambda workspace: workspace.remove_memory(old.id))
        elif request.replaces is not None:
            kept = await self._store.get_by_id(request.replaces)
            lines += [] if kept is None else [scaffolds.not_replaced(kept, request.content)]
        elif linked and linked[0].similarity >= self._near:
            near = linked[0].memory
            data.differs_from, data.differs = near.id, await _differs(near.content, memory.content)
            if data.differs:
                lines.append(scaffolds.differs_from(near.id, data.differs, memory.id))
        data.warnings = warnings
        return self._answer("\n".join([*lines, *warnings]), scaffolds.SCAFFOLD_SAVED, data)

    async def _not_saved(self, existing: SearchResult, content: str) -> ToolAnswer:
        differs = await _differs(existing.memory.content, content)
        [view] = await _rendered([existing.memory], lambda: _views([existing]))
        return self._answer(
            scaffolds.not_saved(existing, differs, self._store.now()),
            scaffolds.SCAFFOLD_DUPLICATE,
            schemas.Remembered(saved=False, duplicate_of=view, differs=differs),
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
            lambda: (scaffolds.recalled(found, self._store.now()), _views(found)),
        )
        return ToolAnswer(text, schemas.MemoryList(memories=memories))

    async def introspect(self, _request: schemas.Arguments) -> ToolAnswer:
        recent = await self._store.list_recent(_RECENT)
        still_open = (await self._store.still_open())[:_OPEN]
        text, views = await _rendered(
            recent,
            lambda: (
                scaffolds.introspected(recent, still_open, self._store.now()),
                list(map(schemas.MemoryView.of, recent)),
            ),
        )
        data = schemas.Introspected(recent=views, still_open=still_open)
        return self._answer(text, scaffolds.SCAFFOLD_INTROSPECT, data)

    # --- backend ---

    async def consolidate(self, _request: schemas.Arguments) -> ToolAnswer:
        stats = await self._engine.run(self._store)
        data = schemas.Consolidated.model_validate(stats.to_dict())
        return ToolAnswer(scaffolds.consolidated(data), data)

    async def forget(self, request: schemas.Forget) -> ToolAnswer:
        forgotten = await self._store.forget(request.memory_id, lineage=request.lineage)
        if forgotten is None:
            text = f"Memory not found: {request.memory_id}"
            return self._answer(text, scaffolds.SCAFFOLD_NOT_FOUND, schemas.Forgot(found=False))
        said: list[str] = []
        problems = await self._in_workspace(
            lambda workspace: said.extend(workspace.erase(forgotten))
        )
        warnings = [*(f"The workspace: {what}." for what in said), *problems]
        lines = [scaffolds.forgotten(forgotten.memory, forgotten.remaining, self._store.now())]
        lines += [
            f"It had superseded (id: {one.id}), which stays retired until you forget that id."
            for one in forgotten.superseded
        ]
        lines += [] if forgotten.erased else [scaffolds.INDEX_PENDING]
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
        return self._answer("\n".join([*lines, *warnings]), scaffolds.SCAFFOLD_FORGOT, data)

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
        return ToolAnswer(scaffolds.episode_shown(*found), _episode_answer(*found))

    async def merge_memories(self, request: schemas.MergeMemories) -> ToolAnswer:
        kept = await self._store.merge(request.keep_id, request.remove_id, request.merged_content)

        def follow(workspace: WorkspaceMemorySync) -> None:
            workspace.remove_memory(request.remove_id)
            workspace.refresh(kept)

        warnings = await self._write(kept, follow)
        view = await _rendered([kept], lambda: schemas.MemoryView.of(kept))
        return ToolAnswer(
            "\n".join([scaffolds.merged(kept, request.remove_id), *warnings]),
            schemas.Merged(kept=view, removed_id=request.remove_id, warnings=warnings),
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


# --- small parts --------------------------------------------------------------------------------


async def _rendered(memories: Iterable[Memory], render: Callable[[], T]) -> T:
    """Render what an answer shows of memories, in a thread if finding their dates takes long."""
    return await in_thread_if_long([memory.content for memory in memories], render)


def _views(hits: Iterable[SearchResult]) -> list[schemas.MemoryView]:
    return [schemas.MemoryView.of(hit.memory, hit) for hit in hits]


async def _differs(old: str, new: str) -> str:
    return await in_thread_if_long((old, new), scaffolds.difference, old, new)


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
