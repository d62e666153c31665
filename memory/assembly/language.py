"""The language model: one's own, the configured one, or the offline one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory.assembly.access import gemini_key, installed, made, openai_server
from memory.errors import ConfigError

if TYPE_CHECKING:
    from memory.config import Config
    from memory.protocols import LanguageModel


def build_model(config: Config, own: LanguageModel | None = None) -> LanguageModel:
    """One's own, else the configured one, else Gemini where its key is set, else the offline one.

    All but the offline one are left alone for a while when they fail again and again.

    Raises: ConfigError where a key or a library is wanted and missing, or one's own cannot be made.
    """
    from memory.offline import OfflineModel

    if own is None and ":" in config.llm.provider:
        own = made(config, "llm.provider", config.llm.provider)
    if own is not None:
        return guarded(own, config)
    if config.llm.provider == "offline" or (config.llm.provider == "auto" and not config.api_key):
        return OfflineModel()
    if config.llm.provider == "openai":
        return _with_breaker(_openai_model(config), config)
    from memory.providers import GeminiModel  # 0.4 s that the offline model does without

    return _with_breaker(GeminiModel(gemini_key(config, "llm.provider"), config.llm), config)


def guarded(model: LanguageModel, config: Config) -> LanguageModel:
    """Return a model whose failures are ours; one of this package is returned as it is.

    Raises: ConfigError where somebody's own object lacks something.
    """
    from memory.offline import OfflineModel
    from memory.providers import CircuitBreaker, OwnModel, RemoteModel

    if type(model) is OfflineModel or isinstance(model, CircuitBreaker | OwnModel | RemoteModel):
        return model
    return _with_breaker(OwnModel(model, config.llm.concurrency), config)


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


def _openai_model(config: Config) -> LanguageModel:
    with installed("openai", "llm.provider"):
        from memory.providers import OpenAIModel

    if config.llm.model is None:
        remedy = "set llm.model to a name that it knows"
        raise ConfigError("llm.provider", "", "openai needs the name of a model", remedy)
    server = openai_server(config, "llm.provider", config.llm.base_url)
    return OpenAIModel(server, config.llm, config.llm.model)
