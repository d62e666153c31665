"""sqlite-vec: a table of texts, and a `vec0` table of vectors with the same rowid."""

import json
import sqlite3
import sys

import sqlite_vec
from my_app import embed

db = sqlite3.connect("memories.db", isolation_level=None)
db.row_factory = sqlite3.Row
db.enable_load_extension(True)
sqlite_vec.load(db)
for row in db.execute("SELECT * FROM memories") if sys.argv[1] == "dump" else ():
    print(json.dumps(dict(row)))
for one in map(json.loads, sys.stdin) if sys.argv[1] == "apply" else ():
    for which in (
        "vectors WHERE rowid IN (SELECT rowid FROM memories WHERE id = ?)",
        "memories WHERE id = ?",
    ):
        db.execute(f"DELETE FROM {which}", [one.get("delete", one.get("update"))])
    if "update" in one:
        row = {"id": one["update"], "content": one["text"], **one["metadata"]}
        into = f"INSERT INTO memories ({', '.join(row)}) VALUES (:{', :'.join(row)})"
        both = [db.execute(into, row).lastrowid, json.dumps(embed(one["text"]))]
        db.execute("INSERT INTO vectors (rowid, embedding) VALUES (?, vec_f32(?))", both)
