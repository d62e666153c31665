"""`python -m tests.ledger.killed_upgrade URL FOLDER`: upgrades that are killed at each write.

One after the other on the same ledger, until one survives. A line of JSON for each: how the process
ended, and the ledger's version.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from memory.ledger.ledger import Ledger
from tests.ledger import version_8


def upgrade_killed_at(number: int, url: str, folder: Path) -> None:
    """The process dies before its write of this number; a commit counts as one."""
    left = number

    def one_more(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def one_statement(_connection: object, _cursor: object, said: str, *_: object) -> None:
        if not said.lstrip().startswith(("SELECT", "PRAGMA")):
            one_more()

    sa.event.listen(sa.Engine, "before_cursor_execute", one_statement)
    sa.event.listen(sa.Engine, "commit", one_more)
    Ledger.upgrade(url, folder)


def main(url: str, folder: Path) -> None:
    for number in count():
        child = os.fork()
        if child == 0:
            upgrade_killed_at(number, url, folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        looker = os.fork()  # nothing that the parent opens may reach a child
        if looker == 0:
            version = version_8.version_at(url)
            sys.stdout.write(json.dumps({"killed": status != 0, "version": version}) + "\n")
            sys.stdout.flush()
            os._exit(0)
        _, looked = os.waitpid(looker, 0)
        if status == 0 or looked != 0:
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
