"""Every configuration key with its type and default, and values that are derived from them."""

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
    """Return the URL unchanged if it is that of an HTTP server, or None for None.

    Raises: ValueError for anything else.
    """
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
    """How to reach Chroma: on a server if `host` is set, else in a process that we start."""

    host: str | None = None
    port: int = Field(default=8000, ge=1, le=65535)
    ssl: bool = False
    tenant: str = "default_tenant"
    database: str = "default_database"


class SearchConfig(Frozen):
    """How memories are searched."""

    hybrid: bool = True
    """Whether search also compares words, and not only vectors."""
    vectors_mb: int = Field(default=512, ge=0)
    """Megabytes of RAM for vectors of the users that were searched last."""


class EmbeddingConfig(Frozen):
    """Which embedder turns texts into vectors.

    A store keeps the embedder that it was made with until `memory-dedup reembed`.
    """

    provider: Annotated[str, _one_of("wordllama", "minilm", "gemini", "openai")] = "wordllama"
    """The name of a built-in provider, or your own embedder as `package.module:factory`."""
    model: str | None = None
    """The model's name on a server; None means the default of Gemini or OpenAI."""
    dim: int | None = Field(default=None, ge=16, le=8192)
    """The dimension of a server's vectors; None means that of the default model."""
    base_url: ServerUrl = None
    """The URL of an OpenAI-compatible server; None means `llm.base_url` if `llm.provider` is
    openai.
    """
    scale: Scale | Literal["plain"] | None = None
    """The curve from cosine to similarity; None means the embedder's own, `plain` the cosine
    itself.
    """


class MemoryConfig(Frozen):
    """How memories are stored and deduplicated."""

    dedup_enabled: bool = True
    """Whether new memories are deduplicated at all."""
    dedup_upper_threshold: Share = NEAR_COPY
    """The similarity from which a memory can replace another one without a model."""
    dedup_lower_threshold: Share = Field(default=LOWER, validate_default=True)
    """The similarity from which the model is asked about two memories."""
    dedup_guard: bool = True
    """Whether a memory may replace another only if it states everything that the other states."""
    dedup_scope: Annotated[tuple[ScopeField, ...], BeforeValidator(as_tuple)] = ("user",)
    """The fields that two memories must share to be compared; `is_private` always is one of
    them.
    """
    dedup_candidates: int = Field(default=5, ge=1, le=100)
    """With how many of the nearest memories a new one is compared."""
    dedup_calls_per_run: int = Field(default=500, ge=0)
    """The maximum number of model calls in one batch or import."""
    read_private: bool = False
    """Whether a batch may show private memories to the model on pages, up to 48 at a time."""
    dedup_calls_per_hour: int = Field(default=1_000, ge=0)
    """The maximum number of model calls per hour for memories saved one by one.

    Further questions wait for a later batch.
    """
    on_merge_failure: OnMergeFailure = "replace"
    """What to do with near-copies if the model fails."""
    extraction_wait: float = Field(default=45.0, ge=0.0)
    """Seconds that turns of a conversation wait for more turns before they are read.

    Ten turns do not wait.
    """
    extraction_gap: float = Field(default=21_600.0, gt=0.0)
    """Seconds; turns with a longer silence between them are extracted separately."""
    data_dir: str = "data"
    """The folder for all data; an absolute path once the configuration is loaded."""
    ledger_url: str | None = None
    """The URL of the ledger's database; None means an SQLite file in the data folder."""
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
        """Check that memories of different users are never compared.

        `remedy`: what the user can do instead of changing `memory.dedup_scope`.

        Raises: InputError if they may be compared and merged.
        """
        if "user" not in self.dedup_scope:
            problem = "lets memories of different users meet"
            raise InputError("memory.dedup_scope", problem, f"put user into it, or {remedy}")

    @property
    def rules(self) -> Rules:
        """The settings of the decision policy."""
        return Rules(
            upper=self.dedup_upper_threshold,
            lower=self.dedup_lower_threshold,
            guard=self.dedup_guard,
            on_merge_failure=self.on_merge_failure,
        )

    @property
    def thresholds_without_scale(self) -> bool:
        """Whether thresholds are set and no scale is; they are then compared with the plain
        cosine.
        """
        own = (self.dedup_upper_threshold, self.dedup_lower_threshold)
        return self.embedding.scale is None and own != (NEAR_COPY, LOWER)

    def scale_for(self, fingerprint: str) -> Scale:
        """Return the scale from cosine to similarity for an embedder, given by its fingerprint."""
        if self.embedding.scale == "plain" or self.thresholds_without_scale:
            return PLAIN
        return self.embedding.scale or scale_of(fingerprint)

    @property
    def effective_ledger_url(self) -> str:
        """The URL of the ledger's database: `ledger_url`, or an SQLite file in the data folder."""
        return self.ledger_url or f"sqlite:///{Path(self.data_dir) / 'ledger.db'}"


