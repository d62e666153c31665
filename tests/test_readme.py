"""What the README shows works as shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
OFFLINE = {k: v for k, v in os.environ.items() if k not in ("GEMINI_API_KEY", "GOOGLE_API_KEY")}


def run(folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=OFFLINE | {"PYTHONPATH": str(ROOT), "MEMORY_DATA_DIR": str(folder / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_hook_takes_ten_lines_and_remembers(tmp_path: Path) -> None:
    [hook] = [block for block in PYTHON if "build_extractor" in block]
    body = hook.partition("config = load_config()")[2]
    assert len(body.strip().splitlines()) <= 10
    assert run(tmp_path, "-c", hook).splitlines() == ["['Mia moved to Porto in 2021.']"] * 2


def test_the_deduplicator_snippet_keeps_the_memory(tmp_path: Path) -> None:
    [snippet] = [block for block in PYTHON if "check_and_merge" in block]
    assert run(tmp_path, "-c", snippet).endswith(" Mia has a tabby cat named Pepper.\n")


def test_the_demo_shows_something_and_ends_with_nothing_left_to_do(tmp_path: Path) -> None:
    shown = run(tmp_path, str(ROOT / "examples" / "demo.py"))
    assert 'differs  "12" / "21"' in shown
    first, second = re.findall(r"memories after +(\d+)\ndecisions +(.*)\n", shown)
    assert second == (first[0], "none")
    printed = re.search(r"memories after +(\d+)", README)
    assert printed is not None
    assert printed[1] == first[0], "the README prints the number that the demo prints"


COMMANDS = re.findall(r"\b(memory-dedup|memory-chat)((?: [a-z]+)?)((?: [^\n#`;]*)?)", SHELL)


@pytest.mark.parametrize(("program", "command", "rest"), COMMANDS)
def test_every_option_shown_exists(program: str, command: str, rest: str) -> None:
    module = {"memory-dedup": "memory", "memory-chat": "orchestrator"}[program]
    args = [command.strip()] if module == "memory" and command.strip() else []
    help_text = run(ROOT, "-m", module, *args, "--help")
    options = re.findall(r"--[a-z-]+", rest)
    assert all(option in help_text for option in options)


def test_every_command_is_documented() -> None:
    help_text = run(ROOT, "-m", "memory", "--help")
    commands = re.findall(r"^  ([a-z]+) ", help_text.partition("Commands:")[2], re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        assert f"memory-dedup {command}" in README
