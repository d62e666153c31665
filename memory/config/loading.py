"""Read config.yaml, the environment variables and the arguments of a call into one `Config`.

Without `--config`, the file `config.yaml` of the current folder is read. Somebody else may have
written it, for example in a repository that was just cloned. So a server's URL or a factory in it
needs an approval, which is kept by file and by host or factory. A file that was named needs none,
nor the file in the folder of `orchestrator.py`.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

import platformdirs
import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from memory.config.settings import ACCESS, REMOVED, SECTIONS, Config, MemoryConfig
from memory.errors import ConfigError, UnnamedFile
from memory.models import MAX_QUOTED, checked, first_problem

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[2]
DEFAULT_FILE = Path("config.yaml")
_APPROVALS = "approved.json"
_RISKY = (
    "llm.base_url",
    "memory.embedding.base_url",
    "memory.search.chroma_url",
    "llm.provider",
    "memory.embedding.provider",
    "memory.search.index",
)
"""The keys whose value may be the address of a server, or a factory `package.module:name`."""
KeyPath = tuple[str, ...]
TOKENS_VARIABLE = "MEMORY_AGENT_TOKENS"
"""The environment variable with the access tokens of `serve --http`, one `TOKEN USER` a line."""
EVERY_KEY = "docs/configuration.md lists every key"
Sources = dict[KeyPath, str]
"""Maps each key to where it was set: a file and line (`config.yaml:7`), or a variable's name."""
Override = tuple[KeyPath, str, Any]
"""A key, the source of its value (the name of a variable or of a setting), and the value."""


