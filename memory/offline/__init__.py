"""The built-in language model. It works by fixed rules, without an API key or a network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
