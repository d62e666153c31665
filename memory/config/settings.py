"""Every configuration key, with its type, its default, and values derived from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr, field_validator
from pydantic_core.core_schema import ValidationInfo

from memory.errors import InputError
from memory.models import (
    LOWER,
    NEAR_COPY,
    PLAIN,
    Frozen,
    OnMergeFailure,
    Price,
    Rules,
    Scale,
    ScopeField,
    as_tuple,
    scale_of,
)
from memory.text import clean

Share = Annotated[float, Field(ge=0.0, le=1.0)]
_FACTORY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _one_of(*names: str) -> AfterValidator:
    def checked(provider: str) -> str:
        if provider in names or _FACTORY.fullmatch(provider):
            return provider
        known = ", ".join(names)
        raise ValueError(f"{provider!r} is none of {known}, nor package.module:factory")

    return AfterValidator(checked)


def server_url(given: str | None) -> str | None:
    """Return the URL of an HTTP server as it was given. Raises: ValueError for anything else."""
    if given is None:
        return None
    try:
        parts = urlsplit(given)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError(
            f"{given!r} is not the URL of a server: write http://HOST:PORT/... or https://"
        )
    return given


ServerUrl = Annotated[str | None, AfterValidator(server_url)]


class ChromaConfig(Frozen):
    """Where Chroma runs: on a server if `host` is set, else in a process of its own."""

    host: str | None = None
    port: int = Field(default=8000, ge=1, le=65535)
    ssl: bool = False
    tenant: str = "default_tenant"
    database: str = "default_database"


class SearchConfig(Frozen):
    """How search works."""

    hybrid: bool = True
    """Whether search compares words as well as vectors."""
    vectors_mb: int = Field(default=512, ge=0)
    """Megabytes of vectors kept in memory, for the users who were asked about last."""


class EmbeddingConfig(Frozen):
    """Which embedder; a store keeps its own until `memory-dedup reembed`."""

    provider: Annotated[str, _one_of("wordllama", "minilm", "gemini", "openai")] = "wordllama"
    """One of these, or your own: `package.module:factory`."""
    model: str | None = None
    """A server's model; None is Gemini's or OpenAI's default."""
    dim: int | None = Field(default=None, ge=16, le=8192)
    """Dimension of a server's vectors; None is that of the default model."""
    base_url: ServerUrl = None
    """URL of an OpenAI-compatible server; None is the language model's, if that is one too."""
    scale: Scale | Literal["plain"] | None = None
    """Curve from cosine to similarity; None is the embedder's own, `plain` the cosine itself."""


class MemoryConfig(Frozen):
    """How memories are kept and deduplicated."""

    dedup_enabled: bool = True
    dedup_upper_threshold: Share = NEAR_COPY
    dedup_lower_threshold: Share = Field(default=LOWER, validate_default=True)
    dedup_guard: bool = True
    dedup_scope: Annotated[tuple[ScopeField, ...], BeforeValidator(as_tuple)] = ("user",)
    dedup_candidates: int = Field(default=5, ge=1, le=100)
    dedup_calls_per_run: int = Field(default=500, ge=0)
    """The most calls of the model in a batch or an import."""
    read_private: bool = False
    dedup_calls_per_hour: int = Field(default=1_000, ge=0)
    """The most calls for memories written one by one; further questions wait."""
    on_merge_failure: OnMergeFailure = "replace"
    extraction_wait: float = Field(default=45.0, ge=0.0)
    """Seconds that turns of a live conversation wait for more, unless there are ten."""
    extraction_gap: float = Field(default=21_600.0, gt=0.0)
    """Seconds of silence that separate turns: those before and after are not read together."""
    data_dir: str = "data"
    """Absolute once loaded."""
    ledger_url: str | None = None
    search: SearchConfig = SearchConfig()
    chroma: ChromaConfig = ChromaConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()

    @field_validator("dedup_lower_threshold")
    @classmethod
    def _below_upper(cls, lower: float, info: ValidationInfo) -> float:
        upper = info.data.get("dedup_upper_threshold")
        if upper is not None and lower > upper:
            raise ValueError(f"{lower} is above dedup_upper_threshold {upper}")
        return lower

    def check_users_apart(self, remedy: str) -> None:
        """Raises: InputError if memories of different users may be compared and merged."""
        if "user" not in self.dedup_scope:
            problem = "lets memories of different users meet"
            raise InputError("memory.dedup_scope", problem, f"put user into it, or {remedy}")

    @property
    def rules(self) -> Rules:
        """Return the settings that decisions need."""
        return Rules(
            upper=self.dedup_upper_threshold,
            lower=self.dedup_lower_threshold,
            guard=self.dedup_guard,
            on_merge_failure=self.on_merge_failure,
        )

    @property
    def thresholds_without_scale(self) -> bool:
        """Whether thresholds were set without a scale: they then compare plain cosine."""
        own = (self.dedup_upper_threshold, self.dedup_lower_threshold)
        return self.embedding.scale is None and own != (NEAR_COPY, LOWER)

    def scale_for(self, fingerprint: str) -> Scale:
        """Return the scale of similarity for an embedder's vectors."""
        if self.embedding.scale == "plain" or self.thresholds_without_scale:
            return PLAIN
        return self.embedding.scale or scale_of(fingerprint)

    @property
    def effective_ledger_url(self) -> str:
        """Return `ledger_url`, or that of a file in the data folder."""
        return self.ledger_url or f"sqlite:///{Path(self.data_dir) / 'ledger.db'}"


