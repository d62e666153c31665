"""config.yaml and the environment, read once into a `Config`."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import platformdirs
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_core.core_schema import ValidationInfo

from memory.errors import ConfigError
from memory.models import (
    LOWER,
    NEAR_COPY,
    PLAIN,
    Frozen,
    OnMergeFailure,
    Price,
    Problem,
    Rules,
    Scale,
    ScopeField,
    as_tuple,
    first_problem,
    scale_of,
)

logger = logging.getLogger(__name__)

DEFAULT_FILE = Path("config.yaml")
TOKENS_VARIABLE = "MEMORY_AGENT_TOKENS"
"""The tokens of an agent's server: lines of TOKEN USER."""
_NEARLY = 0.8
"""How alike a name is to one of ours, in 0..1, that is taken for a slip of the pen."""
Share = Annotated[float, Field(ge=0.0, le=1.0)]


_FACTORY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _one_of(*names: str) -> AfterValidator:
    def checked(provider: str) -> str:
        if provider in names or _FACTORY.fullmatch(provider):
            return provider
        known = ", ".join(names)
        raise ValueError(f"{provider!r} is none of {known}, nor package.module:factory")

    return AfterValidator(checked)


def server_url(told: str | None) -> str | None:
    """Raises: ValueError where it is no address of a server over HTTP."""
    if told is None:
        return None
    try:
        parts = urlsplit(told)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError(f"{told!r} is no URL of a server: say http://HOST:PORT/..., or https://")
    return told


ServerUrl = Annotated[str | None, AfterValidator(server_url)]


class ChromaConfig(Frozen):
    """Where the index runs: in this process, or on a server when `host` is set."""

    host: str | None = None
    port: int = Field(default=8000, ge=1, le=65535)
    ssl: bool = False
    tenant: str = "default_tenant"
    database: str = "default_database"


class EmbeddingConfig(Frozen):
    """Which embedder; a store keeps the one it was made with until `memory-dedup reembed`."""

    provider: Annotated[str, _one_of("wordllama", "minilm", "gemini", "openai")] = "wordllama"
    """One of these, or one's own: `package.module:factory`."""
    model: str | None = None
    """Of a server; None is Gemini's or OpenAI's usual one."""
    dim: int | None = Field(default=None, ge=16, le=8192)
    """Of a server's vectors; None is that of the usual model."""
    base_url: ServerUrl = None
    """Of an OpenAI-compatible server; None is the language model's, where that is one too."""
    scale: Scale | Literal["plain"] | None = None
    """From cosine to similarity; None is the embedder's own, `plain` the cosine itself."""


class MemoryConfig(Frozen):
    """How memories are kept and deduplicated."""

    dedup_enabled: bool = True
    dedup_upper_threshold: Share = NEAR_COPY
    dedup_lower_threshold: Share = Field(default=LOWER, validate_default=True)
    dedup_guard: bool = True
    dedup_scope: Annotated[tuple[ScopeField, ...], BeforeValidator(as_tuple)] = ("user",)
    dedup_candidates: int = Field(default=5, ge=1, le=100)
    dedup_calls_per_run: int = Field(default=500, ge=0)
    """Calls of the model that a batch or an import may make."""
    dedup_calls_per_hour: int = Field(default=1_000, ge=0)
    """Calls for memories that are written one by one; beyond it their questions wait."""
    on_merge_failure: OnMergeFailure = "replace"
    extraction_wait: float = Field(default=45.0, ge=0.0)
    """Seconds that a live conversation's turns wait for more of them, unless there are ten."""
    extraction_gap: float = Field(default=21_600.0, gt=0.0)
    """Seconds of silence across which turns are not read together."""
    data_dir: str = "data"
    """Absolute once loaded."""
    ledger_url: str | None = None
    chroma: ChromaConfig = ChromaConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()

    @field_validator("dedup_lower_threshold")
    @classmethod
    def _below_upper(cls, lower: float, info: ValidationInfo) -> float:
        upper = info.data.get("dedup_upper_threshold")
        if upper is not None and lower > upper:
            raise ValueError(f"{lower} is above dedup_upper_threshold {upper}")
        return lower

    @property
    def rules(self) -> Rules:
        """What the policy needs of it."""
        return Rules(
            upper=self.dedup_upper_threshold,
            lower=self.dedup_lower_threshold,
            guard=self.dedup_guard,
            on_merge_failure=self.on_merge_failure,
        )

    @property
    def thresholds_without_scale(self) -> bool:
        """Whether thresholds were chosen, and nobody said on which scale: then on the cosine."""
        own = (self.dedup_upper_threshold, self.dedup_lower_threshold)
        return self.embedding.scale is None and own != (NEAR_COPY, LOWER)

    def scale_for(self, fingerprint: str) -> Scale:
        """The scale of similarity for the vectors of an embedder."""
        if self.embedding.scale == "plain" or self.thresholds_without_scale:
            return PLAIN
        return self.embedding.scale or scale_of(fingerprint)

    @property
    def effective_ledger_url(self) -> str:
        """The ledger's own URL, else a file in the data folder."""
        return self.ledger_url or f"sqlite:///{Path(self.data_dir) / 'ledger.db'}"


