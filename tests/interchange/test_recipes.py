"""Each of examples/recipes, run as it stands on the real package: dump, clean, apply."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests import commands

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "other-stores.md").read_text(encoding="utf-8")
FILES = sorted((ROOT / "examples" / "recipes").glob("*.py"))
RECIPES = {path.name: path.read_text(encoding="utf-8") for path in FILES}
WHEN = "2026-05-01T10:00:00+02:00"
SECONDS = 1_777_622_400
"""The same time."""
FIELDS = ("id", "content", "user", "timestamp")
Rows = dict[str, Any]
TEXTS = {
    "a": "Mia likes green tea.",
    "b": "mia likes green tea",
    "c": "Mia's boat is called 'Ida'.",
    "d": "MIA LIKES GREEN TEA!",
}
OTHER = {"e": "Mia likes green tea."}
"""Jonas's: nobody else's row stands for it."""
MY_APP = """
import json, os
from pathlib import Path

def embed(text):
    return [float(len(text)), float(text.count("e")), 1.0, float(text.isupper())]

try:
    from langchain_core.embeddings import Embeddings
except ImportError:
    Embeddings = object

class Own(Embeddings):
    def embed_documents(self, texts):
        return [embed(text) for text in texts]
    def embed_query(self, text):
        return embed(text)

embeddings = Own()

class _Store(dict):
    path = Path("store.json")
    def __init__(self):
        super().__init__(json.loads(self.path.read_text()) if self.path.exists() else {})
    def __setitem__(self, name, row):
        super().__setitem__(name, row)
        self.path.write_text(json.dumps(self))
    def pop(self, *name):
        super().pop(*name)
        self.path.write_text(json.dumps(self))

store = _Store()
"""


def rows(*times: str | int) -> list[dict[str, Any]]:
    """Rows whose times take these forms in turn."""
    turns = cycle(times or [WHEN])

    def row(name: str, text: str, user: str) -> dict[str, Any]:
        fields = dict(zip(FIELDS, (name, text, user, next(turns)), strict=True))
        return fields | {"stars": 5, "share": 1.25, "vector": embed(text)}

    mine = [row(name, text, "Mia") for name, text in TEXTS.items()]
    return mine + [row(name, text, "Jonas") for name, text in OTHER.items()]


def embed(text: str) -> list[float]:
    told: dict[str, Any] = {}
    exec(MY_APP.partition("try:")[0], told)
    vector: list[float] = told["embed"](text)
    return vector


def with_postgres(folder: Path, request: pytest.FixtureRequest) -> str:
    psycopg = pytest.importorskip("psycopg")
    address = request.getfixturevalue("postgres_url").replace("+psycopg", "")
    with psycopg.connect(address, autocommit=True) as db:
        try:
            db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error:
            pytest.skip("this PostgreSQL has no pgvector")
        db.execute(
            "CREATE TABLE memories (id text PRIMARY KEY, content text, user_id text,"
            " created_at timestamptz, embedding vector(4))"
        )
        for row in rows():
            values = [*(row[name] for name in FIELDS), str(row["vector"])]
            db.execute("INSERT INTO memories VALUES (%s, %s, %s, %s, %s)", values)
    return RECIPES["pgvector.py"].replace("postgresql://localhost/app", address)


def with_lance(folder: Path, request: pytest.FixtureRequest) -> str:
    lancedb = pytest.importorskip("lancedb")
    lancedb.connect(str(folder / "lance")).create_table("memories", rows(SECONDS))
    return RECIPES["lance.py"]


def with_sqlite_vec(folder: Path, request: pytest.FixtureRequest) -> str:
    vec = pytest.importorskip("sqlite_vec")
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("this Python's SQLite loads no extensions")
    db: Any = sqlite3.connect(folder / "memories.db", isolation_level=None)
    db.enable_load_extension(True)
    vec.load(db)
    db.execute("CREATE TABLE memories (id TEXT UNIQUE, content TEXT, user TEXT, timestamp, stars)")
    db.execute("CREATE VIRTUAL TABLE vectors USING vec0(embedding float[4])")
    for row in rows(WHEN, SECONDS):
        values = [row[name] for name in (*FIELDS, "stars")]
        made = db.execute("INSERT INTO memories VALUES (?, ?, ?, ?, ?)", values)
        vector = vec.serialize_float32(row["vector"])
        db.execute("INSERT INTO vectors (rowid, embedding) VALUES (?, ?)", [made.lastrowid, vector])
    db.close()
    return RECIPES["sqlitevec.py"]


def with_faiss(folder: Path, request: pytest.FixtureRequest) -> str:
    pytest.importorskip("faiss")
    pytest.importorskip("langchain_community")
    code = """
