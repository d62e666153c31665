"""`python -m tests.upkeep.killed_commands FOLDER STEP COMMAND -- NEXT`: commands that are killed.

The command runs in the folder, and is killed at its first look at a file, then at the one `STEP`
later, and so on, until one survives; after each, the next commands run there (several are parted by
`--`). A line of JSON for each kill: how the next ones ended, what they said, and which files are
there then. A point is a file that is opened, renamed or deleted, a folder that is made, or an SQL
statement.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from itertools import count
from pathlib import Path

import sqlalchemy as sa

import memory.assembly
import memory.search
import memory.store
import memory.upkeep
import tests.doubles  # noqa: F401 - loaded once, not by each command
from memory.cli import main as run_command

_POINTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}


def _run(arguments: list[str], said: Path) -> None:
    """Run a command as a process would, and end with its exit code."""
    sys.argv = ["memory-dedup", "--config", "config.yaml", *arguments]
    with said.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    try:
        run_command()
    except SystemExit as exc:
        sys.stdout.flush()
        os._exit(exc.code if isinstance(exc.code, int) else 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def _kill_at(number: int, folder: Path) -> None:
    """Have this process killed at its point of this number."""
    left = number

    def one_more() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event in _POINTS and str(arguments[0]).find(folder.name) >= 0:
            one_more()

    sys.addaudithook(audit)
    sa.event.listen(sa.Engine, "before_cursor_execute", lambda *_: one_more())
    sa.event.listen(sa.Engine, "commit", lambda _: one_more())


def _forked(arguments: list[str], said: Path, kill: tuple[int, Path] | None = None) -> int:
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            if kill is not None:
                _kill_at(*kill)
            _run(arguments, said)
        os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _load() -> None:
    """Load what the commands load when they first need it, once for all."""
    for module in (memory.assembly, memory.search, memory.store, memory.upkeep):
        for name in dir(module):
            getattr(module, name)


def main(template: Path, step: int, command: list[str], after: list[list[str]]) -> None:
    """Each kill finds the folder as it was."""
    _load()
    for number in count(0, step):
        folder = Path(tempfile.mkdtemp(prefix="killed-", dir=template.parent)).resolve()
        shutil.copytree(template, folder, dirs_exist_ok=True)
        os.chdir(folder)
        tempfile.tempdir = str(folder / "tmp")
        (folder / "tmp").mkdir(exist_ok=True)
        said = folder.with_suffix(".said")
        code = _forked(command, said, (number, folder))
        ended = []
        for one in after if code < 0 else []:
            ended.append([_forked(one, said), said.read_text()])
        files = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
        found = {"code": code, "next": ended, "files": files, "folder": str(folder)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        if code >= 0:
            return


if __name__ == "__main__":
    before, *others = " ".join(sys.argv[3:]).split(" -- ")
    main(Path(sys.argv[1]), int(sys.argv[2]), before.split(), [one.split() for one in others])
