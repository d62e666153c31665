"""Runs mem0 itself, in whatever environment has it: makes a store by its own API, or asks one.

python mem0_driver.py make STORE FOLDER PORT SCRIPT   # SCRIPT: [[user, [text, ...]], ...]
python mem0_driver.py look STORE FOLDER PORT USER...  # all it answers, as JSON

STORE is chroma or qdrant in the folder, or the address of a Qdrant server or of a PostgreSQL.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["MEM0_TELEMETRY"] = "False"


def opened(store: str, folder: Path, port: int) -> Any:
    os.environ["MEM0_DIR"] = str(folder)
    from mem0 import Memory

    here = f"http://127.0.0.1:{port}/v1"
    provider, where = _where(store, folder)
    told = {"api_key": "none", "openai_base_url": here}
    return Memory.from_config(
        {
            "vector_store": {"provider": provider, "config": {"collection_name": "mem0"} | where},
            "llm": {"provider": "openai", "config": {**told, "model": "scripted"}},
            "embedder": {
                "provider": "openai",
                "config": {**told, "model": "words", "embedding_dims": 256},
            },
            "history_db_path": str(folder / "history.db"),
        }
    )


def _where(store: str, folder: Path) -> tuple[str, dict[str, Any]]:
    if store.startswith("postgresql://"):
        return "pgvector", {"connection_string": store, "embedding_model_dims": 256}
    if store.startswith("http://"):
        return "qdrant", {"url": store, "api_key": "none", "embedding_model_dims": 256}
    if store == "qdrant":
        path = str(folder / store)
        return "qdrant", {"path": path, "embedding_model_dims": 256, "on_disk": True}
    return "chroma", {"path": str(folder / store)}


def make(memory: Any, script: list[tuple[str, list[str]]]) -> None:
    for user, texts in script:
        said = "SCRIPT " + json.dumps(texts) + " END"
        memory.add([{"role": "user", "content": said}], user_id=user)


def look(memory: Any, users: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for user in users:
        filters = {"user_id": user}
        everything = memory.get_all(filters=filters, top_k=10_000)["results"]
        everything.sort(key=lambda one: one["id"])
        asked = everything[0]["memory"]
        hits = memory.search(asked, filters=filters, top_k=5, explain=True)["results"]
        found[user] = {
            "all": everything,
            "scores": [round(one["score"], 6) for one in hits],
            "similarity": round(hits[0]["score_details"]["semantic_score"], 6),
            "first": hits[0]["memory"].rstrip(".").lower(),
        }
    return found


def main() -> None:
    does, store, folder, port, *rest = sys.argv[1:]
    memory = opened(store, Path(folder), int(port))
    if does == "make":
        make(memory, json.loads(Path(rest[0]).read_text()))
    else:
        print(json.dumps(look(memory, rest)))  # noqa: T201 - its answer


main()
