from .candidates import candidate_pairs as candidate_pairs, nearest_pairs as nearest_pairs
from .chroma import ChromaIndex as ChromaIndex, Following as Following
from .chroma_client import (
    ChromaServer as ChromaServer,
    Client as Client,
    chroma_faults as chroma_faults,
    load_minilm as load_minilm,
    persistent_client as persistent_client,
)
from .exact import ExactIndex as ExactIndex
from .folder import IndexFolder as IndexFolder
from .pairs import (
    Pairs as Pairs,
    chosen as chosen,
    joined as joined,
    similar_pairs as similar_pairs,
    similarities as similarities,
    similarity as similarity,
    slack as slack,
)
from .slot import IndexSlot as IndexSlot
