"""Pages over the wire: what a run may call, and what its dry run says it will."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from memory.config import LLMConfig
from memory.deduplicator import MemoryDeduplicator
from memory.models import DeduplicationReport, Memory
from memory.providers import OpenAIModel
from memory.providers import OpenAIServer as Server
from memory.store import MemoryStore
from tests.conftest import Tell
from tests.doubles import PlacedEmbedder
from tests.openai_server import Asked, OpenAIServer, careful, failed

BOATS = 90
"""Boats of a user, a third of which are told of twice."""


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(default=lambda asked: grouped(asked.data)).running() as running:
        yield running


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, tell: Tell) -> MemoryStore:
    rng = np.random.default_rng(3)
    memories: list[Memory] = []
    for user in ("Mia", "Bo"):
        for n in range(BOATS):
            place = rng.standard_normal(16)
            texts = [f"{user} painted boat {n} in May.", f"In May {user} gave boat {n} new colour."]
            for text in texts[: 2 if n % 3 == 0 else 1]:
                embedder.place_at(text, (place + 0.6 * rng.standard_normal(16)).tolist())
                memories.append(tell(text, user=user))
    store.add_batch(memories)
    return store


def grouped(data: dict[str, Any]) -> str:
    """Group the memories of a page that name the same boat."""
    named: dict[str, list[int]] = {}
    told = [one for day in data["memories"].values() for one in day]
    for number, text in told:
        boat = text.partition("boat ")[2].split()[0]
        named.setdefault(boat, []).append(number)
    groups = [
        {"members": numbers, "text": f"{data['user']}'s boat {boat} was painted afresh in May."}
        for boat, numbers in named.items()
        if len(numbers) > 1
    ]
    return json.dumps({"groups": groups, "reason": ""})


def batch(store: MemoryStore, server: OpenAIServer, **how: Any) -> DeduplicationReport:
    async def at_once(_: float) -> None: ...

    async def run() -> DeduplicationReport:
        config = LLMConfig(timeout_s=5.0, max_attempts=3)
        there = Server(SecretStr("key"), server.url)
        model = OpenAIModel(there, config, "house-8b", sleep=at_once)
        try:
            return await MemoryDeduplicator(store, model).deduplicate_all(**how)
        finally:
            await model.aclose()

    return asyncio.run(run())


def every(nth: int, fault: Any, answer: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
    """Answer, but every n-th time with a fault."""
    count = itertools.count(1)
    return lambda asked: fault if next(count) % nth == 0 else answer(asked)


def calls(server: OpenAIServer) -> int:
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
    assert sum(report.merged for report in reports) >= 2 * BOATS // 3 - 2
    assert reports[-1].pages_left == 0


def test_malformed_answers_count(filled: MemoryStore, server: OpenAIServer) -> None:
    server.default = server.reader = lambda _: "{"
    report = batch(filled, server, max_calls=3)
    assert (calls(server), report.usage.calls, report.usage.failed) == (3, 3, 3)
