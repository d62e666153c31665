"""Other frameworks' interfaces, a file each, each an extra; every file is a shell of its own.

There is no face: `from memory.adapters.langgraph import DedupStore` loads that framework alone.
"""
