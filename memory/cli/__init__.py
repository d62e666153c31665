"""The command `memory-dedup`, and the helpers that it shares with `memory-chat`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
