from .breaker import CircuitBreaker as CircuitBreaker
from .budget import Budget as Budget, CallBudget as CallBudget, HourlyCalls as HourlyCalls
from .embeddings import MiniLMEmbedder as MiniLMEmbedder, WordLlamaEmbedder as WordLlamaEmbedder
from .gemini import GeminiEmbedder as GeminiEmbedder, GeminiModel as GeminiModel
from .offline import OfflineModel as OfflineModel
from .prompts import JUDGE as JUDGE
