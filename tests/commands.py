"""Run commands in processes that are forked from one with every import done.

Most of a short command's time goes into imports; here they are paid once for all tests. A test
that is about imports, about Python's own start or about a killed process uses `sys.executable`.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import filelock

_ROOT = Path(__file__).parent.parent
_PROGRAM = """#!/bin/sh
exec '{python}' -IS '{root}/tests/fork_client.py' '{socket}' "$@"
"""


def run(
    module: str, *args: str, cwd: Path, env: Mapping[str, str], said: str = "", seconds: int = 60
) -> subprocess.CompletedProcess[str]:
    """Do what `python -W error -m MODULE ARGS` does, with `said` on its standard input.

    Raises: TimeoutExpired, and then the command is killed.
    """
    return subprocess.run(
        [python(), "-W", "error", "-m", module, *args],
        cwd=cwd, env=env, input=said, timeout=seconds, capture_output=True, text=True, check=False,
    )  # fmt: skip


@cache
def python() -> str:
    """Return a program that does what `python` does, without the time for imports.

    It understands `-I`, `-W error`, `-c`, `-m` and a script. Signals reach the process; one that
    cannot be caught kills it soon after. The workers of a test run share the server that forks.
    """
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(tempfile.gettempdir(), f"memory-fork-{run_id}")
    folder.mkdir(mode=0o700, exist_ok=True)
    program, alive = folder / "python", folder / "alive"
    with filelock.FileLock(folder / "lock"):
        if program.exists():
            writer = os.open(alive, os.O_WRONLY)
        else:
            os.mkfifo(alive)
            reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
            writer = os.open(alive, os.O_WRONLY)
            atexit.register(_start_server(program, reader).poll)  # nobody waits for it
            os.close(reader)
    atexit.register(os.close, writer)  # the server ends when the last worker has closed it
    return str(program)


def _start_server(program: Path, stdin: int) -> subprocess.Popen[bytes]:
    address = str(program.with_name("server"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(listener.fileno()), str(program)],
            cwd=_ROOT, stdin=stdin, stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()], start_new_session=True,
        )  # fmt: skip
    program.write_text(_PROGRAM.format(python=sys.executable, root=_ROOT, socket=address))
    program.chmod(0o700)
    return server
