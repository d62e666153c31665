"""Read config.yaml, the environment variables and the arguments of a call into one `Config`."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import platformdirs
import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from memory.config.settings import ACCESS, SECTIONS, Config, MemoryConfig
from memory.errors import ConfigError
from memory.models import first_problem

logger = logging.getLogger(__name__)

DEFAULT_FILE = Path("config.yaml")
TOKENS_VARIABLE = "MEMORY_AGENT_TOKENS"
"""The environment variable with the tokens of an agent's server: one line `TOKEN USER` per user."""
EVERY_KEY = "docs/configuration.md lists every key"
KeyPath = tuple[str, ...]
Sources = dict[KeyPath, str]
"""Where each key was set: a file and line (`config.yaml:7`), or the name of a variable."""
Override = tuple[KeyPath, str, Any]
"""A key, the source of its value (the name of a variable or of a setting), and the value."""


def load_config(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Config:
    """Read the configuration from a file, environment variables and `settings`.

    A variable wins over the file, and `settings` win over both.

    If `path` is None, ./config.yaml is read if it belongs to this program; otherwise the defaults
    apply. `settings` has whole sections such as `llm`, or single keys. A single key is named like
    its variable, in lower case and without `MEMORY_`: `llm_model` for MEMORY_LLM_MODEL. Relative
    paths are resolved against the folder of the file or, without a file, the current folder.

    Raises: ConfigError, which names the file and line or the variable, the key and what to do.
    """
    own = _read(path) if path is not None else _read_if_ours(DEFAULT_FILE)
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
    """Return a configuration in which `settings` override single values.

    `config`: a configuration, or the path of a file to read. None means ./config.yaml if that file
    belongs to this program, else the defaults. `settings` has whole sections such as `llm`, or
    single keys such as `llm_model` and `data_dir`.

    Raises: ConfigError if a file, a variable or a setting is wrong.
    """
    if not isinstance(config, Config):
        return load_config(config, settings=settings)
    values, sources = config.model_dump(exclude_unset=True), Sources()
    changed = _with_overrides(values, sources, _from_settings(settings), None)
    return changed.model_copy(update={name: getattr(config, name) for name in ACCESS})


def _with_overrides(
    values: dict[str, Any], sources: Sources, overrides: Iterable[Override], path: Path | None
) -> Config:
    """Set the values of `overrides` in `values`; check `values` and return them as a `Config`.

    `sources`: where each key was set. This function adds the sources of the overrides. `path`: the
    file that an error names if the source of a key is not known.

    Raises: ConfigError if a value is wrong or a key is unknown. The error names the source of the
    key, or else the source of its section.
    """
    for key_path, name, value in overrides:
        sources[key_path] = name
        section = values
        for part in key_path[:-1]:  # sections are copied, so that the caller's stay unchanged
            inner = section.get(part)
            section[part] = dict(inner) if isinstance(inner, dict) else {}
            section = section[part]
        section[key_path[-1]] = value
    try:
        return Config.model_validate(values)
    except ValidationError as exc:
        problem = first_problem(exc)
        key_path = problem.where
        above = (key_path[:length] for length in range(len(key_path), 0, -1))
        source = next(
            (sources[key] for key in above if key in sources), str(path or "configuration")
        )
        if problem.kind == "extra_forbidden":
            remedy = _suggestion(key_path)
            raise ConfigError(source, problem.field, "unknown key", remedy) from exc
        given = "" if problem.kind == "value_error" else f", not {problem.given!r}"
        raise ConfigError(source, problem.field, problem.what + given, EVERY_KEY) from exc


def _with_absolute_paths(config: Config, path: Path | None) -> Config:
    """Return the configuration with its relative paths resolved against the folder of the file.

    `path`: the file, or None if there is no file. Without a file, paths are resolved against the
    current folder, and the default data folder is the system's folder for user data.
    """
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


# --- config.yaml ----------------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, Any], Sources]:
    """Return the values of a YAML file, and the file and line of each key.

    Raises: ConfigError if the file cannot be read, is not valid YAML, or sets a key twice.
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
        mark = getattr(exc, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        problem = getattr(exc, "problem", None) or "cannot be parsed"
        raise ConfigError(where, "", f"is not YAML: {problem}", "fix this line") from exc
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


def _read_if_ours(path: Path) -> tuple[dict[str, Any], Sources] | None:
    """Read ./config.yaml if it belongs to this program; return its values and their sources.

    Unknown keys at the top level are left out. Return None if the file is missing or belongs to a
    different program. An empty file counts as this program's file, so that the data folder is
    created next to it.

    Raises: ConfigError if the file belongs to this program and has an error.
    """
    if not path.is_file():
        return None
    try:
        values, sources = _read(path)
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
    """Return whether a config.yaml with these values belongs to this program.

    The file belongs to this program in four cases:

    - It is empty.
    - It has `memory:`, which is empty or has a key that resembles one of this program's keys.
    - It has `api_key:` but no `memory:`.
    - It has neither, but has `llm:` or `agent:`, and these sections are valid.

    In the last case, `llm:` must have no `base_url`. Otherwise the file of a different program
    could make this program send memories to that server.
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
    """Return whether a config.yaml of a different program may have been meant for this program.

    `values`: the content of the file. Return true if the name of a section resembles the name of a
    section of this program. If `memory:` is the only such section, one of its keys must also
    resemble a key that this program has there.
    """
    close = {one for name in values for one in difflib.get_close_matches(str(name), SECTIONS, 1)}
    section = values.get("memory")
    if close != {"memory"} or not isinstance(section, dict):
        return bool(close)
    return _resembles_memory(section, 0.6)


def _resembles_memory(section: Any, cutoff: float) -> bool:
    keys = map(str, section) if isinstance(section, dict) else ()
    return any(difflib.get_close_matches(key, MemoryConfig.model_fields, 1, cutoff) for key in keys)


def _lines(node: yaml.Node | None, above: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        key_path = (*above, str(key.value))
        yield key_path, key.start_mark.line + 1
        yield from _lines(value, key_path)


# --- every key, and the values given for it -------------------------------------------------------


def _variables() -> dict[str, tuple[KeyPath, Any]]:
    """Return the path and the type of every key, by the name of the key's environment variable."""
    keys = (key for section, model in SECTIONS.items() for key in _keys(model, (section,)))
    return {
        "_".join(path if path[0] == "memory" else ("memory", *path)).upper(): (path, type_)
        for path, type_ in keys
    }


def _keys(model: type[BaseModel], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, (*above, name))
        else:
            yield (*above, name), field.annotation


def _suggestion(key_path: KeyPath) -> str:
    known = {path[-1]: ".".join(path) for path, _ in _variables().values()}
    known |= {name: name for name in SECTIONS}
    close = difflib.get_close_matches(key_path[-1], known, n=1)
    return f"did you mean {known[close[0]]}?" if close else EVERY_KEY


def _from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    """Yield an override for each key that an environment variable sets.

    Log a warning about each variable whose name looks like a misspelled `MEMORY_` name.
    """
    variables = _variables()
    for name in sorted(environ):
        if name in variables and environ[name].strip():  # a blank folder is not the current one
            key_path, type_ = variables[name]
            yield key_path, name, _parsed(environ[name], type_)
        elif name.startswith("MEMORY_") and name not in (*variables, TOKENS_VARIABLE):
            known = [*variables, TOKENS_VARIABLE]
            for close in difflib.get_close_matches(name, known, 1, 0.8):
                logger.warning("%s is not known, and not read; did you mean %s?", name, close)


def _from_settings(settings: Mapping[str, Any]) -> Iterator[Override]:
    """Yield an override for each key that the arguments of a call set.

    The name of an argument is a single key, such as `data_dir`, `llm_model` or `chroma_host`, or a
    section, whose value maps keys to values.

    Raises: ConfigError if a name is unknown.
    """
    paths = {name: path for name, (path, _) in _variables().items()}
    by_name = {name.lower().removeprefix("memory_"): path for name, path in paths.items()}
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
    """Return the value of an environment variable, converted for the type of its key.

    The text is parsed as YAML, unless the type is a string. Text that is not valid YAML is returned
    unchanged. For a Boolean key, "0" and "1" count as false and true.
    """
    if type_ is bool and text in ("0", "1"):
        return text == "1"
    if type_ is str or (str in get_args(type_) and text != ""):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