import json, sys
from langchain_community.vectorstores import FAISS
from my_app import embeddings
rows = json.load(sys.stdin)
more = [{key: row[key] for key in ("user", "timestamp", "stars", "share")} for row in rows]
texts, ids = [row["content"] for row in rows], [row["id"] for row in rows]
FAISS.from_texts(texts, embeddings, more, ids=ids).save_local("faiss")
"""
    run(folder, "-c", code, given=json.dumps(rows(WHEN, SECONDS)))
    return RECIPES["faiss_store.py"]


def with_milvus(folder: Path, request: pytest.FixtureRequest) -> str:
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    code = """
import json, sys
from pymilvus import DataType, MilvusClient
client = MilvusClient("milvus.db")
schema = client.create_schema()
schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=99)
for name in ("content", "user", "timestamp"):
    schema.add_field(name, DataType.VARCHAR, max_length=999)
schema.add_field("stars", DataType.INT64)
schema.add_field("share", DataType.DOUBLE)
schema.add_field("vector", DataType.FLOAT_VECTOR, dim=4)
index = client.prepare_index_params()
index.add_index("vector", index_type="FLAT", metric_type="L2")
client.create_collection("memories", schema=schema, index_params=index)
client.insert("memories", json.load(sys.stdin))
"""
    run(folder, "-c", code, given=json.dumps(rows()))
    return RECIPES["milvus.py"]


def with_any(folder: Path, request: pytest.FixtureRequest) -> str:
    held = {row.pop("id"): {"text": row.pop("content"), **row} for row in rows(WHEN, SECONDS)}
    (folder / "store.json").write_text(json.dumps(held))
    return RECIPES["store.py"]


# --- what a store holds: every value of every row, its vector too ---------------------------------


def in_postgres(_folder: Path, recipe: str) -> Rows:
    import psycopg

    [address] = re.findall(r'connect\("([^"]+)"', recipe)
    with psycopg.connect(address) as db:
        found = db.execute("SELECT id, m::text FROM memories m").fetchall()
    return dict(found)


def in_lance(folder: Path, _recipe: str) -> Rows:
    lancedb = pytest.importorskip("lancedb")
    table = lancedb.connect(str(folder / "lance")).open_table("memories")
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


def in_sqlite_vec(folder: Path, _recipe: str) -> Rows:
    vec = pytest.importorskip("sqlite_vec")
    with closing(sqlite3.connect(folder / "memories.db")) as opened:
        db: Any = opened
        db.enable_load_extension(True)
        vec.load(db)
        both = "SELECT m.*, typeof(timestamp), embedding FROM memories m, vectors v"
        both += " WHERE m.rowid = v.rowid"
        return {row[0]: row for row in db.execute(both)}


def in_faiss(folder: Path, _recipe: str) -> Rows:
    code = """
import json
from langchain_community.vectorstores import FAISS
from my_app import embeddings
store = FAISS.load_local("faiss", embeddings, allow_dangerous_deserialization=True)
held = {}
for place, name in store.index_to_docstore_id.items():
    row = store.docstore.search(name)
    vector = store.index.reconstruct(place).tolist()
    held[name] = [row.id, row.page_content, sorted(row.metadata.items()), vector]
print(json.dumps(held))
"""
    held: Rows = json.loads(run(folder, "-c", code))
    return held


def in_milvus(folder: Path, _recipe: str) -> Rows:
    code = """
