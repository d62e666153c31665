"""The built-in language model, which needs no key: it extracts, judges and replies by fixed
rules.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
