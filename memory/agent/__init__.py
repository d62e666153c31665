"""The agent's own memory: the tools that an agent calls, and the MCP server that offers them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
