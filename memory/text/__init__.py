"""What a text states and what another does not. Knows strings only, no `Memory`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
