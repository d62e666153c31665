"""Implementations of other frameworks' memory interfaces, one file for each framework.

Each file needs the optional extra of its framework. So there is nothing to import from this package
itself: `from memory.adapters.langgraph import DedupStore` imports only LangGraph.
"""
