"""Answers about pairs, kept in a file as they are given, so that asking can go on another day."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.runtime import read_bounded
from memory.upkeep.calibration import Answer

_MOST_BYTES = 64_000_000
"""Some 300,000 answers."""


class CalibrationLog:
    """One line an answer: the pair by the hashes of its texts, the answer, who gave it."""

    def __init__(self, path: Path, by: str) -> None:
        self._path = path
        self._by = by

    def read(self) -> dict[str, Answer]:
        """What this judge has said so far, by the pairs' keys; the last answer counts.

        Raises: InputError.
        """
        if not self._path.exists():
            return {}
        said: dict[str, Answer] = {}
        for number, line in enumerate(self._read().splitlines(), 1):
            if line.strip():
                said |= self._one(line, number)
        return said

    def _read(self) -> str:
        try:
            return read_bounded(self._path, _MOST_BYTES).decode("utf-8", "replace")
        except OSError as exc:
            raise InputError(self._path, f"cannot be read: {exc.strerror}") from exc

    def _one(self, line: str, number: int) -> dict[str, Answer]:
        try:
            answer = json.loads(line)
            key, said, by = answer["pair"], _said(answer), answer["by"]
        except (ValueError, TypeError, KeyError) as exc:
            remedy = "fix or remove this line"
            raise InputError(self._path, "this line is not an answer", remedy, number) from exc
        return {key: said} if by == self._by else {}

    def add(self, key: str, answer: Answer) -> None:
        """Keep one more."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps({"pair": key, "answer": answer, "by": self._by}) + "\n")


def _said(line: dict[str, Any]) -> Answer:
    """Lines of earlier versions say only whether the two are duplicates."""
    if "duplicate" in line:
        return Answer.SAME if line["duplicate"] is True else Answer.APART
    return Answer(line["answer"])
