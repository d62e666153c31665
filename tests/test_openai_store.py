"""A store whose model, and whose embedder, is any server that speaks OpenAI's protocol."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

import memory.providers
from memory import Turn, load_config, open_chat_memory
from memory.assembly import build_embedder, build_model, open_store
from memory.cli import app
from memory.config import Config, EmbeddingConfig, LLMConfig, MemoryConfig
from memory.coverage import differs
from memory.errors import ConfigError, EmbedderMismatch
from orchestrator import app as chat
from tests import commands
from tests.doubles import START
from tests.gemini_server import GeminiServer
from tests.openai_server import Asked, OpenAIServer, embeddings
from tests.readings import memories_shown

ROOT = Path(__file__).parent.parent
SAID = (
    "I moved to Porto in 2021.",
    "I have a cat called Pip.",
    "My flat in Porto has 3 rooms.",
    "I have a cat called Pip, and she is black.",
    "My flat in Porto has 4 rooms.",
)


def answered(data: dict[str, Any]) -> str:
    """What a model says, whoever carries it: each turn is a memory, and values keep apart."""
    if "turns" in data and "memories" not in data:
        memories = [
            {"content": f"{one['speaker']}: {one['text']}", "user": one["speaker"],
             "category": "fact", "intensity": 0.6, "turns": [one["number"]]}
            for one in data["turns"]
        ]  # fmt: skip
        return json.dumps({"memories": memories})
    if "turns" in data:
        return f"You said: {data['turns'][-1]['text']}"
    texts = [text for _, text in memories_shown(data)]
    if any("/" in differs(text, texts[-1]) for text in texts):
        return json.dumps({"groups": [], "reason": "values differ"})
    group = {"members": list(range(1, len(texts) + 1)), "text": max(texts, key=len)}
    return json.dumps({"groups": [group], "reason": "the same"})


def scripted(asked: Asked) -> dict[str, Any] | str:
    return embeddings(asked) if asked.path.endswith("/embeddings") else answered(asked.data)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(scripted).running() as running:
        yield running


def kept(config: Config) -> list[tuple[object, ...]]:
    """What a conversation leaves: the live memories, and every decision."""

    async def talk() -> list[tuple[object, ...]]:
        async with open_chat_memory(config) as memory:
            for number, text in enumerate(SAID):
                await memory.hear(Turn(speaker="Mia", text=text, at=START, id=str(number)))
            await memory.settle()
        with open_store(config) as store:
            live = [(one.content, one.user, one.intensity) for one in store.memories()]
            decisions = [(one.action, one.reason, one.similarity) for one in store.history()]
            return [*sorted(live), *decisions]

    return asyncio.run(talk())


def test_the_same_conversation_gives_the_same_memories_whoever_carries_it(tmp_path: Path) -> None:
    def stored(name: str, **llm: Any) -> Config:
        memory = MemoryConfig(data_dir=str(tmp_path / name), extraction_wait=3_600.0)
        config = Config(memory=memory, llm=LLMConfig(**llm))
        return config.model_copy(update={"api_key": SecretStr("k")})

    with (
        GeminiServer(lambda asked: answered(asked.data)).running() as gemini,
        OpenAIServer(scripted).running() as other,
    ):
        ours = kept(stored("gemini", provider="gemini", base_url=gemini.url))
        theirs = kept(stored("openai", provider="openai", base_url=other.url, model="house-8b"))
        assert len(ours) > len(SAID)
        assert ours == theirs
        assert [asked.data for asked in gemini.asked] == [asked.data for asked in other.asked]


@pytest.mark.parametrize("provider", ["gemini", "openai"])
def test_ones_own_instructions_and_categories_reach_the_model(
    tmp_path: Path, provider: str
) -> None:
    wish, categories = "Leave out what is about work.", ("about me", "plans")
    memory = MemoryConfig(
        data_dir=str(tmp_path), extraction_instructions=wish, categories=categories
    )
    with (
        GeminiServer(lambda asked: answered(asked.data)).running() as gemini,
        OpenAIServer(scripted).running() as other,
    ):
        url = gemini.url if provider == "gemini" else other.url
        llm = LLMConfig(provider=provider, base_url=url, model="house-8b")
        config = Config(memory=memory, llm=llm).model_copy(update={"api_key": SecretStr("k")})

        async def talk() -> None:
            async with open_chat_memory(config) as opened:
                await opened.hear(Turn(speaker="Mia", text=SAID[0], at=START))
                await opened.settle()

        asyncio.run(talk())
        [asked] = gemini.asked or other.asked
    assert wish in asked.system
    assert '- category: One of ["about me", "plans"].' in asked.system
    assert "interaction" not in asked.system
    with open_store(config) as store:
        assert [one.category for one in store.memories()] == ["about me"], "the model said: fact"


# --- every command --------------------------------------------------------------------------------


def test_every_command_opens_such_a_store(
    tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "memory": {
            "data_dir": "data",
            "embedding": {"provider": "openai", "model": "m", "dim": 64},
        },
        "llm": {"provider": "openai", "model": "house-8b", "base_url": server.url},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    config = ["--config", str(tmp_path / "config.yaml")]
    chatted = CliRunner().invoke(chat, [*config, "--user", "Mia"], "I moved to Porto.\n")
    assert chatted.output == "You said: I moved to Porto.\n"

    def says(*args: str) -> str:
        return CliRunner().invoke(app, [*config, *args]).output

    assert "Mia: I moved to Porto." in says("search", "moved to Porto", "--user", "Mia")
    assert "nothing is damaged: 1 memory" in says("doctor")
    served = subprocess.run(
        [commands.python(), "-m", "memory", *config, "serve"],
        cwd=ROOT, input="", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert served.returncode == 0, served.stderr
    assert {asked.path for asked in server.asked} == {"/v1/embeddings", "/v1/chat/completions"}
    assert all(asked.authorization is None for asked in server.asked)


# --- configuration --------------------------------------------------------------------------------


def configured(**environ: str) -> Config:
    return load_config(ROOT / "config.yaml", environ)


def test_a_key_for_openai_alone_changes_nothing() -> None:
    assert build_model(configured(OPENAI_API_KEY="k")).name == "offline"
    both = configured(OPENAI_API_KEY="k", GEMINI_API_KEY="g")
    assert build_model(both).name == "gemini-3-flash-preview"


def test_a_server_is_named_by_the_configuration_else_by_the_providers_own_variable() -> None:
    chosen = {"MEMORY_EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "k"}

    def host(**environ: str) -> str:
        fingerprint = build_embedder(configured(**chosen, **environ)).fingerprint
        return fingerprint.removeprefix("openai:").partition("/")[0]

    elsewhere = {"OPENAI_BASE_URL": "http://b.example/v1"}
    llm = {"MEMORY_LLM_BASE_URL": "http://c.example/v1"}
    assert host() == "api.openai.com"
    assert host(**elsewhere) == "b.example"
    assert host(**llm) == "api.openai.com"  # that server speaks Gemini's protocol
    assert host(**llm, **elsewhere, MEMORY_LLM_PROVIDER="openai") == "c.example"
    assert host(**llm, **elsewhere, MEMORY_EMBEDDING_BASE_URL="http://d.example/v1") == "d.example"


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({}, "llm.provider: openai needs the name of a model; set llm.model to a name"),
        (
            {"MEMORY_LLM_MODEL": "m"},
            "llm.provider: openai needs an API key; set OPENAI_API_KEY, or name a server that",
        ),
    ],
)
def test_a_missing_key_or_model_is_one_line(environ: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(configured(MEMORY_LLM_PROVIDER="openai", **environ))
    assert str(caught.value).startswith(line)
    half = {"MEMORY_EMBEDDING_PROVIDER": "openai", "MEMORY_EMBEDDING_MODEL": "m"}
    with pytest.raises(ConfigError, match=r"needs both the model and the length of its vectors"):
        build_embedder(configured(OPENAI_API_KEY="k", **half))


def test_a_store_knows_whose_vectors_it_holds(tmp_path: Path, server: OpenAIServer) -> None:
    def stored(model: str) -> Config:
        embedding = EmbeddingConfig(provider="openai", model=model, dim=64, base_url=server.url)
        return Config(memory=MemoryConfig(data_dir=str(tmp_path), embedding=embedding))

    with open_store(stored("house-embed")) as store:
        store.add(store.new_memory("Mia has a cat.", user="Mia"))
        assert store.find_similar("Mia has a cat.", user="Mia") is not None
    with pytest.raises(EmbedderMismatch, match="openai:localhost/house-embed-64"):
        open_store(stored("another"))


# --- what is not used is not loaded ---------------------------------------------------------------

OFFLINE = """
import asyncio, sys
from datetime import UTC, datetime
from memory import Turn, open_chat_memory
async def main():
    async with open_chat_memory(data_dir=sys.argv[1], **SETTINGS) as memory:
        at = datetime.now(UTC)
        await memory.hear(Turn(speaker="Mia", text="I moved to Porto in 2021.", at=at))
        await memory.settle()
        await memory.recall("Porto", user="Mia")
