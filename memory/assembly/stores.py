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
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from memory import interchange, ledger, providers, search, store
from memory.config import PLAIN_THRESHOLDS, Config, server_url
from memory.errors import (
    ConfigError,
    IndexFault,
    InputError,
    LedgerError,
    LedgerOutdated,
    installed,
)
from memory.models import Embedder, LanguageModel, VectorIndex, checked

logger = logging.getLogger(__name__)


# --- the store ----------------------------------------------------------------------------------


@checked
def open_store(
    config: Config,
    embedder: Embedder | None = None,
    index: Callable[[ledger.Ledger], VectorIndex] | None = None,
) -> store.MemoryStore:
    """Open the configured store; create it if it does not exist.

    A ledger of an earlier version is upgraded, and a copy of the old ledger is kept. `embedder`
    replaces the configured embedder. `index`, a function that takes the ledger and returns an open
    vector index, replaces the configured index. The store needs an index only for users whose
    vectors take more than `memory.search.vectors_mb` megabytes of RAM.

    >>> with open_store(config) as opened:
    ...     opened.find_similar("Nobody said this.", user="Nobody")

    Raises: LedgerError; EmbedderMismatch if another embedder made the store's vectors.
    """
    open_index = index or (lambda ledger: _open_index(ledger, config))
    store = _store(open_ledger(config), config, open_index, embedder)
    try:
        with store.ledger.reading() as reader:
            store.embeddings.check(reader)
        store.scrub()  # clear what a crash or another process left of forgotten memories
    except BaseException:  # whatever ends the start, Ctrl-C too, must not leave the ledger open
        store.close()
        raise
    return store


def open_existing_store(config: Config) -> store.MemoryStore:
    """Open the configured store as `open_store` does, but only if it exists.

    >>> with open_existing_store(config) as opened:
    ...     opened.counts().live
    0
    >>> open_existing_store(config.at("nowhere"))
    Traceback (most recent call last):
        ...
    memory.errors.LedgerMissing: there are no memories at nowhere/ledger.db yet; remember...

    Raises: LedgerMissing if there is no store; LedgerError; EmbedderMismatch if another embedder
    made the store's vectors.
    """
    open_existing_ledger(config).close()
    return open_store(config)


def read_store(config: Config) -> store.MemoryStore:
    """Open the existing store for reading only. Nothing on disk changes.

    The vector index is not opened, so all searches are exact, but slow for users with very many
    memories. This function does not check which embedder made the stored vectors. Methods of the
    store that use them raise EmbedderMismatch if it was another one than the configured embedder.

    >>> with read_store(config) as opened:
    ...     try:
    ...         opened.add(opened.new_memory("Mia rows."))
    ...     except MemoryPipelineError as error:
    ...         print(type(error).__name__, error.remedy)
    LedgerError make the data folder writable

    Raises: LedgerMissing; LedgerOutdated if an earlier version wrote the ledger; LedgerError.
    """
    return _store(read_ledger(config), config, open_index=None)


@contextlib.contextmanager
def open_to_examine(config: Config) -> Iterator[tuple[store.MemoryStore, str]]:
    """Yield the store, and a note that says why it can only be read ("" if it can be written).

    No memory is changed. If an earlier version wrote the ledger, an upgraded copy is opened, and
    deleted after the block.

    >>> with open_to_examine(config) as (opened, note):
    ...     opened.counts().live, note
    (0, '')

    Raises: LedgerMissing, LedgerError.
    """
    limit = ""
    with contextlib.ExitStack() as opened:
        try:
            read_ledger(config).close()
            store = open_store(config)
        except LedgerOutdated as exc:
            limit = str(exc)
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="memory-doctor-"))
            url = config.memory.effective_ledger_url
            copy = ledger.Ledger.upgraded_copy(url, Path(folder) / "ledger.db")
            store = _store(copy, config, open_index=None)
        except LedgerError as exc:
            limit = f"it can only be read: {exc}"
            store = read_store(config)
        yield opened.enter_context(store), limit


def open_ledger(config: Config) -> ledger.Ledger:
    """Open the ledger, and create it if it does not exist; upgrade a ledger of an earlier version.

    Unlike `open_store`, this does not check that the configured embedder made the stored vectors.

    >>> with open_ledger(config.at("new")) as ledger, ledger.reading() as reader:
    ...     reader.counts().live
    0

    Raises: LedgerError.
    """
    url = config.memory.effective_ledger_url
    try:
        return ledger.Ledger.create(url)
    except LedgerOutdated:
        copy = upgrade_ledger(config)
        logger.warning("the ledger was upgraded; as it was before, it is kept in %s", copy)
        return ledger.Ledger.create(url)


