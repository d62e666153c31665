"""Implementations of other frameworks' memory interfaces, one file for each framework.

Import an adapter from its own file, such as `memory.adapters.langgraph`. The import needs the
package's extra for that framework, and loads no other framework.
"""
