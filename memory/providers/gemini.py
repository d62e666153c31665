"""Gemini as language model and embedder: the only file to import `google.genai`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import httpx2
from google import genai
from google.genai import errors, types
from pydantic import BaseModel, SecretStr

from memory.errors import ModelError
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

DEFAULT_MODEL = "gemini-3-flash-preview"
DEFAULT_EMBEDDING = "gemini-embedding-2"
DEFAULT_DIM = 768
_KEY = "GEMINI_API_KEY"
_MAX_OUTPUT_TOKENS = 8_192


class GeminiModel(RemoteModel):
    """Gemini as a language model.

    `client`: a client of your own, such as one for Vertex AI, which `aclose` leaves open. The key,
    `llm.base_url` and `llm.timeout_s` are then those of the client.
    """

    holds_to_schemas = True

    def __init__(
        self,
        api_key: SecretStr | None,
        config: ModelSettings,
        extract_prompt: str = prompts.EXTRACT,
        *,
        client: genai.Client | None = None,
    ) -> None:
        called = Called("Gemini", config.model or DEFAULT_MODEL, "llm.model", _KEY)
        super().__init__(called, config, extract_prompt)
        self._api_key = api_key or SecretStr("")
        self._given = client
        self._clients: OfEachLoop[tuple[genai.Client, httpx2.AsyncClient]] = OfEachLoop()

    async def ask_once(
        self, system: str, content: str, schema: type[BaseModel] | None
    ) -> RawAnswer:
        config = types.GenerateContentConfig(
            system_instruction=system,
            temperature=0.0,
            max_output_tokens=_MAX_OUTPUT_TOKENS,
            response_mime_type="application/json" if schema else None,
            response_json_schema=schema.model_json_schema() if schema else None,
        )
        try:
            client = self._given or (await self._clients.made_in_thread(self._connected))[0]
            response = await client.aio.models.generate_content(
                model=self.called.model, contents=content, config=config
            )
        except Exception as exc:  # the SDK, two HTTP libraries and json each raise their own
            raise _mapped(exc, self.called) from exc
        counted = response.usage_metadata or types.GenerateContentResponseUsageMetadata()
        usage = Usage(
            input_tokens=counted.prompt_token_count or 0,
            output_tokens=(counted.candidates_token_count or 0)
            + (counted.thoughts_token_count or 0),
        )
        problem = self._problem(response)
        return RawAnswer("" if problem else response.text or "", usage, problem)

    def _problem(self, response: types.GenerateContentResponse) -> str:
        feedback = response.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            return f"Gemini blocked the question ({feedback.block_reason.name})"
        reason = response.candidates[0].finish_reason if response.candidates else None
        if reason is None or reason.name in ("STOP", "FINISH_REASON_UNSPECIFIED"):
            return ""
        return self.called.stopped(reason.name)

    def _connected(self) -> tuple[genai.Client, httpx2.AsyncClient]:
        # No redirects: the key must not follow to another host. No connection is kept, since a
        # loop may end any time.
        connections = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0))
        return _client(self._api_key, self._config, connections), connections

    async def aclose(self) -> None:
        mine = self._clients.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            client, connections = mine
            await client.aio.aclose()
            await connections.aclose()
            client.close()


class GeminiEmbedder(RemoteEmbedder):
    """Gemini as an embedder.

    Memories and search queries are embedded in the same way, for the task "sentence similarity".
    The model `gemini-embedding-001` gets this task as a parameter. For other models, the task is
    written at the beginning of each text.
    """

    def __init__(
        self,
        api_key: SecretStr,
        config: ModelSettings,
        model: str | None = None,
        dim: int | None = None,
    ) -> None:
        model, dim = model or DEFAULT_EMBEDDING, dim or DEFAULT_DIM
        self._client = _client(api_key, config)
        super().__init__(
            Called("Gemini", model, "memory.embedding.model", _KEY),
            config,
            f"{model}-{dim}/sentence-similarity/unit/nfkc-casefold",
            dim,
            self._client.close,
        )
        self._by_parameter = model.startswith("gemini-embedding-001")

    def embed_once(self, texts: Sequence[str]) -> list[list[float]]:
        prefix = "" if self._by_parameter else "task: sentence similarity | query: "
        try:
            response = self._client.models.embed_content(
                model=self.called.model,
                contents=[types.Content(parts=[types.Part(text=prefix + text)]) for text in texts],
                config=types.EmbedContentConfig(
                    output_dimensionality=self._dim,
                    task_type="SEMANTIC_SIMILARITY" if self._by_parameter else None,
                ),
            )
        except Exception as exc:  # the SDK, its HTTP library and json each raise their own
            raise _mapped(exc, self.called) from exc
        return [embedding.values or [] for embedding in response.embeddings or []]


def _client(
    api_key: SecretStr, config: ModelSettings, connections: httpx2.AsyncClient | None = None
) -> genai.Client:
    return genai.Client(
        api_key=api_key.get_secret_value(),
        vertexai=False,
        http_options=types.HttpOptions(
            base_url=config.base_url,
            api_version="v1beta",
            timeout=max(1, round(config.timeout_s * 1_000)),
            httpx_async_client=connections,
        ),
    )


def _mapped(exc: Exception, called: Called) -> ModelError:
    if isinstance(exc, errors.APIError):
        pause_s = retry_after_s(getattr(exc.response, "headers", None) or {})
        in_body = re.search(r"'retryDelay': '([\d.]+)s'", str(exc.details))
        if pause_s is None and in_body:
            pause_s = float(in_body[1])
        return called.refused(exc.code, exc.status or "", exc.message or "", pause_s)
    return called.broken(exc)
