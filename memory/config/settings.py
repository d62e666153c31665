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
    """Check that `given` is the URL of an HTTP server, and return it unchanged; None is accepted.

    Raises: ValueError if it is not the URL of an HTTP or HTTPS server.
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
    """How to reach the vector database Chroma.

    If `host` is None, Chroma runs in this process and keeps its files in the data folder.
    """

    host: str | None = None
    port: int = Field(default=8000, ge=1, le=65535)
    ssl: bool = False
    tenant: str = "default_tenant"
    database: str = "default_database"


class SearchConfig(Frozen):
    hybrid: bool = True
    """Whether search compares words as well as vectors."""
    vectors_mb: int = Field(default=512, ge=0)
    """The RAM, in megabytes, that keeps the vectors of the most recently searched users."""
    index: Annotated[str, _one_of("chroma")] = "chroma"
    """The index for users whose vectors need more RAM than `vectors_mb`.

    It is Chroma, or your own `VectorIndex` as `package.module:factory`.
    """


class EmbeddingConfig(Frozen):
    """Which embedder turns texts into vectors.

    An existing store keeps the embedder that it was created with until `memory-dedup reembed` is
    run.
    """

    provider: Annotated[str, _one_of("wordllama", "minilm", "gemini", "openai")] = "wordllama"
    """The name of a built-in provider, or your own embedder as `package.module:factory`."""
    model: str | None = None
    """The name of the model on a server; None means the default of Gemini or OpenAI."""
    dim: int | None = Field(default=None, ge=16, le=8192)
    """The number of dimensions of the vectors from a server.

    None means the number that the default model has.
    """
    base_url: ServerUrl = None
    """The URL of an OpenAI-compatible server.

    None means the same server that `llm` uses if `llm.provider` is openai. Otherwise it means
    OPENAI_BASE_URL if that variable is set, else OpenAI's own server.
    """
    scale: Scale | Literal["plain"] | None = None
    """The curve that turns a cosine into a similarity.

    None means the embedder's own curve; `plain` means that the similarity is the cosine.
    """


class MemoryConfig(Frozen):
    dedup_enabled: bool = True
    dedup_upper_threshold: Share = NEAR_COPY
    """The lowest similarity at which a memory can replace another memory without asking a model."""
    dedup_lower_threshold: Share = Field(default=LOWER, validate_default=True)
    """The lowest similarity at which a model is asked whether two memories state the same fact."""
    dedup_guard: bool = True
    """If true, a memory replaces another memory only if it states all that the other states."""
    dedup_scope: Annotated[tuple[ScopeField, ...], BeforeValidator(as_tuple)] = ("user",)
    """The fields that must be equal for two memories to be compared.

    `is_private` must always be equal too, even if it is not listed.
    """
    dedup_candidates: int = Field(default=5, ge=1, le=100)
    dedup_calls_per_run: int = Field(default=500, ge=0)
    """The maximum number of model calls in one batch run or import."""
    read_private: bool = False
    """Whether a batch run may show private memories to the model on pages.

    A page is a list of up to 48 memories of one user that the model reads in one question.
    """
    dedup_calls_per_hour: int = Field(default=1_000, ge=0)
    """The maximum number of model calls per hour for memories that are saved one by one.

    Questions beyond that number wait for a later batch run.
    """
    on_merge_failure: OnMergeFailure = "replace"
    """What to do with near-copies about which the model fails to answer.

    "replace" retires each memory whose text another memory states completely; "keep_both" keeps
    all.
    """
    extraction_wait: float = Field(default=45.0, ge=0.0)
    """How many seconds the turns of a conversation wait before memories are extracted from them.

    Other turns may arrive during this time. If ten turns are waiting, memories are extracted
    without further delay.
    """
    extraction_gap: float = Field(default=21_600.0, gt=0.0)
    """A silence of more than this many seconds divides a conversation into parts.

    Memories are extracted from each part separately.
    """
    data_dir: str = "data"
    """The folder for all data; after the configuration is loaded, an absolute path."""
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
        """Check that memories of different users are never compared with each other.

        `remedy`: text for the error message, which says what the user can do instead of adding
        `user` to `memory.dedup_scope`.

        Raises: InputError if memories of different users may be compared and merged.
        """
        if "user" not in self.dedup_scope:
            problem = "lets memories of different users meet"
            raise InputError("memory.dedup_scope", problem, f"put user into it, or {remedy}")

    @property
    def rules(self) -> Rules:
        return Rules(
            upper=self.dedup_upper_threshold,
            lower=self.dedup_lower_threshold,
            guard=self.dedup_guard,
            on_merge_failure=self.on_merge_failure,
        )

    @property
    def thresholds_without_scale(self) -> bool:
        """Whether a similarity threshold was changed but `embedding.scale` was not set.

        The thresholds are then compared with the cosine itself.
        """
        own = (self.dedup_upper_threshold, self.dedup_lower_threshold)
        return self.embedding.scale is None and own != (NEAR_COPY, LOWER)

    def scale_for(self, fingerprint: str) -> Scale:
        """Return the curve that turns the cosine of an embedder's vectors into a similarity.

        It is the curve set in `embedding.scale` or, if none is set, the embedder's own curve. If no
        curve is set but a threshold was changed, the similarity is the plain cosine. `fingerprint`:
        a text that identifies the embedder.
        """
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
    provider: Annotated[str, _one_of("auto", "gemini", "openai", "offline")] = "auto"
    """The name of a built-in provider, or your own model as `package.module:factory`.

    `auto` means gemini if its API key is set, else offline.
    """
    model: str | None = None
    """The name of the model. None means Gemini's default model; openai needs a name."""
    base_url: ServerUrl = None
    """The URL of the model's server.

    None means Google's server for gemini. For openai it means OPENAI_BASE_URL if that variable is
    set, else OpenAI's own server.
    """
    structured: Literal["auto", "schema", "json", "prompt"] = "auto"
    """How the program tells an OpenAI-compatible server the format of a response.

    `auto` uses the strictest of the other values that works. Gemini always gets a schema.
    """
    timeout_s: float = Field(default=30.0, gt=0.0)
    """The time-out of each attempt of a model call, in seconds."""
    max_attempts: int = Field(default=4, ge=1)
    concurrency: int = Field(default=8, ge=1)
    budget_s: float = Field(default=60.0, gt=0.0)
    """The maximum total time, in seconds, to wait for the model.

    It applies to each new memory and to each group of a batch run.
    """
    price_in: float | None = Field(default=None, ge=0.0)
    """The price of a million input tokens.

    If neither this nor `price_out` is set, reports show no costs.
    """
    price_out: float | None = Field(default=None, ge=0.0)
    breaker_failures: int = Field(default=5, ge=1)
    """The number of failed calls in a row after which the model is not called for a while.

    The pause lasts `breaker_pause_s` seconds.
    """
    breaker_pause_s: float = Field(default=30.0, gt=0.0, le=600.0)
    """How many seconds the model is not called after `breaker_failures` failed calls in a row.

    If the first call after the pause fails too, the next pause is twice as long.
    """

    @property
    def price(self) -> Price | None:
        """The prices of a million input and output tokens, or None if neither is configured."""
        if self.price_in is None and self.price_out is None:
            return None
        return Price(input=self.price_in or 0.0, output=self.price_out or 0.0)


