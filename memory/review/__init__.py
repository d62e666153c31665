"""How people review groups of near-copies: reports, web pages, and the answers that they give."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