def open_existing_ledger(config: Config) -> ledger.Ledger:
    """Open the ledger as `open_ledger` does, but only if it exists.

    >>> with open_existing_ledger(config) as ledger:
    ...     ledger.read_only
    False
    >>> open_existing_ledger(config.at("nowhere"))
    Traceback (most recent call last):
        ...
    memory.errors.LedgerMissing: there are no memories at nowhere/ledger.db yet; remember...

    Raises: LedgerMissing if there is no ledger; LedgerError.
    """
    with contextlib.suppress(LedgerOutdated):
        read_ledger(config).close()
    return open_ledger(config)


def upgrade_ledger(config: Config) -> Path | None:
    """Upgrade the ledger to this version; return the path of a copy of the old ledger.

    Return None if the ledger already is of this version.

    >>> print(upgrade_ledger(config))
    None

    Raises: LedgerMissing, LedgerError.
    """
    return ledger.Ledger.upgrade(config.memory.effective_ledger_url, Path(config.memory.data_dir))


def read_ledger(config: Config) -> ledger.Ledger:
    """Open the existing ledger, without the rest of the store, for reading only.

    >>> with read_ledger(config) as ledger:
    ...     ledger.read_only
    True

    Raises: LedgerMissing; LedgerOutdated if an earlier version wrote it; LedgerError.
    """
    return ledger.Ledger.open(config.memory.effective_ledger_url)


def _store(
    ledger: ledger.Ledger,
    config: Config,
    open_index: Callable[[ledger.Ledger], VectorIndex] | None,
    own: Embedder | None = None,
) -> store.MemoryStore:
    try:
        embedder = providers.OwnEmbedder(own) if own is not None else build_embedder(config)
        if config.memory.thresholds_without_scale:
            logger.warning(PLAIN_THRESHOLDS)
        with ledger.reading() as reader:
            kinds = interchange.noted_kinds(reader)
        return store.MemoryStore(
            ledger,
            embedder,
            open_index,
            index_at_once=config.memory.search.chroma_url is not None,
            vectors_mb=config.memory.search.vectors_mb,
            scope_fields=tuple(dict.fromkeys((*config.memory.dedup_scope, *kinds))),
            folds=config.memory.dedup_enabled,
            zone=config.memory.zone,
            scale=config.memory.scale_for(embedder.fingerprint),
        )
    except BaseException:  # Ctrl-C too must not leave the ledger open
        ledger.close()
        raise


def _open_index(ledger: ledger.Ledger, config: Config) -> VectorIndex:
    if config.memory.search.index != "chroma":
        try:
            own: VectorIndex = _call_factory(
                config, "memory.search.index", config.memory.search.index
            )
        except ConfigError as exc:
            raise IndexFault(str(exc)) from exc
        return own
    url = config.memory.search.chroma_url
    if url is not None:
        return search.ServedChroma(chroma_server(url), ledger.store_id())
    return search.EmbeddedChroma(Path(config.memory.data_dir) / "chroma")


# --- the language model ---------------------------------------------------------------------------


def build_model(config: Config, own: LanguageModel | None = None) -> LanguageModel:
    """Return the language model to use: the first of these that applies.

    1. `own`, a model object of your own, if given
    2. the configured model
    3. Gemini, if its API key is set
    4. the offline model

    >>> build_model(config).name
    'offline'
    >>> try:
    ...     build_model(config, own="gpt")
    ... except MemoryPipelineError as error:
    ...     print(error)
    the language model: has no name, judge, extract, reply, aclose; see docs/own-models.md

    Raises: ConfigError if an API key, a library or the name of the model is missing. ConfigError,
    too, if `llm.provider` names a factory that fails, or if a model lacks a required attribute.
    """
    if own is None and ":" in config.llm.provider:
        own = _call_factory(config, "llm.provider", config.llm.provider)
    if own is not None:
        return with_guards(own, config)
    if config.llm.provider == "offline" or (config.llm.provider == "auto" and not config.api_key):
        return providers.OfflineModel()
    wanted = config.memory
    prompt = providers.extraction_prompt(wanted.extraction_instructions, wanted.categories)
    if config.llm.provider == "openai":
        with installed("openai", "llm.provider"):
            make = providers.OpenAIModel
        if config.llm.model is None:
            raise ConfigError(
                "llm.provider",
                "",
                "openai needs the name of a model",
                "set llm.model to a name that it knows",
            )
        server = _openai_server(config, "llm.provider", config.llm.base_url)
        return with_guards(make(server, config.llm, config.llm.model, prompt), config)
    key = _gemini_key(config, "llm.provider")
    return with_guards(providers.GeminiModel(key, config.llm, prompt), config)


def with_guards(model: LanguageModel, config: Config) -> LanguageModel:
    """Wrap a model in a circuit breaker, which turns the model's exceptions into ModelErrors.

    The offline model and a model that is already wrapped are returned unchanged.

    Raises: ConfigError if the model lacks a required attribute.
    """
    if type(model) is providers.OfflineModel or isinstance(model, providers.GuardedModel):
        return model
    llm = config.llm
    return providers.GuardedModel(
        model,
        concurrency=None if isinstance(model, providers.RemoteModel) else llm.concurrency,
        patience_s=llm.timeout_s / 2,  # a caller waits at least twice as long
    )


