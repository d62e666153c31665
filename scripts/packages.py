"""Build the sdist and the wheel, try the wheel, and resolve three frameworks beside the core.

    python scripts/packages.py

It needs `uv` on the path, and a package registry.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CROWDED_OUT = ("crewai", "semantic-kernel", "langchain-mcp-adapters")
"""Frameworks whose releases need `mcp` below 2, which the core must not need."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="memory-packages-") as scratch:
        folder = Path(scratch)
        wheel = build(folder)
        try_out(wheel, folder)
        resolve_beside(wheel)


def build(folder: Path) -> Path:
    """Return the wheel; the sdist builds one with the same files."""
    run("uv", "build", "-q", "--sdist", "--wheel", "--out-dir", str(folder / "tree"), str(ROOT))
    [sdist] = (folder / "tree").glob("*.tar.gz")
    [wheel] = (folder / "tree").glob("*.whl")
    run("uv", "build", "-q", "--wheel", "--out-dir", str(folder / "sdist"), str(sdist))
    [again] = (folder / "sdist").glob("*.whl")
    if contents(wheel) != contents(again):
        raise SystemExit(f"{sdist.name} builds another wheel than the checkout")
    print(f"{wheel.name}: {len(contents(wheel))} files, the same from {sdist.name}")
    return wheel


def contents(wheel: Path) -> dict[str, int]:
    """Each file with its checksum."""
    with zipfile.ZipFile(wheel) as opened:
        return {one.filename: one.CRC for one in opened.infolist()}


def try_out(wheel: Path, folder: Path) -> None:
    """Install the wheel anew, and do its main job without a key, far from the checkout."""
    run("uv", "venv", "-q", str(folder / "env"))
    python = folder / "env" / "bin" / "python"
    run("uv", "pip", "install", "-q", "--python", str(python), str(wheel))
    memories = ROOT / "examples" / "memories.jsonl"
    command = str(folder / "env" / "bin" / "memory-dedup")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "MEMORY_DATA_DIR": str(folder / "data")}
    for args in (["import", "--raw", str(memories)], ["audit"], ["dedup"], ["stats"]):
        done = subprocess.run(
            [command, *args], cwd=folder, env=env, check=True, capture_output=True, text=True
        )
    print(f"installed and run: {' '.join(done.stdout.split())[:60]}")


def resolve_beside(wheel: Path) -> None:
    """Raises: SystemExit where the core holds the newest release of a framework back."""
    for name in CROWDED_OUT:
        newest, beside = (version_in(name, [*more, name]) for more in ([], [str(wheel)]))
        if newest != beside:
            raise SystemExit(f"{name} {newest} does not resolve beside the core, {beside} does")
        print(f"{name} {newest} resolves beside the core")


def version_in(name: str, wanted: list[str]) -> str:
    """Return the version of a package that a resolver chooses for these requirements."""
    compiled = subprocess.run(
        ["uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "-"],
        input="\n".join(wanted), check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.search(rf"^{name}==(\S+)", compiled, re.MULTILINE)
    return found[1] if found else "no release"


def run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