class LLMConfig(Frozen):
    """Which language model, and how patiently it is asked."""

    provider: Annotated[str, _one_of("auto", "gemini", "openai", "offline")] = "auto"
    """One of these, or one's own: `package.module:factory`."""
    model: str | None = None
    """None is Gemini's usual one; another server's has a name of its own."""
    base_url: ServerUrl = None
    structured: Literal["auto", "schema", "json", "prompt"] = "auto"
    """How an OpenAI-compatible server is told the form of an answer; Gemini takes schemas."""
    timeout_s: float = Field(default=30.0, gt=0.0)
    max_attempts: int = Field(default=4, ge=1)
    concurrency: int = Field(default=8, ge=1)
    budget_s: float = Field(default=60.0, gt=0.0)
    price_in: float | None = Field(default=None, ge=0.0)
    """Of a million tokens that the model is sent; None says nothing about money."""
    price_out: float | None = Field(default=None, ge=0.0)
    """Of a million tokens that it answers."""
    breaker_failures: int = Field(default=5, ge=1)
    breaker_pause_s: float = Field(default=30.0, gt=0.0, le=600.0)

    @property
    def price(self) -> Price | None:
        """Where neither is known, nothing is said about money."""
        if self.price_in is None and self.price_out is None:
            return None
        return Price(input=self.price_in or 0.0, output=self.price_out or 0.0)


class AgentConfig(Frozen):
    """What an agent's server keeps, and where people may read it."""

    user: str | None = None
    """Keeps to the memories of this user; None is everyone's."""
    workspace_dir: str | None = None
    """Absolute once loaded; None writes no Markdown."""
    quiet_scaffolds: bool = False
    """Whether answers leave out the question that follows them."""
    guard_distance: Share = 0.05
    """As `1 - similarity`: a new memory that is nearer to another one is not saved."""
    merge_distance: Share = 0.10
    """As `1 - similarity`: memories that are nearer to each other are proposed as one."""
    link_distance: float = Field(default=0.3, ge=0.0, le=2.0)
    """As `1 - cosine`: memories that are nearer to each other are linked."""


class Config(Frozen):
    """Everything that can be set."""

    memory: MemoryConfig = MemoryConfig()
    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    api_key: SecretStr | None = Field(default=None, exclude=True)
    """Gemini's, from the environment only: GEMINI_API_KEY, else GOOGLE_API_KEY."""
    openai_key: SecretStr | None = Field(default=None, exclude=True)
    """From the environment only: OPENAI_API_KEY."""
    openai_url: str | None = Field(default=None, exclude=True)
    """OPENAI_BASE_URL, which counts where an OpenAI-compatible server has no `base_url`."""

    def at(self, data_dir: str) -> Config:
        """The same with all data in this folder and nowhere else."""
        memory = self.memory.model_copy(
            update={"data_dir": data_dir, "ledger_url": None, "chroma": ChromaConfig()}
        )
        return self.model_copy(update={"memory": memory})

    def with_calls_per_run(self, most: int | None) -> Config:
        """The same with another budget of calls for a batch or an import, where one is given."""
        if most is None:
            return self
        memory = self.memory.model_copy(update={"dedup_calls_per_run": most})
        return self.model_copy(update={"memory": memory})


