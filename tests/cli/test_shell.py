"""What the command lines share."""

from __future__ import annotations

import re
import threading

import pytest

from memory.cli.shell import compared, progress


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
