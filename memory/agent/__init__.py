"""The agent keeps its own memory: what its tools do, and the MCP server that offers them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
