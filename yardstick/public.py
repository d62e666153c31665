"""Run a public board without a language model, and print its rows beside the published ones.

    python -m yardstick.public FILE

FILE holds data of StateBench, ForgetEval (cases), KnowledgeDrift (a world) or BEAM (update
questions with their turns). An innocent victim is a text that nobody replaced or named, which is
gone, although no live memory states it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory import Memories, Memory
from memory.assembly import states
from yardstick.score import Share

Case = Mapping[str, Any]
Verdicts = Iterator[tuple[str, bool]]
"""The name of a row, and whether it happened in one case."""
START = datetime(2026, 1, 1, tzinfo=UTC)
VICTIMS = "innocent victims"
PUBLISHED = {
    "StateBench": {"": "no memory product"},
    "ForgetEval": {
        "passes": "1,000 English cases: LangMem 995, Lethe 993, mem0 888",
        "passes (adversarial)": "385 cases: Lethe with a model 342, mem0 252, LangGraph 242",
        "passes: amnesia": "English: Lethe 98 %, mem0 70 %",
        "passes: purge": "English: Lethe 100 %, mem0 75 %",
        "passes: drift": "English: Lethe 99 %, mem0 100 %",
        "passes: decay": "English: Lethe 100 %, mem0 100 %",
        "passes: supersession": "English: Lethe 100 %, mem0 100 %",
    },
    "KnowledgeDrift": {
        "retrieval": "LangMem 64 %, engram 63 %, mem0 56 %, tf-idf 45 %",
        "currency": "Supermemory 96 %, engram 88 %, mem0 73 %, tf-idf 69 %",
        "temporal": "engram, tf-idf 100 %; mem0 5 %",
        "deletion": "all 100 %",
        "abstention": "engram 98 %; mem0, LangMem, tf-idf 0 %",
    },
    "BEAM": {"": "answers judged by a model only: mem0 65.0 at 1M"},
}


def victims(memories: Memories, user: str, kept: Iterable[Memory]) -> Verdicts:
    """Yield for each text that had to stay whether it is gone and no live memory states it."""
    live = memories.list(user=user)
    texts = {one.content for one in live}
    for one in kept:
        gone = one.content not in texts and not any(states(other, one) for other in live)
        yield VICTIMS, gone


def statebench(memories: Memories, case: Case, user: str) -> Verdicts:
    facts = case["facts"]
    dead = {fact["supersedes"] for fact in facts} - {None}
    current = {fact["text"] for fact in facts if fact["n"] not in dead}
    stored = {
        fact["n"]: memories.remember(
            fact["text"], user=user, at=START + timedelta(minutes=fact["n"])
        ).memory.model_copy(update={"content": fact["text"]})
        for fact in facts
    }
    yield from victims(memories, user, (one for n, one in stored.items() if n not in dead))
    live = {one.content for one in memories.list(user=user)}
    for fact in facts:
        if fact["n"] in dead and fact["text"] not in current:
            yield "superseded facts still live", fact["text"] in live
    for query in case["queries"]:
        found = [one.content for one in memories.recall(query["prompt"], user=user, k=10)]
        for fact in facts:
            if fact["supersedes"] is None or fact["n"] in dead:
                continue
            old, new = stored[fact["supersedes"]].content, fact["text"]
            asked = says(old, query["must_not_mention"]) or says(new, query["must_mention"])
            if asked and old != new:
                yield "superseded fact above the current one", rank(found, old) < rank(found, new)
                yield "current fact first", rank(found, new) == 1


def forgeteval(memories: Memories, case: Case, user: str) -> Verdicts:
    kept: list[Memory] = []
    for step in case["operations"]:
        if step["op"] == "inscribe":
            new = memories.remember(step["text"], user=user).memory
            kept.append(new.model_copy(update={"content": step["text"]}))
        elif step["op"] == "supersede":
            best = memories.recall(step["old_query"], user=user, k=1)
            if best:
                memories.update(best[0].id, step["new"])
            else:
                memories.remember(step["new"], user=user)
        elif step["op"] != "query":
            for one in memories.matching(step["query"], user=user):
                memories.forget(one.id)
    asked = case["operations"][-1]["text"]
    found = texts_of(memories, asked, user, case["k"])
    reached = [
        text
        for probe in case.get("probes", [asked])
        for text in texts_of(memories, probe, user, case["k"])
    ]
    passed = all(says(" ".join(found), [text]) for text in case["must_contain"])
    passed &= not says(" ".join(reached), case["must_not_contain"])
    yield "passes (adversarial)" if "category" in case else "passes", passed
    yield f"passes: {case.get('category', case['family'])}", passed
    innocent = (one for one in kept if not says(one.content, case["must_not_contain"]))
    yield from victims(memories, user, innocent)


def knowledgedrift(memories: Memories, case: Case, user: str) -> Verdicts:
    """Grade titles, in the families that need neither links nor suspicions."""
    stored: dict[str, Memory] = {}
    found: dict[str, list[str]] = {}
    for op in case["ops"]:
        if op["op"] == "recall":
            found[op["id"]] = windowed(memories, op, user)
        else:
            change(memories, op, user, stored)
    for probe in case["probes"]:
        yield from graded(probe, found.get(probe["id"], []), stored)
    removing = (op for op in case["ops"] if op["op"] in ("supersede", "release", "purge"))
    named = {op.get("old", op.get("key")) for op in removing}
    yield from victims(memories, user, (one for key, one in stored.items() if key not in named))


def change(memories: Memories, op: Case, user: str, stored: dict[str, Memory]) -> None:
    if op["op"] == "inscribe":
        record = op["record"]
        at = datetime.fromtimestamp(record["created_at"], UTC)
        new = memories.remember(record["title"], user=user, at=at).memory
        stored[record["key"]] = new.model_copy(update={"content": record["title"]})
    elif op["op"] == "supersede":
        stored[op["new"]["key"]] = memories.update(stored[op["old"]].id, op["new"]["title"])
    elif op["op"] in ("release", "purge"):
        memories.forget(stored[op["key"]].id)
    elif op["op"] == "settle":
        memories.clean()


def windowed(memories: Memories, op: Case, user: str) -> list[str]:
    window = op.get("window") or {}
    since, until = (
        datetime.fromtimestamp(window[end], UTC) if end in window else None
        for end in ("after", "before")
    )
    found = memories.recall(op["query"], user=user, k=op["k"], since=since, until=until)
    return [one.content for one in found]


def graded(probe: Case, hits: list[str], stored: Mapping[str, Memory]) -> Verdicts:
    answered = says(" ".join(hits[:5]), [probe.get("answer", "")])
    if probe["expect"] in ("gold", "windowed"):
        yield probe["family"], answered
    elif probe["expect"] == "current":
        outdated = {stored[key].content for key in probe["retired"]}
        yield "currency", answered and not outdated.intersection(hits)
    elif probe["expect"] == "absent":
        yield "deletion", stored[probe["victim"]].content not in hits
    elif probe["expect"] == "control":
        yield "abstention", not hits


def beam(memories: Memories, case: Case, user: str) -> Verdicts:
    sides = [[turn["text"] for turn in case[name]] for name in ("old_turns", "new_turns")]
    old, new = sides[0], [text for text in sides[1] if text not in sides[0]]
    if not old or not new:
        return
    turns = [*case["other_user_turns"], *case["old_turns"], *case["new_turns"]]
    stored = [
        memories.remember(
            turn["text"][:1500], user=user, at=START + timedelta(minutes=turn["id"])
        ).memory.model_copy(update={"content": turn["text"][:1500]})
        for turn in sorted(turns, key=lambda turn: turn["id"])
        if turn["text"].strip()
    ]
    found = texts_of(memories, case["question"], user, 10)
    first, last = (min(rank(found, text[:1500]) for text in side) for side in (new, old))
    yield "new statement in the first 5", first <= 5
    yield "new statement in the first 10", first <= 10
    yield "old statement above the new one", last < first
    dead = {text[:1500] for text in old}
    yield from victims(memories, user, (one for one in stored if one.content not in dead))


def texts_of(memories: Memories, query: str, user: str, k: int) -> list[str]:
    return [one.content for one in memories.recall(query, user=user, k=k)]


def says(text: str, phrases: Iterable[str]) -> bool:
    return any(phrase.casefold() in text.casefold() for phrase in phrases)


def rank(found: Sequence[str], text: str) -> int:
    return found.index(text) + 1 if text in found else len(found) + 1


Board = Callable[[Memories, Case, str], Verdicts]
BOARDS: dict[str, tuple[str, Board]] = {
    "facts": ("StateBench", statebench),
    "operations": ("ForgetEval", forgeteval),
    "probes": ("KnowledgeDrift", knowledgedrift),
    "old_turns": ("BEAM", beam),
}
"""By a key that only this board's cases have."""


