from .consolidation import ConsolidationEngine as ConsolidationEngine
from .memory_store import MemoryStore as MemoryStore
from .memory_store import OnSaved as OnSaved
from .server import AgentServer as AgentServer
from .server import run_and_exit as run_and_exit
from .tools import AgentTools as AgentTools
from .workspace_sync import WorkspaceMemorySync as WorkspaceMemorySync
from .workspace_sync import forget_everywhere as forget_everywhere
