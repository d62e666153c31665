"""What deduplication does, on the memories beside this file or on your own: demo.py [FILE.jsonl].

Works in a temporary folder; nothing of yours is changed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).parent / "memories.jsonl"
PROGRAMS = {"memory-dedup": "memory", "memory-chat": "orchestrator"}


def main(memories: Path) -> None:
    if not memories.is_file():
        sys.exit(f"error: {memories}: is no file; name one of JSON Lines")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.yaml").write_text("memory:\n  data_dir: data\n")
        run(folder, "memory-dedup", "import", "--raw", str(memories), ends=False)  # its good lines
        run(folder, "memory-chat", "--dedup-dry-run")
        run(folder, "memory-chat", "--deduplicate-memories")
        run(folder, "memory-chat", "--deduplicate-memories")
        run(folder, "memory-dedup", "stats")


def run(folder: str, program: str, *args: str, ends: bool = True) -> None:
    """Show a command and what it says; end where it fails, unless it need not."""
    sys.stdout.write(f"\n$ {program} {' '.join(args)}\n")
    sys.stdout.flush()
    done = subprocess.run([sys.executable, "-m", PROGRAMS[program], *args], cwd=folder, check=False)
    if done.returncode and ends:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else EXAMPLE)
