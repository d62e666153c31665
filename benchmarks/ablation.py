"""Measure what each rule of coverage contributes: judge all pairs with one rule switched off.

    python -m benchmarks.ablation --pairs FILE [FILE ...] [--rules NAME ...] [--json]

A rule is a function of `memory.coverage` that answers yes or no, names words, or rewrites tokens.
A rule that is switched off returns False, nothing, or its first argument unchanged. A claim is the
program's statement that one text covers (states all of) the other, at any similarity. The pairs'
labels are read as `benchmarks.decisions` reads them.

For each file, `false` is the change in the number of false claims, and `kept` the change in the
number of true ones. A rule is needed if `false` rises without it. If only `kept` falls without it,
compare that with its `statements`: those of the function and of functions that only it calls.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import pkgutil
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import memory.coverage
from benchmarks.decisions import entailments
from benchmarks.rows import Row, print_table, read_rows
from memory.coverage import compare

Score = tuple[int, int]
"""The numbers of false and of true claims."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=Path, nargs="+", required=True)
    parser.add_argument("--rules", nargs="+", help="only rules with one of these in their name")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    stems = Counter(path.stem for path in args.pairs)
    files = {
        path.stem if stems[path.stem] == 1 else str(path): read_rows(path) for path in args.pairs
    }
    found = list(measure(files, args.rules or [""]))
    print(json.dumps(found, indent=1)) if args.json else print_table(found)


def measure(files: Mapping[str, Sequence[Row]], names: Sequence[str]) -> Iterator[Row]:
    """Yield one row of figures for each rule whose name contains one of `names`."""
    functions = dict(_functions())
    sizes = _sizes(functions)
    before = {name: score(rows) for name, rows in files.items()}
    for rule, function in functions.items():
        answer = _answer_when_off(function)
        if answer is None or not any(name in rule for name in names):
            continue
        row: Row = {"rule": rule, "statements": sizes[rule]}
        try:
            with _switched_off(function, answer):
                for name, rows in files.items():
                    false, kept = score(rows)
                    row[f"{name} false"] = false - before[name][0]
                    row[f"{name} kept"] = kept - before[name][1]
        except (ValueError, TypeError, IndexError, KeyError, AttributeError):
            continue  # other code cannot do without its answer: a part, and no rule
        yield row


def score(rows: Sequence[Row]) -> Score:
    """Count the false and the true claims of `compare` on these pairs."""
    claims: list[bool | None] = []
    for row in rows:
        found, entails = compare(row["a"], row["b"]), entailments(row)
        claims += [entails["a"]] * found.a_covers_b + [entails["b"]] * found.b_covers_a
    return claims.count(False), claims.count(True)


# --- the rules ------------------------------------------------------------------------------------


def _modules() -> Iterator[Any]:
    package = memory.coverage
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def _functions() -> Iterator[tuple[str, FunctionType]]:
    for module in _modules():
        for name, value in vars(module).items():
            function = inspect.unwrap(value) if callable(value) else value
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield f"{module.__name__.removeprefix('memory.coverage.')}.{name}", function


def _sizes(functions: Mapping[str, FunctionType]) -> dict[str, int]:
    """Count the statements of each function and of those that only it calls."""
    trees = {
        name: ast.parse(textwrap.dedent(inspect.getsource(one))) for name, one in functions.items()
    }
    own = {
        name: sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        for name, tree in trees.items()
    }
    full_names = {name.rsplit(".", 1)[1]: name for name in functions}
    callers: dict[str, set[str]] = {name: set() for name in functions}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and full_names.get(node.id, name) != name:
                callers[full_names[node.id]].add(name)
    sizes = {}
    for name in functions:
        removed = {name}
        while more := {one for one, by in callers.items() if by and by <= removed} - removed:
            removed |= more
        sizes[name] = sum(own[one] for one in removed)
    return sizes


# --- switching off --------------------------------------------------------------------------------


def _false(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> tuple[()]:
    return ()


def _no_text(*_: object, **__: object) -> str:
    return ""


def _none(*_: object, **__: object) -> None:
    return None


def _unchanged(first: object, *_: object, **__: object) -> object:
    return first


def _answer_when_off(function: FunctionType) -> Callable[..., object] | None:
    """Return a function to use in place of a rule; None if `function` is only a part of a rule."""
    kinds = [
        re.sub(r"^(?:Sequence|list)\[", "[", str(kind))
        for kind in function.__annotations__.values()
    ]
    answer = kinds[-1] if kinds else ""
    if function.__code__.co_freevars:
        return None
    if answer.endswith("None"):
        return _none
    if answer.startswith("[") and answer == kinds[0]:
        return _unchanged
    if answer.startswith("tuple[str, ...]"):
        return _nothing
    return {"bool": _false, "str": _no_text}.get(answer)


@contextmanager
def _switched_off(function: FunctionType, answer: Callable[..., object]) -> Iterator[None]:
    """Replace the function's code by that of `answer` during the block.

    This also works in modules that have imported the function, and in tables that hold it.
    """
    code = function.__code__
    function.__code__ = answer.__code__
    _clear_caches()
    try:
        yield
    finally:
        function.__code__ = code
        _clear_caches()


def _clear_caches() -> None:
    """Empty all caches of parsed texts, since a text is parsed differently without a rule."""
    for module in _modules():
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


if __name__ == "__main__":
    main()
