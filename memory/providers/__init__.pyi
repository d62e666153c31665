# Written by `python -m scripts.faces`.
from .asking import Asking as Asking, CallBudget as CallBudget, GuardedModel as GuardedModel, OwnEmbedder as OwnEmbedder, completed as completed, estimated as estimated
from .embeddings import MiniLMEmbedder as MiniLMEmbedder, WordLlamaEmbedder as WordLlamaEmbedder
from .gemini import GeminiEmbedder as GeminiEmbedder, GeminiModel as GeminiModel
from .offline import OfflineModel as OfflineModel
from .openai import OpenAIEmbedder as OpenAIEmbedder, OpenAIModel as OpenAIModel, OpenAIServer as OpenAIServer
from .prompts import JUDGE as JUDGE, PAGE as PAGE, REREAD as REREAD, extraction_prompt as extraction_prompt, judge_question as judge_question, read_rereading as read_rereading, rereading_question as rereading_question
from .remote import RemoteModel as RemoteModel
