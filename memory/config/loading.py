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
from memory.config.keys import (
    ACCESS,
    EVERY_KEY,
    KeyPath,
    Override,
    Sources,
    from_environment,
    from_settings,
    put,
    suggestion,
)
from memory.config.settings import Config
from memory.errors import ConfigError
from memory.models import Problem, first_problem

DEFAULT_FILE = Path("config.yaml")


def load_config(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Config:
    """Read the configuration of a file; without one, ./config.yaml if it is ours, else defaults.

    The environment overrides the file, and `settings` override both: single keys by the names of
    their variables, in lower case and without `MEMORY_`, or whole sections.

    Raises: ConfigError, naming the file and line or the variable, the key and what to do.
    """
    own = read(path) if path is not None else found(DEFAULT_FILE)
    if path is None and own is not None:
        path = DEFAULT_FILE
    values, sources = own or ({}, {})
    for name in ACCESS.keys() & values.keys():
        problem = f"{ACCESS[name]} does not belong in a file"
        remedy = f"set {ACCESS[name]} in the environment"
        raise ConfigError(sources[(name,)], name, problem, remedy)
    overrides = [*from_environment(environ), *from_settings(settings)]
    config = _with_overrides(values, sources, overrides, path)
    return _with_absolute_paths(config.model_copy(update=_access(environ)), path)


def _access(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys and the server address that the providers' own variables give."""
    gemini = environ.get("GEMINI_API_KEY") or environ.get("GOOGLE_API_KEY")
    openai = environ.get("OPENAI_API_KEY")
    return {
        "api_key": SecretStr(gemini) if gemini else None,
        "openai_key": SecretStr(openai) if openai else None,
        "openai_url": environ.get("OPENAI_BASE_URL") or None,
    }


def configured(config: Config | Path | None, settings: Mapping[str, Any]) -> Config:
    """Return a configuration, that of a file, or the one `load_config` finds, with `settings`.

    Raises: ConfigError.
    """
    if not isinstance(config, Config):
        return load_config(config, settings=settings)
    values, sources = config.model_dump(exclude_unset=True), Sources()
    changed = _with_overrides(values, sources, from_settings(settings), None)
    return changed.model_copy(update={name: getattr(config, name) for name in ACCESS})


def _with_overrides(
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
    """Resolve paths against the folder of the file, else against the current folder."""
    folder = path.parent if path is not None else Path()

    def absolute(given: str) -> str:
        return str((folder / Path(given).expanduser()).absolute())

    data_dir = absolute(config.memory.data_dir)
    if path is None and "data_dir" not in config.memory.model_fields_set:
        data_dir = str(platformdirs.user_data_path("memory-dedup"))
    ledger_url = config.memory.ledger_url
    scheme, _, file = (ledger_url or "").partition(":///")
    if scheme == "sqlite" and file and path is not None:
        ledger_url = f"sqlite:///{(folder / file).absolute()}"
    memory = config.memory.model_copy(update={"data_dir": data_dir, "ledger_url": ledger_url})
    workspace = config.agent.workspace_dir
    workspace_dir = absolute(workspace) if workspace is not None else None
    agent = config.agent.model_copy(update={"workspace_dir": workspace_dir})
    return config.model_copy(update={"memory": memory, "agent": agent})


def _explained(problem: Problem, sources: Mapping[KeyPath, str], path: Path | None) -> ConfigError:
    """Name where the wrong key, or the nearest section above it, was set."""
    key_path = problem.where
    above = (key_path[:length] for length in range(len(key_path), 0, -1))
    source = next((sources[key] for key in above if key in sources), str(path or "configuration"))
    if problem.kind == "extra_forbidden":
        return ConfigError(source, problem.field, "unknown key", suggestion(key_path))
    given = "" if problem.kind == "value_error" else f", not {problem.given!r}"
    return ConfigError(source, problem.field, problem.what + given, EVERY_KEY)
