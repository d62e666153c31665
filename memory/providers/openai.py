"""Models and embedders on servers that speak OpenAI's protocol: the only file to import `openai`.

Many servers support the protocol only in part. If a server refuses an option (a schema, JSON mode,
a temperature), later requests leave this option out.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import openai
from pydantic import AliasPath, BaseModel, Field, SecretStr, ValidationError

from memory.errors import ModelAnswerError, ModelError
from memory.models import Usage
from memory.providers import prompts
from memory.providers.remote import (
    Called,
    ModelSettings,
    RawAnswer,
    RemoteEmbedder,
    RemoteModel,
    retry_after_s,
)
from memory.runtime import OfEachLoop

OPENAI = "https://api.openai.com/v1"
DEFAULT_EMBEDDING = "text-embedding-3-small"
DEFAULT_DIM = 1536
_KEY = "OPENAI_API_KEY"
_REFUSED_AS_ASKED = frozenset({400, 422, 500})  # 500: llama.cpp, if it cannot build a grammar
_STOPPED_EARLY = frozenset({"refused", "length", "content_filter"})
_NAMES_THE_FORMAT = re.compile(r"response.?format|json.?(schema|object|mode)|grammar", re.I)
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_ACCOUNT = ("OpenAI-Organization", "OpenAI-Project")
_OWN_HEADERS = frozenset({"", "authorization", "connection"})

Structure = Literal["schema", "json", "prompt"]
_WEAKER: dict[Structure, Structure] = {"schema": "json", "json": "prompt"}


@dataclass(frozen=True)
class OpenAIServer:
    """The address and the API key of a server. `key` is None for a server that needs none."""

    key: SecretStr | None
    base_url: str = OPENAI

    @property
    def name(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2] or self.base_url

    @property
    def host(self) -> str:
        """The server's host, as it is written in the fingerprint of an embedder.

        The port is left out, because it may change. Addresses of this machine become `localhost`.
        """
        host = urlsplit(self.base_url).hostname or self.base_url
        return "localhost" if host in _LOOPBACK else host

    @property
    def is_openai(self) -> bool:
        return self.host == urlsplit(OPENAI).hostname

    @property
    def client(self) -> dict[str, Any]:
        key = self.key.get_secret_value() if self.key else "none"
        # Given here, so that no other server gets the environment's.
        whose = {} if self.is_openai else {"Authorization": f"Bearer {key}"}
        return {
            "api_key": key,
            "base_url": self.base_url,
            "max_retries": 0,
            "default_headers": {"Connection": "close"} | whose,  # an event loop may end any time
        }

    @property
    def request(self) -> Any:
        """The options that are given to the SDK with each request to this server.

        They forbid redirects. Without a key, no authorization header is sent.
        """
        left_out = [] if self.key else ["Authorization"]
        if not self.is_openai:
            lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
            names = [line.partition(":")[0].strip() for line in lines]
            left_out += [*_ACCOUNT, *(name for name in names if name.lower() not in _OWN_HEADERS)]
        return {"follow_redirects": False, "headers": dict.fromkeys(left_out, openai.Omit())}


# --- answers; every server leaves out something -------------------------------------------


def _at(key: str, *path: str | int) -> Any:
    return Field(default=None, validation_alias=AliasPath(key, *path))


class _Completion(BaseModel):
    content: str | None = _at("choices", 0, "message", "content")
    reasoning: str | None = _at("choices", 0, "message", "reasoning_content")
    refusal: str | None = _at("choices", 0, "message", "refusal")
    finish_reason: str | None = _at("choices", 0, "finish_reason")
    input_tokens: int | None = _at("usage", "prompt_tokens")
    output_tokens: int | None = _at("usage", "completion_tokens")


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Embeddings(BaseModel):
    data: list[_Embedding]


class OpenAIModel(RemoteModel):
    holds_to_schemas = False  # some servers ignore them without a word

    def __init__(
        self,
        server: OpenAIServer,
        config: ModelSettings,
        model: str,
        extract_prompt: str = prompts.EXTRACT,
    ) -> None:
        super().__init__(Called(server.name, model, "llm.model", _KEY), config, extract_prompt)
        self._server = server
        self._structure: Structure = "schema" if config.structured == "auto" else config.structured
        self._temperature: dict[str, float] = {"temperature": 0.0}
        self._clients: OfEachLoop[openai.AsyncOpenAI] = OfEachLoop()

    async def ask_once(
        self, system: str, content: str, schema: type[BaseModel] | None
    ) -> RawAnswer:
        while True:
            structure, body = self._structure, self._body(system, content, schema)
            try:
                client = await self._clients.made_in_thread(
                    lambda: openai.AsyncOpenAI(
                        timeout=self._config.timeout_s, **self._server.client
                    )
                )
                response = await client.post(
                    "/chat/completions", cast_to=object, body=body, options=self._server.request
                )
            except Exception as exc:  # the SDK, its HTTP library and json each raise their own
                if self._drop_refused(exc, structure, body):
                    continue
                raise _mapped(exc, self.called) from exc
            return self._raw_answer(response)

    def _body(self, system: str, content: str, schema: type[BaseModel] | None) -> dict[str, Any]:
        form = None
        if schema is not None:
            strict = prompts.strict_schema(schema.model_json_schema())
            # In words too: a server that ignores the form says nothing of it.
            system = prompts.in_json(system, strict)
            named = {"name": schema.__name__, "strict": True, "schema": strict}
            forms: dict[Structure, dict[str, Any]] = {
                "schema": {"type": "json_schema", "json_schema": named},
                "json": {"type": "json_object"},
            }
            form = forms.get(self._structure)
        return {
            "model": self.called.model,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": content},
            ],
            **self._temperature,
            **({"response_format": form} if form else {}),
        }

    def _drop_refused(self, exc: Exception, structure: Structure, body: Mapping[str, Any]) -> bool:
        """If the server refused an option, leave the option out of later requests.

        `exc` is the server's error. `structure` and `body` belong to the refused request. JSON mode
        replaces a refused JSON schema; instructions in the prompt replace a refused JSON mode.
        Return whether an option was refused.
        """
        if not isinstance(exc, openai.APIStatusError) or exc.status_code not in _REFUSED_AS_ASKED:
            return False
        message = _message(exc)
        if "temperature" in body and re.search("temperature", message, re.I):
            self._temperature = {}
            return True
        weaker = _WEAKER.get(structure) if self._config.structured == "auto" else None
        if weaker is None or "response_format" not in body or not _NAMES_THE_FORMAT.search(message):
            return False
        if self._structure == structure:  # else another call has seen to it meanwhile
            self._structure = weaker
        return True

    def _raw_answer(self, response: object) -> RawAnswer:
        try:
            completion = _Completion.model_validate(response)
        except ValidationError as exc:
            raise ModelAnswerError(
                f"{self.called.server}'s answer is no chat completion", may_pass=True
            ) from exc
        reason = "refused" if completion.refusal else completion.finish_reason or ""
        return RawAnswer(
            completion.content or completion.reasoning or "",  # some servers put all text there
            Usage(
                input_tokens=completion.input_tokens or 0,
                output_tokens=completion.output_tokens or 0,
            ),
            problem=self.called.stopped(reason) if reason in _STOPPED_EARLY else "",
        )

    async def aclose(self) -> None:
        mine = self._clients.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.close()


class OpenAIEmbedder(RemoteEmbedder):
    def __init__(
        self,
        server: OpenAIServer,
        config: ModelSettings,
        model: str | None = None,
        dim: int | None = None,
    ) -> None:
        model, dim = model or DEFAULT_EMBEDDING, dim or DEFAULT_DIM
        self._client = openai.OpenAI(timeout=config.timeout_s, **server.client)
        super().__init__(
            Called(server.name, model, "memory.embedding.model", _KEY),
            config,
            f"openai:{server.host}/{model}-{dim}/unit/nfkc-casefold",
            dim,
            self._client.close,
        )
        self._server = server
        # Other models refuse a dimension, or do as they like.
        self._shortened = {"dimensions": dim} if model.startswith("text-embedding-3") else {}

    def embed_once(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            response = self._client.post(
                "/embeddings",
                cast_to=object,
                body={
                    "model": self.called.model,
                    "input": list(texts),
                    "encoding_format": "float",
                    **self._shortened,
                },
                options=self._server.request,
            )
            rows = _Embeddings.model_validate(response).data
        except ValidationError as exc:
            raise ModelError(f"{self.called.server}'s answer holds no embeddings") from exc
        except Exception as exc:  # the SDK, its HTTP library and json each raise their own
            raise _mapped(exc, self.called) from exc
        return [row.embedding for row in sorted(rows, key=lambda row: row.index)]


def _mapped(exc: Exception, called: Called) -> ModelError:
    if isinstance(exc, openai.APITimeoutError):
        return called.broken(TimeoutError())
    if isinstance(exc, openai.APIConnectionError):
        return called.broken(ConnectionError(type(exc.__cause__ or exc).__name__))
    if isinstance(exc, openai.APIStatusError):
        return called.refused(
            exc.status_code, "", _message(exc), retry_after_s(exc.response.headers)
        )
    return called.broken(exc)


def _message(exc: openai.APIStatusError) -> str:
    body = exc.body
    if isinstance(body, Mapping):
        body = body.get("error", body)
    if isinstance(body, Mapping):
        body = " ".join(str(body[key]) for key in ("message", "detail", "param") if body.get(key))
    return str(body or exc.message)
