from .assembly import build_deduplicator as build_deduplicator
from .assembly import build_embedder as build_embedder
from .assembly import build_extractor as build_extractor
from .assembly import build_model as build_model
from .assembly import build_tools as build_tools
from .assembly import open_chat_memory as open_chat_memory
from .assembly import open_store as open_store
from .chat_memory import ChatMemory as ChatMemory
from .config import Config as Config
from .config import load_config as load_config
from .deduplicator import MemoryDeduplicator as MemoryDeduplicator
from .errors import MemoryPipelineError as MemoryPipelineError
from .extractor import MemoryExtractor as MemoryExtractor
from .models import DeduplicationReport as DeduplicationReport
from .models import Memory as Memory
from .models import MemoryLink as MemoryLink
from .models import SearchResult as SearchResult
from .models import Turn as Turn
from .store import MemoryStore as MemoryStore

__version__: str
