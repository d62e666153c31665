"""The built-in language model: it extracts, judges and replies by fixed rules, without a key."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
