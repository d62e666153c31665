"""How often an automatic decision is wrong: the real policy over labelled pairs, without a model.

    python -m benchmarks.decisions --pairs FILE [--embedder NAME] [--json]

`--pairs`: JSON Lines with `a` (the older text), `b` (the newer), `label` (duplicate, changed,
contradiction, distinct, ambiguous), `lang`, `source`, `kind`. Each pair is decided as if `b` came
into a store that holds `a`: with the guard, and with plain thresholds. A replacement of a pair
that is changed, contradiction or distinct is false. Ambiguous pairs are counted among the pairs
and the automatic ones, and judged neither way: rates are of the labelled ones. The thresholds are
those of the configuration in the current folder.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from timeit import repeat
from typing import Any

from memory.assembly import build_embedder
from memory.config import load_config
from memory.decide import decide_new
from memory.index import similarities
from memory.models import Action, Decision, Memory, Rules, SearchResult
from memory.protocols import Embedder
from memory.text import compare, normalise, parse
from memory.upkeep import wilson

FALSE_IF = frozenset({"changed", "contradiction", "distinct"})
_RUNS = 5
START = datetime(2026, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """A labelled pair, how alike it is, and whether each policy replaces without a model."""

    label: str
    source: str
    language: str
    kind: str
    at_upper: bool
    guarded: bool
    plain: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--embedder", choices=["wordllama", "minilm", "gemini"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    config = load_config()
    if args.embedder:
        embedding = config.memory.embedding.model_copy(update={"provider": args.embedder})
        memory = config.memory.model_copy(update={"embedding": embedding})
        config = config.model_copy(update={"memory": memory})
    result = measure(_read(args.pairs), build_embedder(config), config.memory.rules)
    print(json.dumps(result.as_json(), indent=1) if args.json else "\n".join(result.tables()))


@dataclass(frozen=True)
class Result:
    """What was decided about every pair."""

    embedder: str
    rules: Rules
    pairs: Sequence[Pair]
    microseconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "embedder": self.embedder,
            "upper": self.rules.upper,
            "lower": self.rules.lower,
            "guard": self._both(lambda pair: pair.guarded),
            "plain": self._both(lambda pair: pair.plain),
            "microseconds_per_pair": round(self.microseconds, 1),
        }

    def _both(self, automatic: Callable[[Pair], bool]) -> dict[str, Any]:
        by_source = {
            name: figures(some, automatic)
            for name, some in grouped(self.pairs, lambda pair: pair.source)
        }
        return figures(self.pairs, automatic) | {"by_source": by_source}

    def tables(self) -> Iterator[str]:
        """Markdown: everything, then by source, language and kind."""
        yield f"{self.embedder}, replaced from {self.rules.upper:.2f}, {len(self.pairs):,} pairs,"
        yield f"{self.microseconds:.0f} microseconds of CPU to compare two new texts\n"
        yield "| | pairs | automatic | false | 95 % | kept | plain: false | kept |"
        yield "|---|---|---|---|---|---|---|---|"
        yield _line("all", self.pairs)
        for by in (lambda p: p.source, lambda p: p.language, lambda p: p.kind):
            for name, some in grouped(self.pairs, by):
                if any(pair.at_upper for pair in some):
                    yield _line(name or "(no kind)", some)


def measure(rows: Sequence[Row], embedder: Embedder, rules: Rules) -> Result:
    """Decide every pair twice, with the guard and without."""
    alike = _similarities(rows, embedder)
    pairs = [_pair(row, score, rules) for row, score in zip(rows, alike, strict=True)]
    return Result(embedder.fingerprint, rules, pairs, _microseconds(rows))


def _similarities(rows: Sequence[Row], embedder: Embedder) -> list[float]:
    texts = sorted({normalise(row[side]) for row in rows for side in ("a", "b")})
    vectors = embedder.embed(texts)
    place = {text: n for n, text in enumerate(texts)}
    older = vectors[[place[normalise(row["a"])] for row in rows]]
    newer = vectors[[place[normalise(row["b"])] for row in rows]]
    return [float(score) for score in similarities(older, newer)]


def _pair(row: Row, score: float, rules: Rules) -> Pair:
    return Pair(
        label=row["label"],
        source=row["source"],
        language=row["lang"],
        kind=row.get("kind") or "",
        at_upper=score >= rules.upper,
        guarded=replaced(row["a"], row["b"], score, replace(rules, guard=True)),
        plain=replaced(row["a"], row["b"], score, replace(rules, guard=False)),
    )


def replaced(older: str, newer: str, score: float, rules: Rules) -> bool:
    """Whether the policy lets one of the two go without asking a model."""
    stored = Memory(content=older, timestamp=START)
    new = Memory(content=newer, timestamp=START + timedelta(days=1))
    decision, _ = decide_new(new, [SearchResult(stored, score)], rules)
    return isinstance(decision, Decision) and decision.action is Action.REPLACE


def _microseconds(rows: Sequence[Row]) -> float:
    """CPU time to compare two texts that were not read before, though their words may have been.

    `timeit` leaves the garbage collector out, and takes the least of some runs: what else the
    machine does only ever adds.
    """
    once = partial(_compare_all, rows)
    return 1e6 * min(repeat(once, timer=time.process_time, number=1, repeat=_RUNS)) / len(rows)


def _compare_all(rows: Sequence[Row]) -> None:
    parse.cache_clear()
    for row in rows:
        compare(row["a"], row["b"])


def figures(pairs: Sequence[Pair], automatic: Callable[[Pair], bool]) -> dict[str, Any]:
    """One line of the result; `false_rate` and `interval` are of the labelled automatic ones."""
    close = [pair for pair in pairs if pair.at_upper]
    decided = [pair for pair in close if automatic(pair)]
    labelled = [pair for pair in decided if pair.label != "ambiguous"]
    false = sum(pair.label in FALSE_IF for pair in labelled)
    duplicates = [pair for pair in close if pair.label == "duplicate"]
    kept = sum(map(automatic, duplicates))
    return {
        "at_upper": len(close),
        "automatic": len(decided),
        "false": false,
        "false_rate": round(false / max(1, len(labelled)), 5),
        "interval": [round(bound, 5) for bound in wilson(false, len(labelled))],
        "duplicates_at_upper": len(duplicates),
        "duplicates_automatic": kept,
        "kept_share": round(kept / max(1, len(duplicates)), 5),
    }


def grouped(pairs: Iterable[Pair], by: Callable[[Pair], str]) -> Iterator[tuple[str, list[Pair]]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(by(pair), []).append(pair)
    yield from sorted(groups.items())


def _line(name: str, pairs: Sequence[Pair]) -> str:
    guard, plain = figures(pairs, lambda p: p.guarded), figures(pairs, lambda p: p.plain)
    low, high = guard["interval"]
    cells = [
        name, guard["at_upper"], guard["automatic"], _share(guard, "false_rate", "false"),
        f"{low:.1%} to {high:.1%}", _share(guard, "kept_share"),
        _share(plain, "false_rate", "false"), _share(plain, "kept_share"),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _share(of: dict[str, Any], rate: str, count: str | None = None) -> str:
    """A rate as people read it; nothing where it is of nothing."""
    if rate == "kept_share" and not of["duplicates_at_upper"]:
        return ""
    told = f"{of[rate]:.1%}"
    return f"{of[count]:,} ({told})" if count else told


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


if __name__ == "__main__":
    main()
