"""What a provider needs: a key, a server, a library, or a factory of one's own."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from memory.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from memory.config import Config
    from memory.providers import OpenAIServer


def made(config: Config, setting: str, provider: str) -> Any:
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


def gemini_key(config: Config, setting: str) -> SecretStr:
    if config.api_key is None:
        raise ConfigError(setting, "", "gemini needs an API key", "set GEMINI_API_KEY")
    return config.api_key


def openai_server(config: Config, setting: str, base_url: str | None) -> OpenAIServer:
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
def installed(extra: str, setting: str) -> Iterator[None]:
    """Raises: ConfigError where an extra's library is not installed."""
    try:
        yield
    except ModuleNotFoundError as exc:
        library = (exc.name or extra).partition(".")[0]
        problem, remedy = f"{library} is not installed", f"pip install '.[{extra}]'"
        raise ConfigError(setting, "", problem, remedy) from exc


def chroma_headers() -> dict[str, str]:
    """What a Chroma server wants to see."""
    key = os.environ.get("CHROMA_API_KEY")
    return {"x-chroma-token": key} if key else {}
