"""The one place where things are built and wired. What is slow to import is imported when used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
