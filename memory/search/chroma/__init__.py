"""Chroma as a vector index: in a separate process for a local folder, or on a server."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