PLAIN_THRESHOLDS = (
    "dedup thresholds are set and memory.embedding.scale is not: they are compared with "
    "plain cosine; set the scale to plain to keep it so, or see memory-dedup calibrate"
)


class LLMConfig(Frozen):
    """Which language model is used, with its time-outs, retries and prices."""

    provider: Annotated[str, _one_of("auto", "gemini", "openai", "offline")] = "auto"
    """The name of a built-in provider, or your own model as `package.module:factory`."""
    model: str | None = None
    """The model's name; None means Gemini's default, other servers need a name."""
    base_url: ServerUrl = None
    """The URL of the server; None means that of Google or OpenAI."""
    structured: Literal["auto", "schema", "json", "prompt"] = "auto"
    """How an OpenAI-compatible server is told the form of an answer; Gemini gets a schema."""
    timeout_s: float = Field(default=30.0, gt=0.0)
    """The time-out of one try of a call, in seconds."""
    max_attempts: int = Field(default=4, ge=1)
    """The maximum number of tries of one call."""
    concurrency: int = Field(default=8, ge=1)
    """The maximum number of calls at the same time."""
    budget_s: float = Field(default=60.0, gt=0.0)
    """Seconds that one new memory, or one group of a batch, may wait for the model in total."""
    price_in: float | None = Field(default=None, ge=0.0)
    """The price of a million input tokens; if None, reports show no costs."""
    price_out: float | None = Field(default=None, ge=0.0)
    """The price of a million output tokens."""
    breaker_failures: int = Field(default=5, ge=1)
    """The number of failures in a row after which the model is not called for a while."""
    breaker_pause_s: float = Field(default=30.0, gt=0.0, le=600.0)
    """Seconds until the next call after that; the pause doubles if this call fails."""

    @property
    def price(self) -> Price | None:
        """The prices per million tokens, or None if neither is configured."""
        if self.price_in is None and self.price_out is None:
            return None
        return Price(input=self.price_in or 0.0, output=self.price_out or 0.0)


class AgentConfig(Frozen):
    """Which memories the agent's server serves, and at which distances it treats them as near."""

    user: Annotated[str, AfterValidator(clean)] | None = None
    """Serve only the memories of this user; None serves those of all users."""
    workspace_dir: str | None = None
    """The folder for Markdown copies of the memories, absolute once loaded; None writes none."""
    quiet_scaffolds: bool = False
    """Whether the tools' answers end without a question to reflect on."""
    guard_distance: Share = 0.05
    """A new memory is not saved if its distance, `1 - similarity`, to another one is below this."""
    merge_distance: Share = 0.10
    """Two memories are proposed for merging if their distance, `1 - similarity`, is below this."""
    link_distance: float = Field(default=0.3, ge=0.0, le=2.0)
    """Two memories are linked if their distance, here `1 - cosine`, is below this."""


class Config(Frozen):
    """The whole configuration."""

    memory: MemoryConfig = MemoryConfig()
    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    api_key: SecretStr | None = Field(default=None, exclude=True)
    """The Gemini key, only from the environment: GEMINI_API_KEY, or else GOOGLE_API_KEY."""
    openai_key: SecretStr | None = Field(default=None, exclude=True)
    """The OpenAI key, only from the environment: OPENAI_API_KEY."""
    openai_url: str | None = Field(default=None, exclude=True)
    """The server if no `base_url` is configured, only from the environment: OPENAI_BASE_URL."""

    def at(self, data_dir: str) -> Config:
        """Return a copy that keeps all data in this folder, and uses no other database or server
        for them.
        """
        memory = self.memory.model_copy(
            update={"data_dir": data_dir, "ledger_url": None, "chroma": ChromaConfig()}
        )
        return self.model_copy(update={"memory": memory})

    def with_calls_per_run(self, most: int | None) -> Config:
        """Return a copy with `most` model calls allowed per batch or import; no change if None."""
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
"""The fields of `Config` that only an environment variable can set, with that variable's name."""
