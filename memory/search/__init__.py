"""Nearest neighbours of a vector: exact in RAM, or from an approximate index such as Chroma."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
