# Written by `python -m scripts.faces`.
from .chroma_client import ChromaClient as ChromaClient, ChromaCollection as ChromaCollection, ChromaProcess as ChromaProcess, ChromaServer as ChromaServer, chroma_faults as chroma_faults, close_client as close_client, http_client as http_client, load_minilm as load_minilm, own_embedding as own_embedding, persistent_client as persistent_client
from .index import EmbeddedChroma as EmbeddedChroma, ServedChroma as ServedChroma
from .router import SearchRouter as SearchRouter, VectorsByUser as VectorsByUser
from .scores import Probe as Probe, SHORTLIST as SHORTLIST, SPARE as SPARE, best_of_shortlist as best_of_shortlist, bm25 as bm25, ranked as ranked, results as results, word_scores as word_scores
