"""Find regular expressions whose time grows faster than the text that they read.

`patterns_of` collects the package's patterns. `superlinear` makes texts out of a pattern (what its
repeats match, again and again, before something that does not match) and compares the time that
the real engine takes for a text and for one four times as long.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

from benchmarks.shapes import timed

_METHODS = ("search", "match", "fullmatch", "findall", "finditer", "sub", "split")


class Use(NamedTuple):
    """A pattern, and the method of `re.Pattern` that is called with texts."""

    where: str
    pattern: re.Pattern[str]
    method: str


# --- the patterns of a package --------------------------------------------------------------------


def patterns_of(package: ModuleType) -> list[Use]:
    """Return every pattern that a package's modules hold or write inside a function."""
    found: dict[tuple[str, int, str], Use] = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.name.endswith("__main__"):
            continue
        with suppress(ImportError):  # an optional extra is not installed
            module = importlib.import_module(info.name)
            for use in [*_held(info.name, vars(module), 0, package.__name__), *_inline(module)]:
                if isinstance(use.pattern.pattern, str) and use.method in _METHODS:
                    found.setdefault((use.pattern.pattern, use.pattern.flags, use.method), use)
    return list(found.values())


def _held(where: str, value: Any, depth: int, package: str) -> Iterator[Use]:
    if isinstance(value, re.Pattern):
        yield Use(where, value, "search")
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield Use(where, value.__self__, value.__name__)
    elif depth > 3 or isinstance(value, type | ModuleType):
        return
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _held(f"{where}.{key}" if depth < 1 else where, one, depth + 1, package)
    elif isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        for one in value:
            yield from _held(where, one, depth + 1, package)
    elif type(value).__module__.startswith(package) and hasattr(value, "__dict__"):
        yield from _held(where, vars(value), depth + 1, package)


def _inline(module: ModuleType) -> Iterator[Use]:
    """Yield the patterns that functions pass to `re` as a literal text."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in _METHODS
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            where = f"{module.__name__}:{node.lineno}"
            flags = re.NOFLAG
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute) and part.attr.isupper():
                    flags |= getattr(re, part.attr)
            yield Use(where, re.compile(str(node.args[0].value), flags), node.func.attr)


# --- texts that a pattern may be slow on ----------------------------------------------------------

_ALPHABET = string.printable[:-2] + "é\u0301ßñ\u00a0\u3000のカ猫、。１²½–’“»€→😀\u200d"


def _alphabet(tree: Any) -> list[str]:
    """Return one character for each way in which a pattern's sets and literals tell them apart.

    Two characters are told apart if some set or literal of the pattern matches only one of them.
    """
    literals = list(dict.fromkeys(_literals(tree)))
    sets = list(_sets(tree))
    kinds: dict[tuple[bool, ...], str] = {}
    for char in dict.fromkeys([*_ALPHABET, *literals]):
        of_sets = [_holds(one, char) for one in sets]
        kinds.setdefault((*of_sets, *(char == one for one in literals[:24])), char)
    return list(kinds.values())


_CATEGORIES = {
    sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D",
}  # fmt: skip


def _holds(items: Any, char: str) -> bool:
    """Return whether a set of a parsed pattern holds a character."""
    found = any(
        (kind is sre.LITERAL and chr(value) == char)
        or (kind is sre.RANGE and value[0] <= ord(char) <= value[1])
        or (kind is sre.CATEGORY and re.match(_CATEGORIES[value], char) is not None)
        for kind, value in items
    )
    return found is not (items[0][0] is sre.NEGATE)


def _sets(tree: Any) -> Iterator[Any]:
    for operation, argument in tree:
        if operation is sre.IN:
            yield argument
        for part in _parts(operation, argument):
            yield from _sets(part)


def _literals(tree: Any) -> Iterator[str]:
    for operation, argument in tree:
        if operation is sre.LITERAL:
            yield chr(argument)
        else:
            for part in _parts(operation, argument):
                yield from _literals(part)


def _parts(operation: Any, argument: Any) -> list[Any]:
    """Return the parts of a node of a parsed pattern, which are parsed patterns themselves."""
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [argument[2]]
    if operation is sre.SUBPATTERN:
        return [argument[3]]
    if operation is sre.BRANCH:
        return list(argument[1])
    if operation is sre.ATOMIC_GROUP:
        return [argument]
    if operation in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return []


class _Samples:
    """Makes random texts that a parsed pattern matches, if its assertions are ignored."""

    def __init__(self, seed: int, alphabet: Sequence[str]) -> None:
        self._random = random.Random(seed)
        self._alphabet = alphabet

    def of(self, tree: Any) -> str:
        return "".join(self._node(operation, argument) for operation, argument in tree)

    def char(self, but: str = "") -> str:
        return self._random.choice([char for char in self._alphabet if char != but] or [""])

    def _node(self, operation: Any, argument: Any) -> str:
        if operation is sre.LITERAL:
            return chr(argument)
        if operation is sre.BRANCH:
            return self.of(self._random.choice(argument[1]))
        if operation is sre.SUBPATTERN:
            return self.of(argument[3])
        if operation is sre.ATOMIC_GROUP:
            return self.of(argument)
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, body = argument
            times = self._random.randint(least, min(int(most), least + 1))
            return "".join(self.of(body) for _ in range(times))
        if operation in (sre.IN, sre.ANY, sre.NOT_LITERAL):
            return self._one_of(operation, argument)
        return ""

    def _one_of(self, operation: Any, argument: Any) -> str:
        if operation is sre.IN and argument[0][0] is not sre.NEGATE and self._random.random() < 0.5:
            kind, value = self._random.choice(argument)
            if kind is sre.LITERAL:
                return chr(value)
            if kind is sre.RANGE:
                return chr(self._random.choice(value))
        return self._random.choice(self._alphabet)


def _repeats(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each unlimited repeat as a pair: what stands before it on its level, and its body."""
    for position, (operation, argument) in enumerate(tree):
        is_repeat = operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
        if is_repeat and int(argument[1]) > 60:
            yield tree[:position], argument[2]
        for part in _parts(operation, argument):
            for before, body in _repeats(part):
                yield before or tree[:position], body


