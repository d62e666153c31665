"""The configuration, read from config.yaml, environment variables and the arguments of a call."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
