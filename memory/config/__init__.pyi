# Written by `python -m scripts.faces`.
from .loading import TOKENS_VARIABLE as TOKENS_VARIABLE, approve as approve, load_config as load_config
from .settings import AgentConfig as AgentConfig, Config as Config, EmbeddingConfig as EmbeddingConfig, LLMConfig as LLMConfig, MemoryConfig as MemoryConfig, PLAIN_THRESHOLDS as PLAIN_THRESHOLDS, SearchConfig as SearchConfig, server_url as server_url
