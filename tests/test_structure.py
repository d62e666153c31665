"""The house: rooms with faces, imports that point one way, foreign libraries with one home."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from benchmarks.size import imports_between, on_disk
from scripts import faces
from scripts.faces import ROOMS

ROOT = Path(__file__).parent.parent
RANKS = [
    "errors", "text", "models", "config", "runtime", "coverage", "ledger",
    "search", "decide", "providers", "store", "deduplicator", "extractor",
    "interchange", "upkeep", "assembly", "agent", "adapters", "cli", "orchestrator",
    "__main__",
]  # fmt: skip
"""The rooms bottom up, as ARCHITECTURE.md lists them: each may import those before it."""
SHELLS = {
    "agent.server", "adapters.langgraph", "adapters.adk", "adapters.strands",
    "adapters.agent_framework", "adapters.autogen",
}  # fmt: skip
"""Files that only their own library can load, so that no face has their names."""
EDGES = {"adapters", "agent", "cli"}
"""Where others meet the core."""
FACES = {
    "assembly", "errors", "models", "config", "runtime", "text", "upkeep",
    "interchange",
}  # fmt: skip
"""All that an edge imports, so that one reads an edge without the core."""
HOME_OF = {
    "chromadb": {"search.chroma_client"},
    "wordllama": {"providers.embeddings"},
    "google": {"providers.gemini", "adapters.adk"},
    "mcp": {"agent.server"},
    "langgraph": {"adapters.langgraph", "interchange.tables"},
    "strands": {"adapters.strands"},
    "agent_framework": {"adapters.agent_framework"},
    "autogen_core": {"adapters.autogen"},
    "qdrant_client": {"interchange.vector_stores"},
    "sqlite3": {"ledger.database", "interchange.databases"},
    "psycopg": {"interchange.databases"},
    "openai": {"providers.openai"},
    "opentelemetry": {"runtime.telemetry", "text.boundary"},
    "tenacity": {"providers.remote"},
    "distributed": {"assembly.wiring"},
    "starlette": {"runtime.listening", "upkeep.server", "agent.server"},
    "uvicorn": {"runtime.listening"},
}
MOST_PAIRS = 95
"""The most pairs of rooms of which one imports the other, as `benchmarks.size` counts them."""
MOST_PUBLIC_METHODS = 20
MOST_NAMES = 25
"""The most names of the package itself, so that a newcomer can read all of them."""


def name_of(path: Path) -> str:
    """Below `memory`: `store.store`, `agent.tools`, `config`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("memory.")


def room_of(name: str) -> str:
    return name.partition(".")[0]


SOURCES = [*sorted((ROOT / "memory").rglob("*.py")), ROOT / "orchestrator.py"]
MODULES = [path for path in SOURCES if path.stem != "__init__" or path.parent.name == "adapters"]
FOLDERS = {path.parent.name for path in (ROOT / "memory").glob("*/__init__.py")}
READERS = [
    *MODULES,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "benchmarks").glob("*.py")),
    *sorted((ROOT / "examples").glob("*.py")),
]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def imported(path: Path) -> frozenset[str]:
    """Full names of modules, and of what is taken from them."""
    return frozenset(_imported(list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))))


def _imported(nodes: Sequence[ast.AST]) -> Iterator[str]:
    whole = set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            if node.module == "memory":
                whole.update(alias.name for alias in node.names)
    for node in nodes:  # of a room that is imported whole
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from (f"memory.{one}.{node.attr}" for one in whole & {node.value.id})


def face_of(room: str) -> list[str]:
    names: list[str] = importlib.import_module(f"memory.{room}").__all__
    return names


def inner(path: Path) -> set[str]:
    """The modules of ours that a file imports, below `memory`: `ledger`, `ledger.tables`."""
    names = {name for name in imported(path) if name.startswith("memory.")}
    return {name.removeprefix("memory.") for name in names} & inner_names()


@cache
def inner_names() -> set[str]:
    """Return the names of modules and rooms that no face hands out."""
    known = {name_of(module) for module in MODULES} | ROOMS
    return known - {f"{room}.{name}" for room in ROOMS for name in face_of(room)}


