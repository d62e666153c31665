"""What twenty people tell mem0, the same things in several wordings, and its round through us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DRIVER = Path(__file__).with_name("mem0_driver.py")
_DOES = ("waters the roses", "repairs old clocks", "bakes rye bread", "paints fishing boats",
         "feeds the herons", "teaches the violin")  # fmt: skip
_WHEN = ("every Monday", "on Tuesday evenings", "in the spring", "before breakfast", "in Porto")
_AT_ONCE = 10


@dataclass(frozen=True)
class Round:
    """mem0 before, after and after the undo, as it answers itself, and what each step took."""

    before: dict[str, Any]
    after: dict[str, Any]
    undone: dict[str, Any]
    live: dict[str, list[str]]
    """The texts that our store holds of each user after the clean-up."""
    said: dict[str, str]
    """What each step printed."""
    seconds: dict[str, float] = field(default_factory=dict)


def script(users: int, memories: int) -> list[tuple[str, list[str]]]:
    """Talks, each what one user tells; all users say the same words."""
    each = memories // users
    talks: list[tuple[str, list[str]]] = []
    for number in range(users):
        told = [text for fact in range(each) for text in _wordings(fact)][:each]
        for start in range(0, each, _AT_ONCE):
            talks.append((f"user-{number}", told[start : start + _AT_ONCE]))
    return talks


def _wordings(fact: int) -> tuple[str, ...]:
    does, when = _DOES[fact % len(_DOES)], _WHEN[fact // len(_DOES) % len(_WHEN)]
    base = f"The user {does} {when}"
    return (
        f"{base}.",
        f"{base.lower()}",
        f"{base} with a friend from work.",
        f"{base}. The neighbours like it.",
    )


def go_round(
    folder: Path, port: int, talks: Sequence[tuple[str, list[str]]], backend: str = "chroma"
) -> Round:
    """Made by mem0, audited, imported, cleaned, written back, taken back; mem0 asked in between.

    The backend is one in a folder, or an address.
    """
    seconds: dict[str, float] = {}
    said: dict[str, str] = {}
    users = sorted({user for user, _ in talks})
    (folder / "script.json").write_text(json.dumps(talks))
    (folder / "config.yaml").write_text("memory:\n  data_dir: data\n")

    def step(name: str, *command: str) -> str:
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seconds[name] = time.perf_counter() - started
        said[name] = done.stdout + done.stderr
        return done.stdout

    def mem0(name: str, *rest: str) -> str:
        return step(name, str(DRIVER), name.split()[0], backend, "theirs", str(port), *rest)

    def ours(*command: str) -> str:
        return step(command[0], "-m", "memory", *command)

    (folder / "theirs").mkdir()
    place = backend if "://" in backend else "theirs"
    mem0("make", "script.json")
    before = json.loads(mem0("look", *users))
    ours("audit", "--from-mem0", place, "--trust", "--groups", "3")
    ours("import", "--raw", "--from-mem0", place, "--trust")
    step("clean", "-m", "orchestrator", "--deduplicate-memories")
    live: dict[str, list[str]] = {user: [] for user in users}
    for line in ours("export").splitlines():
        live[json.loads(line)["user"]].append(json.loads(line)["content"])
    embedder = "tests.frameworks.word_server:WordEmbedder"
    ours("write-back", "--to-mem0", place, "--trust", "--embedder", embedder, "--yes")
    after = json.loads(mem0("look after", *users))
    step("undo", "-m", "memory", "write-back", "--trust", "--undo", "mem0.undo-1.jsonl")
    undone = json.loads(mem0("look undone", *users))
    return Round(before, after, undone, live, said, seconds)
