"""Open a store or only its ledger, and build the configured embedder and language model.

Importing this module is fast, because the packages load their parts only when they are needed.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory import ledger, offline, providers, search, store
from memory.config import PLAIN_THRESHOLDS, Config, server_url
from memory.errors import ConfigError, IndexFault, LedgerError, LedgerOutdated

if TYPE_CHECKING:
    from pydantic import SecretStr

    from memory.ledger import Ledger
    from memory.models import Scale
    from memory.protocols import Embedder, LanguageModel, VectorIndex
    from memory.store import MemoryStore

logger = logging.getLogger(__name__)


# --- the store ----------------------------------------------------------------------------------


def open_store(
    config: Config,
    embedder: Embedder | None = None,
    index: Callable[[Ledger], VectorIndex] | None = None,
) -> MemoryStore:
    """Open the configured store; create it if it does not exist.

    A ledger of an earlier version is upgraded, and a copy of the old ledger is kept.

    `embedder`: an object to use in place of the configured embedder. `index`: a function to use in
    place of the configured index; it is called with the ledger and returns an open vector index.
    The store needs an index only for users whose vectors take more than `memory.search.vectors_mb`
    of RAM.

    Raises: LedgerError; EmbedderMismatch if another embedder made the store's vectors.
    """
    opener = index or (lambda ledger: _open_index(ledger, config))
    store = _store(open_ledger(config), config, opener, embedder)
    try:
        with store.ledger.reading() as reader:
            store.embeddings.check(reader)
        store.scrub()  # clear what a crash or another process left of forgotten memories
    except BaseException:  # whatever ends the start, Ctrl-C too, must not leave the ledger open
        store.close()
        raise
    return store


def open_existing_store(config: Config) -> MemoryStore:
    """Open the configured store if it exists; create nothing.

    A ledger of an earlier version is upgraded, and a copy of the old ledger is kept.

    Raises: LedgerMissing if there is no store; LedgerError; EmbedderMismatch if another embedder
    made the store's vectors.
    """
    open_existing_ledger(config).close()
    return open_store(config)


def read_store(config: Config) -> MemoryStore:
    """Open the existing store for reading only. Nothing on disk changes, and Chroma is not opened.

    Raises: LedgerMissing; LedgerOutdated if an earlier version wrote the ledger; LedgerError;
    EmbedderMismatch if another embedder made the store's vectors.
    """
    return _store(read_ledger(config), config, open_index=None)


@contextlib.contextmanager
def open_to_examine(config: Config) -> Iterator[tuple[MemoryStore, str]]:
    """Yield the store, and a sentence about its limits ("" if it has none). Change no memory.

    If an earlier version wrote the ledger, the store is an upgraded copy, which is deleted after
    the block. If the ledger cannot be written, the store is opened for reading only. In these two
    cases the sentence says so.

    Raises: LedgerMissing, LedgerError.
    """
    try:
        read_ledger(config).close()
    except LedgerOutdated as exc:
        with tempfile.TemporaryDirectory(prefix="memory-doctor-") as folder:
            url = config.memory.effective_ledger_url
            copy = ledger.Ledger.upgraded_copy(url, Path(folder) / "ledger.db")
            with _store(copy, config, open_index=None) as store:
                yield store, str(exc)
        return
    try:
        store = open_store(config)
    except LedgerError as exc:
        with read_store(config) as store:
            yield store, f"it can only be read: {exc}"
        return
    with store:
        yield store, ""


def open_ledger(config: Config) -> Ledger:
    """Open the ledger without the rest of the store; create it if it does not exist.

    A ledger of an earlier version is upgraded, and a copy of the old ledger is kept. The embedder
    that made the vectors is not checked.

    Raises: LedgerError.
    """
    url = config.memory.effective_ledger_url
    try:
        return ledger.Ledger.create(url)
    except LedgerOutdated:
        copy = upgrade_ledger(config)
        logger.warning("the ledger was upgraded; as it was before, it is kept in %s", copy)
        return ledger.Ledger.create(url)


def open_existing_ledger(config: Config) -> Ledger:
    """Open the ledger, if it exists, without the rest of the store; create nothing.

    A ledger of an earlier version is upgraded, and a copy of the old ledger is kept.

    Raises: LedgerMissing if there is no ledger; LedgerError.
    """
    with contextlib.suppress(LedgerOutdated):
        read_ledger(config).close()
    return open_ledger(config)


def upgrade_ledger(config: Config) -> Path | None:
    """Upgrade the ledger to this version; return the path of a copy of the old ledger.

    Return None, and change nothing, if the ledger already is of this version.

    Raises: LedgerMissing, LedgerError.
    """
    return ledger.Ledger.upgrade(config.memory.effective_ledger_url, Path(config.memory.data_dir))


def read_ledger(config: Config) -> Ledger:
    """Open the existing ledger, without the rest of the store, for reading only.

    Raises: LedgerMissing; LedgerOutdated if an earlier version wrote it; LedgerError.
    """
    return ledger.Ledger.open(config.memory.effective_ledger_url)


def _store(
    ledger: Ledger,
    config: Config,
    open_index: Callable[[Ledger], VectorIndex] | None,
    own: Embedder | None = None,
) -> MemoryStore:
    try:
        embedder = providers.OwnEmbedder(own) if own is not None else build_embedder(config)
        return store.MemoryStore(
            ledger,
            embedder,
            open_index,
            index_at_once=config.memory.chroma.host is not None,
            vectors_mb=config.memory.search.vectors_mb,
            scope_fields=config.memory.dedup_scope,
            hybrid=config.memory.search.hybrid,
            scale=build_scale(config, embedder),
        )
    except BaseException:  # Ctrl-C too must not leave the ledger open
        ledger.close()
        raise


def _open_index(ledger: Ledger, config: Config) -> VectorIndex:
    """Open the configured index: your own, a Chroma server, or Chroma in the data folder.

    The store uses the index for users whose vectors do not fit into RAM.

    Raises: IndexFault if your own index cannot be made, if another process has the folder open, or
    if no server answers.
    """
    if config.memory.search.index != "chroma":
        try:
            own: VectorIndex = _call_factory(
                config, "memory.search.index", config.memory.search.index
            )
        except ConfigError as exc:
            raise IndexFault(str(exc)) from exc
        return own
    chroma = config.memory.chroma
    if chroma.host is not None:
        server = search.ChromaServer(
            host=chroma.host,
            port=chroma.port,
            ssl=chroma.ssl,
            tenant=chroma.tenant,
            database=chroma.database,
            headers=chroma_headers(),
        )
        return search.ServedChroma(server, ledger.store_id())
    return search.EmbeddedChroma(Path(config.memory.data_dir) / "chroma")


# --- the language model ---------------------------------------------------------------------------


def build_model(config: Config, own: LanguageModel | None = None) -> LanguageModel:
    """Return the language model to use: the first of these that applies.

    1. `own`, your own model, if given
    2. the configured model
    3. Gemini, if its API key is set
    4. the offline model

    All models but the offline model are wrapped in a circuit breaker.

    Raises: ConfigError if a key or a library is missing, or if your own model cannot be made.
    """
    if own is None and ":" in config.llm.provider:
        own = _call_factory(config, "llm.provider", config.llm.provider)
    if own is not None:
        return guarded(own, config)
    if config.llm.provider == "offline" or (config.llm.provider == "auto" and not config.api_key):
        return offline.OfflineModel()
    if config.llm.provider == "openai":
        with installed("openai", "llm.provider"):
            make = providers.OpenAIModel
        if config.llm.model is None:
            remedy = "set llm.model to a name that it knows"
            raise ConfigError("llm.provider", "", "openai needs the name of a model", remedy)
        server = _openai_server(config, "llm.provider", config.llm.base_url)
        return _with_breaker(make(server, config.llm, config.llm.model), config)
    key = _gemini_key(config, "llm.provider")
    return _with_breaker(providers.GeminiModel(key, config.llm), config)


def guarded(model: LanguageModel, config: Config) -> LanguageModel:
    """Wrap a model so that its failures become errors of this package; return the wrapped model.

    Three kinds of models are returned unchanged: the offline model, models that are already
    wrapped, and models from a provider of this package.

    Raises: ConfigError if your own object lacks a required attribute.
    """
    ours = providers.GuardedModel | providers.RemoteModel
    if type(model) is offline.OfflineModel or isinstance(model, ours):
        return model
    return _with_breaker(model, config, config.llm.concurrency)


def _with_breaker(
    model: LanguageModel, config: Config, concurrency: int | None = None
) -> LanguageModel:
    llm = config.llm
    return providers.GuardedModel(
        model,
        concurrency=concurrency,
        failures=llm.breaker_failures,
        pause_s=llm.breaker_pause_s,
        # A person waits timeout_s for a reply, a write budget_s: both leave later than this.
        patience_s=min(llm.timeout_s, llm.budget_s) / 2,
    )


# --- the embedder ---------------------------------------------------------------------------------


def build_embedder(config: Config) -> Embedder:
    """Return the configured embedder. An embedder on this machine loads its model at the first use.

    Raises: ConfigError if a key or a library is missing, or if your own embedder cannot be made.
    """
    embedding, setting = config.memory.embedding, "memory.embedding.provider"
    if ":" in embedding.provider:
        return embedder_from(config, embedding.provider, setting)
    if embedding.provider == "minilm":
        return providers.MiniLMEmbedder(search.load_minilm)
    if embedding.provider == "gemini":
        key = _gemini_key(config, setting)
        return providers.GeminiEmbedder(key, config.llm, embedding.model, embedding.dim)
    if embedding.provider != "openai":
        return providers.WordLlamaEmbedder()
    with installed("openai", setting):
        make = providers.OpenAIEmbedder
    if (embedding.model is None) != (embedding.dim is None):
        problem = "openai needs both the model and the length of its vectors, or neither"
        remedy = "set memory.embedding.model and memory.embedding.dim"
        raise ConfigError(setting, "", problem, remedy)
    of_the_model = config.llm.base_url if config.llm.provider == "openai" else None
    server = _openai_server(config, setting, embedding.base_url or of_the_model)
    return make(server, config.llm, embedding.model, embedding.dim)


def embedder_from(config: Config, factory: str, setting: str = "--embedder") -> Embedder:
    """Call a factory, given as `package.module:factory`, and return the embedder that it makes.

    `setting`: the setting or option that names the factory, for error messages.

    Raises: ConfigError if the factory fails.
    """
    return providers.OwnEmbedder(_call_factory(config, setting, factory))


def build_scale(config: Config, embedder: Embedder) -> Scale:
    """Return the curve that converts the embedder's cosine into a similarity from 0 to 1.

    If thresholds were configured without a scale, the similarity is the plain cosine, and a warning
    is logged.
    """
    if config.memory.thresholds_without_scale:
        logger.warning(PLAIN_THRESHOLDS)
    return config.memory.scale_for(embedder.fingerprint)


# --- what a provider needs ------------------------------------------------------------------------


def _call_factory(config: Config, setting: str, provider: str) -> Any:
    """Call a factory, given as `package.module:factory`, and return what it makes.

    The factory receives the configuration if it takes an argument. `setting`: the setting or option
    that names the factory, for error messages.

    Raises: ConfigError if the factory fails.
    """
    module, _, name = provider.partition(":")
    try:
        factory = attrgetter(name)(importlib.import_module(module))
        takes_one = bool(inspect.signature(factory).parameters)
        return factory(config) if takes_one else factory()
    except ConfigError:
        raise
    except Exception as exc:  # somebody else's code raises anything: the setting is at fault
        raise ConfigError(
            setting,
            "",
            f"{provider} gives nothing ({type(exc).__name__}: {exc})",
            "name an installed module and what makes one in it",
        ) from exc


def _gemini_key(config: Config, setting: str) -> SecretStr:
    """Return the API key of Gemini. `setting`: the setting that needs it, for error messages.

    Raises: ConfigError if there is none.
    """
    if config.api_key is None:
        raise ConfigError(setting, "", "gemini needs an API key", "set GEMINI_API_KEY")
    return config.api_key


def _openai_server(config: Config, setting: str, base_url: str | None) -> providers.OpenAIServer:
    """Return an OpenAI server: its address and its API key.

    The address is `base_url`, if given; else the value of OPENAI_BASE_URL, if set; else OpenAI's
    own server. Only OpenAI's own server needs a key. `setting`: the setting that needs the server,
    for error messages.

    Raises: ConfigError if the address is not valid, or if OpenAI's key is missing.
    """
    url = base_url or config.openai_url
    if url is not None:
        try:
            server_url(url)
        except ValueError as exc:
            raise ConfigError("OPENAI_BASE_URL", "", str(exc)) from exc
        return providers.OpenAIServer(config.openai_key, url)
    if config.openai_key is None:
        remedy = "set OPENAI_API_KEY, or name a server that needs none in llm.base_url"
        raise ConfigError(setting, "", "openai needs an API key", remedy)
    return providers.OpenAIServer(config.openai_key)


@contextlib.contextmanager
def installed(extra: str, setting: str) -> Iterator[None]:
    """Run the block; if it cannot import a library, raise an error that says how to install it.

    `extra`: the name of this package's extra that installs the library. `setting`: the setting that
    needs the library, for the error message.

    Raises: ConfigError if the library is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as exc:
        library = (exc.name or extra).partition(".")[0]
        problem, remedy = f"{library} is not installed", f"pip install '.[{extra}]'"
        raise ConfigError(setting, "", problem, remedy) from exc


def chroma_headers() -> dict[str, str]:
    """Return the headers for a Chroma server: the key in `CHROMA_API_KEY`; {} if it is not set."""
    key = os.environ.get("CHROMA_API_KEY")
    return {"x-chroma-token": key} if key else {}