_SECTIONS: dict[str, type[BaseModel]] = {
    "memory": MemoryConfig,
    "llm": LLMConfig,
    "agent": AgentConfig,
}
_ACCESS = {
    "api_key": "GEMINI_API_KEY",
    "openai_key": "OPENAI_API_KEY",
    "openai_url": "OPENAI_BASE_URL",
}
"""What comes from the environment alone, and from which variable."""
_KeyPath = tuple[str, ...]
_ONCE_OURS = (
    "PROVIDER", "MODEL", "BASE_URL", "TIMEOUT_S", "MAX_ATTEMPTS", "CONCURRENCY", "BUDGET_S",
    "BREAKER_FAILURES", "BREAKER_PAUSE_S",
)  # fmt: skip
"""Keys of `llm` that were read from `LLM_...` in the first version."""
_EVERY_KEY = "docs/configuration.md lists every key"


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
    _warn_of_old_names(environ)
    _warn_of_misspelt_names(environ)
    values, sources = _read(path) if path is not None else _found(DEFAULT_FILE)
    if path is None and values:
        path = DEFAULT_FILE
    for name in _ACCESS.keys() & values.keys():
        problem = f"{_ACCESS[name]} does not belong in a file"
        remedy = f"set {_ACCESS[name]} in the environment"
        raise ConfigError(sources[(name,)], name, problem, remedy)
    for key_path, name, value in [*_overrides(environ), *_settings(settings)]:
        _set(values, key_path, value)
        sources[key_path] = name
    try:
        config = Config.model_validate(values)
    except ValidationError as exc:
        raise _explained(first_problem(exc), sources, path) from exc
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
    values, sources = config.model_dump(exclude_unset=True), dict[_KeyPath, str]()
    for key_path, name, value in _settings(settings):
        _set(values, key_path, value)
        sources[key_path] = name
    try:
        changed = Config.model_validate(values)
    except ValidationError as exc:
        raise _explained(first_problem(exc), sources, None) from exc
    return changed.model_copy(update={name: getattr(config, name) for name in _ACCESS})


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


# --- the file ---------------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, Any], dict[_KeyPath, str]]:
    """The file's values, and where each key stands."""
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
    places: dict[_KeyPath, str] = {}
    for key_path, line in _keys(path, node):
        if key_path in places:
            raise ConfigError(
                f"{path}:{line}", ".".join(key_path), "is set twice", "keep one of them"
            )
        places[key_path] = f"{path}:{line}"
    return values, places


def _found(path: Path) -> tuple[dict[str, Any], dict[_KeyPath, str]]:
    """What is ours of a ./config.yaml, which may be another program's: nothing, if it is.

    Raises: ConfigError where it is ours and wrong.
    """
    if not path.is_file():
        return {}, {}
    text = path.read_text(encoding="utf-8", errors="replace")
    if re.search(r"^(memory|api_key)\s*:", text, re.MULTILINE) is None:
        try:
            values, places = _read(path)
        except ConfigError:  # another program's may be no YAML of ours
            return {}, {}
    else:
        values, places = _read(path)
    if not _is_ours(values):
        if _resembles_ours(values):
            logger.warning(
                "%s is taken for another program's; name it with --config to use it", path
            )
        return {}, {}
    mine = {*_SECTIONS, *_ACCESS}
    return (
        {name: value for name, value in values.items() if name in mine},
        {key_path: place for key_path, place in places.items() if key_path[0] in mine},
    )


def _is_ours(values: Mapping[str, Any]) -> bool:
    """Its `memory:` has a key of ours, or one meant so; or it has no other keys than ours.

    Somebody else's `llm:` would send memories to somebody else's server.
    """
    if "memory" in values or "api_key" in values:
        section = values.get("memory")
        keys = map(str, section) if isinstance(section, dict) else ()
        known = MemoryConfig.model_fields
        return not section or any(difflib.get_close_matches(key, known, 1, 0.8) for key in keys)
    others = {name: values[name] for name in _SECTIONS if name in values}
    llm = others.get("llm")
    if not others or (isinstance(llm, dict) and "base_url" in llm):
        return False
    try:
        Config.model_validate(others)
    except ValidationError:
        return False
    return True


def _resembles_ours(values: Mapping[str, Any]) -> bool:
    """Whether a section is one of ours, or misspelt so; `memory:` is, with a key nearly ours."""
    close = {one for name in values for one in difflib.get_close_matches(str(name), _SECTIONS, 1)}
    section = values.get("memory")
    if close != {"memory"} or not isinstance(section, dict):
        return bool(close)
    return any(difflib.get_close_matches(str(key), MemoryConfig.model_fields, 1) for key in section)


