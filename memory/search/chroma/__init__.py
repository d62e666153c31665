"""Chroma as an index of vectors: embedded in a process of its own, or a server."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
