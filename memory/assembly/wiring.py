"""Build the systems on a store and a model: deduplicator, review, chatbot, agent.

Importing this module is fast, because the packages load their parts only when they are needed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory import agent, deduplicator, extractor, offline, review
from memory.assembly.stores import build_model, guarded, open_store
from memory.config import Config, configured
from memory.errors import InputError
from memory.models import PERSON
from memory.store import Asker

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from memory.ledger import Ledger
    from memory.protocols import Embedder, LanguageModel
    from memory.store import MemoryStore

_DASK_S = 10
"""Seconds to wait for an answer of a Dask scheduler."""
_WORKSPACE = "workspace"
"""The key under which the ledger stores the folder of the agent's Markdown files."""


def build_deduplicator(
    store: MemoryStore, config: Config, model: LanguageModel, executor: Executor | None = None
) -> deduplicator.MemoryDeduplicator:
    """Build a deduplicator for an open store.

    `model` may be an object of your own; an exception that it raises counts as a failed call.
    `executor`: where batches run the search for pairs and the planning of groups. If it is None,
    both run in this process.

    Raises: ConfigError if your own object lacks a required attribute.
    """
    llm = config.llm
    url = config.memory.effective_ledger_url
    return deduplicator.MemoryDeduplicator(
        store,
        guarded(model, config),
        config.memory,
        concurrency=llm.concurrency,
        budget_s=llm.budget_s,
        price=llm.price,
        executor=None if executor is None else deduplicator.DistributedExecutor(executor, url),
    )


def build_answers(store: MemoryStore, config: Config) -> review.Answers:
    """Build the object that applies a person's answers from a review.

    The decisions are recorded under the identifier of a new run.
    """
    return review.Answers(store, config.memory.rules, deduplicator.new_run())


def build_review(
    store: MemoryStore, config: Config, model: LanguageModel, *, blind: bool = False
) -> review.Review:
    """Build a review, in which a person decides about groups of near-copies.

    The offline judge proposes a decision about each group. `model` proposes one only if the person
    requests it. `blind`: whether to hide similarities and the plan until the person has answered.
    """
    rules, model = config.memory.rules, guarded(model, config)
    planner = build_deduplicator(store, config, model)
    judges = [offline.OfflineModel(), model]
    return review.Review(
        store,
        rules,
        lambda: planner.plan(Asker(PERSON)),
        review.Proposals(
            {judge.name: deduplicator.Judging(store, judge, rules) for judge in judges},
            config.llm.budget_s,
        ),
        build_answers(store, config),
        lambda undone: agent.follow_undo(store, build_workspace(config, store.ledger), undone),
        blind=blind,
    )


def build_extractor(
    store: MemoryStore,
    config: Config,
    model: LanguageModel,
    deduplicator: deduplicator.MemoryDeduplicator | None = None,
) -> extractor.MemoryExtractor:
    """Build the object that stores a chatbot's turns and extracts memories from them.

    `model` may be an object of your own; an exception that it raises counts as a failed call.
    `deduplicator`: compares the extracted memories with the stored memories (default: a new
    deduplicator).

    Raises: ConfigError if your own object lacks a required attribute.
    """
    model = guarded(model, config)
    return extractor.MemoryExtractor(
        store,
        deduplicator or build_deduplicator(store, config, model),
        model,
        gap_s=config.memory.extraction_gap,
        concurrency=config.llm.concurrency,
        budget_s=config.llm.budget_s,
    )


def open_chat_memory(
    config: Config | Path | None = None,
    *,
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    **settings: Any,
) -> extractor.ChatMemory:
    """Open a store and a model, and return the memory of a running chatbot.

    Use the result with `async with`, which also closes the store and the model.

    `config`: a configuration or the path of its file (default: ./config.yaml if it is a file of
    this program, else the default settings). `settings` override single values, such as
    `data_dir="..."` or `llm_model="..."`. `model`, `embedder`: your own objects, used in place of
    the configured model and embedder. To let commands such as `memory-dedup` use the same objects,
    name them in the configuration too.

    Raises: ConfigError, LedgerError, EmbedderMismatch.
    """
    config = configured(config, settings)
    language = build_model(config, model)
    store = open_store(config, embedder=embedder)

    async def release() -> None:
        await language.aclose()
        await asyncio.to_thread(store.close)

    try:
        return build_chat_memory(store, config, language, release=release)
    except BaseException:  # Ctrl-C too must not leave the ledger open
        store.close()
        raise


