"""What people do to a store: groups on cards and pages, answers, repair, calibration, backups."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
