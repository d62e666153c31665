"""The tools in this process: what stays of a memory that vanishes while it is written down."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from pydantic import BaseModel

from memory.agent import AgentServer
from memory.agent.memory_store import AgentMemory, ConsolidationEngine, OnSaved
from memory.agent.schemas import TOOLS, Forgot, MemoryList, MemoryView, Remembered, shown_schema
from memory.agent.tools import AgentTools
from memory.agent.workspace_sync import WorkspaceMemorySync
from memory.errors import LedgerError
from memory.ledger import Ledger
from memory.models import Action, Decision
from memory.store import MemoryStore

run = asyncio.run


def tools_on(store: MemoryStore, workspace: Path, *observers: OnSaved) -> AgentTools:
    agent = AgentMemory(store, observers=observers)
    return AgentTools(agent, ConsolidationEngine(), WorkspaceMemorySync(workspace))


def written(workspace: Path) -> str:
    return "".join(path.read_text() for path in workspace.rglob("*.md"))


def test_a_call_makes_no_list_of_the_tools_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP, mcp asks for the list at each call."""
    made = []

    def noted(model: type[BaseModel]) -> dict[str, Any]:
        made.append(model)
        return shown_schema(model)

    async def list_twice() -> None:
        async with Client(AgentServer(Future()).protocol) as client:
            assert await client.list_tools() == await client.list_tools()

    monkeypatch.setattr("memory.agent.server.shown_schema", noted)
    run(list_twice())
    assert len(made) == 2 * len(TOOLS)


def test_what_another_server_forgets_meanwhile_is_in_no_file(
    store: MemoryStore, tmp_path: Path
) -> None:
    tools = tools_on(store, tmp_path, lambda memory: store.forget(memory.id))
    told = {"content": "Forgotten at once.", "category": "introspection"}
    assert "Saved" in run(tools.call("remember", told)).text
    assert "Forgotten at once" not in written(tmp_path)


def test_an_answer_says_when_a_log_still_holds_the_text_and_it_is_cleared_later(
    store: MemoryStore, tmp_path: Path
) -> None:
    tools = tools_on(store, tmp_path)
    saved = run(tools.call("remember", {"content": "Read by somebody."})).data
    assert isinstance(saved, Remembered)
    with Ledger.open(f"sqlite:///{store.ledger.name}") as other, other.reading() as reader:
        reader.revision()
        answer = run(tools.call("forget", {"memory_id": saved.id}))
    assert "\nIndex pending: it is gone from the record" in answer.text
    assert isinstance(answer.data, Forgot)
    assert answer.data.erased is False
    assert store.scrub()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"Read by somebody" in path.read_bytes()]


def test_a_workspace_that_fails_after_the_save_is_told_and_the_memory_stays(
    store: MemoryStore, tmp_path: Path
) -> None:
    def spoil(_memory: object) -> None:
        (tmp_path / "memory").write_text("in the way")

    tools = tools_on(store, tmp_path, spoil)
    answer = run(tools.call("remember", {"content": "Kept."}))
    assert "The workspace could not be brought up to date: File exists." in answer.text
    assert [memory.content for memory in store.memories()] == ["Kept."]


def test_a_question_that_no_model_judged_stays_open(store: MemoryStore, tmp_path: Path) -> None:
    a, b = (store.add(store.new_memory(name)) for name in ("one", "other"))
    open_question = Decision(Action.KEEP_BOTH, "no model", (a, b), pending=True)
    store.apply(open_question)
    text = run(tools_on(store, tmp_path).call("introspect", {})).text
    assert f"Still open:\n- Are {a.id} and {b.id} the same?\n" in text


def test_a_ledger_that_fails_is_an_error_of_ours(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_texts: object) -> None:
        raise LedgerError("the ledger has no room left on its disk", "make room")

    monkeypatch.setattr(store.ledger, "writing", full)
    with pytest.raises(LedgerError, match="no room"):
        run(tools_on(store, tmp_path).call("remember", {"content": "Lost?"}))
    assert written(tmp_path) == ""


