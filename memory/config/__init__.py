"""What can be set, and where it was: config.yaml, the environment, the settings of a call."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