def read(path: Path) -> list[Case]:
    """Read the cases of a file in JSON Lines, or of a file that is one JSON value.

    Raises: OSError; ValueError.
    """
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text)
    except ValueError:
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    cases = found if isinstance(found, list) else [found]
    return [one for one in cases if isinstance(one, dict)]


def report(cases: Sequence[Case]) -> str:
    """Play all cases, each as a user of its own; return a table in Markdown.

    Raises: ValueError if the cases are of no board that is known.
    """
    known = [board for key, board in BOARDS.items() if cases and all(key in one for one in cases)]
    if not known:
        raise ValueError("this is no data of StateBench, ForgetEval, KnowledgeDrift or BEAM")
    name, play = known[0]
    rows: dict[str, Counter[bool]] = defaultdict(Counter)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memories(Path(folder) / "board.db", llm_provider="offline") as memories,
    ):
        for number, case in enumerate(cases):
            for row, happened in play(memories, case, f"user {number}"):
                rows[row][happened] += 1
    lines = [f"| {name}, {len(cases)} cases | ours | published |", "|---|---|---|"]
    for row, seen in sorted(rows.items(), key=lambda one: one[0] == VICTIMS):
        theirs = PUBLISHED[name].get(row, PUBLISHED[name].get("", "-"))
        share = Share(seen[True], seen.total())
        lines.append(f"| {row} | {share} | {'-' if row == VICTIMS else theirs} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1:
        sys.exit("error: give one file; python -m yardstick.public FILE")
    try:
        print(report(read(Path(arguments[0]))))
    except (OSError, ValueError, KeyError) as exc:
        sys.exit(f"error: {arguments[0]} cannot be used ({exc}); give a file of a board's data")


if __name__ == "__main__":
    main(sys.argv[1:])
