"""Measure how often an automatic decision is wrong: run the real policy on labelled pairs.

    python -m benchmarks.decisions --pairs FILE [--embedder NAME] [--offline] [--json]
    python -m benchmarks.decisions --pairs FILE --coverage-alone [--json]

`--pairs`: JSON Lines with the texts `a` and `b` and one of two kinds of labels. No language model
is asked.

- `a_entails_b` and `b_entails_a`: true, false, or null if unknown. The pair is decided twice, with
  either text as the older one. Retiring a text is false if the other text does not entail it.
- `label`: duplicate, changed, contradiction, distinct or ambiguous. `a` is the older text. Retiring
  either text is false unless they are duplicates; ambiguous pairs count neither way.

`source`, `lang` and `kind` group the figures. `--offline` adds the decisions of the offline judge
from the lower threshold on. `--coverage-alone` gives every pair the similarity 1, which shows what
coverage alone would retire with any embedder. The thresholds are those of the configuration in the
current folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from timeit import repeat
from typing import Any

from benchmarks.rows import Row, read_rows
from memory.assembly import build_embedder
from memory.config import load_config
from memory.coverage import Belief, compare, parse
from memory.decide import decide_new, decided, resolve
from memory.models import (
    Action,
    Decision,
    Embedder,
    Memory,
    Question,
    Rules,
    SearchResult,
    cosines_of,
)
from memory.providers import OfflineModel
from memory.text import normalise
from yardstick.score import wilson

_RUNS = 5
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Pair:
    """A labelled pair, and what each policy decides about it without a language model.

    `entails` has two keys: "a" for whether a entails b, and "b" for whether b entails a; None if
    unknown. `kept` has, by policy, the sides ("a", "b") that it keeps while it retires the other
    one, in either order of time.
    """

    source: str
    language: str
    kind: str
    similarity: float
    entails: Mapping[str, bool | None]
    kept: Mapping[str, frozenset[str]]

    @property
    def same(self) -> bool:
        return all(self.entails.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--embedder", choices=["wordllama", "minilm", "gemini"])
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--coverage-alone", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    config = load_config()
    if args.embedder:
        embedding = config.memory.embedding.model_copy(update={"provider": args.embedder})
        memory = config.memory.model_copy(update={"embedding": embedding})
        config = config.model_copy(update={"memory": memory})
    embedder = None if args.coverage_alone else build_embedder(config)
    policies = ("guard", "offline", "plain") if args.offline else ("guard", "plain")
    result = measure(read_rows(args.pairs), embedder, config.memory.rules, policies)
    print(json.dumps(result.as_json(), indent=1) if args.json else "\n".join(result.tables()))


@dataclass(frozen=True)
class Result:
    """The decisions about all pairs, and the figures made of them."""

    embedder: str
    rules: Rules
    policies: Sequence[str]
    pairs: Sequence[Pair]
    microseconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "embedder": self.embedder,
            "upper": self.rules.upper,
            "lower": self.rules.lower,
            **{policy: self._grouped(policy) for policy in self.policies},
            "microseconds_per_pair": round(self.microseconds, 1),
        }

    def _grouped(self, policy: str) -> dict[str, Any]:
        groups = {
            f"by_{name}": {
                group: figures(some, policy, self.rules) for group, some in grouped(self.pairs, by)
            }
            for name, by in _GROUPINGS.items()
        }
        return figures(self.pairs, policy, self.rules) | groups

    def tables(self) -> Iterator[str]:
        """Yield a Markdown table for each policy: all pairs, then by source, language and kind."""
        yield f"{self.embedder}, replaced from {self.rules.upper:.2f}, {len(self.pairs):,} pairs,"
        yield f"{self.microseconds:.0f} microseconds of CPU to compare two new texts"
        for policy in self.policies:
            yield f"\n| {policy} | pairs | let go | false | 95 % | right | kept |"
            yield "|---|---|---|---|---|---|---|"
            yield _line("all", figures(self.pairs, policy, self.rules))
            for by in _GROUPINGS.values():
                for name, some in grouped(self.pairs, by):
                    told = figures(some, policy, self.rules)
                    if told["let_go"] or told["same"]:
                        yield _line(name or "(no kind)", told)


_GROUPINGS: Mapping[str, Callable[[Pair], str]] = {
    "source": lambda pair: pair.source,
    "language": lambda pair: pair.language,
    "kind": lambda pair: pair.kind,
}


def measure(
    rows: Sequence[Row], embedder: Embedder | None, rules: Rules, policies: Sequence[str]
) -> Result:
    """Decide each pair by each policy; without an embedder, every pair has similarity 1."""
    alike = _similarities(rows, embedder) if embedder else [1.0] * len(rows)
    pairs = [_pair(row, score, rules, policies) for row, score in zip(rows, alike, strict=True)]
    name = embedder.fingerprint if embedder else "coverage alone"
    return Result(name, rules, policies, pairs, _microseconds(rows))


def _similarities(rows: Sequence[Row], embedder: Embedder) -> list[float]:
    texts = sorted({normalise(row[side]) for row in rows for side in ("a", "b")})
    vectors = embedder.embed(texts)
    place = {text: n for n, text in enumerate(texts)}
    older = vectors[[place[normalise(row["a"])] for row in rows]]
    newer = vectors[[place[normalise(row["b"])] for row in rows]]
    return [float(score) for score in cosines_of(older, newer)]


def _pair(row: Row, score: float, rules: Rules, policies: Sequence[str]) -> Pair:
    orders = ("ab", "ba") if "a_entails_b" in row else ("ab",)
    kept = {
        policy: frozenset(
            order[side]
            for order in orders
            if (side := _POLICIES[policy](row[order[0]], row[order[1]], score, rules)) is not None
        )
        for policy in policies
    }
    kind = row.get("kind") or ""
    return Pair(row.get("source", ""), row.get("lang", ""), kind, score, entailments(row), kept)


def entailments(row: Row) -> dict[str, bool | None]:
    """Return whether each side, "a" or "b", entails the other; None if the labels do not say."""
    if "a_entails_b" in row:
        return {"a": row["a_entails_b"], "b": row["b_entails_a"]}
    same = {"duplicate": True, "ambiguous": None}.get(row["label"], False)
    return {"a": same, "b": same}


# --- policies -------------------------------------------------------------------------------------


def guarded(older: str, newer: str, score: float, rules: Rules) -> int | None:
    """Return which text the policy with the guard keeps if it retires the other one.

    0 is the older text, 1 the newer one; None if both stay, or if a judge would be asked.
    """
    return _only_left(_decided(older, newer, score, replace(rules, guard=True)), older, newer)


def plain(older: str, newer: str, score: float, rules: Rules) -> int | None:
    """Return the same as `guarded` for the policy without the guard, which has thresholds only."""
    return _only_left(_decided(older, newer, score, replace(rules, guard=False)), older, newer)


def offline(older: str, newer: str, score: float, rules: Rules) -> int | None:
    """Return the same as `guarded` if the offline model is the judge.

    A merged text that is new counts as retiring neither.
    """
    question = _decided(older, newer, score, replace(rules, guard=True))
    if isinstance(question, Question):
        verdict = asyncio.run(OfflineModel().judge(question))
        parts = resolve(question, verdict)
        if any(part.belief is not Belief.BELIEVED for part in parts):
            return None
        found = decided(question, verdict, parts, lambda: "mem_000000000000", "offline")
        return _only_left(found, older, newer)
    return _only_left(question, older, newer)


_POLICIES: Mapping[str, Callable[[str, str, float, Rules], int | None]] = {
    "guard": guarded,
    "plain": plain,
    "offline": offline,
}


def _decided(older: str, newer: str, score: float, rules: Rules) -> Decision | Question:
    stored = Memory(content=older, timestamp=START)
    new = Memory(content=newer, timestamp=START + timedelta(days=1))
    return decide_new(new, [SearchResult(stored, score)], rules)[0]


def _only_left(decided: Decision | Question, older: str, newer: str) -> int | None:
    if not isinstance(decided, Decision) or decided.action not in (Action.REPLACE, Action.MERGE):
        return None
    text = normalise(decided.survivors[0].memory.content)
    return next((n for n, one in ((1, newer), (0, older)) if normalise(one) == text), None)


# --- figures --------------------------------------------------------------------------------------


def _microseconds(rows: Sequence[Row]) -> float:
    """Return the CPU time, in microseconds, to compare two texts that were not parsed before.

    Their words may have been. The shortest of a few runs counts, without garbage collection, since
    other work of the machine can only make a run longer.
    """
    once = partial(_compare_all, rows)
    return 1e6 * min(repeat(once, timer=time.process_time, number=1, repeat=_RUNS)) / len(rows)


def _compare_all(rows: Sequence[Row]) -> None:
    parse.cache_clear()
    for row in rows:
        compare(row["a"], row["b"])


def figures(pairs: Sequence[Pair], policy: str, rules: Rules) -> dict[str, Any]:
    """Return one line of the result.

    `pairs` is the number of pairs that are similar enough for the policy, `let_go` that of retired
    texts. `false_rate` and its 95 % `interval` are of retired texts with a label. `kept_share` is
    the share of equivalent pairs that the policy decides without a judge.
    """
    least = rules.lower if policy == "offline" else rules.upper
    close = [pair for pair in pairs if pair.similarity >= least]
    claims = [pair.entails[side] for pair in close for side in pair.kept[policy]]
    false, right = claims.count(False), claims.count(True)
    same = [pair for pair in close if pair.same]
    kept = sum(bool(pair.kept[policy]) for pair in same)
    return {
        "pairs": len(close),
        "let_go": len(claims),
        "false": false,
        "false_rate": round(false / max(1, false + right), 5),
        "interval": [round(bound, 5) for bound in wilson(false, false + right)],
        "right": right,
        "same": len(same),
        "same_kept": kept,
        "kept_share": round(kept / max(1, len(same)), 5),
    }


def grouped(pairs: Iterable[Pair], by: Callable[[Pair], str]) -> Iterator[tuple[str, list[Pair]]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(by(pair), []).append(pair)
    yield from sorted(groups.items())


def _line(name: str, told: Mapping[str, Any]) -> str:
    low, high = told["interval"]
    kept = f"{told['kept_share']:.1%}" if told["same"] else ""
    cells = [
        name, told["pairs"], told["let_go"], f"{told['false']:,} ({told['false_rate']:.1%})",
        f"{low:.1%} to {high:.1%}", told["right"], kept,
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
