"""The model that needs no key: plain extraction, and a judge that only extracts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
