"""How a command begins: what it frees goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

MAPPED = """
import ctypes, sys
import numpy as np
from memory.__main__ import keep_heap_small

class Info(ctypes.Structure):
    _fields_ = [(f"field_{n}", ctypes.c_size_t) for n in range(10)]

told = ctypes.CDLL(None).mallinfo2
told.restype = Info
if sys.argv[1] == "small":
    keep_heap_small()
del (large := [np.ones(2_000_000)])[:]
before = told().field_4
kept = np.ones(100_000)
print(told().field_4 - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is asked")
def test_arrays_of_a_command_are_mapped_by_themselves_and_given_back() -> None:
    def mapped(how: str) -> int:
        command = [sys.executable, "-c", MAPPED, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert mapped("as it is") == 0, "the C library alone keeps what it had"
    assert mapped("small") >= 800_000
