"""Implementations of other frameworks' memory interfaces, one file for each framework.

Import an adapter from its own file, such as `memory.adapters.langgraph`. That needs the optional
extra of this framework, and loads no other framework.
"""
