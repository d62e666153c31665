"""How many faithful merges are believed, and how many subtly wrong ones: by the words alone.

    python -m benchmarks.merges --merges FILE [--show BELIEF] [--json]

`--merges`: JSON Lines with `members` (each with `content`, oldest first), `text` (the merged text),
`faithful` (true or false), `kind` (what is wrong with it, empty where nothing is) and `lang`. Each
text is verified as a judge's answer is. Believed is applied; doubtful goes to a second reading,
which is not part of this; refused is told to the judge. `--show` prints the faithful texts of one
answer with their reason, `believed` the corrupted ones instead.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rows import read_rows
from memory.text import Belief, Verification, verify

Figures = dict[str, int]


@dataclass(frozen=True)
class Merge:
    """One merged text, what it was made of, and what its words tell about it."""

    text: str
    sources: tuple[str, ...]
    faithful: bool
    kind: str
    language: str
    verification: Verification

    @property
    def group(self) -> str:
        return "faithful" if self.faithful else "corrupted"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--merges", type=Path, required=True)
    parser.add_argument("--show", choices=list(Belief))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    merges = [measured(row) for row in read_rows(args.merges)]
    if args.json:
        print(json.dumps(as_json(merges), indent=1))
        return
    print("\n".join(tables(merges)))
    if args.show:
        print("\n".join(shown(merges, Belief(args.show))))


def measured(row: dict[str, Any]) -> Merge:
    """A row of the file, verified."""
    sources = tuple(member["content"] for member in row["members"])
    return Merge(
        row["text"],
        sources,
        row["faithful"],
        row["kind"],
        row["lang"],
        verify(row["text"], sources),
    )


def counted(merges: Sequence[Merge]) -> Figures:
    """How many have each answer."""
    found = Counter(merge.verification.belief for merge in merges)
    return {belief.value: found[belief] for belief in Belief}


def as_json(merges: Sequence[Merge]) -> dict[str, Any]:
    """Faithful and corrupted; the corrupted by kind; both by language."""
    wrong = [merge for merge in merges if not merge.faithful]
    return {
        "faithful": counted([merge for merge in merges if merge.faithful]),
        "corrupted": counted(wrong),
        "by_kind": _grouped(wrong, lambda merge: merge.kind),
        "by_language": {
            language: _grouped(some, lambda merge: merge.group)
            for language, some in _parted(merges, lambda merge: merge.language)
        },
    }


def _grouped(merges: Sequence[Merge], key: Callable[[Merge], str]) -> dict[str, Figures]:
    return {name: counted(some) for name, some in _parted(merges, key)}


def _parted(
    merges: Sequence[Merge], key: Callable[[Merge], str]
) -> Iterator[tuple[str, list[Merge]]]:
    for name in sorted({key(merge) for merge in merges}):
        yield name, [merge for merge in merges if key(merge) == name]


def tables(merges: Sequence[Merge]) -> Iterator[str]:
    """Markdown: everything, then by language, then what is wrong."""
    yield "| | merges | believed | doubtful | refused |"
    yield "|---|---|---|---|---|"
    for group, some in _parted(merges, lambda merge: merge.group):
        yield _line(group, some)
        for language, told in _parted(some, lambda merge: merge.language):
            yield _line(f"{group}, {language}", told)
    for kind, some in _parted([m for m in merges if not m.faithful], lambda merge: merge.kind):
        yield _line(kind, some)


def _line(name: str, merges: Sequence[Merge]) -> str:
    shares = [f"{n} ({n / len(merges):.1%})" for n in counted(merges).values()]
    return f"| {name} | {len(merges)} | {' | '.join(shares)} |"


def shown(merges: Sequence[Merge], belief: Belief) -> Iterator[str]:
    """The texts for which this is the wrong answer, or not the best one."""
    for merge in merges:
        if merge.verification.belief is belief and merge.faithful != (belief is Belief.BELIEVED):
            yield f"\n{merge.language} {merge.kind}: {merge.text}"
            yield from (f"  - {source}" for source in merge.sources)
            yield f"  {merge.verification.reason}".rstrip()


if __name__ == "__main__":
    main()
