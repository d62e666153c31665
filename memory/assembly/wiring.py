"""Build the objects that work on a store: deduplicator, review, and the memory of a program.

Importing this module is fast, because the packages load their parts only when they are needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memory import deduplicator, extractor, ledger, providers, store, upkeep
from memory.assembly.stores import build_model, open_store, with_guards
from memory.config import Config, load_config
from memory.errors import ConfigError, InputError, LedgerError, installed
from memory.models import (
    PERSON,
    DeduplicationReport,
    Embedder,
    LanguageModel,
    Memory,
    Outcome,
    Recalled,
    Scope,
    checked,
)
from memory.runtime import LoopThread, OfEachLoop
from memory.store import Asker

if TYPE_CHECKING:
    from memory.ledger import DecisionRecord
    from memory.store import Forgotten, ForgottenUser, MemoryStore

T = TypeVar("T")

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
        with_guards(model, config),
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
    rules, model = config.memory.rules, with_guards(model, config)
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
    model = with_guards(model, config)
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
    model = with_guards(model, config)
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


def _checked_path(file: Path | str) -> Path:
    """Raises: InputError if no ledger can be at this path."""
    try:
        path = Path(file).expanduser().absolute()
        is_folder, above = path.is_dir(), path.parent.parent
    except (OSError, RuntimeError) as exc:  # too long a name, or ~ and the name of nobody
        problem = f"file cannot be used: {getattr(exc, 'strerror', '') or exc}"
        raise InputError("Memories", problem, 'write file="mia.db"') from exc
    if is_folder:
        raise InputError("Memories", f"{path} is a folder", "name a file in it")
    if not above.is_dir():  # one new folder is made, but this may be a typo
        problem = f"the folder {above} does not exist"
        raise InputError("Memories", problem, "make it first, or correct the path")
    return path


@checked
class Memories:
    """Memories in a file, for scripts, notebooks and threads: `ChatMemory` without `await`.

    `file`: the path of the SQLite file that holds them. A missing file is created, and its folder,
    but no folder above that. None means the configured store. The other arguments are those of
    `open_chat_memory`. Without a key or a server in the settings or the environment, everything
    runs on this machine.

    The object is a context manager, and may be shared between threads.

        >>> with Memories("mia.db") as memories:
        ...     memories.remember("Mia has a cat.", user="Mia").action.value
        ...     memories.remember("mia has a cat", user="Mia").action.value
        ...     [found.content for found in memories.recall("Which pet?", user="Mia")]
        'add'
        'replace'
        ['Mia has a cat.']

    Raises: ConfigError; LedgerError; EmbedderMismatch if another embedder made the file's vectors.
    """

    def __init__(
        self,
        file: Path | str | None = None,
        *,
        config: Config | Path | None = None,
        model: LanguageModel | None = None,
        embedder: Embedder | None = None,
        **settings: Any,
    ) -> None:
        if file is not None:
            path = _checked_path(file)
            settings = {"ledger_url": f"sqlite:///{path}", "data_dir": f"{path}.files", **settings}
        self._memory = open_chat_memory(config, model=model, embedder=embedder, **settings)
        self._loop = LoopThread("memories")
        self._closing = threading.Lock()
        self._closed = False

    @property
    def store(self) -> MemoryStore:
        return self._memory.store

    def remember(
        self,
        text: str,
        *,
        user: str | None,
        is_private: bool = False,
        metadata: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        external_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> Outcome:
        """Deduplicate and store one memory, as `ChatMemory.remember` does.

        >>> outcome = memories.remember("Ann has a cat.", user="Ann")
        >>> outcome.action.value
        'add'
        """
        return self._wait(
            self._memory.remember(
                text,
                user=user,
                is_private=is_private,
                metadata=metadata,
                at=at,
                external_id=external_id,
                expires_at=expires_at,
            )
        )

    def recall(
        self,
        text: str,
        *,
        user: str | Sequence[str] | None = None,
        everyone: bool = False,
        private: bool = False,
        k: int = 5,
        min_score: float | None = None,
        category: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        include_superseded: bool | None = None,
        as_of: datetime | None = None,
    ) -> Sequence[Recalled]:
        """Return the `k` memories that answer `text` best, as `ChatMemory.recall` does.

        >>> outcome = memories.remember("Bob has a dog.", user="Bob")
        >>> [found.content for found in memories.recall("Which pet?", user="Bob")]
        ['Bob has a dog.']
        """
        return self._wait(
            self._memory.recall(
                text,
                user=user,
                everyone=everyone,
                private=private,
                k=k,
                min_score=min_score,
                category=category,
                tags=tags,
                metadata=metadata,
                since=since,
                until=until,
                include_superseded=include_superseded,
                as_of=as_of,
            )
        )

    def update(self, memory_id: str, text: str, *, part: str | None = None) -> Memory:
        """Change the text of a memory, or a part of it, as `ChatMemory.update` does.

        >>> outcome = memories.remember("Cat lives in Porto.", user="Cat")
        >>> changed = memories.update(outcome.memory.id, "Faro", part="Porto")
        >>> changed.content
        'Cat lives in Faro.'
        """
        return self._wait(self._memory.update(memory_id, text, part=part))

    def forget(self, memory_id: str, *, lineage: bool = False) -> Forgotten:
        """Erase a memory permanently, as `ChatMemory.forget` does.

        >>> outcome = memories.remember("Dan lives in Porto.", user="Dan")
        >>> forgotten = memories.forget(outcome.memory.id)
        >>> memories.list(user="Dan")
        []
        """
        return self._wait(self._memory.forget(memory_id, lineage=lineage))

    def matching(self, description: str, *, user: str) -> Sequence[Memory]:
        """Return the memories that a description names, as `ChatMemory.matching` does.

        >>> outcome = memories.remember("Eve's phone number is 5550100.", user="Eve")
        >>> [found.content for found in memories.matching("Eve's phone number", user="Eve")]
        ["Eve's phone number is 5550100."]
        """
        return self._wait(self._memory.matching(description, user=user))

    def forget_user(self, user: str) -> ForgottenUser:
        """Erase all memories of a user permanently, as `ChatMemory.forget_user` does.

        >>> outcome = memories.remember("Fay rows.", user="Fay")
        >>> forgotten = memories.forget_user("Fay")
        >>> forgotten.memories
        1
        """
        return self._wait(self._memory.forget_user(user))

    def history(self, memory_id: str | None = None) -> Sequence[DecisionRecord]:
        """Return the decisions about a memory, as `ChatMemory.history` does.

        >>> outcome = memories.remember("Gus rows.", user="Gus")
        >>> [record.number == outcome.number for record in memories.history(outcome.memory.id)]
        [True]
        """
        return self._wait(self._memory.history(memory_id))

    def undo(self, target: int | str) -> Sequence[DecisionRecord]:
        """Undo a decision, a run, or the latest of a memory, as `ChatMemory.undo` does.

        >>> first = memories.remember("Hal has a cat.", user="Hal")
        >>> second = memories.remember("hal has a cat", user="Hal")  # replaces the first
        >>> undone = memories.undo(second.memory.id)
        >>> len(memories.list(user="Hal"))
        2
        """
        return self._wait(self._memory.undo(target))

    def clean(self, *, dry_run: bool = False) -> DeduplicationReport:
        """Find all near-copies and join them, as `ChatMemory.clean` does.

        >>> report = memories.clean(dry_run=True)
        >>> report.retired
        0
        """
        return self._wait(self._memory.clean(dry_run=dry_run))

    def close(self) -> None:
        """Close the store and the model; a second call does nothing."""
        with self._closing:
            if not self._closed:
                self._wait(self._memory.close())
                self._closed = True
                self._loop.stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise LedgerError("this memory is closed", "open another one")
        return self._loop.start(work).result()

    def __enter__(self) -> Memories:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Last, so that the annotations above mean the built-in list.
    def list(self, *, user: str, limit: int | None = None) -> Sequence[Memory]:
        """Return the live memories of a user, newest first, as `ChatMemory.list` does.

        >>> outcome = memories.remember("Ian rows.", user="Ian")
        >>> [found.content for found in memories.list(user="Ian")]
        ['Ian rows.']
        """
        return self._wait(self._memory.list(user=user, limit=limit))