def _broken_yaml(path: Path, exc: yaml.YAMLError) -> ConfigError:
    mark = getattr(exc, "problem_mark", None)
    where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    problem = getattr(exc, "problem", None) or "cannot be parsed"
    return ConfigError(where, "", f"is not YAML: {problem}", "fix this line")


def _keys(path: Path, node: yaml.Node | None) -> list[tuple[_KeyPath, int]]:
    try:
        return list(_lines(node, ()))
    except RecursionError as exc:
        raise ConfigError(str(path), "", "refers to itself", "remove the alias") from exc


def _lines(node: yaml.Node | None, above: _KeyPath) -> Iterator[tuple[_KeyPath, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        key_path = (*above, str(key.value))
        yield key_path, key.start_mark.line + 1
        yield from _lines(value, key_path)


# --- the environment --------------------------------------------------------------------------


def _overrides(environ: Mapping[str, str]) -> Iterator[tuple[_KeyPath, str, Any]]:
    for key_path, annotation in _all_leaves():
        name = _variable(key_path)
        if environ.get(name, "").strip():  # a blank one is none: not the current folder
            yield key_path, name, _parsed(environ[name], annotation)


def _variable(key_path: _KeyPath) -> str:
    """MEMORY_DATA_DIR, MEMORY_LLM_MODEL."""
    return "_".join(["memory", *key_path] if key_path[0] != "memory" else key_path).upper()


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
    known = {_variable(key_path) for key_path, _ in _all_leaves()} | {TOKENS_VARIABLE}
    for name in sorted(environ):
        if name.startswith("MEMORY_") and name not in known:
            for close in difflib.get_close_matches(name, known, 1, _NEARLY):
                logger.warning("%s is not known, and not read; did you mean %s?", name, close)


def _settings(settings: Mapping[str, Any]) -> Iterator[tuple[_KeyPath, str, Any]]:
    """Keys by `data_dir`, `llm_model`, `chroma_host`; sections as mappings.

    Raises: ConfigError.
    """
    by_name = {
        _variable(key_path).lower().removeprefix("memory_"): key_path
        for key_path, _ in _all_leaves()
    }
    for name, value in settings.items():
        if name in _SECTIONS and isinstance(value, Mapping):
            yield from (((name, key), f"setting {name}", one) for key, one in value.items())
        elif name in by_name:
            yield by_name[name], f"setting {name}", value
        else:
            close = difflib.get_close_matches(name, by_name, n=1)
            remedy = f"did you mean {close[0]}?" if close else _EVERY_KEY
            raise ConfigError(f"setting {name}", "", "is not known", remedy)


def _all_leaves() -> list[tuple[_KeyPath, Any]]:
    """Every key, with its type."""
    return [leaf for section, model in _SECTIONS.items() for leaf in _leaves(model, (section,))]


def _leaves(model: type[BaseModel], above: _KeyPath) -> Iterator[tuple[_KeyPath, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, (*above, name))
        else:
            yield (*above, name), field.annotation


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


def _set(values: dict[str, Any], key_path: _KeyPath, value: Any) -> None:
    for name in key_path[:-1]:
        inner = values.get(name)
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[key_path[-1]] = value


# --- what is wrong ----------------------------------------------------------------------------


def _explained(problem: Problem, sources: Mapping[_KeyPath, str], path: Path | None) -> ConfigError:
    key_path = problem.where
    source = str(path or "configuration")
    for length in range(len(key_path), 0, -1):
        if key_path[:length] in sources:
            source = sources[key_path[:length]]
            break
    if problem.kind == "extra_forbidden":
        return ConfigError(source, problem.field, "unknown key", _meant(key_path))
    given = "" if problem.kind == "value_error" else f", not {problem.given!r}"
    return ConfigError(source, problem.field, problem.what + given, _EVERY_KEY)


def _meant(key_path: _KeyPath) -> str:
    """The known key most like the unknown one."""
    known = {leaf[-1]: ".".join(leaf) for leaf, _ in _all_leaves()}
    known |= {name: name for name in _SECTIONS}
    close = difflib.get_close_matches(key_path[-1], known, n=1)
    return f"did you mean {known[close[0]]}?" if close else _EVERY_KEY
