"""The agent's server over HTTP, in another process."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import commands
from tests.agent.driving import SERVE, environment

_MOST_SAID = 20_000


@contextmanager
def serving(
    folder: Path, *options: str, untold: tuple[str, ...] = (), open_files: int = 1_000
) -> Iterator[str]:
    """Yield the address of a server, then check that SIGTERM ends it and its log is short.

    No text of `untold` may be in the log.
    """
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh",
         commands.python(), "-W", "error", *SERVE, "--http", "127.0.0.1:0", *options],
        cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving at http://(\S+)/mcp", line)
        assert found is not None, line + process.stderr.read()
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        assert not [one for one in untold if one in said]
        assert len(said) < _MOST_SAID, said[:_MOST_SAID]
    assert (process.returncode, "Traceback" in said) == (0, False), said
