"""The record: every memory, live and retired, with vector, links and decisions. The only SQL."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
