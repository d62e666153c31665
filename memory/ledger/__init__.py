"""The ledger: the database of all memories, live and retired, with vectors, links and decisions.

All SQL of our own store is in this package.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
