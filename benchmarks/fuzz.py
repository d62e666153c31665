"""Run the rules on real texts: do they ever fail, how slow is the worst pair, what do they cover?

    python -m benchmarks.fuzz FOLDER [--pairs 300000] [--seconds 600] [--seed 1] [--json]

Every string with several words (or with kana or Han) in the folder's .jsonl, .json and .txt files
is a text. Each text is paired with its nearest neighbours by WordLlama. `--pairs` of these pairs,
drawn with the seed, are compared in both directions, and one text is checked as a merge of both.
Each text is read by the offline model. The boundary of `memory/text/boundary.py` is left out, so
that an exception is seen.

The clock covers all functions together on one pair in one direction, in CPU time, without pauses of
the garbage collector. The slowest pairs are timed again with empty caches; of three times the best
counts. A cover is suspicious if the two texts differ in a digit, a sign, an inner capital, a
negation or a time word: the covering text lacks it, or only the covering text has it.

The exit code is 1 if there was an exception.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import inspect
import json
import logging
import random
import re
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.shapes import forget
from memory.coverage import (
    compare,
    conflicting_values,
    difference,
    differing,
    marked,
    verify_by_words,
)
from memory.providers import WordLlamaEmbedder
from memory.text import (
    asked_to_remember,
    has_cjk,
    identity,
    only_asks_to_remember,
    periods,
    retold,
    search_terms,
    statements,
    telling_words,
    wordings,
)

AT = datetime(2026, 5, 8, tzinfo=UTC)
_LONGEST = 20_000
_ROWS = 250  # texts whose neighbours are searched at once
_UNCOLLECTED = 10_000  # pairs between two collections of garbage
_SHOWN, _TIMED_AGAIN = 5, 40
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def _unguarded(*functions: Callable[..., object]) -> list[Callable[..., object]]:
    return [inspect.unwrap(function) for function in functions]


_wordings, _retold, _statements = _unguarded(wordings, retold, statements)
[_periods] = _unguarded(periods)
_marked, _by_words = _unguarded(marked, verify_by_words)
ALONE: Sequence[Callable[..., object]] = (
    *_unguarded(search_terms, telling_words, asked_to_remember, only_asks_to_remember),
    lambda text: _wordings(text, "Mia"),
    lambda text: _periods(text, AT),
    lambda text: _retold(text, "Mia", AT),
    lambda text: _statements(text, "Mia", AT),
)
"""What reads one text."""
TOGETHER: Sequence[Callable[..., object]] = (
    *_unguarded(compare, differing, difference, conflicting_values),
    lambda a, b: _marked(a, [b]),
    lambda a, b: _by_words(a, [b, a]),
)
"""What reads a pair of texts."""


# --- texts and pairs ------------------------------------------------------------------------------


def texts_in(folder: Path) -> list[str]:
    """Return the different texts of a folder's files, sorted."""
    found: set[str] = set()
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".json":
            found.update(_strings(json.loads(file.read_text(encoding="utf-8"))))
        elif file.suffix in (".jsonl", ".txt"):
            lines = filter(str.strip, file.read_text(encoding="utf-8").split("\n"))
            is_json = file.suffix == ".jsonl"
            found.update(*(_strings(json.loads(line) if is_json else line) for line in lines))
    return sorted(filter(_is_text, found))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


def _is_text(text: str) -> bool:
    return len(text) <= _LONGEST and (len(_WORDS.findall(text)) > 1 or has_cjk(text))


