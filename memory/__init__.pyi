from .assembly import Memories as Memories
from .assembly import Source as Source
from .assembly import audit as audit
from .assembly import import_memories as import_memories
from .assembly import open_chat_memory as open_chat_memory
from .assembly import open_store as open_store
from .assembly import undo_write_back as undo_write_back
from .assembly import write_back as write_back
from .config import Config as Config
from .config import load_config as load_config
from .deduplicator import MemoryDeduplicator as MemoryDeduplicator
from .errors import MemoryPipelineError as MemoryPipelineError
from .extractor import ChatMemory as ChatMemory
from .extractor import MemoryExtractor as MemoryExtractor
from .interchange import Reading as Reading
from .models import Embedder as Embedder
from .models import LanguageModel as LanguageModel
from .models import Memory as Memory
from .models import Outcome as Outcome
from .models import Recalled as Recalled
from .models import Scope as Scope
from .models import Turn as Turn
from .store import MemoryStore as MemoryStore
from .store import collapse as collapse

__version__: str
