from .consolidation import ConsolidationEngine as ConsolidationEngine
from .memory_store import MemoryStore as MemoryStore, OnSaved as OnSaved
from .saving import Distances as Distances
from .server import AgentServer as AgentServer, run_and_exit as run_and_exit
from .tools import AgentTools as AgentTools
from .workspace_sync import (
    WorkspaceMemorySync as WorkspaceMemorySync,
    forget_everywhere as forget_everywhere,
)
