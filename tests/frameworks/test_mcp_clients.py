"""The MCP snippets of docs/adapters.md work beside the real frameworks."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.framework
PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
FACT = {"content": "Mia teaches cello."}
CALLS = {
    "pydantic_ai": "answer = (await agent.run('Remember this.')).output",
    "haystack": "[remember] = [one for one in tools if one.name == 'remember']\n"
    "answer = remember.invoke(**FACT)",
    "agents": "    answer = await server.call_tool('remember', FACT)",
    "llama_index": "[remember] = [one for one in tools if one.metadata.name == 'remember']\n"
    "answer = await remember.acall(**FACT)",
}
"""By the package that a snippet imports, the lines that call `remember` after it."""


@pytest.mark.parametrize("package", CALLS)
def test_an_agent_of_the_snippet_reaches_the_memory(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    folder = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([folder, os.environ["PATH"]]))
    names: dict[str, Any] = {"FACT": FACT, "model": stand_in(package)}
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tmp_path))
    with served(snippet(package, tmp_path)) as code:
        asyncio.run(run(f"{code}{CALLS[package]}\n", names))
    assert re.search(r"\b[Ss]aved\b", str(names["answer"]))
    assert (tmp_path / "ledger.db").is_file()


def snippet(package: str, data: Path) -> str:
    """Return the block of the page that imports a package, with a data folder of the test's own."""
    blocks = re.findall(r"^```python no-run\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [block] = [one for one in blocks if re.search(rf"^from {package}\b", one, re.MULTILINE)]
    assert isinstance(block, str)
    return block.replace("/home/mia/memory", str(data))


@contextmanager
def served(code: str) -> Iterator[str]:
    """Yield a snippet; if it wants a server over HTTP, one runs meanwhile, at its address."""
    named = "http://127.0.0.1:8765/mcp"
    if named not in code:
        yield code
        return
    command = ["memory-dedup", "serve", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            words = (word for line in server.stderr for word in line.split())
            yield code.replace(named, next(word for word in words if word.startswith("http://")))
        finally:
            server.terminate()


async def run(source: str, names: dict[str, Any]) -> None:
    """Execute code that awaits at its top level."""
    code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(code, names)
    if inspect.isawaitable(waiting):
        await waiting


def stand_in(package: str) -> Any:
    """Return a model that needs no key, where the snippet wants one."""
    if package == "pydantic_ai":
        from pydantic_ai.models.test import TestModel

        return TestModel(call_tools=["remember"])
    if package == "haystack":
        from haystack.components.generators.chat import OpenAIChatGenerator
        from haystack.utils import Secret

        return OpenAIChatGenerator(api_key=Secret.from_token("none"))
    return None
