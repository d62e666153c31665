"""Show what deduplication does to examples/memories.jsonl: demo.py [FILE.jsonl].

Name a file to use your own memories. The store stays in the folder `memory-demo`, which the next
run empties; nothing else is changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent / "memories.jsonl"
STORE = Path("memory-demo")
CONFIG = "# made by examples/demo.py\nmemory:\n  data_dir: data\n"
PROGRAMS = {"memory-dedup": "memory", "memory-chat": "orchestrator"}


def main(memories: Path) -> None:
    if not memories.is_file():
        sys.exit(f"error: {memories}: is no file; name one of JSON Lines")
    empty_store()
    run("memory-dedup", "import", "--raw", str(memories), ends=False)  # imports the good lines
    run("memory-chat", "--dedup-dry-run")
    run("memory-chat", "--deduplicate-memories")
    run("memory-chat", "--deduplicate-memories")
    run("memory-dedup", "stats")


def empty_store() -> None:
    """Make the demo's folder; one that is not the demo's is left alone."""
    config = STORE / "config.yaml"
    if STORE.exists() and not (config.is_file() and config.read_text() == CONFIG):
        sys.exit(f"error: {STORE}: is not this demo's folder; move it away")
    STORE.mkdir(exist_ok=True)
    config.write_text(CONFIG)
    shutil.rmtree(STORE / "data", ignore_errors=True)


def run(program: str, *args: str, ends: bool = True) -> None:
    """Show a command and what it says; end where it fails, unless it need not."""
    sys.stdout.write(f"\n$ {program} {' '.join(args)}\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", PROGRAMS[program], "--config", str(STORE / "config.yaml")]
    done = subprocess.run([*command, *args], check=False)
    if done.returncode and ends:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else EXAMPLE)
