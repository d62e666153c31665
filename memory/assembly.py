"""The one place where things are built and wired. What is slow to import is imported when used."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memory.errors import ConfigError, InputError, LedgerOutdated

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pydantic import SecretStr

    from memory.agent import AgentTools, OnSaved, WorkspaceMemorySync
    from memory.background import OnExtracted
    from memory.chat_memory import ChatMemory
    from memory.config import Config
    from memory.decide import Embed
    from memory.deduplicator import MemoryDeduplicator
    from memory.extractor import MemoryExtractor
    from memory.index import ChromaServer, Following
    from memory.interchange import Kind, Theirs
    from memory.ledger import Ledger
    from memory.models import Scale
    from memory.protocols import Embedder, Index, LanguageModel
    from memory.providers import OpenAIServer
    from memory.review import Answers, Review
    from memory.store import MemoryStore

logger = logging.getLogger(__name__)


def open_store(
    config: Config, following: Following | None = None, embedder: Embedder | None = None
) -> MemoryStore:
    """The store at the configured place, made where there is none; Chroma opens at first need.

    `embedder` is one's own, else the configured one. `following` says how closely Chroma follows;
    drills want it closer than users do.

    Raises: LedgerError, EmbedderMismatch.
    """
    own = _own_embedder(embedder) if embedder is not None else None
    store = _store(
        open_ledger(config), config, lambda ledger: _open_index(ledger, config, following), own
    )
    try:
        with store.ledger.reading() as reader:
            store.embeddings.check(reader)
        store.scrub()  # what a crash, or another process, left of the forgotten
    except BaseException:  # Ctrl-C too must not leave the ledger open
        store.close()
        raise
    return store


def open_store_to_import(config: Config) -> MemoryStore:
    """The same, which searches exactly what comes in: the next process copies it, beside its work.

    Raises: LedgerError, EmbedderMismatch.
    """
    from memory.index import Following

    return open_store(config, Following(lag=_WHILE_IMPORTING))


_WHILE_IMPORTING = 100_000
"""Memories that an import leaves to exact search: copying them costs as much as deciding."""


def open_existing_store(config: Config) -> MemoryStore:
    """The same where there is one; nothing is made.

    Raises: LedgerMissing, LedgerError, EmbedderMismatch.
    """
    open_existing_ledger(config).close()
    return open_store(config)


def read_store(config: Config) -> MemoryStore:
    """The existing store for reading only: nothing on disk changes, Chroma stays closed.

    Raises: LedgerMissing, LedgerOutdated, LedgerError, EmbedderMismatch.
    """
    from memory.ledger import Ledger

    return _store(Ledger.open(config.memory.effective_ledger_url), config, open_index=None)


def open_ledger(config: Config) -> Ledger:
    """The ledger alone, whatever embedder it was made with; an older one is upgraded first.

    Raises: LedgerError.
    """
    from memory.ledger import Ledger

    url = config.memory.effective_ledger_url
    try:
        return Ledger.create(url)
    except LedgerOutdated:
        copy = upgrade_ledger(config)
        logger.warning("the ledger was upgraded; as it was before, it is kept in %s", copy)
        return Ledger.create(url)


def open_existing_ledger(config: Config) -> Ledger:
    """The same where there is one; nothing is made.

    Raises: LedgerMissing, LedgerError.
    """
    with contextlib.suppress(LedgerOutdated):
        read_ledger(config).close()
    return open_ledger(config)


def upgrade_ledger(config: Config) -> Path | None:
    """Bring the ledger to this version; gives the copy of it as it was, None where it is already.

    Raises: LedgerMissing, LedgerError.
    """
    from memory.ledger import Ledger

    return Ledger.upgrade(config.memory.effective_ledger_url, Path(config.memory.data_dir))


def read_ledger(config: Config) -> Ledger:
    """The existing ledger alone, for reading only.

    Raises: LedgerMissing, LedgerOutdated, LedgerError.
    """
    from memory.ledger import Ledger

    return Ledger.open(config.memory.effective_ledger_url)


@contextlib.contextmanager
def open_executor(workers: int | None, dask: str | None) -> Iterator[Executor | None]:
    """Processes of this machine, or a Dask cluster at an address; None where neither is named.

    Raises: InputError.
    """
    if dask is not None:
        with _dask_client(dask) as client:
            yield client.get_executor()
    elif workers is not None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:  # threads run already
            yield pool
    else:
        yield None


def _dask_client(address: str) -> Any:
    """Raises: InputError."""
    try:
        from distributed import Client
    except ImportError as exc:
        raise InputError("--dask", "needs Dask", "pip install 'memory-dedup[dask]'") from exc
    try:
        connect: Any = Client
        return connect(address, timeout=_DASK_S)
    except (OSError, ValueError) as exc:
        raise InputError("--dask", f"no scheduler answers at {address}", "start one there") from exc


_DASK_S = 10
"""How long a scheduler may take to answer."""


def build_deduplicator(
    store: MemoryStore, config: Config, model: LanguageModel, executor: Executor | None = None
) -> MemoryDeduplicator:
    """With an executor, a batch looks for pairs and plans its groups there."""
    from memory.deduplicator import MemoryDeduplicator
    from memory.spreading import Spreading

    llm = config.llm
    url = config.memory.effective_ledger_url
    return MemoryDeduplicator(
        store,
        model,
        config.memory,
        words=_words(store, config),
        concurrency=llm.concurrency,
        budget_s=llm.budget_s,
        price=llm.price,
        work=None if executor is None else Spreading(executor, url),
    )


def build_answers(store: MemoryStore, config: Config) -> Answers:
    """What gives a person's answers, as a run of their own."""
    from memory.batch import new_run
    from memory.review import Answers

    return Answers(store, config.memory.rules, new_run())