def pumped(pattern: re.Pattern[str], seed: int = 0) -> list[tuple[str, str, str]]:
    """Return triples: the beginning of a text, what is repeated in its middle, and its end."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    alphabet = _alphabet(tree)
    samples = _Samples(seed, alphabet)
    found: list[tuple[str, str, str]] = [("", char, "") for char in alphabet]
    found += [(samples.char(but=char), char, samples.char(but=char)) for char in alphabet]
    found += [(samples.char(), samples.char() + samples.char(), "") for _ in range(24)]
    whole = [samples.of(tree) for _ in range(4)]
    found += [("", text, "") for text in whole] + [("", text[:-1], "") for text in whole]
    for before, body in list(_repeats(tree))[:12]:
        for _ in range(3):
            start, middle = samples.of(before), samples.of(body)
            found += [(start, middle, "\x00"), ("", start + middle, ""), ("", middle, "\x00")]
    return [one for one in dict.fromkeys(found) if one[1]]


# --- the time that they take ----------------------------------------------------------------------


def call_of(use: Use, text: str) -> Callable[[], object]:
    method = getattr(use.pattern, use.method)
    if use.method == "sub":
        return lambda: method("", text)
    if use.method in ("search", "finditer"):  # also the one may be called for every match
        return lambda: sum(1 for _ in use.pattern.finditer(text))
    return lambda: method(text)


def superlinear(
    use: Use, *, seed: int = 0, characters: int = 8_000, suspect_s: float = 0.016
) -> tuple[str, str, str] | None:
    """Return a beginning, a middle and an end of a text that the pattern is slow on, or None.

    A call that takes longer than `suspect_s` CPU seconds is compared with one for a quarter of the
    text. If that takes less than an eighth of the time, the pattern is slow: linear time would be
    four times, quadratic time sixteen times as long.
    """
    for text in pumped(use.pattern, seed):
        long, short = (
            call_of(use, filled(text, length)) for length in (characters, characters // 4)
        )
        if timed(long, _LIMIT_S)[0] > suspect_s:
            of_short, stopped = _cpu_s(short)
            if stopped or _cpu_s(long)[0] > 8 * of_short:
                return text
    return None


_LIMIT_S = 1.0


def filled(text: tuple[str, str, str], characters: int) -> str:
    start, middle, end = text
    return start + middle * (characters // len(middle)) + end


def _cpu_s(call: Callable[[], object]) -> tuple[float, bool]:
    """Return the CPU seconds of a call, and whether it was stopped.

    The time is an average, since some machines count in steps of 4 ms.
    """
    spent, calls, stopped = 0.0, 0, False
    while spent < 0.05 and not stopped:
        seconds, stopped = timed(call, _LIMIT_S)
        spent, calls = spent + seconds, calls + 1
    return spent / calls, stopped
