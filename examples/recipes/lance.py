"""A table of LanceDB."""

import json
import sys

import lancedb
from my_app import embed

table = lancedb.connect("lance").open_table("memories")
if sys.argv[1] == "dump":
    for row in table.to_arrow().drop_columns(["vector"]).to_pylist():
        print(json.dumps(row))
for line in sys.stdin if sys.argv[1] == "apply" else ():
    change = json.loads(line)
    if "delete" in change:
        table.delete("id = '" + change["delete"].replace("'", "''") + "'")
    else:
        row = {"id": change["update"], "content": change["text"], **change["metadata"]}
        row["vector"] = embed(change["text"])
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute([row])
