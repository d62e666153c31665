"""The store of memories: the ledger, the search and the embedder behind one interface."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
