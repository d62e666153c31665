"""What an owner does now and then: back up, examine, calibrate, embed again."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
