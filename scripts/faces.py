"""Write the face of each room: `python -m scripts.faces`.

A face, `__init__.pyi`, lists the names of a room that other files use: other rooms, tests,
benchmarks, examples and the documentation. A test fails if a face is not what this script writes.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MEMORY = ROOT / "memory"
ROOMS = {path.parent.name for path in MEMORY.glob("*/__init__.py")} - {"adapters"}
"""Folders with a face; a file of `adapters` is a shell that its own framework alone loads."""
_FOLDERS = ("memory", "tests", "benchmarks", "examples", "scripts", "yardstick")
_IN_TEXT = re.compile(r"from memory\.(\w+) import (\w+(?:, \w+)*)")
_HEAD = "# Written by `python -m scripts.faces`.\n"


def faces() -> dict[Path, str]:
    """Return the text of each face, by its path."""
    used: dict[str, set[str]] = defaultdict(set)
    for path in _readers():
        own = path.relative_to(ROOT).parts[1:2]
        for room, name in _taken(ast.parse(path.read_text(encoding="utf-8"))):
            if room not in own:
                used[room].add(name)
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for room, names in _IN_TEXT.findall(page.read_text(encoding="utf-8")):
            used[room].update(names.split(", "))
    return {MEMORY / room / "__init__.pyi": _face(MEMORY / room, used[room]) for room in ROOMS}


def _readers() -> Iterator[Path]:
    yield from (MEMORY / "__init__.pyi", ROOT / "orchestrator.py")
    for folder in _FOLDERS:
        yield from (ROOT / folder).rglob("*.py")


def _taken(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the room and the name of all that a file takes from faces, and of some more."""
    rooms = set[str]()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [one.name for one in node.names]
            if node.module == "memory":
                rooms |= ROOMS.intersection(names)
            yield from ((node.module.removeprefix("memory."), name) for name in names)
    for node in ast.walk(module):  # of a room that is imported whole
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from ((room, node.attr) for room in rooms & {node.value.id})


def _face(room: Path, used: set[str]) -> str:
    """List the used names of a room, one line for each module that defines some of them."""
    paths = {
        path.parent.name if path.stem == "__init__" else path.stem: path
        for path in (*room.glob("*.py"), *room.glob("*/__init__.py"))
        if path != room / "__init__.py"
    }
    names = {
        f".{module}": used.intersection(_defined(ast.parse(path.read_text(encoding="utf-8"))))
        for module, path in sorted(paths.items())
    }
    whole = used.intersection(paths).difference(*names.values())
    return _HEAD + "".join(
        f"from {module} import {', '.join(f'{name} as {name}' for name in sorted(some))}\n"
        for module, some in ({".": whole} | names).items()
        if some
    )


def _defined(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):  # `from memory.store import erase as erase`
            yield from (one.name for one in node.names if one.asname == one.name)
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            yield from (
                one.id for one in ast.walk(target or ast.Pass()) if isinstance(one, ast.Name)
            )


if __name__ == "__main__":
    for path, text in faces().items():
        path.write_text(text, encoding="utf-8")
