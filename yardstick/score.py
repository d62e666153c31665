"""How often is a memory wrongly merged, and how often does a duplicate stay?

    python -m yardstick.score [NAME | package.module:factory ...]

Prints tables in Markdown. A name is one of yardstick/adapters.py; a factory makes one of your own:
an object with `keep(older, newer)`. Without names, all that are installed.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import sqrt
from pathlib import Path

from yardstick.adapters import ALL, Deduplicator, Merging

FOLDER = Path(__file__).parent


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of the share `hits` / `of`; (0, 1) if `of` is 0.

    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference,
    Journal of the American Statistical Association 22. The centre and the half width are (p + z²/2n
    ± z sqrt(p(1 - p)/n + z²/4n²)) / (1 + z²/n).
    """
    if of == 0:
        return 0.0, 1.0
    z = 1.959964  # the normal quantile of a two-sided 95 % interval
    share, spread = hits / of, z * z / of
    centre = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if hits == 0 else low), (1.0 if hits == of else high)


@dataclass(frozen=True)
class Pair:
    """Two texts of one user, the older first, and which states all that the other does."""

    id: str
    language: str
    kind: str
    a: str
    b: str
    a_states_b: bool
    b_states_a: bool

    @property
    def redundant(self) -> bool:
        """Whether one of them may go."""
        return self.a_states_b or self.b_states_a

    @property
    def losable(self) -> bool:
        """Whether a wrong one may go."""
        return not (self.a_states_b and self.b_states_a)


@dataclass(frozen=True)
class Merge:
    """Two texts, the older first, one text in their place, and whether it is faithful."""

    id: str
    language: str
    reason: str
    a: str
    b: str
    text: str
    faithful: bool


class Outcome(Enum):
    """What became of a pair."""

    RIGHT = "right"
    FALSE_MERGE = "false merge"
    KEPT_DUPLICATE = "kept duplicate"
    REWRITTEN = "rewritten"


@dataclass(frozen=True)
class Share:
    """So many of so many, with a 95 % interval."""

    hits: int
    of: int

    def __str__(self) -> str:
        low, high = wilson(self.hits, self.of)
        return f"{self.hits}/{self.of} ({100 * low:.0f} to {100 * high:.0f} %)"

    @property
    def short(self) -> str:
        return f"{self.hits}/{self.of}"


def read_pairs() -> list[Pair]:
    return [Pair(**json.loads(line)) for line in _lines("pairs.jsonl")]


def read_merges() -> list[Merge]:
    return [Merge(**json.loads(line)) for line in _lines("merges.jsonl")]


def outcome(pair: Pair, left: Sequence[str]) -> Outcome:
    """A text that is neither of them was rewritten: only a reader can tell whether it is true."""
    if any(text not in (pair.a, pair.b) for text in left):
        return Outcome.REWRITTEN
    if pair.a in left and pair.b in left:
        return Outcome.KEPT_DUPLICATE if pair.redundant else Outcome.RIGHT
    stays_true = pair.a_states_b if pair.a in left else pair.b in left and pair.b_states_a
    return Outcome.RIGHT if stays_true else Outcome.FALSE_MERGE


def outcomes(deduplicator: Deduplicator, pairs: Iterable[Pair]) -> dict[Pair, Outcome]:
    return {pair: outcome(pair, deduplicator.keep(pair.a, pair.b)) for pair in pairs}


def false_merges(found: dict[Pair, Outcome]) -> Share:
    """Of the pairs that can lose something."""
    counted = [one for pair, one in found.items() if pair.losable]
    return Share(counted.count(Outcome.FALSE_MERGE), len(counted))


def kept_duplicates(found: dict[Pair, Outcome]) -> Share:
    """Of the pairs that need not both stay."""
    counted = [one for pair, one in found.items() if pair.redundant]
    return Share(counted.count(Outcome.KEPT_DUPLICATE), len(counted))


def where(found: dict[Pair, Outcome], field: str, value: str) -> dict[Pair, Outcome]:
    return {pair: one for pair, one in found.items() if getattr(pair, field) == value}


# --- tables ---------------------------------------------------------------------------------------


def overall(results: dict[str, dict[Pair, Outcome]]) -> list[str]:
    lines = ["| | false merges | kept duplicates | rewritten |", "|---|---|---|---|"]
    for name, found in results.items():
        rewritten = list(found.values()).count(Outcome.REWRITTEN)
        shares = f"{false_merges(found)} | {kept_duplicates(found)}"
        lines.append(f"| {name} | {shares} | {rewritten} |")
    return lines


def split(results: dict[str, dict[Pair, Outcome]], field: str) -> list[str]:
    """A row for each value of a field: false merges, kept duplicates."""
    pairs = next(iter(results.values()))
    values = dict.fromkeys(getattr(pair, field) for pair in pairs)
    lines = [f"| {field} | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for value in values:
        cells = []
        for found in results.values():
            some = where(found, field, value)
            cells.append(f"{false_merges(some).short}, {kept_duplicates(some).short}")
        lines.append(f"| {value} | {' | '.join(cells)} |")
    return lines


def merging(deduplicators: dict[str, Deduplicator], merges: Sequence[Merge]) -> list[str]:
    """Those that store texts of a model's making: what they let in, and what they turn away."""
    lines = ["| | wrong texts accepted | faithful texts refused |", "|---|---|---|"]
    for name, one in deduplicators.items():
        if isinstance(one, Merging):
            accepted = {merge: one.accepts((merge.a, merge.b), merge.text) for merge in merges}
            wrong = [taken for merge, taken in accepted.items() if not merge.faithful]
            right = [taken for merge, taken in accepted.items() if merge.faithful]
            told = Share(wrong.count(True), len(wrong)), Share(right.count(False), len(right))
            lines.append(f"| {name} | {told[0]} | {told[1]} |")
    return lines


def report(deduplicators: dict[str, Deduplicator], pairs: Sequence[Pair]) -> str:
    results = {name: outcomes(one, pairs) for name, one in deduplicators.items()}
    tables = [
        overall(results),
        split(results, "kind"),
        split(results, "language"),
        merging(deduplicators, read_merges()),
    ]
    return "\n\n".join("\n".join(lines) for lines in tables)


def made(names: Sequence[str]) -> dict[str, Deduplicator]:
    """Those that are named; all that are installed where none is."""
    found: dict[str, Deduplicator] = {}
    for name in names or ALL:
        try:
            found[name] = _factory(name)()
        except ImportError as exc:
            if names:
                sys.exit(f"error: {name} cannot be loaded ({exc}); install it")
            print(f"left out: {name} ({exc})", file=sys.stderr)
    return found


def _factory(name: str) -> Callable[[], Deduplicator]:
    if name in ALL:
        return ALL[name]
    module, _, attribute = name.partition(":")
    if not attribute:
        sys.exit(f"error: {name!r} is none of {', '.join(ALL)}, nor package.module:factory")
    factory: Callable[[], Deduplicator] = getattr(importlib.import_module(module), attribute)
    return factory


def _lines(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def main(names: Sequence[str]) -> None:
    deduplicators = made(names)
    print(report(deduplicators, read_pairs()))
    for one in deduplicators.values():
        getattr(one, "close", lambda: None)()


if __name__ == "__main__":
    main(sys.argv[1:])
