"""What works without the optional libraries, and what an error says about the others."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memory.errors import ConfigError, install_hint, installed
from tests.agent.driving import environment

ROOT = Path(__file__).parent.parent
BLOCKED = """
import sys
sys.modules |= dict.fromkeys(["starlette", "uvicorn", "jinja2"])
import memory.cli
def run(*args):
    sys.argv = ["memory-dedup", *args]
    try:
        memory.cli.main()
    except SystemExit as end:
        return end.code
"""
COMMANDS = (
    ("import", "--raw", "memories.jsonl"),
    ("audit", "--report", "audit.html"),
    ("clean",),
    ("history", "--report", "history.md"),
    ("store", "stats"),
    ("doctor",),
)


def blocked(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        cwd=folder, env=environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_all_but_the_servers_works_without_their_libraries(tmp_path: Path) -> None:
    texts = ("Mia has a cat.", "Mia has a cat!", "Mia rows.")
    lines = [json.dumps({"content": text, "user": "Mia", "timestamp": 0}) for text in texts]
    (tmp_path / "memories.jsonl").write_text("\n".join(lines))
    done = blocked(
        tmp_path,
        f"print([run(*command) for command in {COMMANDS!r}], file=sys.stderr)\n"
        "print(run('review', '--no-browser'), file=sys.stderr)\n",
    )
    *_, codes, error, status = done.stderr.splitlines()
    assert codes == str([0] * len(COMMANDS)), done.stderr
    assert "1 group of near-copies" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert (error, status) == (
        "error: memory-dedup review: starlette is not installed; pip install '.[web]', "
        "or outside a clone: pip install starlette uvicorn",
        "1",
    )


@pytest.mark.parametrize("extra", ["web", "agent", "openai", "postgres", "qdrant", "dask"])
def test_a_hint_names_the_packages_of_its_extra(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {one.partition(">")[0] for one in project["optional-dependencies"][extra]}
    named = install_hint(extra).rpartition("pip install ")[2].replace("'", "")
    assert set(named.split()) == wanted


def test_the_error_about_a_missing_library_says_what_to_install() -> None:
    with (
        pytest.raises(ConfigError, match=r"^--dask: no_such_library is not installed; pip install"),
        installed("dask", "--dask"),
    ):
        import no_such_library  # type: ignore[import-not-found]  # noqa: F401
