# Written by `python -m scripts.faces`.
from .memory_store import AgentMemory as AgentMemory
from .server import AgentServer as AgentServer, Opened as Opened, Tokens as Tokens, read_tokens as read_tokens, run_and_exit as run_and_exit, serve_over_http as serve_over_http, token_gate as token_gate
from .tools import AgentTools as AgentTools, build_tools as build_tools
from .workspace_sync import WorkspaceMemorySync as WorkspaceMemorySync, build_workspace as build_workspace, follow_undo as follow_undo, forget_everywhere as forget_everywhere, keep_workspace as keep_workspace
