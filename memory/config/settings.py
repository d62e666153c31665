"""Every configuration key with its type and default, and values that are derived from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr, field_validator
from pydantic_core.core_schema import ValidationInfo

from memory.errors import InputError
from memory.models import (
    LOWER,
    MAX_CONTENT,
    NEAR_COPY,
    PLAIN,
    Checked,
    Cleaned,
    Name,
    Price,
    Rules,
    Scale,
    ScopeField,
    Usage,
    as_tuple,
    scale_of,
)

Share = Annotated[float, Field(ge=0.0, le=1.0)]
_is_factory = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*").fullmatch


def _one_of(*names: str) -> AfterValidator:
    def checked(provider: str) -> str:
        if provider in names or _is_factory(provider):
            return provider
        known = ", ".join(names)
        raise ValueError(f"{provider!r} is none of {known}, nor package.module:factory")

    return AfterValidator(checked)


def server_url(given: str) -> str:
    """Check that `given` is the URL of an HTTP server, and return it unchanged.

    >>> server_url("https://example.org/v1")
    'https://example.org/v1'
    >>> server_url("example.org")
    Traceback (most recent call last):
        ...
    ValueError: 'example.org' is not the URL of a server: write http://HOST:PORT/... or https://

    Raises: ValueError.
    """
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


ServerUrl = Annotated[str, AfterValidator(server_url)]


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:  # OSError: "Europe" is a folder
        raise ValueError(
            f"{name!r} is no known time zone: write it like Europe/Berlin, and install tzdata if "
            "the machine knows none"
        ) from exc
    return name


Timezone = Annotated[str, AfterValidator(_timezone)]


class SearchConfig(Checked):
    """Settings of the search.

    `vectors_mb`: the most megabytes of RAM for vectors; the vectors of the users searched last are
    kept. `index`: the vector index for each user whose vectors alone need more RAM than this. It is
    `chroma`, or an index of your own as `package.module:factory`. `chroma_url`: the address of a
    Chroma server. None means that Chroma keeps its files in the data folder.

    >>> from memory import load_config
    >>> load_config(settings={"search_vectors_mb": 64}).memory.search.vectors_mb
    64
    """

    vectors_mb: int = Field(default=512, ge=0)
    index: Annotated[str, _one_of("chroma")] = "chroma"
    chroma_url: ServerUrl | None = None


class EmbeddingConfig(Checked):
    """Settings of the embedder, which turns texts into vectors.

    An existing store keeps its embedder until `memory-dedup store reembed` is run.

    `provider`: the name of a built-in embedder, or an embedder of your own as
    `package.module:factory`. `model`, `dim`: the name of the model and the length of its vectors,
    for gemini and openai; None means the provider's default.

    `base_url`: the URL of an OpenAI-compatible server. None means the server of `llm` if
    `llm.provider` is openai. Otherwise it means OPENAI_BASE_URL if that variable is set, else
    OpenAI's own server.

    `scale`: the curve that turns the cosine of two vectors into a similarity. With `plain`, the
    similarity equals the cosine. None means the embedder's own curve. But if
    `memory.dedup_upper_threshold` or `memory.dedup_lower_threshold` differs from its default, None
    means `plain`.

    >>> config.memory.embedding.provider, config.memory.embedding.scale  # the scale made for it
    ('wordllama', None)
    >>> config.memory.scale_for("wordllama-256").anchor
    0.7
    """

    provider: Annotated[str, _one_of("wordllama", "minilm", "gemini", "openai")] = "wordllama"
    model: str | None = None
    dim: int | None = Field(default=None, ge=16, le=8192)
    base_url: ServerUrl | None = None
    scale: Scale | Literal["plain"] | None = None


class MemoryConfig(Checked):
    """Settings of the store, and of how memories are compared, merged and extracted.

    `dedup_enabled`: whether new memories are compared with stored ones. `dedup_upper_threshold`:
    the lowest similarity at which one memory can replace another without asking a model.
    `dedup_guard`: whether a memory can replace another in this way only if its text states
    everything that the other text states. `dedup_lower_threshold`: the lowest similarity at which a
    model is asked whether two memories state the same fact.

    `dedup_scope`: the fields, besides `is_private`, that must be equal for two memories to be
    compared.

    `read_private`: whether the pages that a model reads may contain private memories.
    `background_pages`: whether an open chat memory has the model read pages of new memories.
    `dedup_calls_per_run`: the maximum number of model calls of one batch or import.
    `dedup_calls_per_hour`: the maximum number of model calls per hour for memories that are saved
    one by one. When a limit is reached, further questions wait for a later batch.

    `extraction_wait`: the seconds to wait for more turns of a conversation before memories are
    extracted; when ten turns are waiting, memories are extracted at once.
    `extraction_instructions`: text that is added to the prompt that extracts memories.
    `categories`: the allowed categories of extracted memories; a memory with another one gets the
    first. If empty, the model uses fact, opinion, event and interaction.

    `timezone`: the IANA name of the time zone in which people speak, such as Europe/Berlin. Times
    without an offset of their own get that of this zone, so that "today" is the right day. None
    means UTC, and such times in imports are refused.

    `data_dir`: the folder for the files of the ledger and of Chroma. `ledger_url`: the database of
    the ledger; None means the SQLite file `ledger.db` in `data_dir`.

    >>> from memory import load_config
    >>> changed = load_config(settings={"dedup_upper_threshold": 0.97}).memory
    >>> changed.rules.upper, changed.scale_for("wordllama-256") == PLAIN
    (0.97, True)
    """

    dedup_enabled: bool = True
    dedup_upper_threshold: Share = NEAR_COPY
    dedup_lower_threshold: Share = Field(default=LOWER, validate_default=True)
    dedup_guard: bool = True
    dedup_scope: Annotated[tuple[ScopeField, ...], BeforeValidator(as_tuple)] = ("user",)
    dedup_calls_per_run: int = Field(default=500, ge=0)
    read_private: bool = False
    background_pages: bool = True
    dedup_calls_per_hour: int = Field(default=1_000, ge=0)
    extraction_wait: float = Field(default=45.0, ge=0.0)
    extraction_instructions: str = Field(default="", max_length=MAX_CONTENT)
    categories: Annotated[tuple[Name, ...], BeforeValidator(as_tuple)] = ()
    timezone: Timezone | None = None
    data_dir: str = "data"
    ledger_url: str | None = None
    search: SearchConfig = SearchConfig()
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

        `remedy`: advice for the error message, as an alternative to adding the field `user` to
        `memory.dedup_scope`.

        Raises: InputError if `memory.dedup_scope` does not contain `user`.
        """
        if "user" not in self.dedup_scope:
            raise InputError(
                "memory.dedup_scope",
                "lets memories of different users meet",
                f"put user into it, or {remedy}",
            )

    @property
    def zone(self) -> ZoneInfo | None:
        return None if self.timezone is None else ZoneInfo(self.timezone)

    @property
    def rules(self) -> Rules:
        return Rules(
            upper=self.dedup_upper_threshold,
            lower=self.dedup_lower_threshold,
            guard=self.dedup_guard,
        )

    @property
    def thresholds_without_scale(self) -> bool:
        """Whether a similarity threshold was changed but `embedding.scale` was not set.

        The thresholds are then compared with the cosine itself.
        """
        thresholds = (self.dedup_upper_threshold, self.dedup_lower_threshold)
        return self.embedding.scale is None and thresholds != (NEAR_COPY, LOWER)

    def scale_for(self, fingerprint: str) -> Scale:
        """Return the curve that turns the cosines of an embedder into similarities.

        `fingerprint` identifies the embedder. If a threshold was changed and no curve is
        configured, similarity equals cosine.
        """
        if self.embedding.scale == "plain" or self.thresholds_without_scale:
            return PLAIN
        return self.embedding.scale or scale_of(fingerprint)

    @property
    def effective_ledger_url(self) -> str:
        return self.ledger_url or f"sqlite:///{Path(self.data_dir) / 'ledger.db'}"


