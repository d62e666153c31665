"""Whether our pins let others in, and hold at both ends. Needs `uv` (pip install uv).

    python scripts/pins.py neighbours [--python 3.11 3.12 3.13]
    python scripts/pins.py ends [--python 3.11] [TEST ...]

`neighbours` resolves ours, with `openai`, beside each package that people put next to it, at least
at the version named here: without one a resolver quietly takes a release of years ago. `ends`
installs the oldest versions that the pins allow, then the newest, each into an environment of its
own, and runs the tests of the providers and of the agent, or those named.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
NEIGHBOURS = (
    "google-adk>=2.13",
    "strands-agents>=1.62",
    "langchain-google-genai>=4.4",
    "agent-framework>=1.23",
    "pydantic-ai>=2.60",
    "langgraph>=1.0",
    "langchain-openai>=1.0",
    "llama-index-core>=0.14",
    "openai-agents>=0.24",
    "mem0ai>=2.2",
    "dask>=2026.1",
)
ENDS = {"oldest": "lowest-direct", "newest": "highest"}
OURS = ("google-genai=", "mcp=", "openai=")
TESTS = ("tests/providers", "tests/agent")


def uv(*args: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("uv")
    if program is None:
        sys.exit("error: uv is not on the PATH; pip install uv")
    return subprocess.run([program, *args], cwd=ROOT, capture_output=True, text=True, check=False)


# --- beside others --------------------------------------------------------------------------------


def neighbours(pythons: list[str]) -> bool:
    """Print a row a package: the version that each Python gets, or that there is none."""
    print(f"{'package':32}" + "".join(f"{python:>12}" for python in pythons))
    fits = True
    for wanted in NEIGHBOURS:
        found = [resolved(wanted, python) for python in pythons]
        print(f"{wanted:32}" + "".join(f"{version or 'no':>12}" for version in found), flush=True)
        fits = fits and all(found)
    return fits


def resolved(wanted: str, python: str) -> str:
    """The version of a package that can be installed beside ours; empty where none can."""
    name = wanted.partition(">=")[0]
    with tempfile.NamedTemporaryFile("w", suffix=".in") as requirement:
        requirement.write(wanted)
        requirement.flush()
        options = ("--quiet", "--no-header", "--no-annotate", "--python-version", python)
        ours = ("--extra", "openai", "pyproject.toml")
        done = uv("pip", "compile", *options, *ours, requirement.name)
    pins = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)
    return pins.get(name, "")


# --- at both ends ---------------------------------------------------------------------------------


def ends(python: str, tests: list[str]) -> bool:
    """Run the tests with the oldest versions that the pins allow, and with the newest."""
    passed = [passes(end, python, tests) for end in ENDS]
    return all(passed)


def passes(end: str, python: str, tests: list[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="pins-") as folder:
        interpreter = str(Path(folder) / "bin" / "python")
        uv("venv", "--quiet", "--python", python, folder).check_returncode()
        into = ("--quiet", "--python", interpreter, "--resolution", ENDS[end])
        uv("pip", "install", *into, "-e", ".[dev]").check_returncode()
        shown = uv("pip", "freeze", "--python", interpreter).stdout.splitlines()
        ours = ", ".join(line for line in shown if line.startswith(OURS))
        print(f"{end}: {ours}", flush=True)
        done = subprocess.run([interpreter, "-m", "pytest", *tests], cwd=ROOT, check=False)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    beside = commands.add_parser("neighbours")
    beside.add_argument("--python", nargs="+", default=PYTHONS)
    both = commands.add_parser("ends")
    both.add_argument("--python", default=PYTHONS[0])
    both.add_argument("tests", nargs="*", default=TESTS)
    asked = parser.parse_args()
    if asked.command == "neighbours":
        well = neighbours(list(asked.python))
    else:
        well = ends(asked.python, list(asked.tests))
    sys.exit(not well)


if __name__ == "__main__":
    main()