PLAIN_THRESHOLDS = (
    "dedup thresholds are set and memory.embedding.scale is not: they are compared with "
    "plain cosine; set the scale to plain to keep it so, or see memory-dedup calibrate"
)


class LLMConfig(Frozen):
    """Which language model, and its time-outs, retries and prices."""

    provider: Annotated[str, _one_of("auto", "gemini", "openai", "offline")] = "auto"
    """One of these, or your own: `package.module:factory`."""
    model: str | None = None
    """None is Gemini's default; other servers need a name."""
    base_url: ServerUrl = None
    structured: Literal["auto", "schema", "json", "prompt"] = "auto"
    """How an OpenAI-compatible server learns the form of an answer; Gemini takes schemas."""
    timeout_s: float = Field(default=30.0, gt=0.0)
    max_attempts: int = Field(default=4, ge=1)
    concurrency: int = Field(default=8, ge=1)
    budget_s: float = Field(default=60.0, gt=0.0)
    price_in: float | None = Field(default=None, ge=0.0)
    """Price of a million tokens sent; None: reports show no money."""
    price_out: float | None = Field(default=None, ge=0.0)
    """Price of a million tokens answered."""
    breaker_failures: int = Field(default=5, ge=1)
    breaker_pause_s: float = Field(default=30.0, gt=0.0, le=600.0)

    @property
    def price(self) -> Price | None:
        """Return the prices; None if neither is configured."""
        if self.price_in is None and self.price_out is None:
            return None
        return Price(input=self.price_in or 0.0, output=self.price_out or 0.0)


class AgentConfig(Frozen):
    """Which memories an agent's server keeps, and how near ones are treated."""

    user: Annotated[str, AfterValidator(clean)] | None = None
    """Serve only the memories of this user; None serves everyone's."""
    workspace_dir: str | None = None
    """Absolute once loaded; None writes no Markdown."""
    quiet_scaffolds: bool = False
    """Whether answers leave out the question at their end."""
    guard_distance: Share = 0.05
    """`1 - similarity`: a new memory nearer to another one is not saved."""
    merge_distance: Share = 0.10
    """`1 - similarity`: memories nearer to each other are proposed as one."""
    link_distance: float = Field(default=0.3, ge=0.0, le=2.0)
    """`1 - cosine`: memories nearer to each other are linked."""


class Config(Frozen):
    """Everything that can be set."""

    memory: MemoryConfig = MemoryConfig()
    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    api_key: SecretStr | None = Field(default=None, exclude=True)
    """Gemini's key, only from the environment: GEMINI_API_KEY, else GOOGLE_API_KEY."""
    openai_key: SecretStr | None = Field(default=None, exclude=True)
    """OpenAI's key, only from the environment: OPENAI_API_KEY."""
    openai_url: str | None = Field(default=None, exclude=True)
    """OPENAI_BASE_URL: the server if no `base_url` is configured."""

    def at(self, data_dir: str) -> Config:
        """Return a copy with all data in this folder and nowhere else."""
        memory = self.memory.model_copy(
            update={"data_dir": data_dir, "ledger_url": None, "chroma": ChromaConfig()}
        )
        return self.model_copy(update={"memory": memory})

    def with_calls_per_run(self, most: int | None) -> Config:
        """Return a copy with another budget of calls for a batch or an import, if one is given."""
        if most is None:
            return self
        memory = self.memory.model_copy(update={"dedup_calls_per_run": most})
        return self.model_copy(update={"memory": memory})


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
