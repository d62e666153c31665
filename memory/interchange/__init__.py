"""Formats and stores of other programs: read from a copy, written back after a plan."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
