"""What can be set: every key, its type, its default, and what follows from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator
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
    """Where Chroma runs: in a process of its own, or on a server when `host` is set."""

    host: str | None = None
    port: int = Field(default=8000, ge=1, le=65535)
    ssl: bool = False
    tenant: str = "default_tenant"
    database: str = "default_database"


class SearchConfig(Frozen):
    """How memories are found."""

    hybrid: bool = True
    """Whether a question is compared by its words too, not only by its vector."""
    vectors_mb: int = Field(default=512, ge=0)
    """Memory for vectors, of the users who were asked about last."""


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
    read_private: bool = False
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
        """Raises: InputError where memories of different users may be compared and merged."""
        if "user" not in self.dedup_scope:
            problem = "lets memories of different users meet"
            raise InputError("memory.dedup_scope", problem, f"put user into it, or {remedy}")

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


PLAIN_THRESHOLDS = (
    "dedup thresholds are set and memory.embedding.scale is not: they are compared with "
    "plain cosine; set the scale to plain to keep it so, or see memory-dedup calibrate"
)


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

    user: Annotated[str, AfterValidator(clean)] | None = None
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
