# Written by `python -m scripts.faces`.
from .background_pages import propose as propose
from .chat_memory import ChatMemory as ChatMemory
from .extractor import MemoryExtractor as MemoryExtractor, OnExtracted as OnExtracted
