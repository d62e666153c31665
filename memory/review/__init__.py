"""A plan on paper: what a person sees of each group, and what they answer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
