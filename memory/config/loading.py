"""config.yaml and the environment, read once into a `Config`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import platformdirs
from pydantic import SecretStr, ValidationError

from memory.config.file import found, read
from memory.config.keys import ACCESS, EVERY_KEY, KeyPath, Sources, meant, put
from memory.config.overrides import Override, from_environment, from_settings, warn_of_names
from memory.config.settings import AgentConfig, Config
from memory.errors import ConfigError
from memory.models import Problem, first_problem

DEFAULT_FILE = Path("config.yaml")


def load_config(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Config:
    """The configuration of a file, else of ./config.yaml where that is ours, else the defaults.

    On top of it the environment, and on top of that the settings: single keys by the names of their
    variables, in lower case and without `MEMORY_`, or whole sections by theirs.

    Raises: ConfigError, naming the file and line or the variable, the key and what to do.
    """
    warn_of_names(environ)
    own = read(path) if path is not None else found(DEFAULT_FILE)
    if path is None and own is not None:
        path = DEFAULT_FILE
    values, sources = own or ({}, {})
    for name in ACCESS.keys() & values.keys():
        problem = f"{ACCESS[name]} does not belong in a file"
        remedy = f"set {ACCESS[name]} in the environment"
        raise ConfigError(sources[(name,)], name, problem, remedy)
    overrides = [*from_environment(environ), *from_settings(settings)]
    config = _laid_over(values, sources, overrides, path)
    return _with_absolute_paths(config.model_copy(update=_access(environ)), path)


def _access(environ: Mapping[str, str]) -> dict[str, Any]:
    """Keys, and where the providers' own variables say that their servers are."""
    gemini = environ.get("GEMINI_API_KEY") or environ.get("GOOGLE_API_KEY")
    openai = environ.get("OPENAI_API_KEY")
    return {
        "api_key": SecretStr(gemini) if gemini else None,
        "openai_key": SecretStr(openai) if openai else None,
        "openai_url": environ.get("OPENAI_BASE_URL") or None,
    }


def configured(config: Config | Path | None, settings: Mapping[str, Any]) -> Config:
    """A configuration, or that of a file, else as `load_config` finds it; settings on top.

    Raises: ConfigError.
    """
    if not isinstance(config, Config):
        return load_config(config, settings=settings)
    values, sources = config.model_dump(exclude_unset=True), Sources()
    changed = _laid_over(values, sources, from_settings(settings), None)
    return changed.model_copy(update={name: getattr(config, name) for name in ACCESS})


def _laid_over(
    values: dict[str, Any], sources: Sources, overrides: Iterable[Override], path: Path | None
) -> Config:
    """Raises: ConfigError."""
    for key_path, name, value in overrides:
        put(values, key_path, value)
        sources[key_path] = name
    try:
        return Config.model_validate(values)
    except ValidationError as exc:
        raise _explained(first_problem(exc), sources, path) from exc


def _with_absolute_paths(config: Config, path: Path | None) -> Config:
    if path is None and "data_dir" not in config.memory.model_fields_set:
        folder = platformdirs.user_data_path("memory-dedup")
    else:
        base = path.parent if path is not None else Path()
        folder = (base / Path(config.memory.data_dir).expanduser()).absolute()
    places = {"data_dir": str(folder), "ledger_url": config.memory.ledger_url}
    scheme, _, file = (config.memory.ledger_url or "").partition(":///")
    if scheme == "sqlite" and file and path is not None:
        places["ledger_url"] = f"sqlite:///{(path.parent / file).absolute()}"
    memory = config.memory.model_copy(update=places)
    return config.model_copy(update={"memory": memory, "agent": _agent_at(config.agent, path)})


def _agent_at(agent: AgentConfig, path: Path | None) -> AgentConfig:
    if agent.workspace_dir is None:
        return agent
    base = path.parent if path is not None else Path()
    folder = (base / Path(agent.workspace_dir).expanduser()).absolute()
    return agent.model_copy(update={"workspace_dir": str(folder)})


def _explained(problem: Problem, sources: Mapping[KeyPath, str], path: Path | None) -> ConfigError:
    key_path = problem.where
    source = str(path or "configuration")
    for length in range(len(key_path), 0, -1):
        if key_path[:length] in sources:
            source = sources[key_path[:length]]
            break
    if problem.kind == "extra_forbidden":
        return ConfigError(source, problem.field, "unknown key", meant(key_path))
    given = "" if problem.kind == "value_error" else f", not {problem.given!r}"
    return ConfigError(source, problem.field, problem.what + given, EVERY_KEY)
