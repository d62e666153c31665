"""Run the command `memory-dedup` as `python -m memory`."""

from memory.starting import dedup

dedup()
