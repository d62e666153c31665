"""Measure what the report of a large audit costs: CPU time, and size on disk.

    python -m benchmarks.reporting [--groups 20000] [--rounds 3] [--json] [--keep FOLDER]

A store is filled with invented memories so that an audit finds about `--groups` groups. Each person
has four facts of different kinds. Each fact is stated two or three times: as a copy, with an
addition, or with another number. An audit without and one with `--report FILE.html` run in turn,
each as a command in its own process. Seconds are CPU seconds from the start of a process to its
end; the ratio is that of their medians.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from memory.assembly import open_store
from memory.config import Config, LLMConfig, MemoryConfig
from memory.models import Memory
from memory.store import utc_now

KINDS = (
    ("pet", "{who} has a {a} cat called {b} and {n} goldfish"),
    ("sport", "{who} runs {n} kilometres along the {a} river with {b} on Sundays"),
    ("work", "{who} repairs {a} machines for a company in {b} with {n} colleagues"),
    ("food", "{who} cooks {a} soup from a recipe of {b} for {n} guests"),
)
"""The kinds of facts about a person, so different that an audit never groups two kinds."""
ADDITION = " near the old harbour"
WORDS = "amber birch coral delta ember fjord grape hazel ivory jade kelp linen maple nutmeg".split()
NAMES = "Anna Bela Cleo Dora Emil Fynn Gita Hugo Ines Jona Kian Lena Mika Nora Odin Pia".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="Leave the store and the report here.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-reporting-") as scratch:
        result = measure(args.keep or Path(scratch), args.groups, args.rounds)
    lines = (f"{name:>16}: {value}" for name, value in result.items())
    print(json.dumps(result) if args.json else "\n".join(lines))


def measure(folder: Path, groups: int, rounds: int) -> dict[str, Any]:
    """Return the CPU seconds of audits without and with a report, and the size of the report."""
    config = Config(memory=MemoryConfig(data_dir=str(folder)), llm=LLMConfig(provider="offline"))
    with open_store(config) as store:
        if not store.counts().live:
            store.add_batch(list(memories(groups)))
        held = store.counts().live
    page = folder / "report.html"
    plain, reported = [], []
    for _ in range(rounds):
        plain.append(seconds(folder, "audit"))
        reported.append(seconds(folder, "audit", "--report", str(page)))
    return {
        "memories": held,
        "audit_s": round(median(plain), 2),
        "with_report_s": round(median(reported), 2),
        "ratio": round(median(reported) / median(plain), 2),
        "megabytes": round(page.stat().st_size / 1e6, 1),
    }


def seconds(folder: Path, *command: str) -> float:
    """Return the CPU seconds that a command takes from its start to its end."""
    environment = os.environ | {"MEMORY_DATA_DIR": str(folder), "MEMORY_LLM_PROVIDER": "offline"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "memory", *command],
        env=environment, cwd=folder, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memories(groups: int) -> Iterator[Memory]:
    """Yield memories that state each fact two or three times, with the same texts at every call."""
    rng = random.Random(15)
    at = utc_now()
    for group in range(groups):
        person, kind = divmod(group, len(KINDS))
        who = f"{NAMES[person % len(NAMES)]} {person}"
        told = {"who": who.split()[0], "a": rng.choice(WORDS), "b": rng.choice(NAMES)}
        said = KINDS[kind][1].format(**told, n=rng.randint(2, 9))
        again = [said + ".", said + ADDITION + ".", said.replace(" and ", " und ")]
        other = KINDS[kind][1].format(**told, n=rng.randint(10, 99)) + "."
        texts = [said, rng.choice([*again, other]), *rng.choice([[], [other]])]
        for text in texts:
            at += timedelta(seconds=1)
            yield Memory(content=text, user=who, timestamp=at - timedelta(days=30))


if __name__ == "__main__":
    main()
