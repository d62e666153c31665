# Written by `python -m scripts.faces`.
from .chat_memory import ChatMemory as ChatMemory
from .extractor import MemoryExtractor as MemoryExtractor, OnExtracted as OnExtracted, propose as propose
