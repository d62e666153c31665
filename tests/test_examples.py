"""Each public name that returns something has an example in its docstring, and all of them run."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import inspect
import json
import re
import sqlite3
from collections.abc import Iterator, Set
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memory
from memory import ChatMemory, Memories, MemoryDeduplicator, MemoryStore, Source
from memory.assembly import build_deduplicator, build_model

ROOMS = (
    "memory.coverage",
    "memory.interchange",
    "memory.upkeep",
    "memory.text",
    "memory.config",
    "memory.assembly",
    "memory.errors",
    "memory.models",
    "memory",
)
"""Rooms all of whose names need an example. Examples use the last of equal names."""
FACES = (Memories, ChatMemory, MemoryStore, MemoryDeduplicator)
"""Classes whose methods need an example, too."""


def names(*rooms: str) -> dict[str, Any]:
    """Return the names that some rooms offer."""
    return {
        name: getattr(room, name)
        for room in map(importlib.import_module, rooms)
        for name in dir(room)
    }


def documented() -> Iterator[tuple[str, Any]]:
    """Yield the public classes, functions and methods that return something, by name."""
    for room in ROOMS:
        for name, found in names(room).items():
            if getattr(found, "__module__", "").startswith("memory") and returns_something(found):
                yield f"{room}.{name}", found
    for face in FACES:
        for name, method in inspect.getmembers(face, inspect.isfunction):
            if not name.startswith("_") and returns_something(method):
                yield f"{face.__name__}.{name}", method


def returns_something(found: Any) -> bool:
    """Return whether a class has values, or a function a result; most errors only have a name."""
    if inspect.isclass(found):
        return not issubclass(found, Exception) or "__init__" in vars(found)
    returned = inspect.isfunction(found) and inspect.signature(found).return_annotation
    return returned not in (False, "None", None)


def test_each_public_name_has_an_example() -> None:
    without = [name for name, found in documented() if ">>> " not in (found.__doc__ or "")]
    assert not without, f"add an example of two or three lines: {', '.join(without)}"


def notes_in(folder: Path) -> Source:
    """Return a store of LangGraph with two memories, one of which repeats the other."""
    file = folder / "notes.sqlite"
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at, expires_at)")
        for key, text in (("1", "Noa has a cat."), ("2", "Noa has a cat!")):
            row = ["memories.noa", key, json.dumps({"text": text}), "2026-05-01 08:00:00"]
            store.execute("INSERT INTO store VALUES (?, ?, ?, ?, NULL, NULL)", row)
    return Source(langgraph=str(file))


@contextmanager
def objects_in(folder: Path, used: Set[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects that examples name, which share one store. `used`: the words of these."""
    config = memory.load_config(
        settings={"data_dir": str(folder / "data"), "llm_provider": "offline"},
    )
    given: dict[str, Any] = {
        "config": config,
        "model": build_model(config),
        "Path": Path,
        "json": json,
    }
    given |= {"datetime": datetime, "UTC": UTC}
    with asyncio.Runner() as runner, ExitStack() as opened:
        given["run"] = runner.run
        if "notes" in used:
            given["notes"] = notes_in(folder)
        if used & {"memories", "store", "deduplicator", "config"}:
            memories = opened.enter_context(Memories(config=config))
            deduplicator = build_deduplicator(memories.store, config, given["model"])
            given |= {"memories": memories, "store": memories.store, "deduplicator": deduplicator}
        if "chat" in used:
            given["chat"] = memory.open_chat_memory(config, data_dir=str(folder / "chat"))
            opened.callback(lambda: runner.run(given["chat"].close()))
        yield given


def modules() -> list[str]:
    """Return the modules of the package that have examples."""
    root = Path(memory.__file__).parent
    paths = (path for path in root.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))
    names = (".".join(path.relative_to(root.parent).with_suffix("").parts) for path in paths)
    return sorted(name.removesuffix(".__init__") for name in names)


@pytest.mark.parametrize("name", modules())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    tests = doctest.DocTestFinder(exclude_empty=True).find(module)
    examples = [example for test in tests for example in test.examples]
    used = {word for example in examples for word in re.findall(r"\w+", example.source)}
    with objects_in(tmp_path, used) as objects:
        given = {**names(*ROOMS), **vars(module), **objects}
        for example in examples:
            example.source = without_await(example.source)
        for test in tests:
            test.globs = given.copy()
            runner.run(test)
    assert runner.failures == 0


def without_await(source: str) -> str:
    """Let an example that awaits a call run where nothing can be awaited."""
    if source.startswith("async "):
        body = "".join(f"        {line}\n" for line in source.splitlines())
        return f"if True:\n    async def example():\n{body}    run(example())\n"
    return re.sub(r"await (\w[\w.]*\((?:[^()]|\([^()]*\))*\))", r"run(\1)", source)
