"""Every key by its path: its type, its variable, and which one a wrong name is most like."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from memory.config.settings import AgentConfig, LLMConfig, MemoryConfig

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
"""What comes from the environment alone, and from which variable."""
KeyPath = tuple[str, ...]
Sources = dict[KeyPath, str]
"""Where each key stands: `config.yaml:7`, or the variable."""
EVERY_KEY = "docs/configuration.md lists every key"


def all_leaves() -> list[tuple[KeyPath, Any]]:
    """Every key, with its type."""
    return [leaf for section, model in SECTIONS.items() for leaf in _leaves(model, (section,))]


def _leaves(model: type[BaseModel], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, (*above, name))
        else:
            yield (*above, name), field.annotation


def variable(key_path: KeyPath) -> str:
    """MEMORY_DATA_DIR, MEMORY_LLM_MODEL."""
    return "_".join(["memory", *key_path] if key_path[0] != "memory" else key_path).upper()


def put(values: dict[str, Any], key_path: KeyPath, value: Any) -> None:
    """Set a key, in sections that are copied: they may be somebody else's."""
    for name in key_path[:-1]:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[key_path[-1]] = value


def meant(key_path: KeyPath) -> str:
    """The known key most like the unknown one."""
    known = {leaf[-1]: ".".join(leaf) for leaf, _ in all_leaves()}
    known |= {name: name for name in SECTIONS}
    close = difflib.get_close_matches(key_path[-1], known, n=1)
    return f"did you mean {known[close[0]]}?" if close else EVERY_KEY