def libraries(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def test_every_room_and_file_has_its_rank() -> None:
    assert {room_of(name_of(path)) for path in MODULES} == set(RANKS)


def test_the_map_of_the_house_lists_every_room_in_its_rank() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("| room |")[2]
    rows = re.findall(r"^\| `(\w+)(/?)` \|", page.partition("\n\n")[0], re.MULTILINE)
    assert [room for room, _ in rows] == RANKS
    assert {room for room, folder in rows if folder} == FOLDERS


def test_imports_point_upwards_only() -> None:
    assert {name: wrong for name in map(name_of, MODULES) if (wrong := from_below(name))} == {}


def from_below(name: str) -> set[str]:
    """Return the rooms that a module imports though they do not stand above it."""
    [path] = (path for path in MODULES if name_of(path) == name)
    me = room_of(name)
    return {room_of(one) for one in inner(path)} - {me, *RANKS[: RANKS.index(me)]}


def test_a_room_imports_few_others() -> None:
    pairs = imports_between(list(on_disk()))
    assert len(pairs) <= MOST_PAIRS, sorted(pairs)


def test_edges_import_only_faces() -> None:
    for path in MODULES:
        me = room_of(name_of(path))
        if me in EDGES:
            others = EDGES if me == "cli" else {me}  # the command starts the other edges
            assert {room_of(one) for one in inner(path)} <= FACES | others, path


def test_inside_a_room_imports_run_one_way() -> None:
    for room in ROOMS:
        files = [path for path in MODULES if room_of(name_of(path)) == room]
        graph = {name_of(path): {name for name in inner(path) if "." in name} for path in files}
        order = list(TopologicalSorter(graph).static_order())  # raises on a circle
        assert set(graph) <= set(order)


def test_nobody_imports_past_a_face() -> None:
    assert {str(path): wrong for path in READERS if (wrong := past_a_face(path))} == {}


def past_a_face(path: Path) -> set[str]:
    """Return the modules of other rooms that a file imports from, though each has a face.

    A room's tests may import its files.
    """
    parts = path.relative_to(ROOT).parts
    own = parts[1] if parts[0] in ("memory", "tests") and len(parts) > 2 else None
    return {name for name in inner(path) if "." in name and room_of(name) != own} - SHELLS


def test_a_face_lists_what_others_use() -> None:
    for path, text in faces.faces().items():
        assert path.read_text(encoding="utf-8") == text, "run `python -m scripts.faces`"


def test_a_foreign_library_has_one_home() -> None:
    users = {
        library: {name_of(path) for path in MODULES if library in libraries(path)}
        for library in HOME_OF
    }
    assert users == HOME_OF


def test_the_ledger_is_the_only_sql() -> None:
    users = {name_of(path) for path in MODULES if "sqlalchemy" in libraries(path)}
    assert {room_of(name) for name in users} == {"ledger"}


def test_no_class_is_a_place_that_everything_goes_through() -> None:
    crowded = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = (one for one in node.body if isinstance(one, FUNCTIONS))
                public = [one.name for one in methods if not one.name.startswith("_")]
                if len(public) > MOST_PUBLIC_METHODS:
                    crowded[node.name] = len(public)
    assert crowded == {}


@pytest.mark.parametrize("command", ["memory", "orchestrator"])
def test_help_loads_nothing_heavy(command: str) -> None:
    """None of the large libraries, and nothing of ours that reads texts."""
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        f"try: runpy.run_module({command!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'chromadb', 'google', 'mcp', 'starlette', 'wordllama', 'sqlalchemy',"
        " 'memory.coverage.parse'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "print('heavy:', sorted(loaded))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "heavy: []"


def test_the_public_names_are_there() -> None:
    for face in ("memory", *(f"memory.{room}" for room in sorted(ROOMS))):
        module = importlib.import_module(face)
        assert module.__all__
        assert all(getattr(module, name) is not None for name in module.__all__), face


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_package_has_few_names() -> None:
    listed = (ROOT / "memory" / "__init__.pyi").read_text(encoding="utf-8")
    assert 1 <= len(re.findall(r"^from .* import ", listed, re.MULTILINE)) <= MOST_NAMES


FOREIGN = {"_asdict", "_data", "_exit", "_run_exitfuncs", "_shutdown"}
"""Private names of others that tests use: of `os`, `threading`, and LangGraph's own store."""


def test_tests_use_no_private_name_of_an_object() -> None:
    used = {
        f"{path.relative_to(ROOT)}:{line}": name
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, name in private_names(ast.parse(path.read_text(encoding="utf-8")))
        if name not in FOREIGN
    }
    assert used == {}


def private_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield lines and names: private attributes of others, and private names that are patched."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            (".setattr", ".object")
        ):
            texts = (one.value for one in node.args if isinstance(one, ast.Constant))
            names = [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
        else:
            continue
        yield from ((node.lineno, name) for name in names if re.match("_[^_]", name))