def test_recall_names_the_newer_of_what_may_be_outdated(store: MemoryStore, tmp_path: Path) -> None:
    old, new = (
        store.add(store.new_memory(f"Mia lives in {town}.")).id for town in ("Porto", "Lisbon")
    )
    answer = run(tools_on(store, tmp_path).call("recall", {"context": "Where does Mia live?"}))
    assert answer.text.endswith(f"id: {old}\n  may be outdated by: {new}")
    assert isinstance(answer.data, MemoryList)
    assert [(one.id, one.newer) for one in answer.data.memories] == [(new, None), (old, new)]


def test_recall_names_the_folded_ids_and_forget_what_remains(
    store: MemoryStore, tmp_path: Path
) -> None:
    cat, black = "Mia has a cat.", "Mia has a black cat."
    first, second = (store.add(store.new_memory(text)) for text in (cat, black))
    tools = tools_on(store, tmp_path)
    answer = run(tools.call("recall", {"context": "Does Mia have a cat?"}))
    assert f"also: {first.id}" in answer.text
    assert isinstance(answer.data, MemoryList)
    assert [(one.id, one.also) for one in answer.data.memories] == [(second.id, [first.id])]
    gone = run(tools.call("forget", {"memory_id": second.id}))
    assert f"Still remembered (id: {first.id}): {cat}" in gone.text
    assert isinstance(gone.data, Forgot)
    assert gone.data.remaining == [first.id]
    assert [one.id for one in run(AgentMemory(store).list_recent(5))] == [first.id]


def recalled_by(tools: AgentTools, **arguments: object) -> list[MemoryView]:
    found = run(tools.call("recall", arguments)).data
    assert isinstance(found, MemoryList)
    return found.memories


def test_replaces_supersedes_whole_or_not_at_all(store: MemoryStore, tmp_path: Path) -> None:
    tools = tools_on(store, tmp_path)
    old = store.add(store.new_memory("Ada plays golf and speaks Greek."))
    told = {"content": "Ada has stopped playing golf.", "replaces": old.id}
    answer = run(tools.call("remember", told))
    assert f'says nothing about a part of {old.id}: "speaks Greek"' in answer.text
    assert isinstance(answer.data, Remembered)
    assert (answer.data.saved, answer.data.replaced) == (True, None)
    assert store.get(old.id) is not None
    again = {"content": "Ada gave up golf and Greek.", "replaces": old.id, "force": True}
    saved = run(tools.call("remember", again)).data
    assert isinstance(saved, Remembered)
    assert saved.replaced == old.id
    assert store.get(old.id) is None
    shown = recalled_by(tools, context="What did Ada play before?", n_results=10)
    [past] = [one for one in shown if one.until]
    assert (past.id, past.dated[-19:-11]) == (old.id, " [until ")
    now: dict[str, object] = {"context": "What does Ada play?", "n_results": 10}
    assert past.id not in [one.id for one in recalled_by(tools, **now)]
    assert past.id in [one.id for one in recalled_by(tools, **now, include_superseded=True)]
    assert recalled_by(tools, **now, as_of="2020-01-01") == []
    gone = run(tools.call("forget", {"memory_id": saved.id}))
    assert f"It had superseded (id: {old.id})" in gone.text
    assert "Forgot" in run(tools.call("forget", {"memory_id": old.id})).text


def test_forget_with_lineage_erases_what_it_had_superseded(
    store: MemoryStore, tmp_path: Path
) -> None:
    tools = tools_on(store, tmp_path)
    old = store.add(store.new_memory("Ada lives in Ghent."))
    told = {"content": "Ada lives in Bruges.", "replaces": old.id}
    saved = run(tools.call("remember", told)).data
    assert isinstance(saved, Remembered)
    gone = run(tools.call("forget", {"memory_id": saved.id, "lineage": True})).data
    assert isinstance(gone, Forgot)
    assert gone.superseded == []
    assert run(tools.call("forget", {"memory_id": old.id})).text.startswith("Memory not found")