@checked
def load_config(
    config: Config | Path | None = None,
    environ: Mapping[str, str] = os.environ,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Config:
    """Read the configuration from a file, environment variables and `settings`.

    `config`: the path of the file; None stands for ./config.yaml, if it belongs to this program. A
    variable wins over the file, and `settings` win over both. In a configuration that was read
    before, only `settings` replace values.

    `settings` has whole sections such as `llm`, or single keys. A single key is named like its
    variable, in lower case and without `MEMORY_`: `llm_model` for MEMORY_LLM_MODEL. Relative paths
    are resolved against the folder of the file or, without a file, the current folder.

    >>> load_config(settings={"llm_provider": "offline"}).llm.provider
    'offline'
    >>> load_config(config, settings={"llm_concurrency": 2}).llm.concurrency
    2

    Raises: UnnamedFile if `config` is None, and ./config.yaml sets a server or a factory that
    nobody has approved; ConfigError, which says what is wrong, where it was set, and what to do.
    """
    if isinstance(config, Config):
        values = config.model_dump(exclude_unset=True)
        changed = _with_overrides(values, {}, _from_settings(settings), None)
        return changed.model_copy(update={name: getattr(config, name) for name in ACCESS})
    path, named = config, config is not None
    own = _read(path) if path is not None else _read_if_ours(DEFAULT_FILE)
    if path is None and own is not None:
        path = DEFAULT_FILE
    values, sources = own or ({}, {})
    for name in ACCESS.keys() & values.keys():
        raise ConfigError(
            sources[(name,)],
            name,
            f"{ACCESS[name]} does not belong in a file",
            f"set {ACCESS[name]} in the environment",
        )
    overrides = [*_from_environment(environ), *_from_settings(settings)]
    loaded = _with_overrides(values, sources, overrides, path)
    if path is not None and not named:
        check_approved(path, loaded, sources)
    gemini = environ.get("GEMINI_API_KEY") or environ.get("GOOGLE_API_KEY")
    openai = environ.get("OPENAI_API_KEY")
    access = {
        "api_key": SecretStr(gemini) if gemini else None,
        "openai_key": SecretStr(openai) if openai else None,
        "openai_url": environ.get("OPENAI_BASE_URL") or None,
    }
    return _with_absolute_paths(loaded.model_copy(update=access), path)


def _with_overrides(
    values: dict[str, Any], sources: Sources, overrides: Iterable[Override], path: Path | None
) -> Config:
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
            name = ".".join(key_path)
            for removed, remedy in REMOVED.items():
                if removed == name or removed.startswith(f"{name}."):
                    raise ConfigError(source, name, "is no longer a key", remedy) from exc
            known = {path[-1]: ".".join(path) for path, _ in _variables().values()}
            remedy = _suggestion(key_path[-1], known | {name: name for name in SECTIONS})
            raise ConfigError(source, problem.field, "unknown key", remedy) from exc
        given = "" if problem.kind == "value_error" else f", not {repr(problem.given)[:MAX_QUOTED]}"
        raise ConfigError(source, problem.field, problem.what + given, EVERY_KEY) from exc


def _with_absolute_paths(config: Config, path: Path | None) -> Config:
    folder = path.parent if path is not None else Path()

    def absolute(given: str) -> str:
        return str((folder / Path(given).expanduser()).absolute())

    memory, agent = config.memory, config.agent
    data_dir = absolute(memory.data_dir)
    if path is None and "data_dir" not in memory.model_fields_set:  # there is no folder of a file
        data_dir = str(platformdirs.user_data_path("memory-dedup"))
    memory = memory.model_copy(update={"data_dir": data_dir})
    scheme, _, file = (memory.ledger_url or "").partition(":///")
    if scheme == "sqlite" and file and path is not None:
        url = f"sqlite:///{(folder / file).absolute()}"
        memory = memory.model_copy(update={"ledger_url": url})
    if agent.workspace_dir is not None:
        agent = agent.model_copy(update={"workspace_dir": absolute(agent.workspace_dir)})
    return config.model_copy(update={"memory": memory, "agent": agent})


# --- config.yaml ----------------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, Any], Sources]:
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
    """Return the values in the file `path`, and where each key was set.

    Return None if the file is missing or belongs to another program. Unknown keys at the top level
    are left out. An empty file gives two empty dicts.
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

    An empty file belongs to this program.

    For a file with `memory:` or `api_key:`, the section `memory:` decides. The file belongs to this
    program if this section is missing, is empty, or has a key that resembles a key of
    `MemoryConfig`.

    Any other file belongs to this program if it has a section `llm:` or `agent:`, and each of these
    sections that it has is valid. But a file that sets `llm.base_url` is refused: this program
    could otherwise send memories to another program's server.
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
    close = {one for name in values for one in difflib.get_close_matches(str(name), SECTIONS, 1)}
    section = values.get("memory")
    if close != {"memory"} or not isinstance(section, dict):
        return bool(close)
    return _resembles_memory(section, 0.6)


def _resembles_memory(section: Any, cutoff: float) -> bool:
    keys = map(str, section) if isinstance(section, dict) else ()
    return any(difflib.get_close_matches(key, MemoryConfig.model_fields, 1, cutoff) for key in keys)


def _lines(node: yaml.Node | None, above: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            key_path = (*above, str(key.value))
            yield key_path, key.start_mark.line + 1
            yield from _lines(value, key_path)


# --- every key, and the values given for it -------------------------------------------------------


def _variables() -> dict[str, tuple[KeyPath, Any]]:
    """Return a dict from the name of each environment variable to its key's path and type."""
    keys = (key for section, model in SECTIONS.items() for key in _keys(model, (section,)))
    return {_variable(path): (path, type_) for path, type_ in keys}


def _variable(path: Sequence[str]) -> str:
    return "_".join(path if path[0] == "memory" else ("memory", *path)).upper()


def _keys(model: type[BaseModel], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, (*above, name))
        else:
            yield (*above, name), field.annotation


def _suggestion(name: str, known: Mapping[str, str]) -> str:
    if name.endswith("key"):
        return "set GEMINI_API_KEY or OPENAI_API_KEY in the environment"
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {known[close[0]]}?" if close else EVERY_KEY


def _from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    variables = _variables()
    known = [*variables, TOKENS_VARIABLE]
    removed = {_variable(key.split(".")): remedy for key, remedy in REMOVED.items()}
    for name in sorted(environ):
        if name in variables and environ[name].strip():  # a blank folder is not the current one
            key_path, type_ = variables[name]
            yield key_path, name, _parsed(environ[name], type_)
        elif name in removed:
            logger.warning("%s is no longer read: %s", name, removed[name])
        elif name.startswith("MEMORY_") and name not in known:
            for close in difflib.get_close_matches(name, known, 1, 0.8):
                logger.warning("%s is not known, and not read; did you mean %s?", name, close)


def _from_settings(settings: Mapping[str, Any]) -> Iterator[Override]:
    by_name = {
        variable.lower().removeprefix("memory_"): path
        for variable, (path, _) in _variables().items()
    }
    for name, value in settings.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from (((name, key), f"setting {name}", one) for key, one in value.items())
        elif name in by_name:
            yield by_name[name], f"setting {name}", value
        else:
            raise ConfigError(
                f"setting {name}",
                "",
                "is not known",
                _suggestion(name, {known: known for known in by_name}),
            )


def _parsed(text: str, type_: Any) -> Any:
    if type_ is bool and text in ("0", "1"):
        return text == "1"
    if type_ is str or (str in get_args(type_) and text != ""):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


# --- a file that nobody named ---------------------------------------------------------------------


def check_approved(file: Path, config: Config, sources: Mapping[KeyPath, str]) -> None:
    """Check that a file that nobody named sets no server and no factory without an approval.

    `sources`: where each key was set, such as `config.yaml:7`.

    Raises: UnnamedFile.
    """
    if file.absolute().parent == PACKAGE and (PACKAGE / "orchestrator.py").is_file():
        return
    for key in _RISKY:
        value = attrgetter(key)(config)
        is_url = key.endswith("_url")
        source = sources.get(tuple(key.split(".")), "")
        if value is None or not (is_url or ":" in value) or not source.startswith(f"{file}:"):
            continue
        target = urlsplit(value).netloc if is_url else value
        if [str(file.resolve()), target] not in _approvals():
            raise UnnamedFile(source, key, file, target)


def approve(file: Path, target: str) -> None:
    """Approve a host or a factory that this file names, now and for later.

    Raises: OSError.
    """
    kept = [*_approvals(), [str(file.resolve()), target]]
    path = platformdirs.user_config_path("memory-dedup") / _APPROVALS
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    part.replace(path)


def _approvals() -> list[list[str]]:
    file = platformdirs.user_config_path("memory-dedup") / _APPROVALS
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []
