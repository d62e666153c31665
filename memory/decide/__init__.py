"""Turn memories, similarities and a model's verdicts into decisions, without I/O and model
calls.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
