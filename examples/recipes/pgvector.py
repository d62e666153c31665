"""A table of your own in PostgreSQL: name all its columns in both statements."""

import json
import sys

import psycopg
from my_app import embed

db = psycopg.connect("postgresql://localhost/app", autocommit=True)
if sys.argv[1] == "dump":
    for row in db.execute("SELECT id, content, user_id, created_at FROM memories"):
        names = ("id", "content", "user", "timestamp")
        print(json.dumps(dict(zip(names, row, strict=True)), default=str))
for line in sys.stdin if sys.argv[1] == "apply" else ():
    change = json.loads(line)
    db.execute("DELETE FROM memories WHERE id = %s", [change.get("delete", change.get("update"))])
    if "update" in change:
        text, more = change["text"], change["metadata"]
        row = [change["update"], text, more["user"], more["timestamp"], str(embed(text))]
        db.execute(
            "INSERT INTO memories (id, content, user_id, created_at, embedding)"
            " VALUES (%s, %s, %s, %s, %s)",
            row,
        )
