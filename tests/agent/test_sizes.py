"""A request that is too large is refused before it is read, and is not quoted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from memory.agent.memory_store import AgentMemory, ConsolidationEngine
from memory.agent.schemas import Recall
from memory.agent.tools import AgentTools
from memory.errors import MemoryPipelineError
from memory.models import first_problem
from memory.store import MemoryStore

MANY = {f"key {n}": n for n in range(10_001)}


@pytest.mark.parametrize("given", [MANY, {"context": "x", "user": "u" * 2_000_001}])
def test_it_is_one_problem(given: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        Recall.model_validate(given)
    assert caught.value.error_count() == 1


def test_a_problem_names_at_most_100_characters_of_a_field() -> None:
    with pytest.raises(ValidationError) as caught:
        Recall.model_validate({"context": "x", "y" * 5_000: 1})
    assert len(first_problem(caught.value).field) == 100


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall", MANY),
        ("x" * 1_000_000, {}),
        ("recall", {"context": "x", "user": "u" * 1_000_000}),
        ("forget", {"memory_id": "m" * 1_000_000}),
        ("remember", {"content": "x", "tags": ["t" * 10_000]}),
        ("link_memories", {"source_id": "a", "target_id": "b", "link_type": "x" * 100_000}),
    ],
)
def test_an_agent_is_told_in_few_words(
    store: MemoryStore, tool: str, arguments: Mapping[str, Any]
) -> None:
    agent_store = AgentMemory(store)
    tools = AgentTools(agent_store, ConsolidationEngine())
    with pytest.raises(MemoryPipelineError) as caught:
        asyncio.run(tools.call(tool, arguments))
    assert len(str(caught.value)) < 400