def pairs_of(texts: Sequence[str], most: int, seed: int) -> list[tuple[str, str]]:
    """Draw up to `most` pairs of neighbours; each pair follows in both directions."""
    vectors = WordLlamaEmbedder().embed(texts)
    count = min(len(texts) - 1, 2 + most // len(texts))
    found: set[tuple[int, int]] = set()
    for start in range(0, len(texts), _ROWS):
        scores = vectors[start : start + _ROWS] @ vectors.T
        scores[np.arange(len(scores)), np.arange(start, start + len(scores))] = -2.0
        nearest = np.argpartition(scores, -count, axis=1)[:, -count:]
        for row, others in enumerate(nearest.tolist(), start=start):
            found.update((min(row, other), max(row, other)) for other in others)
    drawn = sorted(found)
    random.Random(seed).shuffle(drawn)
    return [
        pair
        for one, other in drawn[: most // 2]
        for pair in ((texts[one], texts[other]), (texts[other], texts[one]))
    ]


# --- what makes a cover suspicious ----------------------------------------------------------------

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|hardly|kein\w*|nicht|nie"
    r"|niemand|ohne|ne|pas|jamais|sin|nunca|nada)\b|n['’]t\b|ない|ません|なかった|なく|ずに|不|没|未",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|now|currently|recently|soon|still|already|yet|ago"
    r"|since|until|till|before|after|during|always|usually|often|sometimes|once|daily|weekly"
    r"|(?:last|next|this|every) (?:week|month|year|night|morning|evening|summer|winter|spring)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|june|july"
    r"|august|september|october|november|december|gestern|heute|morgen|jetzt|bald|seit|bis)\b"
    r"|昨日|今日|明日|今年|去年|来年|先週|今週|来週|先月|今月|来月|毎日|毎週|現在|今天|明天|昨天",
    re.IGNORECASE,
)
_INNER_CAPITAL = re.compile(r"\b\w+?(?<=[a-z0-9])[A-Z]\w*|\b[A-Z]{2,}\w*")
_SIGN = re.compile(r"[^\w\s.,;:!?'\"()\-–—‘’“”„«»…。、！？「」『』・（）]")
_DIGITS = re.compile(r"\d+")

KINDS: Mapping[str, re.Pattern[str]] = {
    "digit": _DIGITS,
    "sign": _SIGN,
    "inner capital": _INNER_CAPITAL,
    "negation": _NEGATION,
    "time word": _TIME,
}


def suspicions(a: str, b: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, "lacks" or "adds") for each way in which `a`, which covers `b`, differs."""
    for kind, pattern in KINDS.items():
        ours, theirs = (
            Counter(
                found if kind == "inner capital" else found.lower()
                for found in pattern.findall(text)
            )
            for text in (a, b)
        )
        if theirs - ours:
            yield kind, "lacks"
        elif ours - theirs:
            yield kind, "adds"


# --- the run --------------------------------------------------------------------------------------


@dataclass
class Found:
    """What a run found. `exceptions` and `covers` have counts; examples hold the texts."""

    texts: int = 0
    pairs: int = 0
    seconds: float = 0.0
    exceptions: Counter[str] = field(default_factory=Counter)
    failing: dict[str, list[Sequence[str]]] = field(default_factory=lambda: defaultdict(list))
    slowest: list[tuple[float, str, str]] = field(default_factory=list)
    """Milliseconds and the pair, slowest first."""
    covers: int = 0
    suspicious: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Sequence[str]]] = field(default_factory=lambda: defaultdict(list))

    def failed(self, what: str, *texts: str) -> None:
        self.exceptions[what] += 1
        if len(self.failing[what]) < _SHOWN:
            self.failing[what].append(texts)


class _Swallowed(logging.Handler):
    """Collects what the boundary still catches, in functions that call guarded ones."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def run(texts: Sequence[str], pairs: Sequence[tuple[str, str]], seconds: float) -> Found:
    found, swallowed = Found(texts=len(texts)), _Swallowed()
    logging.getLogger("memory.text.boundary").addHandler(swallowed)
    for function in TOGETHER:
        _call(Found(), function, "Mia has a cat.", "ミアは猫を飼っている。")  # loads dictionaries
    began = time.monotonic()
    for text in texts:
        for function in ALONE:
            _call(found, function, text)
    gc.disable()  # its pauses are no property of a pair
    for position, (a, b) in enumerate(pairs):
        if time.monotonic() - began > seconds:
            break
        if position % _UNCOLLECTED == 0:
            gc.collect()
        _read_pair(found, a, b)
    gc.enable()
    found.seconds = time.monotonic() - began
    found.slowest = sorted(((_timed_again(a, b), a, b) for _, a, b in found.slowest), reverse=True)
    for line in swallowed.lines:
        found.failed(line)
    logging.getLogger("memory.text.boundary").removeHandler(swallowed)
    return found


def _read_pair(found: Found, a: str, b: str) -> None:
    started = time.thread_time()
    for function in TOGETHER:
        _call(found, function, a, b)
    took = (1000 * (time.thread_time() - started), a, b)
    found.pairs += 1
    if len(found.slowest) < _TIMED_AGAIN:
        heapq.heappush(found.slowest, took)
    else:
        heapq.heappushpop(found.slowest, took)
    if identity(a) != identity(b) and compare(a, b).a_covers_b:
        found.covers += 1
        for kind, how in suspicions(a, b):
            what = f"{how} a {kind}"
            found.suspicious[what] += 1
            if len(found.examples[what]) < _SHOWN:
                found.examples[what].append((a, b))


def _timed_again(a: str, b: str) -> float:
    times = []
    for _ in range(3):  # another process may have slowed one down
        forget()
        started = time.thread_time()
        for function in TOGETHER:
            _call(Found(), function, a, b)
        times.append(1000 * (time.thread_time() - started))
    return min(times)


def _call(found: Found, function: Callable[..., object], *texts: str) -> None:
    try:
        function(*texts)
    except Exception as exc:  # every kind is what this looks for
        last = traceback.extract_tb(exc.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        found.failed(f"{type(exc).__name__} at {place}", *texts)


def show(found: Found) -> None:
    print(
        f"{found.texts:,} texts, {found.pairs:,} pairs (both directions counted) in "
        f"{found.seconds:.0f} s; {sum(found.exceptions.values()):,} exceptions; "
        f"worst pair {found.slowest[0][0] if found.slowest else 0:.0f} ms"
    )
    for what, count in found.exceptions.most_common():
        print(f"\n{what}: {count:,}")
        _print_examples(found.failing[what])
    print("\nslowest pairs")
    for ms, a, b in found.slowest[:_SHOWN]:
        print(f"  {ms:6.1f} ms  {len(a):,} and {len(b):,} characters: {a[:80]!r} / {b[:80]!r}")
    print(f"\n{found.covers:,} covers of a different text; the covering text ...")
    for what, count in found.suspicious.most_common():
        print(f"\n{what}: {count:,}")
        _print_examples(found.examples[what])


def _print_examples(examples: Sequence[Sequence[str]]) -> None:
    for texts in examples:
        print("  " + " / ".join(repr(text[:300]) for text in texts))


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=300_000, help="both directions counted")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    texts = texts_in(options.folder)
    if len(texts) < 2:
        parser.error(f"{options.folder} has fewer than two texts")
    found = run(texts, pairs_of(texts, options.pairs, options.seed), options.seconds)
    if options.json:
        json.dump(found, sys.stdout, default=vars, ensure_ascii=False, indent=1)
    else:
        show(found)
    return 1 if found.exceptions else 0


if __name__ == "__main__":
    sys.exit(main())
