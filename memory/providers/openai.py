"""Models and embedders on servers that speak OpenAI's protocol: the only file to import `openai`.

Many servers support the protocol only in part. If a server refuses an option (a schema, JSON mode,
a temperature), later requests leave this option out.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel, SecretStr, ValidationError

from memory.config import LLMConfig
from memory.errors import ModelAnswerError, ModelError
from memory.models import Usage
from memory.providers import prompts
from memory.providers.remote import (
    Called,
    Prompt,
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
_REFUSED_AS_ASKED = frozenset({400, 422})
_NAMES_THE_FORMAT = re.compile(r"response.?format|json.?(schema|object|mode)|grammar", re.I)
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_ACCOUNT = ("OpenAI-Organization", "OpenAI-Project")
_MORE_HEADERS = "OPENAI_CUSTOM_HEADERS"
"""The environment variable with headers that the SDK adds to every request, one per line.

These headers are meant for OpenAI's own server.
"""

Structure = Literal["schema", "json", "prompt"]
_WEAKER: dict[Structure, Structure] = {"schema": "json", "json": "prompt"}


@dataclass(frozen=True)
class OpenAIServer:
    """The address and the API key of a server. `key` is None for a server that needs none."""

    key: SecretStr | None
    base_url: str = OPENAI

    @property
    def name(self) -> str:
        """Return the host and port of the server, for messages."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2] or self.base_url

    @property
    def host(self) -> str:
        """Return the host of the server, for the fingerprints of embedders.

        The port is left out, because it may change. Addresses of this machine become `localhost`.
        """
        host = urlsplit(self.base_url).hostname or self.base_url
        return "localhost" if host in _LOOPBACK else host

    @property
    def is_openai(self) -> bool:
        """Return whether this is OpenAI's own server.

        Settings that the SDK reads from environment variables are meant for that server only.
        """
        return self.host == urlsplit(OPENAI).hostname

    @property
    def client(self) -> dict[str, Any]:
        """Return the keyword arguments with which the SDK's client is made.

        Connections are closed after each request, because the event loop may end at any time.
        """
        key = self.key.get_secret_value() if self.key else "none"
        # Given here, so that no other server gets the environment's.
        whose = {} if self.is_openai else {"Authorization": f"Bearer {key}"}
        return {
            "api_key": key,
            "base_url": self.base_url,
            "max_retries": 0,
            "default_headers": {"Connection": "close"} | whose,
        }

    @property
    def request(self) -> Any:
        """Return the SDK's options for each request to this server. They forbid redirects.

        If there is no key, no authorization header is sent. Headers that the SDK takes from the
        environment, such as the name of the organization, are sent to OpenAI's own server only.
        """
        left_out = [] if self.key else ["Authorization"]
        if not self.is_openai:
            left_out += [*_ACCOUNT, *_named_in(os.environ.get(_MORE_HEADERS, ""))]
        return {"follow_redirects": False, "headers": dict.fromkeys(left_out, openai.Omit())}


def _named_in(headers: str) -> Iterator[str]:
    for line in headers.split("\n"):
        name = line.partition(":")[0].strip()
        if name and name.lower() not in ("authorization", "connection"):
            yield name


# --- answers; every server leaves out something -------------------------------------------


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message = _Message()
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    choices: list[_Choice] | None = None
    usage: _Tokens | None = None


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Embeddings(BaseModel):
    data: list[_Embedding]


