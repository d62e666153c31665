"""What reads long texts runs in a thread, so that no other memory waits for it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from memory.agent import build_tools
from memory.assembly import Brought, build_model, import_memories
from memory.config import Config, LLMConfig
from memory.deduplicator import MemoryDeduplicator
from memory.extractor import MemoryExtractor
from memory.interchange import Reading
from memory.models import Candidate, Question
from memory.providers import OfflineModel
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel
from tests.openai_server import OpenAIServer
from tests.turns import hook, turn

LONG = "Mia rows on the lake, and she sings. " * 80
Watch = Callable[[str], list[bool]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Note of each call of a function whether it ran on the main thread, where the loop is."""

    def watched(path: str) -> list[bool]:
        function = resolve_name(path)
        seen: list[bool] = []

        def noted(*args: Any, **kwargs: Any) -> Any:
            seen.append(threading.current_thread() is threading.main_thread())
            return function(*args, **kwargs)

        monkeypatch.setattr(path, noted)
        return seen

    return watched


def test_what_differs_in_a_group_that_was_joined(
    store: MemoryStore, make_memory: MakeMemory, watch: Watch
) -> None:
    for end in (".", "!"):
        store.add(make_memory(f"{LONG}Mia has a cat{end}"))
    seen = watch("memory.decide.policy.differs")
    report = asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    assert report.retired == 1
    assert seen
    assert not any(seen)


def test_a_question_to_a_model_server(make_memory: MakeMemory, watch: Watch) -> None:
    two = make_memory(f"{LONG}Mia has a cat."), make_memory(f"{LONG}Mia has a black cat.")
    seen = watch("memory.providers.prompts.when_field")

    async def ask(url: str) -> None:
        async with aclosing(
            build_model(Config(llm=LLMConfig(provider="openai", base_url=url, model="m")))
        ) as model:
            await model.judge(Question(two, "between 0.90 and 0.95", 0.93))

    with OpenAIServer(json.dumps({"groups": [], "reason": "two"})).running() as server:
        asyncio.run(ask(server.url))
    assert seen
    assert not any(seen)


@pytest.mark.parametrize(
    "name",
    [
        "turn_reader.asked_to_remember",
        "turn_reader.only_asks_to_remember",
        "turn_reader.retold",
        "attribution.telling_words",
    ],
)
def test_requests_and_copies_in_a_turn(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor,
    embedder: PlacedEmbedder, make_memory: MakeMemory, name: str, watch: Watch,
) -> None:  # fmt: skip
    store.add(make_memory("Leo's alarm code is 7788.", user="Leo"))
    said = embedder.place("Hello Eve.", 0.6, "Leo's alarm code is 7788.")
    model.extractions = [[Candidate(content="Mia rows on the lake.", user="Mia", turns=(1,))]]
    seen = watch(f"memory.extractor.{name}")
    request = f"{LONG} Remember that I like tea."
    hook(extractor, turn(said, 0, "Leo"), turn(request, 1))
    assert seen
    assert not any(seen)


def test_the_dates_in_what_the_agent_recalls(
    store: MemoryStore, make_memory: MakeMemory, watch: Watch
) -> None:
    added = store.add(make_memory(LONG))
    seen = watch("memory.models.memory.dated")
    tools = build_tools(store, Config())
    for name, arguments in (
        ("recall", {"context": "lake"}),
        ("introspect", {}),
        ("remember", {"content": LONG}),
        ("forget", {"memory_id": added.id}),
    ):
        asyncio.run(tools.call(name, arguments))
        assert seen
        assert not any(seen), name
        seen.clear()


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "store.MemoryStore.counts",
        "interchange.note_reading",
        "ledger.search_data.TextVectors.missing_texts",
    ],
)
def test_the_ledger_of_an_import(
    make_memory: MakeMemory, tmp_path: Path, raw: bool, name: str, watch: Watch
) -> None:
    """Noting how a collection was read waits for whoever writes to the ledger."""
    brought = Brought([make_memory("Mia rows.")], origin=("uuid", Reading()))
    seen = watch(f"memory.{name}")
    done = asyncio.run(import_memories(brought, Config().at(str(tmp_path)), raw=raw))
    assert done.memories == 1
    assert seen
    assert not any(seen)