def build_chat_memory(
    store: MemoryStore,
    config: Config,
    model: LanguageModel,
    *,
    on_extracted: extractor.OnExtracted | None = None,
    release: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> extractor.ChatMemory:
    """Build the memory of a running chatbot on an open store.

    `on_extracted`: called in the extraction thread with the result of each extraction, unless the
    result has nothing but costs. `release`: called without arguments and awaited when the memory is
    closed. Both may be None.
    """
    model = guarded(model, config)
    deduplicator = build_deduplicator(store, config, model)
    return extractor.ChatMemory(
        store,
        build_extractor(store, config, model, deduplicator),
        deduplicator,
        concurrency=config.llm.concurrency,
        wait_s=config.memory.extraction_wait,
        on_extracted=on_extracted,
        release=release,
    )


def build_tools(
    store: MemoryStore, config: Config, observers: Sequence[agent.OnSaved] = ()
) -> agent.AgentTools:
    """Build the agent's tools.

    `observers`: functions that are called with each newly saved memory. They are not called if a
    save was blocked because the memory repeats a stored one.

    Raises: InputError if `agent.user` is set and memories of different users may be compared.
    """
    settings = config.agent
    if settings.user is not None:
        config.memory.check_users_apart("leave agent.user out")
    own = agent.MemoryStore(store, user=settings.user, observers=observers)
    engine = agent.ConsolidationEngine(settings.merge_distance)
    distances = agent.Distances(guard=settings.guard_distance, link=settings.link_distance)
    workspace = build_workspace(config)
    quiet = settings.quiet_scaffolds
    return agent.AgentTools(own, engine, workspace, distances, quiet=quiet)


def build_workspace(
    config: Config, ledger: Ledger | None = None
) -> agent.WorkspaceMemorySync | None:
    """Return the object that keeps Markdown copies of memories; None if no folder is known.

    The folder is the configured one. If none is configured and `ledger` is given, it is the folder
    that `keep_workspace` recorded in the ledger.
    """
    folder = config.agent.workspace_dir
    if folder is None and ledger is not None:
        with ledger.reading() as reader:
            folder = reader.meta(_WORKSPACE)
    if folder is None:
        return None
    return agent.WorkspaceMemorySync(Path(folder))


def keep_workspace(config: Config, ledger: Ledger) -> None:
    """Record the configured folder of Markdown files in the ledger, so that all commands find it.

    If no folder is configured, the record stays as it is. Also remove the entries of forgotten
    memories from the files. Such entries remain if a process was killed before it removed them.
    """
    if config.agent.workspace_dir is not None:
        with ledger.writing() as writer:
            writer.set_meta(_WORKSPACE, config.agent.workspace_dir)
    workspace = build_workspace(config, ledger)
    if workspace is not None:
        with contextlib.suppress(OSError):  # whoever writes there next says why
            workspace.erase_forgotten(ledger)


@contextlib.contextmanager
def open_executor(workers: int | None, dask: str | None) -> Iterator[Executor | None]:
    """Yield an executor for parallel work, and shut it down at the end.

    `workers`: the number of processes on this machine. `dask`: the address of a Dask scheduler,
    which is used instead of processes if both are given. Yield None if neither is given.

    Raises: InputError if Dask is not installed, or no scheduler answers.
    """
    if dask is not None:
        try:
            from distributed import Client

            connect: Any = Client
            client = connect(dask, timeout=_DASK_S)
        except ImportError as exc:
            raise InputError("--dask", "needs Dask", "pip install '.[dask]'") from exc
        except (OSError, ValueError) as exc:
            problem = f"no scheduler answers at {dask}"
            raise InputError("--dask", problem, "start one there") from exc
        with client:
            yield client.get_executor()
    elif workers is not None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:  # threads run already
            yield pool
    else:
        yield None
