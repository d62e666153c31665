"""Measure what each rule of the offline extraction contributes: which memories change without it.

    python -m benchmarks.ablation_offline TRANSCRIPT.jsonl ... [--show RULE]

Each pattern and each word list of the offline model is switched off, one at a time: the pattern
then matches nothing, or the list is empty. The table counts the memories that are lost without the
rule and those that are new, by the ratings of `benchmarks.extraction`: useful (y), useless (u),
garbled (g), not rated yet (?). A rule is worth keeping if useful memories are lost without it, or
if useless or garbled ones are new.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from benchmarks.extraction import extracted, key, load, read
from memory.models import Turn

MODULES = [import_module(f"memory.text.{name}") for name in ("statements", "retelling", "worth")]
NEVER = re.compile(r"(?!)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("transcripts", type=Path, nargs="+")
    parser.add_argument("--show", default="", help="print the memories that come and go with it")
    args = parser.parse_args()
    turns = [turn for path in args.transcripts for turn in read(path)]
    ratings = load(Path(__file__).with_name("extraction.ratings.json"))
    base = Counter(asyncio.run(extracted(turns)))
    print(f"{len(turns)} turns, {base.total()} memories: {rated(base, ratings)}")
    for name, module, attribute in rules():
        if args.show in ("", name):
            without = memories_without(module, attribute, turns)
            lost, new = base - without, without - base
            print(f"{name:45} lost {rated(lost, ratings):22} new {rated(new, ratings)}")
            if args.show:
                print(*(f"- {text}" for text in sorted(lost)), sep="\n")
                print(*(f"+ {text}" for text in sorted(new)), sep="\n")


def rules() -> Iterator[tuple[str, ModuleType, str]]:
    """Yield the name of each pattern and word list, its module, and its attribute there."""
    for module in MODULES:
        for attribute, value in [*vars(module).items()]:
            if isinstance(value, re.Pattern | frozenset):
                yield f"{module.__name__.rpartition('.')[2]}.{attribute}", module, attribute


def memories_without(module: ModuleType, attribute: str, turns: Sequence[Turn]) -> Counter[str]:
    with switched_off(module, attribute):
        return Counter(asyncio.run(extracted(turns)))


@contextmanager
def switched_off(module: ModuleType, attribute: str) -> Iterator[None]:
    rule = getattr(module, attribute)
    setattr(module, attribute, NEVER if isinstance(rule, re.Pattern) else frozenset())
    try:
        yield
    finally:
        setattr(module, attribute, rule)


def rated(texts: Counter[str], ratings: dict[str, str]) -> str:
    """Return the number of texts with each rating, in the form `y 3, u 1, g 0, ? 2`."""
    found = Counter(ratings.get(key(text), "?") for text in texts.elements())
    return ", ".join(f"{letter} {found[letter]}" for letter in "yug?")


if __name__ == "__main__":
    main()