def build_review(
    store: MemoryStore, config: Config, model: LanguageModel, *, blind: bool = False
) -> Review:
    """A person's review of a store; the offline judge proposes unasked, the model when asked."""
    from memory.agent import follow_undo
    from memory.judging import Judging
    from memory.models import PERSON
    from memory.providers import OfflineModel
    from memory.review import Proposals, Review
    from memory.store import Asker

    rules, offline = config.memory.rules, OfflineModel()
    deduplicator = build_deduplicator(store, config, model)
    judges = {one.name: Judging(store, one, rules) for one in (offline, model)}
    return Review(
        store,
        rules,
        lambda: deduplicator.plan(Asker(PERSON)),
        Proposals(judges, config.llm.budget_s),
        build_answers(store, config),
        lambda undone: follow_undo(store, build_workspace(config, store.ledger), undone),
        blind=blind,
    )


def build_extractor(store: MemoryStore, config: Config, model: LanguageModel) -> MemoryExtractor:
    """The hook of a chatbot, on the same store and model."""
    from memory.extractor import MemoryExtractor

    return MemoryExtractor(
        store,
        build_deduplicator(store, config, model),
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
) -> ChatMemory:
    """What a live bot holds, with a store and a model of its own; `async with` closes all.

    A configuration, or where it lies, else ./config.yaml where that is ours, else the defaults; on
    top of it single settings (`data_dir="..."`, `llm_model="..."`). `model` and `embedder` are
    one's own; commands open the same store where the configuration names them too.

    Raises: ConfigError, LedgerError, EmbedderMismatch.
    """
    from memory.config import configured

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
    on_extracted: OnExtracted | None = None,
    release: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> ChatMemory:
    """The same on a store and a model that others close, unless `release` does."""
    from memory.chat_memory import ChatMemory

    return ChatMemory(
        store,
        build_extractor(store, config, model),
        concurrency=config.llm.concurrency,
        wait_s=config.memory.extraction_wait,
        on_extracted=on_extracted,
        release=release,
    )


def build_workspace(config: Config, ledger: Ledger | None = None) -> WorkspaceMemorySync | None:
    """The Markdown beside the store: in the configured folder, else where a server last kept it."""
    folder = config.agent.workspace_dir
    if folder is None and ledger is not None:
        with ledger.reading() as reader:
            folder = reader.meta(_WORKSPACE)
    if folder is None:
        return None
    from memory.agent import WorkspaceMemorySync

    return WorkspaceMemorySync(Path(folder))


def keep_workspace(config: Config, ledger: Ledger) -> None:
    """Note where a server keeps its Markdown, so that every command can follow it."""
    if config.agent.workspace_dir is not None:
        with ledger.writing() as writer:
            writer.set_meta(_WORKSPACE, config.agent.workspace_dir)


_WORKSPACE = "workspace"


def build_tools(
    store: MemoryStore, config: Config, observers: Sequence[OnSaved] = ()
) -> AgentTools:
    """The agent's tools on a store; `observers` hear of each memory that was really saved."""
    from memory.agent import (
        AgentTools,
        ConsolidationEngine,
        Distances,
        compose_response,
        without_question,
    )
    from memory.agent import MemoryStore as AgentStore

    agent = config.agent
    own = AgentStore(store, user=agent.user, observers=observers)
    engine = ConsolidationEngine(agent.merge_distance)
    distances = Distances(guard=agent.guard_distance, link=agent.link_distance)
    compose = without_question if agent.quiet_scaffolds else compose_response
    return AgentTools(own, engine, build_workspace(config), distances, compose)


