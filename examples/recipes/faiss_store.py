"""FAISS with LangChain's docstore."""

import json
import sys

from langchain_community.vectorstores import FAISS
from my_app import embeddings

store = FAISS.load_local("faiss", embeddings, allow_dangerous_deserialization=True)
if sys.argv[1] == "dump":
    for row in map(store.docstore.search, store.index_to_docstore_id.values()):
        print(json.dumps({"id": row.id, "content": row.page_content, **row.metadata}))
for line in sys.stdin if sys.argv[1] == "apply" else ():
    change = json.loads(line)
    there = {change.get("delete", change.get("update"))} & set(store.index_to_docstore_id.values())
    store.delete(list(there)) if there else None
    if "update" in change:
        store.add_texts([change["text"]], [change["metadata"]], ids=[change["update"]])
store.save_local("faiss")