class OpenAIModel(RemoteModel):
    holds_to_schemas = False  # some servers ignore them without a word

    def __init__(self, server: OpenAIServer, config: LLMConfig, model: str) -> None:
        super().__init__(Called(server.name, model, "llm.model", _KEY), config)
        self._server = server
        self._structure: Structure = "schema" if config.structured == "auto" else config.structured
        self._temperature: dict[str, float] = {"temperature": 0.0}
        self._clients: OfEachLoop[openai.AsyncOpenAI] = OfEachLoop()

    async def ask_once(self, prompt: Prompt) -> RawAnswer:
        """Send a question, without retries; return the answer's text and cost.

        If the server refuses an option of the request, the question is sent without that option.

        Raises: ModelError.
        """
        while True:
            structure, body = self._structure, self._body(prompt)
            try:
                client = await self._clients.made_aside(self._client)
                response = await client.post(
                    "/chat/completions", cast_to=object, body=body, options=self._server.request
                )
            except Exception as exc:  # the SDK, its HTTP library and json each raise their own
                if self._drop_refused(exc, structure, body):
                    continue
                raise _mapped(exc, self.called) from exc
            return self._raw_answer(response)

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        form = None
        system = prompt.system
        if prompt.schema is not None:
            schema = prompts.strict_schema(prompt.schema)
            # In words too: a server that ignores the form says nothing of it.
            system = prompts.in_json(system, schema)
            named = {"name": prompt.schema.__name__, "strict": True, "schema": schema}
            forms: dict[Structure, dict[str, Any]] = {
                "schema": {"type": "json_schema", "json_schema": named},
                "json": {"type": "json_object"},
            }
            form = forms.get(self._structure)
        body: dict[str, Any] = {
            "model": self.called.model,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": prompt.content},
            ],
        }
        return body | self._temperature | ({"response_format": form} if form else {})

    def _drop_refused(self, exc: Exception, structure: Structure, body: Mapping[str, Any]) -> bool:
        """Find out which option the server refused, and leave it out in all later requests.

        Return whether such an option was found; the request can then be sent again. The options
        are the temperature, the JSON schema and JSON mode. A refused schema is replaced by JSON
        mode, and a refused JSON mode by instructions in the prompt. `exc`: the exception that the
        request raised. `structure`: how the request demands JSON. `body`: the request.
        """
        if not isinstance(exc, openai.APIStatusError):
            return False
        if exc.status_code not in _REFUSED_AS_ASKED:
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
        """Return the text and the cost of a response and, if it cannot be used, the reason.

        Raises: ModelAnswerError if the response is not a chat completion.
        """
        try:
            completion = _Completion.model_validate(response)
        except ValidationError as exc:
            problem = f"{self.called.server}'s answer is no chat completion"
            raise ModelAnswerError(problem, may_pass=True) from exc
        tokens = completion.usage or _Tokens()
        usage = Usage(
            input_tokens=tokens.prompt_tokens or 0, output_tokens=tokens.completion_tokens or 0
        )
        if not completion.choices:
            return RawAnswer("", usage, self.called.empty())
        unusable = self._unusable(completion.choices[0])
        return RawAnswer(completion.choices[0].message.content or "", usage, unusable)

    def _unusable(self, choice: _Choice) -> ModelAnswerError | None:
        if choice.message.refusal:
            return self.called.no_answer("refused")
        if choice.finish_reason == "length":
            return self.called.cut_off(choice.finish_reason)
        if choice.finish_reason == "content_filter":
            return self.called.no_answer(choice.finish_reason)
        return None if (choice.message.content or "").strip() else self.called.empty()

    def _client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(timeout=self._config.timeout_s, **self._server.client)

    async def aclose(self) -> None:
        mine = self._clients.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.close()


class OpenAIEmbedder(RemoteEmbedder):
    def __init__(
        self,
        server: OpenAIServer,
        config: LLMConfig,
        model: str | None = None,
        dim: int | None = None,
    ) -> None:
        model, dim = model or DEFAULT_EMBEDDING, dim or DEFAULT_DIM
        called = Called(server.name, model, "memory.embedding.model", _KEY)
        fingerprint = f"openai:{server.host}/{model}-{dim}/unit/nfkc-casefold"
        super().__init__(called, config, fingerprint, dim)
        self._server = server
        self._client = openai.OpenAI(timeout=config.timeout_s, **server.client)
        # Other models refuse a dimension, or do as they like.
        self._shortened = {"dimensions": dim} if model.startswith("text-embedding-3") else {}

    def embed_once(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self.called.model, "input": list(texts), "encoding_format": "float"}
        try:
            response = self._client.post(
                "/embeddings",
                cast_to=object,
                body=body | self._shortened,
                options=self._server.request,
            )
            rows = _Embeddings.model_validate(response).data
        except ValidationError as exc:
            raise ModelError(f"{self.called.server}'s answer holds no embeddings") from exc
        except Exception as exc:  # the SDK, its HTTP library and json each raise their own
            raise _mapped(exc, self.called) from exc
        return [row.embedding for row in sorted(rows, key=lambda row: row.index)]

    def close(self) -> None:
        self._client.close()


def _mapped(exc: Exception, called: Called) -> ModelError:
    if isinstance(exc, openai.APITimeoutError):
        return called.broken(TimeoutError())
    if isinstance(exc, openai.APIConnectionError):
        return called.broken(ConnectionError(type(exc.__cause__ or exc).__name__))
    if isinstance(exc, openai.APIStatusError):
        pause_s = retry_after_s(exc.response.headers)
        return called.refused(exc.status_code, "", _message(exc), pause_s)
    return called.broken(exc)


def _message(exc: openai.APIStatusError) -> str:
    """Return the error message that a server sent.

    The response is the message itself, or has it in the fields "message", "detail" and "param",
    which are joined. If it has none of these, the message of the exception is returned.
    """
    body = exc.body
    if isinstance(body, Mapping):
        body = body.get("error", body)
    if isinstance(body, Mapping):
        body = " ".join(str(body[key]) for key in ("message", "detail", "param") if body.get(key))
    return str(body or exc.message)