PLAIN_THRESHOLDS = (
    "dedup thresholds are set and memory.embedding.scale is not: they are compared with "
    "plain cosine; set the scale to plain to keep it so, or see memory-dedup store calibrate"
)


class LLMConfig(Checked):
    """Settings of the language model, with its limits and prices.

    `provider`: the name of a built-in provider, or your own model as `package.module:factory`.
    `auto` means gemini if its API key is set, else offline. `model`: the model's name. None means
    the default model for gemini; openai needs a name. `base_url`: the URL of the model's server.
    None means Google's server for gemini. For openai it means OPENAI_BASE_URL if that variable is
    set, else OpenAI's own server.

    `structured`: how an OpenAI-compatible server is told the format of an answer. `schema` sends a
    JSON schema, `json` asks for JSON mode, and `prompt` describes the format only in the prompt.
    `auto` tries these three in this order, until the server accepts one. Gemini always gets a
    schema.

    `timeout_s`: the most seconds to wait for one answer. One piece of work, such as a new memory,
    or a group of near-copies or a page in a batch, may wait twice as long for the model, with all
    its attempts. `price`: the price of the model's tokens. If it is None, reports show no costs.

    >>> from memory import load_config
    >>> llm = load_config(settings={"llm_provider": "offline", "llm_timeout_s": 10}).llm
    >>> llm.budget_s, llm.price  # the wait for one piece of work, and no costs in reports
    (20.0, None)
    """

    provider: Annotated[str, _one_of("auto", "gemini", "openai", "offline")] = "auto"
    model: str | None = None
    base_url: ServerUrl | None = None
    structured: Literal["auto", "schema", "json", "prompt"] = "auto"
    timeout_s: float = Field(default=30.0, gt=0.0)
    max_attempts: int = Field(default=4, ge=1)
    concurrency: int = Field(default=8, ge=1)
    price: Price | None = None

    @property
    def budget_s(self) -> float:
        """The most seconds that one piece of work may wait for the model, all attempts together."""
        return 2.0 * self.timeout_s

    def money(self, usage: Usage) -> float | None:
        return None if self.price is None else self.price.of(usage)


