"""Single keys from the environment, or as settings of a call."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import yaml

from memory.config.keys import EVERY_KEY, SECTIONS, KeyPath, all_leaves, variable
from memory.errors import ConfigError

logger = logging.getLogger(__name__)

TOKENS_VARIABLE = "MEMORY_AGENT_TOKENS"
"""The tokens of an agent's server: lines of TOKEN USER."""
_NEARLY = 0.8
"""How alike a name is to one of ours, in 0..1, that is taken for a slip of the pen."""
_ONCE_OURS = (
    "PROVIDER", "MODEL", "BASE_URL", "TIMEOUT_S", "MAX_ATTEMPTS", "CONCURRENCY", "BUDGET_S",
    "BREAKER_FAILURES", "BREAKER_PAUSE_S",
)  # fmt: skip
"""Keys of `llm` that were read from `LLM_...` in the first version."""
Override = tuple[KeyPath, str, Any]
"""A key, where its value was given, and the value."""


def from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    for key_path, annotation in all_leaves():
        name = variable(key_path)
        if environ.get(name, "").strip():  # a blank one is none: not the current folder
            yield key_path, name, _parsed(environ[name], annotation)


def warn_of_names(environ: Mapping[str, str]) -> None:
    """Of variables that were ours once, and of those that are nearly ours now."""
    _warn_of_old_names(environ)
    _warn_of_misspelt_names(environ)


def _warn_of_old_names(environ: Mapping[str, str]) -> None:
    """`LLM_MODEL` was ours once; it may be another program's."""
    renamed = [
        f"{name} is {new} now"
        for name, new in ((f"LLM_{key}", f"MEMORY_LLM_{key}") for key in _ONCE_OURS)
        if name in environ and new not in environ
    ]
    if renamed:
        told = ", ".join(renamed)
        logger.warning("variables that memory-dedup does not read any more: %s", told)


def _warn_of_misspelt_names(environ: Mapping[str, str]) -> None:
    """Of what is nearly one of ours; other programs have variables of their own."""
    known = {variable(key_path) for key_path, _ in all_leaves()} | {TOKENS_VARIABLE}
    for name in sorted(environ):
        if name.startswith("MEMORY_") and name not in known:
            for close in difflib.get_close_matches(name, known, 1, _NEARLY):
                logger.warning("%s is not known, and not read; did you mean %s?", name, close)


def from_settings(settings: Mapping[str, Any]) -> Iterator[Override]:
    """Keys by `data_dir`, `llm_model`, `chroma_host`; sections as mappings.

    Raises: ConfigError.
    """
    by_name = {
        variable(key_path).lower().removeprefix("memory_"): key_path for key_path, _ in all_leaves()
    }
    for name, value in settings.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from (((name, key), f"setting {name}", one) for key, one in value.items())
        elif name in by_name:
            yield by_name[name], f"setting {name}", value
        else:
            close = difflib.get_close_matches(name, by_name, n=1)
            remedy = f"did you mean {close[0]}?" if close else EVERY_KEY
            raise ConfigError(f"setting {name}", "", "is not known", remedy)


def _parsed(text: str, annotation: Any) -> Any:
    """Text stays text where the key wants text; else it is read as YAML reads it."""
    if annotation is bool and text in ("0", "1"):
        return text == "1"
    if annotation is str or (str in get_args(annotation) and text != ""):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
