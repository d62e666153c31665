"""A collection of Milvus: a file of Milvus Lite, or the address of a server."""

import json
import sys

from my_app import embed
from pymilvus import MilvusClient

client = MilvusClient("milvus.db")
client.load_collection("memories")
pages = client.query_iterator("memories", output_fields=["*"])
while sys.argv[1] == "dump" and (rows := pages.next()):
    for row in rows:
        print(json.dumps({name: row[name] for name in row if name != "vector"}))
for line in sys.stdin if sys.argv[1] == "apply" else ():
    change = json.loads(line)
    if "delete" in change:
        client.delete("memories", ids=[change["delete"]])
    else:
        row = {"id": change["update"], "content": change["text"], "vector": embed(change["text"])}
        client.upsert("memories", [row | change["metadata"]])
