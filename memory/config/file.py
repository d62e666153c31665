"""config.yaml: its values with their lines, and whether it belongs to this package."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from memory.config.settings import ACCESS, SECTIONS, Config, MemoryConfig
from memory.errors import ConfigError

logger = logging.getLogger(__name__)

KeyPath = tuple[str, ...]
Sources = dict[KeyPath, str]
"""Where each key was set: `config.yaml:7`, or the variable."""


def read(path: Path) -> tuple[dict[str, Any], Sources]:
    """Return the file's values, and the line of each key.

    Raises: ConfigError.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.safe_load(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as exc:
        raise ConfigError(str(path), "", f"cannot be read: {exc.strerror}", "see --config") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(str(path), "", "is not UTF-8 text", "save it as UTF-8") from exc
    except yaml.YAMLError as exc:
        raise _broken_yaml(path, exc) from exc
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1", "", "must hold settings by name", "start with `memory:`")
    sources: Sources = {}
    try:
        for key_path, line in _lines(node, ()):
            where, name = f"{path}:{line}", ".".join(key_path)
            if key_path in sources:
                raise ConfigError(where, name, "is set twice", "keep one of them")
            sources[key_path] = where
    except RecursionError as exc:
        raise ConfigError(str(path), "", "refers to itself", "remove the alias") from exc
    return values, sources


def found(path: Path) -> tuple[dict[str, Any], Sources] | None:
    """Return our keys of a ./config.yaml; None if it is missing or another program's.

    An empty file is ours: the data stay beside it.

    Raises: ConfigError if it is ours and wrong.
    """
    if not path.is_file():
        return None
    try:
        values, sources = read(path)
    except ConfigError:
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^(memory|api_key)\s*:", text, re.MULTILINE) is None:
            return None  # another program's file need not be YAML
        raise
    if not _is_ours(values):
        if _resembles_ours(values):
            logger.warning(
                "%s is taken for another program's; name it with --config to use it", path
            )
        return None
    mine = {*SECTIONS, *ACCESS}
    return (
        {name: value for name, value in values.items() if name in mine},
        {key_path: where for key_path, where in sources.items() if key_path[0] in mine},
    )


def _is_ours(values: Mapping[str, Any]) -> bool:
    """Whether `memory:` has nearly a key of ours, or all sections are valid as ours.

    Another program's `llm:` could send memories to another server, so a `base_url` alone is not
    enough.
    """
    if not values:
        return True
    if "memory" in values or "api_key" in values:
        section = values.get("memory")
        return not section or _resembles_memory(section, 0.8)
    others = {name: values[name] for name in SECTIONS if name in values}
    llm = others.get("llm")
    if not others or (isinstance(llm, dict) and "base_url" in llm):
        return False
    try:
        Config.model_validate(others)
    except ValidationError:
        return False
    return True


def _resembles_ours(values: Mapping[str, Any]) -> bool:
    """Whether a section is nearly one of ours; for `memory:`, whether a key in it is."""
    close = {one for name in values for one in difflib.get_close_matches(str(name), SECTIONS, 1)}
    section = values.get("memory")
    if close != {"memory"} or not isinstance(section, dict):
        return bool(close)
    return _resembles_memory(section, 0.6)


def _resembles_memory(section: Any, cutoff: float) -> bool:
    keys = map(str, section) if isinstance(section, dict) else ()
    return any(difflib.get_close_matches(key, MemoryConfig.model_fields, 1, cutoff) for key in keys)


def _broken_yaml(path: Path, exc: yaml.YAMLError) -> ConfigError:
    mark = getattr(exc, "problem_mark", None)
    where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    problem = getattr(exc, "problem", None) or "cannot be parsed"
    return ConfigError(where, "", f"is not YAML: {problem}", "fix this line")


def _lines(node: yaml.Node | None, above: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        key_path = (*above, str(key.value))
        yield key_path, key.start_mark.line + 1
        yield from _lines(value, key_path)