class AgentConfig(Checked):
    """Settings of the server that gives an agent access to the memories.

    `user`: serve only this user's memories; None serves all. `workspace_dir`: the folder for copies
    of public memories as Markdown files; None writes no copies. `quiet_scaffolds`: whether tools
    leave out the questions that otherwise end some answers.

    >>> from memory import load_config
    >>> load_config(settings={"agent_user": "Mia"}).agent.user, config.agent.user  # None: all users
    ('Mia', None)
    """

    user: Cleaned | None = None
    workspace_dir: str | None = None
    quiet_scaffolds: bool = False


class Config(Checked):
    """The settings of the program, read once.

    >>> config.llm.provider, config.memory.dedup_upper_threshold
    ('offline', 0.95)
    """

    memory: MemoryConfig = MemoryConfig()
    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    api_key: SecretStr | None = Field(default=None, exclude=True)
    openai_key: SecretStr | None = Field(default=None, exclude=True)
    openai_url: str | None = Field(default=None, exclude=True)

    def at(self, data_dir: str) -> Config:
        """Return a copy of this configuration that keeps all data in files in `data_dir`."""
        local = {
            "data_dir": data_dir,
            "ledger_url": None,
            "search": self.memory.search.model_copy(update={"index": "chroma", "chroma_url": None}),
        }
        return self.model_copy(update={"memory": self.memory.model_copy(update=local)})

    def with_calls_per_run(self, most: int | None) -> Config:
        if most is None:
            return self
        memory = self.memory.model_copy(update={"dedup_calls_per_run": most})
        return self.model_copy(update={"memory": memory})


SECTIONS: dict[str, type[BaseModel]] = {
    "memory": MemoryConfig,
    "llm": LLMConfig,
    "agent": AgentConfig,
}
REMOVED = {
    **dict.fromkeys(
        (
            "memory.dedup_candidates",
            "memory.on_merge_failure",
            "memory.extraction_gap",
            "memory.search.hybrid",
            "llm.breaker_failures",
            "llm.breaker_pause_s",
            "agent.guard_distance",
            "agent.merge_distance",
            "agent.link_distance",
        ),
        "remove it; the default always counts now",
    ),
    "memory.chroma.host": "set memory.search.chroma_url to http://HOST:PORT",
    "memory.chroma.port": "it is a part of memory.search.chroma_url now",
    "llm.budget_s": "remove it; it is twice llm.timeout_s now",
    "llm.price_in": "write llm.price: {input: 0.30, output: 2.50}",
    "llm.price_out": "it is a part of llm.price now",
}
"""Keys of earlier versions, with what to do about each."""
ACCESS = {
    "api_key": "GEMINI_API_KEY",
    "openai_key": "OPENAI_API_KEY",
    "openai_url": "OPENAI_BASE_URL",
}
"""The fields of `Config` that only environment variables can set, with the variables' names."""
