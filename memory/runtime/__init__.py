"""How a process runs: threads, signals, files, telemetry, listening."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
