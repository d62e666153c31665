"""Turn memories, similarities and a model's verdicts into decisions.

Nothing in this package does I/O or calls a model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
