"""Build the program's objects and connect them. Slow libraries are only imported when needed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
