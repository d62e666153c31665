from .chat_memory import ChatMemory as ChatMemory
from .extractor import MemoryExtractor as MemoryExtractor
from .extractor import OnExtracted as OnExtracted
