"""Functions on strings: clean, normalise, tokenise, read numbers, tell the language, cut sentences.

This package does not know the class `Memory`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
