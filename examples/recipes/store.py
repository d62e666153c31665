"""Any store: `store` of `my_app` maps ids to rows, `embed` makes the vector of a text."""

import json
import sys

from my_app import embed, store

if sys.argv[1] == "dump":
    for name, row in store.items():
        others = {key: value for key, value in row.items() if key not in ("text", "vector")}
        # `others` has user and timestamp
        print(json.dumps({"id": name, "content": row["text"], **others}))
for line in sys.stdin if sys.argv[1] == "apply" else ():
    change = json.loads(line)
    if "delete" in change:
        store.pop(change["delete"], None)
    else:
        row = {"text": change["text"], **change["metadata"]}
        store[change["update"]] = row | {"vector": embed(change["text"])}
