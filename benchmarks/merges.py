"""How many faithful merges are accepted, and how many subtly wrong ones: unasked, and when read.

    python -m benchmarks.merges --merges FILE [--show BELIEF] [--json]
    python -m benchmarks.merges --merges FILE --prompts FOLDER
    python -m benchmarks.merges --merges FILE --answers FOLDER [--json]

`--merges`: JSON Lines with `id`, `members` (each with `content`, `timestamp`, oldest first), `text`
(the merged text), `faithful` (true or false), `kind` (what is wrong with it, empty where nothing
is) and `lang`. Without more: what the program says unasked (believed, refused; doubtful goes to a
second reading), and where no model reads at all. `--show` prints the texts with one answer that
is the wrong one, or not the best.

`--prompts` writes what a second reading is sent about the doubtful ones: `instruction.txt` and
`NN.json`, 16 merges each, in an order that depends on their texts alone, with no label. `--answers`
reads `NN.answer.json` of that folder as a model's answer is read, and counts what comes of both
steps. A file without an answer is left out.
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
from memory.decide import Part, as_read, checked
from memory.models import MOST_READ, Memory, ProposedMerge, Usage
from memory.providers import REREAD, read_rereading, rereading_question

Figures = dict[str, int]


@dataclass(frozen=True)
class Merge:
    """One merged text, and what is held of it."""

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
    alone = [replace(one, part=checked(one.part.merge, by_words=True)) for one in merges]
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
    """A row of the file, as far as the program tells unasked."""
    members = tuple(
        Memory(
            content=one["content"],
            timestamp=datetime.fromisoformat(one["timestamp"]),
            user=one.get("user"),
        )
        for one in row["members"]
    )
    part = checked(ProposedMerge(members, row["text"]))
    return Merge(row["faithful"], row["kind"], row["lang"], part)


# --- the second reading ---------------------------------------------------------------------------


def _batches(merges: Sequence[Merge]) -> Iterator[tuple[str, list[Merge]]]:
    """The doubtful ones, 16 at a time, each batch with the name of its file."""
    doubtful = [one for one in merges if one.part.belief is Belief.DOUBTFUL]
    mixed = sorted(doubtful, key=lambda one: hashlib.sha256(_told(one).encode()).hexdigest())
    for number, start in enumerate(range(0, len(mixed), MOST_READ), start=1):
        yield f"{number:02}", mixed[start : start + MOST_READ]


def _told(merge: Merge) -> str:
    return rereading_question([merge.part.merge])


def write_prompts(merges: Sequence[Merge], folder: Path) -> None:
    """What a model is sent, for somebody to answer in its place."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instruction.txt").write_text(REREAD, encoding="utf-8")
    for name, some in _batches(merges):
        question = rereading_question([one.part.merge for one in some])
        (folder / f"{name}.json").write_text(question, encoding="utf-8")


def read(merges: Sequence[Merge], folder: Path) -> list[Merge]:
    """The merges with what became of them; those whose file has no answer are left out."""
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
    """How many have each answer."""
    found = Counter(merge.part.belief for merge in merges)
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
        if merge.part.belief is belief and merge.faithful != (belief is Belief.BELIEVED):
            yield f"\n{merge.language} {merge.kind}: {merge.part.merge.text}"
            yield from (f"  - {member.content}" for member in merge.part.merge.members)
            yield f"  {merge.part.reason}".rstrip()


if __name__ == "__main__":
    main()
