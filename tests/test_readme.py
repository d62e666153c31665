"""What the pages show works as shown, and what there is to know stands on them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory.config import Config
from tests import commands

ROOT = Path(__file__).parent.parent
FILES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}
PYTHON = {
    f"{page} {number}": block
    for page, text in PAGES.items()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), start=1)
}
SHELL = "\n".join(
    block for text in PAGES.values() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
)
OFFLINE = {k: v for k, v in os.environ.items() if k not in ("GEMINI_API_KEY", "GOOGLE_API_KEY")}
MODULE_OF = {"memory-dedup": "memory", "memory-chat": "orchestrator"}


def run(folder: Path, *args: str) -> str:
    done = subprocess.run(
        [commands.python(), *args],
        cwd=folder,
        env=OFFLINE | {"PYTHONPATH": str(ROOT), "MEMORY_DATA_DIR": str(folder / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- snippets -------------------------------------------------------------------------------------

DAY = r"\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d\]"
SAYS = {
    "README.md 1": rf"{DAY} Mia has a black cat\.\n",
    "README.md 2": rf"\['{DAY} Mia moved to Porto in 2021\.'\]\n",
    "docs/library.md 1": (
        r"add nothing similar mem_[0-9a-f]{12} Mia has a black cat\.\n"
        rf"\['{DAY} Mia has a black cat\.'\]\n"
        r"\['Mia has a black cat\.'\]\n1 erased for good\n"
    ),
    "docs/library.md 2": r"mem_[0-9a-f]{12} Mia has a black cat named Pepper\.\n",
    "docs/library.md 3": (
        r"Mia has two cats\.\n\['Mia has two cats\.'\]\n\['add', 'update'\]\n"
        r"\['Mia has a cat\.'\]\n"
    ),
    "docs/library.md 4": r"Mia has a cat\. \(1,\) \(2,\)\nMia has no cat\. \(\) \(0,\)\n",
    "docs/tool-reference.md 1": r"A thought worth keeping\.\nTrue Saved \(id: mem_(.|\n)*",
}
"""What the snippets print, by page and number."""


@pytest.mark.parametrize("snippet", PYTHON)
def test_a_snippet_runs_offline_and_prints_what_it_should(snippet: str, tmp_path: Path) -> None:
    said = run(tmp_path, "-c", PYTHON[snippet])
    assert re.fullmatch(SAYS.get(snippet, r"(.|\n)*"), said), said


def test_the_command_line_continues_the_first_program(tmp_path: Path) -> None:
    run(tmp_path, "-c", PYTHON["README.md 1"])
    [block] = re.findall(r"export (MEMORY_LEDGER_URL)=(\S+).*\n((?:memory-dedup.*\n)+)", SHELL)
    name, url, lines = block
    told = [
        commands.run("memory", *shlex.split(line)[1:], cwd=tmp_path, env=OFFLINE | {name: url})
        for line in lines.splitlines()
    ]
    remembered, recalled, cleaned = (done.stdout for done in told)
    assert remembered.startswith("add: nothing similar\n")
    assert told[0].stderr == "stored in mia.db\n"
    assert "Mia has a dog.\n" in recalled
    assert "Mia has a black cat.\n" in recalled
    assert re.search(r"memories +2\n(.|\n)*nothing changed", cleaned)


def test_the_index_of_the_example_is_searched(tmp_path: Path) -> None:
    said = run(tmp_path, str(ROOT / "examples" / "own_index.py"))
    assert said == "brute force: Mia has a cat.\n"


@pytest.mark.parametrize(("number", "most"), [(1, 6), (2, 12)], ids=["script", "bot"])
def test_the_first_program_takes_few_lines(number: int, most: int) -> None:
    lines = PYTHON[f"README.md {number}"].splitlines()
    assert sum(bool(line.strip()) for line in lines) <= most


def without_ids(shown: str) -> str:
    return re.sub(r"mem_[0-9a-f]{12}", "mem_", shown)


def test_the_demo_shows_something_and_ends_with_nothing_left_to_do(tmp_path: Path) -> None:
    shown = run(tmp_path, str(ROOT / "examples" / "demo.py"))
    [group] = re.findall(r"```\n(group \d+/.*?)```", PAGES["README.md"], re.DOTALL)
    assert without_ids(group) in without_ids(shown)
    first, second = re.findall(r"memories after +(\d+)\ndecisions +(.*)\n", shown)
    assert second == (first[0], "none")
    assert f"({first[0]} stay)" in PAGES["README.md"], "the README prints what the demo prints"


# --- commands and options -------------------------------------------------------------------------


def options_shown() -> dict[tuple[str, str], set[str]]:
    """The options of each program and command in the pages' shell blocks."""
    found: dict[tuple[str, str], set[str]] = {}
    shown = re.findall(r"\b(memory-dedup|memory-chat)((?: [a-z][a-z-]*)?)((?: [^\n`;|]*)?)", SHELL)
    for program, command, rest in shown:
        name = command.strip() if program == "memory-dedup" else ""
        if name == "store":
            part, _, rest = rest.strip().partition(" ")
            name = f"store {part}"
        options = re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)
        found.setdefault((program, name), set()).update(options)
    return found


def help_of(program: str, command: str) -> str:
    args = (*command.split(), "--help")
    return commands.run(MODULE_OF[program], *args, cwd=ROOT, env=OFFLINE).stdout


SHOWN = options_shown()


@pytest.mark.parametrize(("program", "command"), SHOWN, ids=map(" ".join, SHOWN))
def test_every_option_shown_exists_and_every_option_is_shown(program: str, command: str) -> None:
    options = re.findall(r"^  (?:-\w, )?(--?[a-z-]+)", help_of(program, command), re.MULTILINE)
    everywhere = set(re.findall(r"`(--[a-z]+)[ `]", PAGES["docs/commands.md"].split("##")[0]))
    assert everywhere == {"--config", "--debug", "--version", "--help"}
    assert SHOWN[program, command] <= {*options}
    assert {*options} <= SHOWN[program, command] | everywhere


def listed_in(group: str) -> list[str]:
    told = help_of("memory-dedup", group).partition("Commands:")[2]
    return re.findall(r"^  ([a-z-]+) ", told, re.MULTILINE)


def test_every_command_is_documented() -> None:
    listed = [*listed_in(""), *(f"store {name}" for name in listed_in("store"))]
    listed.remove("store")
    assert len(listed_in("")) <= 16
    assert set(listed) == {command for program, command in SHOWN if program == "memory-dedup"}
    assert all(f"memory-dedup {command}" in PAGES["docs/commands.md"] for command in listed)


# --- keys and links -------------------------------------------------------------------------------


def keys_of(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{above}{name}.")
        else:
            yield above + name, value


def test_every_key_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", PAGES["docs/configuration.md"], re.MULTILINE)
    shown = {key: yaml.safe_load(default) for key, default in rows}
    assert shown == dict(keys_of(Config().model_dump(mode="json")))


def slug(heading: str) -> str:
    """The name of a heading in a link, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(((?!https?:)[^)\s]+)\)", PAGES[page]):
        name, _, heading = target.partition("#")
        file = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert file.exists(), target
        if heading:
            text = file.read_text(encoding="utf-8")
            assert heading in map(slug, re.findall(r"^#+ (.*)$", text, re.MULTILINE)), target