# --- the embedder ---------------------------------------------------------------------------------


def build_embedder(config: Config) -> Embedder:
    """Return the configured embedder. An embedder on this machine loads its model at the first use.

    >>> embedder = build_embedder(config)
    >>> embedder.fingerprint, embedder.embed(["Mia has a cat."]).shape
    ('wordllama-l2_supercat-256/unit/nfkc-casefold', (1, 256))

    Raises: ConfigError if an API key or a library is missing, or if the configuration names an
    embedder of the user's own that cannot be imported or built.
    """
    embedding, setting = config.memory.embedding, "memory.embedding.provider"
    if ":" in embedding.provider:
        return embedder_from(config, embedding.provider, setting)
    if embedding.provider == "minilm":
        return providers.MiniLMEmbedder(search.load_minilm)
    if embedding.provider == "gemini":
        return providers.GeminiEmbedder(
            _gemini_key(config, setting), config.llm, embedding.model, embedding.dim
        )
    if embedding.provider != "openai":
        return providers.WordLlamaEmbedder()
    with installed("openai", setting):
        make = providers.OpenAIEmbedder
    if (embedding.model is None) != (embedding.dim is None):
        raise ConfigError(
            setting,
            "",
            "openai needs both the model and the length of its vectors, or neither",
            "set memory.embedding.model and memory.embedding.dim",
        )
    of_the_model = config.llm.base_url if config.llm.provider == "openai" else None
    server = _openai_server(config, setting, embedding.base_url or of_the_model)
    return make(server, config.llm, embedding.model, embedding.dim)


def embedder_from(config: Config, factory: str, setting: str = "--embedder") -> Embedder:
    """Call a factory, given as `package.module:factory`, and return the embedder that it makes.

    `setting`: the setting or option that names the factory, for error messages.

    Raises: ConfigError if the factory fails.
    """
    return providers.OwnEmbedder(_call_factory(config, setting, factory))


# --- what a provider needs ------------------------------------------------------------------------


def _call_factory(config: Config, setting: str, provider: str) -> Any:
    """Call the factory `provider`, given as `package.module:factory`, and return its result.

    If the factory takes an argument, it gets the configuration.

    Raises: ConfigError, which names `setting`, if the factory fails.
    """
    module, _, name = provider.partition(":")
    try:
        factory = attrgetter(name)(importlib.import_module(module))
        takes_one = bool(inspect.signature(factory).parameters)
        return factory(config) if takes_one else factory()
    except ConfigError:
        raise
    except Exception as exc:  # your own code may raise anything: the setting is at fault
        raise ConfigError(
            setting,
            "",
            f"{provider} gives nothing ({type(exc).__name__}: {exc})",
            "name an installed module and what makes one in it",
        ) from exc


def _gemini_key(config: Config, setting: str) -> SecretStr:
    if config.api_key is None:
        raise ConfigError(setting, "", "gemini needs an API key", "set GEMINI_API_KEY")
    return config.api_key


def _openai_server(config: Config, setting: str, base_url: str | None) -> providers.OpenAIServer:
    """Return the server at `base_url` or, if this is None, at the address in OPENAI_BASE_URL.

    If neither is set, return OpenAI's own server, which needs an API key. `setting`: the setting
    that needs the server, for error messages.

    Raises: ConfigError if the key is missing or the address is not valid.
    """
    url = base_url or config.openai_url
    if url is not None:
        try:
            server_url(url)
        except ValueError as exc:
            raise ConfigError("OPENAI_BASE_URL", "", str(exc)) from exc
        return providers.OpenAIServer(config.openai_key, url)
    if config.openai_key is None:
        raise ConfigError(
            setting,
            "",
            "openai needs an API key",
            "set OPENAI_API_KEY, or name a server that needs none in llm.base_url",
        )
    return providers.OpenAIServer(config.openai_key)


def chroma_server(url: str) -> search.ChromaServer:
    """Return the Chroma server at `url`, with the key, tenant and database of the environment.

    >>> chroma_server("http://127.0.0.1").port
    8000

    Raises: InputError.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 8000)
    except ValueError as exc:
        raise InputError(url, f"has no port ({exc})", "give http://HOST:PORT") from exc
    if not parts.hostname or parts.path.strip("/") or parts.query:
        raise InputError(url, "is no address of a Chroma server", "give http://HOST:PORT")
    key = os.environ.get("CHROMA_API_KEY")
    return search.ChromaServer(
        host=parts.hostname,
        port=port,
        ssl=parts.scheme == "https",
        tenant=os.environ.get("CHROMA_TENANT") or "default_tenant",
        database=os.environ.get("CHROMA_DATABASE") or "default_database",
        headers={"x-chroma-token": key} if key else {},
    )
