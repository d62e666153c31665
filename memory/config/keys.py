"""Every configuration key: its path, type and environment variable, and the values given for it."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from memory.config.settings import AgentConfig, LLMConfig, MemoryConfig
from memory.errors import ConfigError

logger = logging.getLogger(__name__)

SECTIONS: dict[str, type[BaseModel]] = {
    "memory": MemoryConfig,
    "llm": LLMConfig,
    "agent": AgentConfig,
}
ACCESS = {
    "api_key": "GEMINI_API_KEY",
    "openai_key": "OPENAI_API_KEY",
    "openai_url": "OPENAI_BASE_URL",
}
"""Fields of `Config` that only an environment variable can set."""
TOKENS_VARIABLE = "MEMORY_AGENT_TOKENS"
"""The tokens of an agent's server: lines of TOKEN USER."""
EVERY_KEY = "docs/configuration.md lists every key"
_SIMILAR = 0.8
"""From 0 to 1: a name this similar to a variable of this package is taken for a typing error."""
KeyPath = tuple[str, ...]
Sources = dict[KeyPath, str]
"""Where each key was set: `config.yaml:7`, or the variable."""
Override = tuple[KeyPath, str, Any]
"""A key, where its value was given, and the value."""


def all_keys() -> list[tuple[KeyPath, Any]]:
    """Return every key with its type."""
    return [key for section, model in SECTIONS.items() for key in _keys(model, (section,))]


def _keys(model: type[BaseModel], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, (*above, name))
        else:
            yield (*above, name), field.annotation


def variable(key_path: KeyPath) -> str:
    """Return the environment variable: MEMORY_DATA_DIR, MEMORY_LLM_MODEL."""
    return "_".join(["memory", *key_path] if key_path[0] != "memory" else key_path).upper()


def put(values: dict[str, Any], key_path: KeyPath, value: Any) -> None:
    """Set a key in nested sections, which are copied before they are changed."""
    for name in key_path[:-1]:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[key_path[-1]] = value


def suggestion(key_path: KeyPath) -> str:
    """Suggest the known key that is most like an unknown one."""
    known = {path[-1]: ".".join(path) for path, _ in all_keys()}
    known |= {name: name for name in SECTIONS}
    close = difflib.get_close_matches(key_path[-1], known, n=1)
    return f"did you mean {known[close[0]]}?" if close else EVERY_KEY


# --- values from the environment and from a call --------------------------------------------------


def from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    """Yield the keys that variables set; warn of names that are nearly a known variable."""
    variables = {variable(key_path): (key_path, type_) for key_path, type_ in all_keys()}
    for name in sorted(environ):
        if name in variables and environ[name].strip():  # a blank folder is not the current one
            key_path, type_ = variables[name]
            yield key_path, name, _parsed(environ[name], type_)
        elif name.startswith("MEMORY_") and name not in (*variables, TOKENS_VARIABLE):
            known = [*variables, TOKENS_VARIABLE]
            for close in difflib.get_close_matches(name, known, 1, _SIMILAR):
                logger.warning("%s is not known, and not read; did you mean %s?", name, close)


def from_settings(settings: Mapping[str, Any]) -> Iterator[Override]:
    """Yield keys given as `data_dir`, `llm_model`, `chroma_host`, or as sections.

    Raises: ConfigError.
    """
    by_name = {variable(path).lower().removeprefix("memory_"): path for path, _ in all_keys()}
    for name, value in settings.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from (((name, key), f"setting {name}", one) for key, one in value.items())
        elif name in by_name:
            yield by_name[name], f"setting {name}", value
        else:
            close = difflib.get_close_matches(name, by_name, n=1)
            remedy = f"did you mean {close[0]}?" if close else EVERY_KEY
            raise ConfigError(f"setting {name}", "", "is not known", remedy)


def _parsed(text: str, type_: Any) -> Any:
    """Return text for keys that hold text; parse other values as YAML."""
    if type_ is bool and text in ("0", "1"):
        return text == "1"
    if type_ is str or (str in get_args(type_) and text != ""):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
