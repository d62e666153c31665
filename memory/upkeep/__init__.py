"""Maintenance of a store: back up, check and repair, calibrate, embed again."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
