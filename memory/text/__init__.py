"""Functions on strings: clean, normalise, split, read numbers, detect the language.

Nothing in this package depends on the class `Memory`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
