from .breaker import CircuitBreaker as CircuitBreaker
from .budget import Budget as Budget
from .embeddings import MiniLMEmbedder as MiniLMEmbedder
from .embeddings import WordLlamaEmbedder as WordLlamaEmbedder
from .gemini import GeminiEmbedder as GeminiEmbedder
from .gemini import GeminiModel as GeminiModel
from .offline import OfflineModel as OfflineModel
from .prompts import JUDGE as JUDGE
