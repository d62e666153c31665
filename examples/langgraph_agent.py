"""A LangChain agent whose store keeps every fact once: langgraph_agent.py. Needs no key.

    pip install '.[langgraph]' langchain

The chat model at the top stands in for a real one: it saves what it is told, and looks up what it
is asked. The store is the subject; it works in a temporary folder.

It prints:

    you> Mia runs 12 kilometres every Sunday morning.
    bot> saved
    you> mia runs 12 kilometres every sunday morning!
    bot> saved
    you> Mia runs 21 kilometres every Sunday morning.
    bot> saved
    you> What does Mia do on Sunday morning?
    bot> Mia runs 21 kilometres every Sunday morning. | mia runs 12 kilometres every sunday morning!
    4 turns, 3 puts, 2 memories
    2 files put, 2 files
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from memory.adapters.langgraph import open_dedup_store

MIA = ("memories", "mia")


class OfflineChat(BaseChatModel):
    """Calls `recall` for a question and `save` for anything else; then says what came back."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, *_: Any, **__: Any) -> OfflineChat:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        answer = AIMessage(str(last.content))
        if isinstance(last, HumanMessage):
            name = "recall" if str(last.content).endswith("?") else "save"
            call = {"name": name, "args": {"text": last.content}, "id": uuid4().hex}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def save(text: str, runtime: ToolRuntime) -> str:
    """Remember a fact."""
    runtime.store.put(MIA, uuid4().hex, {"text": text})
    return "saved"


@tool
def recall(text: str, runtime: ToolRuntime) -> str:
    """What is remembered about a question."""
    found = runtime.store.search(MIA, query=text, limit=2)
    return " | ".join(item.value["text"] for item in found)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_dedup_store(namespaces=[("memories",)], data_dir=folder) as store,
    ):
        agent = create_agent(OfflineChat(), [save, recall], store=store)
        for said in (
            "Mia runs 12 kilometres every Sunday morning.",
            "mia runs 12 kilometres every sunday morning!",
            "Mia runs 21 kilometres every Sunday morning.",
            "What does Mia do on Sunday morning?",
        ):
            answer = agent.invoke({"messages": [HumanMessage(said)]})["messages"][-1].content
            sys.stdout.write(f"you> {said}\nbot> {answer}\n")
        sys.stdout.write(f"4 turns, 3 puts, {len(store.search(MIA))} memories\n")
        file = {"text": "Mia runs every Sunday."}
        for name in ("draft.md", "final.md"):
            store.put(("files", "mia"), name, file)
        sys.stdout.write(f"2 files put, {len(store.search(('files', 'mia')))} files\n")


if __name__ == "__main__":
    main()
