"""Functions on strings: clean, normalise, tokenise, read numbers, detect the language, cut
sentences.

Nothing in this package depends on the class `Memory`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
