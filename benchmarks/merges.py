"""Measure how many faithful merges are accepted, and how many subtly wrong ones.

    python -m benchmarks.merges --merges FILE [--show BELIEF] [--json]
    python -m benchmarks.merges --merges FILE --prompts FOLDER
    python -m benchmarks.merges --merges FILE --answers FOLDER [--json]

`--merges`: JSON Lines with `id`, `members` (each with `content`, `timestamp`, oldest first), `text`
(the merged text), `faithful` (true or false), `kind` (what is wrong with it, empty if nothing) and
`lang`. By default, the program's own check is counted: a merge is believed, refused, or doubtful. A
doubtful merge would go to a second reading by a model. `--show` prints the texts that got the given
answer although another one would be right, or better.

`--prompts` writes what a model would be sent for the second reading of the doubtful merges:
`instruction.txt`, and files `NN.json` with 16 merges each, without labels, in an order that depends
only on their texts. `--answers` reads `NN.answer.json` from that folder as the program reads a
model's answers, and counts the results of both steps. Merges of a file without an answer are left
out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.rows import read_rows
from memory.coverage import Belief
from memory.decide import Part, as_read, checked_part
from memory.models import MOST_READ, Memory, ProposedMerge, Usage
from memory.providers import REREAD, read_rereading, rereading_question

Figures = dict[str, int]


@dataclass(frozen=True)
class Merge:
    """One merged text: its label, and what the program concludes about it (`part`)."""

    faithful: bool
    kind: str
    language: str
    part: Part

    @property
    def group(self) -> str:
        return "faithful" if self.faithful else "corrupted"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--merges", type=Path, required=True)
    parser.add_argument("--show", choices=list(Belief))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--answers", type=Path)
    args = parser.parse_args()
    merges = [measured(row) for row in read_rows(args.merges)]
    if args.prompts:
        write_prompts(merges, args.prompts)
        return
    if args.answers:
        report("after a second reading", read(merges, args.answers), args)
        return
    report("unasked", merges, args)
    alone = [replace(one, part=checked_part(one.part.merge, by_words=True)) for one in merges]
    if not args.json:
        report("where no model reads", alone, args)


def report(how: str, merges: Sequence[Merge], args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(as_json(merges), indent=1))
        return
    print(f"\n{how}\n\n" + "\n".join(tables(merges)))
    if args.show:
        print("\n".join(shown(merges, Belief(args.show))))


def measured(row: dict[str, Any]) -> Merge:
    """Return a row of the file with the result of the program's own check, without a model."""
    members = tuple(
        Memory(
            content=one["content"],
            timestamp=datetime.fromisoformat(one["timestamp"]),
            user=one.get("user"),
        )
        for one in row["members"]
    )
    part = checked_part(ProposedMerge(members, row["text"]))
    return Merge(row["faithful"], row["kind"], row["lang"], part)


# --- the second reading ---------------------------------------------------------------------------


def _batches(merges: Sequence[Merge]) -> Iterator[tuple[str, list[Merge]]]:
    """Yield the doubtful merges in batches of 16, each with the name of its file."""
    doubtful = [one for one in merges if one.part.belief is Belief.DOUBTFUL]
    mixed = sorted(doubtful, key=lambda one: hashlib.sha256(_told(one).encode()).hexdigest())
    for number, start in enumerate(range(0, len(mixed), MOST_READ), start=1):
        yield f"{number:02}", mixed[start : start + MOST_READ]


def _told(merge: Merge) -> str:
    return rereading_question([merge.part.merge])


def write_prompts(merges: Sequence[Merge], folder: Path) -> None:
    """Write to files what a model would be sent, so that it can be answered by other means."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instruction.txt").write_text(REREAD, encoding="utf-8")
    for name, some in _batches(merges):
        question = rereading_question([one.part.merge for one in some])
        (folder / f"{name}.json").write_text(question, encoding="utf-8")


def read(merges: Sequence[Merge], folder: Path) -> list[Merge]:
    """Return the merges after the second reading, whose answers are in `folder`.

    Doubtful merges whose file has no answer are left out.
    """
    settled = [one for one in merges if one.part.belief is not Belief.DOUBTFUL]
    for name, some in _batches(merges):
        answer = folder / f"{name}.answer.json"
        if answer.exists():
            text = answer.read_text(encoding="utf-8")
            readings = read_rereading(text, len(some), Usage()).readings
            settled += [
                replace(one, part=as_read(one.part, reading))
                for one, reading in zip(some, readings, strict=True)
            ]
    return settled


# --- figures --------------------------------------------------------------------------------------


def counted(merges: Sequence[Merge]) -> Figures:
    """Return the number of merges with each answer."""
    found = Counter(merge.part.belief for merge in merges)
    return {belief.value: found[belief] for belief in Belief}


def as_json(merges: Sequence[Merge]) -> dict[str, Any]:
    """Return figures of faithful and corrupted merges, by what is wrong and by language."""
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
    """Yield the figures as Markdown tables: all merges, by language, and by what is wrong."""
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
    """Yield lines about merges that got the answer `belief` although another one is better."""
    for merge in merges:
        if merge.part.belief is belief and merge.faithful != (belief is Belief.BELIEVED):
            yield f"\n{merge.language} {merge.kind}: {merge.part.merge.text}"
            yield from (f"  - {member.content}" for member in merge.part.merge.members)
            yield f"  {merge.part.reason}".rstrip()


if __name__ == "__main__":
    main()