asyncio.run(main())
print(sorted({"google.genai", "mcp", "openai"} & set(sys.modules)))
"""


def talked(
    folder: Path, settings: str = "{}", blocked: str = ""
) -> subprocess.CompletedProcess[str]:
    code = OFFLINE.replace("SETTINGS", settings)
    env = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    env |= {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_bot_without_gemini_and_mcp_never_imports_them(tmp_path: Path) -> None:
    done = talked(tmp_path)
    assert done.stdout == "[]\n", done.stderr


def test_a_bot_with_an_openai_server_imports_its_library_alone(
    tmp_path: Path, server: OpenAIServer
) -> None:
    llm = f"{{'llm_provider': 'openai', 'llm_model': 'm', 'llm_base_url': '{server.url}'}}"
    done = talked(tmp_path, llm)
    assert done.stdout == "['openai']\n", done.stderr


def test_where_the_library_is_not_installed_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "memory.providers.openai", raising=False)
    monkeypatch.delitem(vars(memory.providers), "OpenAIModel", raising=False)
    told = r"llm\.provider: openai is not installed; pip install '\.\[openai\]'"
    with pytest.raises(ConfigError, match=told):
        build_model(configured(MEMORY_LLM_PROVIDER="openai", MEMORY_LLM_MODEL="m"))
