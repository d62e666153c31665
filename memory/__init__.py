"""Memory for chatbots and agents that does not fill up with near-copies and never loses a fact.

The public names are loaded when first used, so that `--help` stays fast.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
