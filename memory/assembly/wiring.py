"""Build the objects that work on a store: deduplicator, review, chat memory, agent's tools.

Importing this module is fast, because the packages load their parts only when they are needed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from memory import deduplicator, extractor, ledger, providers, store, upkeep
from memory.assembly.stores import build_model, guarded, open_store
from memory.config import Config, load_config
from memory.errors import ConfigError, InputError, installed
from memory.models import PERSON, Embedder, LanguageModel, Scope, checked
from memory.runtime import OfEachLoop
from memory.store import Asker

_DASK_S = 10


def build_deduplicator(
    store: store.MemoryStore, config: Config, model: LanguageModel, executor: Executor | None = None
) -> deduplicator.MemoryDeduplicator:
    """Build a deduplicator for an open store.

    `model` may be an object of your own; an exception that it raises counts as a failed call.
    `executor`: runs the parallel parts of cleaning the whole store, such as the search for
    near-copies (default: this process runs them).

    >>> deduplicator = build_deduplicator(store, config, model)
    >>> (await deduplicator.check_and_merge(store.new_memory("Quy rows.", user="Quy"))).content
    'Quy rows.'

    Raises: ConfigError if `model` lacks a required attribute.
    """
    llm = config.llm
    return deduplicator.MemoryDeduplicator(
        store,
        guarded(model, config),
        config=config.memory,
        concurrency=llm.concurrency,
        budget_s=llm.budget_s,
        price=llm.price,
        executor=None
        if executor is None
        else deduplicator.DistributedExecutor(executor, config.memory.effective_ledger_url),
    )


def build_answers(store: store.MemoryStore, config: Config) -> upkeep.Answers:
    """Build the object that applies a person's answers from a review.

    All decisions of this object are recorded as one new run, which can be undone as a whole.

    >>> build_answers(store, config).run == build_answers(store, config).run  # each has its own run
    False
    """
    return upkeep.Answers(store, config.memory.rules, deduplicator.new_run())


def build_review(
    store: store.MemoryStore,
    config: Config,
    model: LanguageModel,
    *,
    blind: bool = False,
    follow_undo: Callable[[Sequence[ledger.DecisionRecord]], str] = lambda _: "",
) -> upkeep.Review:
    """Build a review, in which a person decides about groups of near-copies.

    The offline judge proposes a decision about each group. `model` proposes a decision only on
    request. `blind`: whether to hide how similar the memories of a group are, and what is proposed
    for them, so that the person answers without seeing either. `follow_undo`: receives undone
    decisions, and returns a message, or "".

    >>> review = build_review(store, config, model)
    >>> await review.look()
    >>> review.progress().last is None  # nobody has answered yet
    True
    """
    rules, model = config.memory.rules, guarded(model, config)
    planner = build_deduplicator(store, config, model)
    judges = [providers.OfflineModel(), model]
    return upkeep.Review(
        store,
        rules,
        partial(planner.audit, 0, asker=Asker(PERSON)),
        {
            judge.name: deduplicator.Judging(store, judge, rules).within(config.llm.budget_s)
            for judge in judges
        },
        build_answers(store, config),
        follow_undo,
        blind=blind,
    )


def build_extractor(
    store: store.MemoryStore,
    config: Config,
    model: LanguageModel,
    deduplicator: deduplicator.MemoryDeduplicator | None = None,
) -> extractor.MemoryExtractor:
    """Build the object that stores a chatbot's turns and extracts memories from them.

    `model` may be an object of your own; an exception that it raises counts as a failed call.
    `deduplicator`: compares the extracted memories with the stored ones (default: a new one).

    >>> turn = Turn(speaker="Rob", text="I have a canary.", at=datetime.now(UTC))
    >>> extractor = build_extractor(store, config, model)
    >>> [one.memory.content for one in (await extractor.extract_and_store([turn])).outcomes]
    ['Rob has a canary.']

    Raises: ConfigError if your own object lacks a required attribute.
    """
    model = guarded(model, config)
    return extractor.MemoryExtractor(
        store,
        deduplicator or build_deduplicator(store, config, model),
        model,
        categories=config.memory.categories,
        concurrency=config.llm.concurrency,
        budget_s=config.llm.budget_s,
    )


class Proposer:
    """Has a model read the new memories of a scope; records the merges that it proposes.

    Nothing is merged. Model and deduplicator are built at the first call. `model`: a model of your
    own; None means the configured one.

    >>> proposer = Proposer(store, config)
    >>> print(await proposer(Scope.of_user("Mia")))  # the offline model reads no pages
    None
    """

    def __init__(
        self, store: store.MemoryStore, config: Config, model: LanguageModel | None = None
    ) -> None:
        self._store = store
        self._config = config
        self._own = model
        self._built: OfEachLoop[tuple[LanguageModel, deduplicator.MemoryDeduplicator]] = (
            OfEachLoop()
        )

    async def __call__(self, scope: Scope) -> str | None:
        """Return why something is left unread, "" if nothing is, None if no model reads pages."""
        if not self._config.memory.background_pages:
            return None
        try:
            _, deduplicator = await self._built.made_in_thread(self._build)
        except ConfigError as exc:
            return str(exc)
        if not deduplicator.reads_pages:
            return None
        return await extractor.propose(self._store, deduplicator, scope)

    async def aclose(self) -> None:
        """Close the model's connections; call it in the loop of the calls."""
        for model, _ in self._built.values():
            await model.aclose()

    def _build(self) -> tuple[LanguageModel, deduplicator.MemoryDeduplicator]:
        model = build_model(self._config, self._own)
        return model, build_deduplicator(self._store, self._config, model)


