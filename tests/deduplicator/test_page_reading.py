"""Pages over the wire: what a run may call, and what its dry run says it will."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from memory.config import LLMConfig
from memory.deduplicator.deduplicator import MemoryDeduplicator
from memory.models import DeduplicationReport, Memory
from memory.providers import GeminiModel, OpenAIModel, RemoteModel
from memory.providers import OpenAIServer as Server
from memory.store import MemoryStore
from tests import gemini_server, openai_server
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder
from tests.gemini_server import GeminiServer
from tests.openai_server import Asked, OpenAIServer, careful, failed
from tests.readings import memories_shown

TOLD = [3] * 7 + [2] * 10 + [1] * 59
"""How often each boat of a user is told of."""
TELLINGS = (
    "{user} painted boat {n} in May, while the others sat on the quay and talked of the summer.",
    "In May {user} gave boat {n} new colour; the others sat on the quay, talking of the summer.",
    "Boat {n} of {user} got fresh paint in May, and all the others watched it from the quay.",
)
PAINTED = (
    "{user}'s boat {n} was painted afresh in May before the eyes of all the others, who sat on "
)
PAINTED += "the quay and talked of the summer: now it has new colour."


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(default=lambda asked: grouped(asked.data)).running() as running:
        yield running


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory) -> MemoryStore:
    rng = np.random.default_rng(3)
    memories: list[Memory] = []
    for user in ("Mia", "Bo"):
        for n, times in enumerate(TOLD):
            place = rng.standard_normal(16)
            for telling in TELLINGS[:times]:
                text = telling.format(user=user, n=n)
                embedder.place_at(text, (place + 0.6 * rng.standard_normal(16)).tolist())
                memories.append(make_memory(text, user=user))
    store.add_batch(memories)
    return store


def grouped(data: dict[str, Any]) -> str:
    """Group the memories of a page that name the same boat."""
    mended = " That is all." if "refused" in data else ""
    named: dict[str, list[int]] = {}
    for number, text in memories_shown(data):
        named.setdefault(re.findall("oat ([0-9]+)", text)[0], []).append(number)
    groups = [
        {"members": numbers, "text": PAINTED.format(user=data["user"], n=boat) + mended}
        for boat, numbers in named.items()
        if len(numbers) > 1
    ]
    return json.dumps({"groups": groups})


async def at_once(_: float) -> None: ...


def model_of(server: OpenAIServer | GeminiServer) -> RemoteModel:
    config = LLMConfig(timeout_s=5.0, max_attempts=3)
    model: RemoteModel
    if isinstance(server, OpenAIServer):
        there = Server(SecretStr("key"), server.url)
        model = OpenAIModel(there, config, "house-8b")
    else:
        config = config.model_copy(update={"base_url": server.url})
        model = GeminiModel(SecretStr("key"), config)
    model.sleep = at_once
    return model


def batch(
    store: MemoryStore, server: OpenAIServer | GeminiServer, **how: Any
) -> DeduplicationReport:
    async def run() -> DeduplicationReport:
        model = model_of(server)
        try:
            return await MemoryDeduplicator(store, model).deduplicate_all(**how)
        finally:
            await model.aclose()

    return asyncio.run(run())


def every(nth: int, fault: Any, answer: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
    """Answer, but every n-th time with a fault."""
    count = itertools.count(1)
    return lambda asked: fault if next(count) % nth == 0 else answer(asked)


def calls(server: OpenAIServer | GeminiServer) -> int:
    return len(server.asked) + len(server.read)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("fault", ["", "{", failed(503)], ids=["none", "malformed", "overloaded"])
def test_no_call_is_made_beyond_the_limit(
    filled: MemoryStore, server: OpenAIServer, most: int, fault: Any
) -> None:
    if fault:
        server.default = every(3, fault, lambda asked: grouped(asked.data))
        server.reader = every(3, None, careful)
    before = {memory.content for memory in filled.memories()}
    report = batch(filled, server, max_calls=most)
    assert calls(server) == report.usage.calls <= most
    assert report.pages_left > 0
    assert report.memories_after == len(before) - report.retired + report.merged


def test_short_runs_reach_in_time_what_one_long_run_does(
    filled: MemoryStore, server: OpenAIServer
) -> None:
    reports = [batch(filled, server, max_calls=4)]
    while reports[-1].usage.calls:
        assert len(reports) < 40
        reports.append(batch(filled, server, max_calls=4))
    assert filled.counts().live <= 2 * len(TOLD) + 1
    assert reports[-1].pages_left == 0


def test_malformed_answers_count(filled: MemoryStore, server: OpenAIServer) -> None:
    server.default = server.reader = lambda _: "{"
    report = batch(filled, server, max_calls=3)
    assert (calls(server), report.usage.calls, report.usage.failed) == (3, 3, 3)


# --- what the dry run says ------------------------------------------------------------------------


def sent(asked: openai_server.Asked | gemini_server.Asked) -> int:
    """Count the characters of a question, as the server bills them."""
    if isinstance(asked, openai_server.Asked):
        return sum(len(message["content"]) for message in asked.body["messages"])
    schema = json.dumps(asked.body["generationConfig"]["responseJsonSchema"])
    return len(asked.system) + len(asked.body["contents"][0]["parts"][0]["text"]) + len(schema)


def some_lost(asked: Any) -> str | None:
    """Read carefully, and find that two texts lose something."""
    lost = {"boat 1 ": "the mast", "boat 12 ": "the sail"}
    if isinstance(asked, openai_server.Asked):
        return openai_server.careful(asked, lost)
    return gemini_server.careful(asked, lost)


@pytest.mark.parametrize("kind", [OpenAIServer, GeminiServer])
def test_a_dry_run_says_about_what_is_called_and_sent(
    filled: MemoryStore, kind: type[OpenAIServer] | type[GeminiServer]
) -> None:
    with kind(default=lambda asked: grouped(asked.data)).running() as server:
        server.reader = some_lost
        planned = batch(filled, server, dry_run=True).estimated
        assert calls(server) == 0
        report = batch(filled, server)
        assert report.pages > 4
        asked = [*server.asked, *server.read]
    assert report.usage.calls == len(asked)
    assert abs(planned.calls - len(asked)) <= 2
    assert planned.input_tokens == pytest.approx(sum(map(sent, asked)) / 4, rel=0.15)
