"""`python -m memory` is `memory-dedup`."""

from memory.cli import main

main()
