"""Deduplicate one new memory at a time, or a whole store at once."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