class AgentConfig(Frozen):
    """Settings of the server that gives an agent access to the memories.

    They say which memories the server offers, and below which distances two memories count as
    similar.
    """

    user: Annotated[str, AfterValidator(clean)] | None = None
    """The user whose memories are served; None serves the memories of all users."""
    workspace_dir: str | None = None
    """The folder for copies of the memories as Markdown files; None writes no copies.

    After the configuration is loaded, an absolute path.
    """
    quiet_scaffolds: bool = False
    """Whether tools leave out the question for reflection at the end of their answers."""
    guard_distance: Share = 0.05
    """A new memory is not saved if its distance to a stored memory is below this value.

    The distance is 1 - similarity.
    """
    merge_distance: Share = 0.10
    """Two memories are proposed for merging if their distance is below this value.

    The distance is 1 - similarity.
    """
    link_distance: float = Field(default=0.3, ge=0.0, le=2.0)
    """Two memories are linked if their distance is below this value.

    Unlike in the other two settings, the distance is 1 - cosine.
    """


class Config(Frozen):
    memory: MemoryConfig = MemoryConfig()
    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    api_key: SecretStr | None = Field(default=None, exclude=True)
    """The Gemini key, from the environment variable GEMINI_API_KEY, or else GOOGLE_API_KEY.

    It is only read from the environment.
    """
    openai_key: SecretStr | None = Field(default=None, exclude=True)
    openai_url: str | None = Field(default=None, exclude=True)
    """The server's URL if no `base_url` is configured.

    It is only read from the environment variable OPENAI_BASE_URL.
    """

    def at(self, data_dir: str) -> Config:
        """Return a copy of the configuration that keeps all data in `data_dir`.

        The ledger and the vectors are kept there too, even if a database, a Chroma server or an
        index of your own is configured.
        """
        embedded = {"search": self.memory.search.model_copy(update={"index": "chroma"})}
        memory = self.memory.model_copy(
            update={"data_dir": data_dir, "ledger_url": None, "chroma": ChromaConfig(), **embedded}
        )
        return self.model_copy(update={"memory": memory})

    def with_calls_per_run(self, most: int | None) -> Config:
        """Return a copy that allows `most` model calls per batch run or import.

        If `most` is None, the limit stays unchanged.
        """
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
"""For each field of `Config` that only an environment variable can set, the variable's name."""
