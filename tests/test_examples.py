"""Each public name that returns something has an example in its docstring, and all of them run."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memory
from memory import ChatMemory, Memories, MemoryDeduplicator, MemoryStore
from memory.assembly import build_deduplicator, build_model
from memory.store import Nearby

FACES = (Memories, ChatMemory, MemoryStore, MemoryDeduplicator)
ALSO = ("memory.store.matching",)
"""Modules with examples, of which no public name above comes."""


def documented() -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions of `memory`, and the methods of its faces, by name."""
    for name in dir(memory):
        found = getattr(memory, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            yield name, found
    for face in FACES:
        for name, method in inspect.getmembers(face, inspect.isfunction):
            result = inspect.signature(method).return_annotation
            if not name.startswith("_") and result not in ("None", None):
                yield f"{face.__name__}.{name}", method


def test_each_public_name_has_an_example() -> None:
    without = [name for name, found in documented() if ">>> " not in (found.__doc__ or "")]
    assert not without, f"add an example of two or three lines: {', '.join(without)}"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The objects that the examples use; they share one store."""
    folder = tmp_path_factory.mktemp("examples")
    config = memory.load_config(
        settings={"data_dir": str(folder / "data"), "llm_provider": "offline"},
    )
    with asyncio.Runner() as runner, Memories(config=config) as memories:
        model = build_model(config)
        chat = memory.open_chat_memory(config, data_dir=str(folder / "chat"))
        yield {
            **{name: getattr(memory, name) for name in dir(memory)},
            "config": config,
            "memories": memories,
            "store": memories.store,
            "chat": chat,
            "model": model,
            "deduplicator": build_deduplicator(memories.store, config, model),
            "Nearby": Nearby,
            "datetime": datetime,
            "UTC": UTC,
            "run": runner.run,
        }
        runner.run(chat.close())


def modules() -> list[str]:
    return sorted({found.__module__ for _, found in documented()}.union(ALSO))


@pytest.mark.parametrize("name", modules())
def test_examples_run(
    name: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(
        importlib.import_module(name), extraglobs=given
    ):
        for example in test.examples:
            example.source = without_await(example.source)
        runner.run(test)
    assert runner.failures == 0


def without_await(source: str) -> str:
    """Let an example that awaits a call run where nothing can be awaited."""
    if source.startswith("async "):
        body = "".join(f"        {line}\n" for line in source.splitlines())
        return f"if True:\n    async def example():\n{body}    run(example())\n"
    return re.sub(r"await (\w[\w.]*\((?:[^()]|\([^()]*\))*\))", r"run(\1)", source)