def build_model(config: Config, own: LanguageModel | None = None) -> LanguageModel:
    """One's own, else the configured one, else Gemini where its key is set, else the offline one.

    All but the offline one are left alone for a while when they fail again and again.

    Raises: ConfigError where a key or a library is wanted and missing, or one's own cannot be made.
    """
    from memory.providers import OfflineModel, OwnModel

    if own is None and ":" in config.llm.provider:
        own = _made(config, "llm.provider", config.llm.provider)
    if own is not None:
        return _with_breaker(OwnModel(own, config.llm.concurrency), config)
    if config.llm.provider == "offline" or (config.llm.provider == "auto" and not config.api_key):
        return OfflineModel()
    if config.llm.provider == "openai":
        return _with_breaker(_openai_model(config), config)
    from memory.providers import GeminiModel  # 0.4 s that the offline model does without

    return _with_breaker(GeminiModel(_key(config, "llm.provider"), config.llm), config)


def _with_breaker(model: LanguageModel, config: Config) -> LanguageModel:
    from memory.providers import CircuitBreaker

    llm = config.llm
    return CircuitBreaker(
        model,
        failures=llm.breaker_failures,
        pause_s=llm.breaker_pause_s,
        # A person waits timeout_s for a reply, a write budget_s: both leave later than this.
        patience_s=min(llm.timeout_s, llm.budget_s) / 2,
    )


def build_embedder(config: Config) -> Embedder:
    """Local embedders load nothing before their first use.

    Raises: ConfigError as `build_model`.
    """
    if ":" in config.memory.embedding.provider:
        provider = config.memory.embedding.provider
        return _own_embedder(_made(config, "memory.embedding.provider", provider))
    from memory.providers import MiniLMEmbedder, WordLlamaEmbedder

    embedding = config.memory.embedding
    if embedding.provider == "minilm":
        from memory.index import load_minilm

        return MiniLMEmbedder(load_minilm)
    if embedding.provider == "gemini":
        from memory.providers import GeminiEmbedder

        key = _key(config, "memory.embedding.provider")
        return GeminiEmbedder(key, config.llm, embedding.model, embedding.dim)
    if embedding.provider == "openai":
        return _openai_embedder(config)
    return WordLlamaEmbedder()


def embedder_from(config: Config, given: str) -> Embedder:
    """The embedder that `package.module:factory` makes.

    Raises: ConfigError.
    """
    return _own_embedder(_made(config, "--embedder", given))


def _words(store: MemoryStore, config: Config) -> Embed | None:
    """What embeds single words, so that they may nominate pairs; only what costs next to nothing.

    None where similarity is plain cosine: who sets that wants no other signal.
    """
    plain = config.memory.embedding.scale == "plain" or config.memory.thresholds_without_scale
    if plain or config.memory.embedding.provider != "wordllama":
        return None
    from memory.providers import KnownWords

    embedder, embeddings = build_embedder(config), store.embeddings
    same = embedder.fingerprint == embeddings.fingerprint  # and loaded already
    return KnownWords(embeddings.words if same else embedder.embed)


def build_scale(config: Config, embedder: Embedder) -> Scale:
    """From the embedder's cosine to similarity, as it is configured."""
    if config.memory.thresholds_without_scale:
        logger.warning(
            "dedup thresholds are set and memory.embedding.scale is not: they are compared with "
            "plain cosine; set the scale to plain to keep it so, or see memory-dedup calibrate"
        )
    return config.memory.scale_for(embedder.fingerprint)


def _own_embedder(embedder: Embedder) -> Embedder:
    from memory.providers import OwnEmbedder

    return OwnEmbedder(embedder)


def _made(config: Config, setting: str, provider: str) -> Any:
    """What `package.module:factory` makes; it is handed the configuration where it takes one.

    Raises: ConfigError.
    """
    module, _, name = provider.partition(":")
    try:
        factory = attrgetter(name)(importlib.import_module(module))
        takes_one = bool(inspect.signature(factory).parameters)
        return factory(config) if takes_one else factory()
    except ConfigError:
        raise
    except Exception as exc:  # somebody else's code: whatever it raises, the setting is to name
        raise ConfigError(
            setting,
            "",
            f"{provider} gives nothing ({type(exc).__name__}: {exc})",
            "name an installed module and what makes one in it",
        ) from exc


def _key(config: Config, setting: str) -> SecretStr:
    if config.api_key is None:
        raise ConfigError(setting, "", "gemini needs an API key", "set GEMINI_API_KEY")
    return config.api_key


def _openai_model(config: Config) -> LanguageModel:
    with _installed("openai", "llm.provider"):
        from memory.providers import OpenAIModel

    if config.llm.model is None:
        remedy = "set llm.model to a name that it knows"
        raise ConfigError("llm.provider", "", "openai needs the name of a model", remedy)
    server = _openai_server(config, "llm.provider", config.llm.base_url)
    return OpenAIModel(server, config.llm, config.llm.model)


