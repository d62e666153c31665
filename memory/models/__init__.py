"""Immutable values that other packages exchange: memories, decisions, conversations, reports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
