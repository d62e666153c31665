"""The house: imports point one way, foreign libraries have one home, nothing is built at import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = [
    "errors", "models", "protocols", "config", "vocabulary", "synonyms", "inflection", "tokens",
    "numbers", "reading", "coverage", "verification", "policy", "neighbours", "prompts",
    "embeddings", "statements", "language", "gemini", "breaker", "budget",
    "tables", "database", "records", "reader", "writer", "ledger",
    "index", "index_folder", "chroma_index", "store", "threads",
    "backup", "doctor",
    "planning", "intervals", "calibration", "answers", "calibrate", "deduplicator",
    "extractor", "jsonl", "report",
    "agent.scaffolds", "agent.memory_store", "agent.episodes", "agent.consolidation",
    "agent.workspace_sync", "agent.schemas", "agent.tools",
    "assembly", "shell", "agent.server", "cli", "__main__", "orchestrator",
]  # fmt: skip
HOME_OF = {
    "chromadb": {"chroma_index"},
    "sqlalchemy": {"tables", "database", "reader", "writer"},
    "wordllama": {"embeddings"},
    "google": {"gemini"},
    "mcp": {"agent.server"},
    "tenacity": {"gemini"},
}
SOURCES = [*sorted((ROOT / "memory").rglob("*.py")), ROOT / "orchestrator.py"]


def name_of(path: Path) -> str:
    """As the order lists it: `store`, `agent.tools`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("memory.")


MODULES = [path for path in SOURCES if path.stem != "__init__"]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module in ("memory", "memory.agent"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_file_has_its_place_in_the_order() -> None:
    assert {name_of(path) for path in MODULES} == set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_upwards_only(path: Path) -> None:
    above = set(ORDER[: ORDER.index(name_of(path))]) | {"__version__", "agent"}
    inner = {name for name in imported(path) if name.startswith("memory.")}
    assert {name.removeprefix("memory.") for name in inner} <= above


@pytest.mark.parametrize(("library", "homes"), HOME_OF.items())
def test_a_foreign_library_has_one_home(library: str, homes: set[str]) -> None:
    users = {name_of(path) for path in MODULES if library in map(first_part, imported(path))}
    assert users == homes


def first_part(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize("command", ["memory", "orchestrator"])
def test_help_loads_nothing_heavy(command: str) -> None:
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        f"try: runpy.run_module({command!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "loaded = {'chromadb', 'google', 'mcp', 'wordllama', 'sqlalchemy'} & set(sys.modules)\n"
        "print('heavy:', sorted(loaded))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "heavy: []"


def test_the_public_names_are_there() -> None:
    import memory

    assert [getattr(memory, name).__name__ for name in memory.__all__] == memory.__all__
