"""Rate a sample of the memories that the offline model extracts: how many are worth keeping?

A transcript is JSON Lines with user, text, timestamp and conversation. A person gives the ratings.
They are stored under the hash of the memory's text. So the file of ratings holds no text, and a
memory keeps its rating if a later version extracts the same text. The sample has the texts with the
lowest hashes, so that most of it stays the same if the code changes.

y: useful (a third person learns a lasting fact about the person named, and it stands alone)
u: correct but useless (a mood, a courtesy, a remark about nothing in particular)
g: garbled (wrong grammar, wrong person, wrong fact, or unintelligible)
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from memory.interchange import to_turn
from memory.models import Turn
from memory.providers import OfflineModel
from memory.runtime import read_objects

AT_ONCE = 10
"""How many turns of a conversation the model gets in one call, as in the extractor."""
KINDS = {"y": "useful", "u": "correct but useless", "g": "garbled"}


@dataclass(frozen=True)
class Drawn:
    """The number of memories extracted from a transcript, and the texts in the sample."""

    turns: int
    memories: int
    sample: Sequence[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--transcript", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--ratings", type=Path, default=Path(__file__).with_suffix(".ratings.json"))
    parser.add_argument(
        "--rate",
        nargs="?",
        const="-",
        help="read a letter (y, u, g) for each memory that has no rating yet, in the order shown",
    )
    args = parser.parse_args()
    drawn = draw(read(args.transcript), args.sample)
    ratings = load(args.ratings)
    unrated = [text for text in drawn.sample if key(text) not in ratings]
    if args.rate is not None:
        ratings |= rated(unrated, letters(args.rate))
        save(args.ratings, ratings)
    else:
        for number, text in enumerate(unrated, start=1):
            print(f"{number:3} {text}")
    report(drawn, ratings)


def read(path: Path) -> list[Turn]:
    """Read the turns of a transcript.

    Raises: SystemExit if a line is not a turn.
    """
    turns = []
    for number, row in read_objects(path):
        if isinstance(row, ValueError):
            raise SystemExit(f"error: {path}, line {number}: {row}")
        turns.append(to_turn({"conversation": path.stem, **row}))
    return turns


def draw(turns: Sequence[Turn], size: int) -> Drawn:
    """Extract memories from the turns, and draw the `size` texts with the lowest hashes."""
    texts = asyncio.run(extracted(turns))
    return Drawn(len(turns), len(texts), sorted(set(texts), key=key)[:size])


async def extracted(turns: Sequence[Turn]) -> list[str]:
    model, texts = OfflineModel(), []
    for _, said in groupby(turns, lambda turn: turn.conversation):
        conversation = list(said)
        for start in range(0, len(conversation), AT_ONCE):
            extraction = await model.extract(conversation[start : start + AT_ONCE])
            texts += [candidate.content for candidate in extraction.candidates]
    return texts


def key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    ratings: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return ratings


def save(path: Path, ratings: dict[str, str]) -> None:
    path.write_text(json.dumps(dict(sorted(ratings.items())), indent=0) + "\n", encoding="utf-8")


def letters(source: str) -> str:
    text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    return "".join(text.split())


def rated(texts: Sequence[str], given: str) -> dict[str, str]:
    """Return the ratings by key; `given` has one letter for each text.

    Raises: SystemExit if a letter is unknown, or if there are more or fewer letters than texts.
    """
    if len(given) != len(texts) or set(given) - set(KINDS):
        known = ", ".join(KINDS)
        raise SystemExit(f"error: {len(texts)} letters out of {known} are needed, not {len(given)}")
    return {key(text): letter for text, letter in zip(texts, given, strict=True)}


def report(drawn: Drawn, ratings: dict[str, str]) -> None:
    found = Counter(rating(drawn.sample, ratings))
    looked_at = max(1, found.total())
    print(f"{drawn.memories} memories of {drawn.turns} turns; {found.total()} rated")
    for letter, name in KINDS.items():
        print(f"{found[letter]:4} {name} ({found[letter] / looked_at:.0%})")
    useful = found["y"] / looked_at * drawn.memories / max(1, drawn.turns) * 1_000
    print(f"{useful:4.0f} useful memories per 1,000 turns")


def rating(texts: Iterable[str], ratings: dict[str, str]) -> list[str]:
    return [ratings[key(text)] for text in texts if key(text) in ratings]


if __name__ == "__main__":
    main()
