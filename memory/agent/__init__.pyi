# Written by `python -m scripts.faces`.
from .consolidation import ConsolidationEngine as ConsolidationEngine
from .memory_store import AgentMemory as AgentMemory, OnSaved as OnSaved
from .server import AgentServer as AgentServer, Opened as Opened, Tokens as Tokens, read_tokens as read_tokens, run_and_exit as run_and_exit, serve_over_http as serve_over_http, token_gate as token_gate
from .tools import AgentTools as AgentTools
from .workspace_sync import WorkspaceMemorySync as WorkspaceMemorySync, follow_undo as follow_undo, forget_everywhere as forget_everywhere
