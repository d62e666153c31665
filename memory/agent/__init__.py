"""The agent keeps its own memory: what its tools do, and the MCP server that offers them."""