def _openai_embedder(config: Config) -> Embedder:
    with _installed("openai", "memory.embedding.provider"):
        from memory.providers import OpenAIEmbedder

    embedding = config.memory.embedding
    if (embedding.model is None) != (embedding.dim is None):
        problem = "openai needs both the model and the length of its vectors, or neither"
        remedy = "set memory.embedding.model and memory.embedding.dim"
        raise ConfigError("memory.embedding.provider", "", problem, remedy)
    beside = config.llm.base_url if config.llm.provider == "openai" else None
    server = _openai_server(config, "memory.embedding.provider", embedding.base_url or beside)
    return OpenAIEmbedder(server, config.llm, embedding.model, embedding.dim)


def _openai_server(config: Config, setting: str, base_url: str | None) -> OpenAIServer:
    """OpenAI's own wants a key; of another one its owner knows whether it does.

    Raises: ConfigError.
    """
    from memory.config import server_url
    from memory.providers import OpenAIServer

    url = base_url or config.openai_url
    if url is not None:
        try:
            server_url(url)
        except ValueError as exc:
            raise ConfigError("OPENAI_BASE_URL", "", str(exc)) from exc
        return OpenAIServer(config.openai_key, url)
    if config.openai_key is None:
        remedy = "set OPENAI_API_KEY, or name a server that needs none in llm.base_url"
        raise ConfigError(setting, "", "openai needs an API key", remedy)
    return OpenAIServer(config.openai_key)


@contextlib.contextmanager
def _installed(extra: str, setting: str) -> Iterator[None]:
    """Raises: ConfigError where an extra's library is not installed."""
    try:
        yield
    except ModuleNotFoundError as exc:
        problem, remedy = f"{exc.name} is not installed", f"pip install 'memory-dedup[{extra}]'"
        raise ConfigError(setting, "", problem, remedy) from exc


def _store(
    ledger: Ledger,
    config: Config,
    open_index: Callable[[Ledger], Index] | None,
    own: Embedder | None = None,
) -> MemoryStore:
    from memory.store import MemoryStore

    try:
        embedder = own or build_embedder(config)
        return MemoryStore(
            ledger,
            embedder,
            open_index,
            scope_fields=config.memory.dedup_scope,
            scale=build_scale(config, embedder),
        )
    except BaseException:  # Ctrl-C too must not leave the ledger open
        ledger.close()
        raise


def _open_index(ledger: Ledger, config: Config, following: Following | None) -> Index:
    """Chroma, embedded or served; exact search where another process owns the embedded one."""
    from memory.index import ChromaIndex, ChromaServer, ExactIndex, Following

    following = following or Following()
    chroma = config.memory.chroma
    if chroma.host is not None:
        server = ChromaServer(
            host=chroma.host,
            port=chroma.port,
            ssl=chroma.ssl,
            tenant=chroma.tenant,
            database=chroma.database,
            headers=_chroma_headers(),
        )
        return ChromaIndex.served(server, ledger, ledger.store_id(), following)
    folder = Path(config.memory.data_dir) / "chroma"
    return ChromaIndex.embedded(folder, ledger, following) or ExactIndex(ledger)


def their_collection(kind: Kind, place: str, name: str) -> Theirs:
    """Somebody else's collection, to write to.

    Raises: InputError.
    """
    from memory.interchange import TheirChroma, TheirQdrant, langgraph_at

    if kind == "langgraph":
        return langgraph_at(place)
    if kind == "qdrant":
        return TheirQdrant(Path(place), name)
    return TheirChroma(chroma_place(place), name)


def chroma_place(given: str) -> Path | ChromaServer:
    """Where somebody else's Chroma is: a folder, or the server at `http://HOST:PORT`.

    Raises: InputError.
    """
    if not given.startswith(("http://", "https://")):
        return Path(given)
    from memory.index import ChromaServer

    url = urlsplit(given)
    try:
        port = url.port or (443 if url.scheme == "https" else 8000)
    except ValueError as exc:
        raise InputError(given, f"has no port ({exc})", "give http://HOST:PORT") from exc
    if not url.hostname or url.path.strip("/") or url.query:
        raise InputError(given, "is no address of a Chroma server", "give http://HOST:PORT")
    return ChromaServer(
        host=url.hostname,
        port=port,
        ssl=url.scheme == "https",
        tenant="default_tenant",
        database="default_database",
        headers=_chroma_headers(),
    )


def _chroma_headers() -> dict[str, str]:
    key = os.environ.get("CHROMA_API_KEY")
    return {"x-chroma-token": key} if key else {}