@checked
def open_chat_memory(
    config: Config | Path | None = None,
    *,
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    **settings: Any,
) -> extractor.ChatMemory:
    """Open a store and a model, and return the memory of a running chatbot.

    Use the result with `async with`, which also closes the store and the model.

    `config`: a configuration or the path of its file (default: ./config.yaml if it exists and
    belongs to this program, else the default settings). `settings` override single values, such as
    `data_dir="..."` or `llm_model="..."`.

    `model`, `embedder`: objects of your own, used instead of the configured model and embedder. The
    command `memory-dedup` does not know these objects. It uses the configured ones.

    >>> async with open_chat_memory(config) as memory:
    ...     await memory.hear(Turn(speaker="Mia", text="I row.", at=datetime.now(UTC)))

    Raises: ConfigError; LedgerError; EmbedderMismatch if another embedder made the store's vectors.
    """
    config = load_config(config, settings=settings)
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
    store: store.MemoryStore,
    config: Config,
    model: LanguageModel,
    *,
    on_extracted: extractor.OnExtracted | None = None,
    release: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> extractor.ChatMemory:
    """Build the memory of a running chatbot on an open store.

    `on_extracted`: called in the extraction thread with the result of each extraction. Results that
    contain only the cost of model calls are not reported. `release`: awaited by `ChatMemory.close`,
    after extraction has stopped.

    >>> async with build_chat_memory(store, config, model) as memory:
    ...     print((await memory.remember("Pia rows.", user="Pia")).action.value)
    add
    """
    model = guarded(model, config)
    deduplicator = build_deduplicator(store, config, model)
    return extractor.ChatMemory(
        store,
        build_extractor(store, config, model, deduplicator),
        deduplicator,
        concurrency=config.llm.concurrency,
        wait_s=config.memory.extraction_wait,
        background_pages=config.memory.background_pages,
        on_extracted=on_extracted,
        release=release,
    )


@contextlib.contextmanager
def open_executor(workers: int | None, dask: str | None) -> Iterator[Executor | None]:
    """Yield an executor for parallel work, or None if neither option is given.

    `workers`: the number of processes on this machine. `dask`: the address of a Dask scheduler. The
    executor is shut down after the block.

    >>> with open_executor(workers=None, dask=None) as executor:
    ...     print(executor)
    None

    Raises: ConfigError if Dask is not installed; InputError if no scheduler answers.
    """
    if dask is not None:
        with installed("dask", "--dask"):
            from distributed import Client
        try:
            client: Any = Client(dask, timeout=_DASK_S)
        except (OSError, ValueError) as exc:
            raise InputError(
                "--dask", f"no scheduler answers at {dask}", "start one there"
            ) from exc
        with client:
            yield client.get_executor()
    elif workers is not None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:  # threads run: no fork
            yield pool
    else:
        yield None
