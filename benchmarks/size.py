"""Count the statements, docstrings and modules of each room of `memory/`, and who imports whom.

    python -m benchmarks.size [--at REVISION] [--json]

A statement is a node of Python's syntax tree (`ast.stmt`). A docstring and an import are one
statement each, so the layout of the code and its comments do not count. A pair of rooms counts if
one of them imports the other. Names of `memory` itself, such as `memory.Config`, are no room's.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
COUNTED = ("modules", "statements", "docstrings")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the statements of each room.")
    parser.add_argument("--at", metavar="REVISION", help="count an earlier commit of this project")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    modules = list(committed(args.at) if args.at else on_disk())
    rooms = by_room(iter(modules))
    rooms["all"] = sum(rooms.values(), Counter())
    pairs = imports_between(modules)
    if args.json:
        print(json.dumps({**rooms, "pairs": sorted(pairs)}))
        return
    print(f"{'room':14}" + "".join(f"{kind:>12}" for kind in COUNTED))
    for room, counts in rooms.items():
        print(f"{room:14}" + "".join(f"{counts[kind]:12,}" for kind in COUNTED))
    print(f"pairs of rooms of which one imports the other: {len(pairs)}")


def on_disk() -> Iterator[tuple[str, str]]:
    """Yield the path and the source of each module of the package, sorted by path."""
    for path in sorted((ROOT / "memory").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def committed(revision: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the source of each module as they were in this commit."""
    for path in _git("ls-tree", "-r", "--name-only", revision, "memory").splitlines():
        if path.endswith(".py"):
            yield path, _git("show", f"{revision}:{path}")


def by_room(modules: Iterator[tuple[str, str]]) -> dict[str, Counter[str]]:
    """Return the counts of each room; modules directly in `memory/` are the room `(flat)`."""
    rooms: dict[str, Counter[str]] = {}
    for path, source in modules:
        parts = PurePosixPath(path).parts
        rooms.setdefault(parts[1] if len(parts) > 2 else "(flat)", Counter()).update(sizes(source))
    return rooms


def imports_between(modules: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the pairs of rooms (importing, imported); a module in `memory/` is a room, too."""
    room_of = {path: PurePosixPath(path).with_suffix("").parts[1] for path, _ in modules}
    rooms = set(room_of.values()) - {"__init__", "__main__"}
    found = set[tuple[str, str]]()
    for path, source in modules:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module == "memory":
                found |= {(room_of[path], alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("memory."):
                found.add((room_of[path], f"{node.module}".split(".")[1]))
    return {(one, other) for one, other in found if one != other and {one, other} <= rooms}


def sizes(source: str) -> Counter[str]:
    """Return the counts of one module."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    texts = [node.value for node in statements if isinstance(node, ast.Expr)]
    docstrings = sum(
        isinstance(text, ast.Constant) and isinstance(text.value, str) for text in texts
    )
    return Counter(modules=1, statements=len(statements), docstrings=docstrings)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    main()