import json
from pymilvus import MilvusClient
client = MilvusClient("milvus.db")
client.load_collection("memories")
rows = client.query("memories", filter="id != ''", output_fields=["*"])
vectors = {row["id"]: [float(part) for part in row.pop("vector")] for row in rows}
print(json.dumps({row["id"]: [row, vectors[row["id"]]] for row in rows}))
"""
    held: Rows = json.loads(run(folder, "-c", code))
    return held


def in_any(folder: Path, _recipe: str) -> Rows:
    held: Rows = json.loads((folder / "store.json").read_text())
    return held


WHOLE: Mapping[str, Callable[[Path, str], Rows]] = {
    "store.py": in_any,
    "pgvector.py": in_postgres,
    "lance.py": in_lance,
    "sqlitevec.py": in_sqlite_vec,
    "faiss_store.py": in_faiss,
    "milvus.py": in_milvus,
}

MAKERS: Mapping[str, Callable[[Path, pytest.FixtureRequest], str]] = {
    "store.py": with_any,
    "pgvector.py": with_postgres,
    "lance.py": with_lance,
    "sqlitevec.py": with_sqlite_vec,
    "faiss_store.py": with_faiss,
    "milvus.py": with_milvus,
}


def run(folder: Path, *command: str, given: str = "") -> str:
    done = subprocess.run(
        [commands.python(), *command],
        cwd=folder, env=os.environ | {"PYTHONPATH": f"{folder}:{ROOT}"}, input=given,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_recipe_is_run_and_linked() -> None:
    assert RECIPES.keys() == MAKERS.keys() == WHOLE.keys()
    assert all(f"../examples/recipes/{name}" in PAGE for name in RECIPES)


@pytest.mark.parametrize(
    "name",
    [
        one if one == "store.py" else pytest.param(one, marks=pytest.mark.framework)
        for one in MAKERS
    ],
)
def test_a_store_is_dumped_cleaned_changed_and_taken_back_by_its_recipe(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "my_app.py").write_text(MY_APP)
    (tmp_path / "config.yaml").write_text("memory:\n  data_dir: data\n")
    recipe = MAKERS[name](tmp_path, request)
    (tmp_path / "recipe.py").write_text(recipe)
    before = WHOLE[name](tmp_path, recipe)
    assert before.keys() == TEXTS.keys() | OTHER.keys()

    def held() -> dict[str, str]:
        dumped = map(json.loads, run(tmp_path, "recipe.py", "dump").splitlines())
        return {row["id"]: row["content"] for row in dumped}

    dump = run(tmp_path, "recipe.py", "dump")
    assert held() == TEXTS | OTHER
    (tmp_path / "dump.jsonl").write_text(dump)
    ours = ("-m", "memory")
    other = [json.loads(line) | {"user": "Ben"} for line in dump.splitlines()]
    lines = [json.dumps(row | {"id": "other-" + row["id"]}) for row in other]
    (tmp_path / "other.jsonl").write_text("\n".join(lines))
    run(tmp_path, *ours, "import", "other.jsonl")
    run(tmp_path, *ours, "import", "dump.jsonl")
    run(tmp_path, "-m", "orchestrator", "--deduplicate-memories")
    back = (*ours, "write-back", "dump.jsonl", "--to-jsonl")
    run(tmp_path, *back, "changes.jsonl", "--undo-file", "undo.jsonl")
    changes = (tmp_path / "changes.jsonl").read_text()
    assert "other-" not in changes + (tmp_path / "undo.jsonl").read_text()
    run(tmp_path, "recipe.py", "apply", given=changes)
    after = held()
    assert len(after) == 3
    assert after.items() >= {"c": TEXTS["c"], **OTHER}.items()
    assert before.items() >= WHOLE[name](tmp_path, recipe).items()
    run(tmp_path, *back, "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == changes, "of the dump as it was"
    run(tmp_path, "recipe.py", "apply", given=(tmp_path / "undo.jsonl").read_text())
    assert WHOLE[name](tmp_path, recipe) == before
