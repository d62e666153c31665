"""The command `review` as a process of its own: how it begins and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from memory.assembly import open_store
from memory.config import Config, LLMConfig, MemoryConfig
from tests import commands

BROWSER = """#!/bin/sh
echo open > "$0.opened"
while test -e "$0.stays"; do sleep 0.1; done
"""


def test_ctrl_c_ends_a_review_while_the_browser_stays_in_the_foreground(tmp_path: Path) -> None:
    memory = MemoryConfig(data_dir=str(tmp_path))
    open_store(Config(memory=memory, llm=LLMConfig(provider="offline"))).close()
    browser, opened, stays = (tmp_path / f"browser{end}" for end in ("", ".opened", ".stays"))
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    stays.touch()
    given = {"MEMORY_DATA_DIR": str(tmp_path), "MEMORY_LLM_PROVIDER": "offline"}
    command = [commands.python(), "-m", "memory", "review"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | given | {"BROWSER": f"{browser} %s"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "?token=" in process.stdout.readline()
        while not opened.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(30)
        finally:
            process.kill()
            stays.unlink()
        said = process.communicate()[1]
    assert status == 0
    assert said.endswith("stopped; every answer that was given is kept\n")
