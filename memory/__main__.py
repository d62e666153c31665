"""`python -m memory` is `memory-dedup`."""

from memory.starting import dedup

dedup()
