"""What the command lines share."""

from __future__ import annotations

import logging
import re
import threading

import pytest

from memory.cli.shell import OneLineFormatter, compared, progress, run_shell
from memory.errors import InputError

HOSTILE = "room\n\x1b[2JERROR: all is\r lost\u202e"


def test_a_name_in_a_log_line_or_an_error_stays_on_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Else whoever chooses a name could write lines of the log, or obey a terminal."""
    record = logging.LogRecord("memory", logging.WARNING, "", 1, "turn of %s", (HOSTILE,), None)
    shown = "room [2JERROR: all is lost"
    assert OneLineFormatter("%(levelname)s: %(message)s").format(record) == (
        f"WARNING: turn of {shown}"
    )

    def fail() -> None:
        raise InputError(HOSTILE, "is no file")

    with pytest.raises(SystemExit):
        run_shell(fail)
    assert capsys.readouterr().err == f"error: {shown}: is no file\n"


def test_on_a_pipe_it_is_said_again_and_again_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []

    def heard(line: str) -> bool:
        said.extend(capsys.readouterr().err.splitlines())
        return any(re.fullmatch(line, one) for one in said)

    with progress("importing", every_s=0.01) as report:
        while not heard(r"importing: \d+ s"):
            pass
        report(1_000, 2_000)
        while not heard(r"importing: \d+ s, 1,000 of 2,000, [\d,.]+ a second, \d+ s left"):
            pass
        compared(report)(30, 90)
        while not heard(r"importing: \d+ s, 30 of 90 texts compared, [\d,.]+ a second, \d+ s left"):
            pass
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_work_of_less_than_ten_seconds_prints_no_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("importing") as report:
        report(1, 2)
    assert capsys.readouterr().err == ""
