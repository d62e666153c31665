"""config.yaml, the environment and the settings of a call, read once into a `Config`."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import platformdirs
import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from memory.config.file import KeyPath, Sources, found, read
from memory.config.settings import ACCESS, SECTIONS, Config
from memory.errors import ConfigError
from memory.models import Problem, first_problem

logger = logging.getLogger(__name__)

DEFAULT_FILE = Path("config.yaml")
TOKENS_VARIABLE = "MEMORY_AGENT_TOKENS"
"""The tokens of an agent's server: lines of TOKEN USER."""
EVERY_KEY = "docs/configuration.md lists every key"
_SIMILAR = 0.8
"""From 0 to 1: a name this similar to a variable of this package is taken for a typing error."""
Override = tuple[KeyPath, str, Any]
"""A key, where its value was given, and the value."""


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
    overrides = [*_from_environment(environ), *_from_settings(settings)]
    config = _with_overrides(values, sources, overrides, path)
    gemini = environ.get("GEMINI_API_KEY") or environ.get("GOOGLE_API_KEY")
    openai = environ.get("OPENAI_API_KEY")
    access = {
        "api_key": SecretStr(gemini) if gemini else None,
        "openai_key": SecretStr(openai) if openai else None,
        "openai_url": environ.get("OPENAI_BASE_URL") or None,
    }
    return _with_absolute_paths(config.model_copy(update=access), path)


def configured(config: Config | Path | None, settings: Mapping[str, Any]) -> Config:
    """Return a configuration, that of a file, or the one `load_config` finds, with `settings`.

    Raises: ConfigError.
    """
    if not isinstance(config, Config):
        return load_config(config, settings=settings)
    values, sources = config.model_dump(exclude_unset=True), Sources()
    changed = _with_overrides(values, sources, _from_settings(settings), None)
    return changed.model_copy(update={name: getattr(config, name) for name in ACCESS})


def _with_overrides(
    values: dict[str, Any], sources: Sources, overrides: Iterable[Override], path: Path | None
) -> Config:
    """Raises: ConfigError."""
    for key_path, name, value in overrides:
        _put(values, key_path, value)
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
        return ConfigError(source, problem.field, "unknown key", _suggestion(key_path))
    given = "" if problem.kind == "value_error" else f", not {problem.given!r}"
    return ConfigError(source, problem.field, problem.what + given, EVERY_KEY)


# --- every key, and the values given for it -------------------------------------------------------


def _all_keys() -> list[tuple[KeyPath, Any]]:
    """Return every key with its type."""
    return [key for section, model in SECTIONS.items() for key in _keys(model, (section,))]


def _keys(model: type[BaseModel], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, (*above, name))
        else:
            yield (*above, name), field.annotation


def _variable(key_path: KeyPath) -> str:
    """Return the environment variable: MEMORY_DATA_DIR, MEMORY_LLM_MODEL."""
    return "_".join(["memory", *key_path] if key_path[0] != "memory" else key_path).upper()


def _put(values: dict[str, Any], key_path: KeyPath, value: Any) -> None:
    """Set a key in nested sections, which are copied before they are changed."""
    for name in key_path[:-1]:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[key_path[-1]] = value


def _suggestion(key_path: KeyPath) -> str:
    """Suggest the known key that is most like an unknown one."""
    known = {path[-1]: ".".join(path) for path, _ in _all_keys()}
    known |= {name: name for name in SECTIONS}
    close = difflib.get_close_matches(key_path[-1], known, n=1)
    return f"did you mean {known[close[0]]}?" if close else EVERY_KEY


def _from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    """Yield the keys that variables set; warn of names that are nearly a known variable."""
    variables = {_variable(key_path): (key_path, type_) for key_path, type_ in _all_keys()}
    for name in sorted(environ):
        if name in variables and environ[name].strip():  # a blank folder is not the current one
            key_path, type_ = variables[name]
            yield key_path, name, _parsed(environ[name], type_)
        elif name.startswith("MEMORY_") and name not in (*variables, TOKENS_VARIABLE):
            known = [*variables, TOKENS_VARIABLE]
            for close in difflib.get_close_matches(name, known, 1, _SIMILAR):
                logger.warning("%s is not known, and not read; did you mean %s?", name, close)


def _from_settings(settings: Mapping[str, Any]) -> Iterator[Override]:
    """Yield keys given as `data_dir`, `llm_model`, `chroma_host`, or as sections.

    Raises: ConfigError.
    """
    by_name = {_variable(path).lower().removeprefix("memory_"): path for path, _ in _all_keys()}
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
