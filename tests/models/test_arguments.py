"""Each misuse of a public call is one line that names the argument and says what to write."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import memory
from memory import ChatMemory, Memories, Turn, open_chat_memory
from memory.config import MemoryConfig
from memory.errors import InputError, MemoryPipelineError
from tests.doubles import START

GOOD: dict[str, Any] = {
    "text": "Mia rows.",
    "user": "Mia",
    "memory_id": "mem_0123456789ab",
    "target": 1,
    "description": "Mia",
    "turn": Turn(speaker="Mia", text="I row.", at=START),
    "turns": [],
}
public: Any = memory  # its calls are made as no type checker allows
NAIVE = datetime(2026, 5, 1)
FOREIGN = re.compile(r"input should|field required|positional|has no attribute|not supported")


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memories]:
    with Memories(tmp_path_factory.mktemp("faces") / "mia.db", llm_provider="offline") as opened:
        yield opened


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(MemoryPipelineError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert not FOREIGN.search(message)
    return message


MISUSES: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda m: m.recall("x", user="Mia", k="5"),
        "recall: k must be a whole number from 1, not '5'",
    ),
    (lambda m: m.recall("x", user="Mia", k=True), "recall: k must"),
    (lambda m: m.recall("x", user="Mia", k=2.0), "recall: k must"),
    (
        lambda m: m.recall("x", user="Mia", top_k=3),
        "recall: has no argument top_k; did you mean k?",
    ),
    (lambda m: m.recall("x", user=3), "recall: user must be a name, or a list of names, not 3"),
    (lambda m: m.recall("x", user=[3]), "recall: user must be a name, or a list of names, not [3]"),
    (lambda m: m.recall("x", user=[]), "recall: user must be a name, or a list of names, not []"),
    (lambda m: m.recall("x", user=["Mia", " "]), "recall: user must"),
    (lambda m: m.recall("x"), "recall: needs a user; give user=NAME, or everyone=True"),
    (lambda m: m.recall("x", user="Mia", everyone=True), "recall: takes user or everyone"),
    (lambda m: m.recall("x", user="Mia", tags="sport"), "recall: tags must be a list of texts"),
    (lambda m: m.recall("x", user="Mia", metadata={1: 2}), "recall: metadata must be a dict with"),
    (lambda m: m.recall("x", user="Mia", since="today"), "recall: since must be a datetime with"),
    (lambda m: m.recall("x", user="Mia", until=date(2026, 5, 1)), "recall: until must be"),
    (lambda m: m.recall("x", user="Mia", as_of=NAIVE), "recall: as_of must be a datetime with an"),
    (lambda m: m.recall("x", user="Mia", min_score=float("nan")), "recall: min_score must be"),
    (lambda m: m.recall("x" * 100_001, user="Mia"), "recall: text must be a text of at most"),
    (lambda m: m.remember("x"), 'remember: needs user; write user="Mia"'),
    (lambda m: m.remember("x", "Mia"), 'remember: takes user by its name only; write user="Mia"'),
    (
        lambda m: m.remember("x", user_id="Mia"),
        "remember: has no argument user_id; did you me",
    ),
    (lambda m: m.remember("x", text="y", user="Mia"), "remember: has two values for text"),
    (lambda m: m.remember("x", user=""), "remember: user must be a name of 1 to"),
    (
        lambda m: m.remember("x", user="Mia", at=NAIVE),
        "remember: at must be a datetime with an",
    ),
    (lambda m: m.remember("x", user="Mia", metadata=[1]), "remember: metadata must be a dict"),
    (lambda m: m.remember("x", user="Mia", metadata={"a": object()}), "remember: metadata must"),
    (lambda m: m.remember("x", user="Mia", metadata={"a": [object()]}), "Memory: metadata.a"),
    (lambda m: m.remember("x\ud83d", user="Mia"), "remember: text must be a text of 1 to 100,000"),
    (lambda m: m.matching("\ud83d", user="Mia"), "matching: description must be a text"),
    (lambda m: m.list(user="Mia", limit=10**5000), "list: limit must be a whole number from 0"),
    (lambda m: m.remember("x", user="Mia", metadata={"a": float("nan")}), "Memory: metadata holds"),
    (lambda m: m.remember(" ", user="Mia"), "remember: text must be a text of 1 to 100,000 charac"),
    (lambda m: m.remember(["secret"], user="Mia"), "remember: text must be a text of 1 to 100,000"),
    (lambda m: m.update("mem_000000000000", None), "update: text must"),
    (lambda m: m.forget(None), "forget: memory_id must be the id of a memory, not None; write mem"),
    (lambda m: m.forget("mem_000000000000", lineage="no"), "forget: lineage must be True or False"),
    (lambda m: m.forget("mem_000000000000"), "no live memory has the id 'mem_000000000000'"),
    (lambda m: m.forget_user(""), "forget_user: user must be a name"),
    (lambda m: m.matching(" ", user="Mia"), "matching: description must"),
    (lambda m: m.history(3), "history: memory_id must"),
    (lambda m: m.history("mem_000000000000"), "no live memory has the id 'mem_000000000000'"),
    (
        lambda m: m.undo(1.5),
        "undo: target must be the number of a decision, the id",
    ),
    (lambda m: m.undo(99), "decision 99 cannot be undone"),
    (lambda m: m.list("Mia"), "list: takes user by its name only"),
    (lambda m: m.list(user="Mia", limit=-1), "list: limit must be a whole number from 0"),
    (lambda m: m.clean(dry_run="yes"), "clean: dry_run must be True or False, not 'yes'"),
    (lambda _: public.Memories(5), "Memories: file must be the path of a file on disk"),
    (
        lambda _: public.Memories("sqlite:///mia.db"),
        "Memories: file must be the path of a file on disk (a URL is ledger_url=...), not 'sqlite",
    ),
    (lambda _: public.Memories("x" * 300), "Memories: file cannot be used: File name too long; w"),
    (lambda _: public.Memories("~no_such_user/mia.db"), "Memories: file cannot be used: Could not"),
    (
        lambda _: public.Reading(owner="user"),
        "Reading: has no argument owner; it takes text_key, user_key",
    ),
    (lambda _: public.Memories(":memory:"), "Memories: file must be the path of a file on disk"),
    (lambda _: public.Memories("."), f"Memories: {Path.cwd()} is a folder; name a file in it"),
    (
        lambda _: public.Memories("/no/such/mia.db"),
        "Memories: the folder /no does not exist; make it first, or correct the path",
    ),
    (lambda _: public.Memories(ledger_url="sqlite:///:memory:"), "ledger URL sqlite:///"),
    (
        lambda m: m.update(m.remember("Mia has a cat.", user="Mia").memory.id, "dog", part="bird"),
        "update: part must stand in the memory's text exactly once, not 0 times; copy",
    ),
    (
        lambda m: m.update(m.remember("Mia has a cat.", user="Mia").memory.id, "i", part="a"),
        "update: part must stand in the memory's text exactly once, not 4 times; copy",
    ),
    (
        lambda m: m.undo("mem_000000000000"),
        "'mem_000000000000' cannot be undone: there is no",
    ),
    (lambda m: m.undo(m.remember("Mia skis.", user="Mia").memory.id), "'mem_"),
    (
        lambda _: public.Memories("mia.db", config={}),
        "Memories: config must be a Config or the Path",
    ),
    (lambda _: public.Memories("mia.db", colour=3), "setting colour"),
    (
        lambda _: public.Memories("mia.db", gemini_api_key="secret"),
        "setting gemini_api_key: is not known; set GEMINI_API_KEY or OPENAI_API_KEY in the env",
    ),
    (lambda _: public.Memories("mia.db", model="gpt-4o"), "Memories: model must be an object of"),
    (lambda _: public.Memories("mia.db", embedder="x"), "Memories: embedder must be an object of"),
    (lambda _: public.ChatMemory("mia.db"), "ChatMemory: needs extractor; write extractor=..., or"),
    (lambda _: public.open_store("mia.db"), "open_store: config must be a Config, not 'mia.db'"),
    (
        lambda _: asyncio.run(public.audit("notes.jsonl")),
        "audit: source must be a Source, not 'notes.jsonl'; write source=Source(file=",
    ),
    (
        lambda _: asyncio.run(public.import_memories(["Mia rows."])),
        "import_memories: source must be a Source, or a list of Memory, not ['Mia rows.']",
    ),
    (lambda _: public.write_back("notes.jsonl"), "write_back: needs approve"),
    (lambda _: public.undo_write_back(3), "undo_write_back: undo_file must be the path of a file"),
    (lambda m: m.forget(user="Mia"), "forget: has no argument user; call forget_user, or list"),
    (lambda _: public.open_chat_memory("x.yaml"), "open_chat_memory: config must be a Config"),
    (lambda _: public.load_config(settings=["llm"]), "load_config: settings must be a dict"),
    (lambda _: public.load_config(settings={"llm_timeout_s": "soon"}), "setting llm_timeout_s"),
    (lambda _: MemoryConfig(dedup_upper_threshold=0.5, dedup_lower_threshold=0.9), "MemoryConfig:"),
    (
        lambda _: public.Turn(speaker="Mia", text="x", at=NAIVE),
        "Turn: at must be a datetime with an off",
    ),
    (lambda _: public.Turn("Mia", "x", START), "Turn: takes speaker by its name only"),
    (lambda _: public.Turn(speaker="Mia", text="x"), "Turn: needs at; write at=datetime.now(UTC)"),
    (
        lambda _: public.Turn(speaker="Mia", text="x", at=START, role="user"),
        "Turn: has no argument role",
    ),
    (
        lambda _: public.Memory(content="x", timestamp=START, importance=9),
        "Memory: importance must be 1",
    ),
    (lambda _: public.collapse("Mia has a cat."), "collapse: texts must be a list of texts"),
    (
        lambda m: public.MemoryDeduplicator(m.store, 3),
        "MemoryDeduplicator: api_key must be a key of Gem",
    ),
    (
        lambda _: public.MemoryDeduplicator("mia.db", "key"),
        "MemoryDeduplicator: store must be an open",
    ),
    (
        lambda m: public.MemoryDeduplicator(m.store, "key", upper_threshold=2),
        "MemoryDeduplicator: upper",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISUSES, ids=[message for _, message in MISUSES])
def test_a_misuse_is_named_in_one_line(
    memories: Memories, call: Callable[[Any], Any], message: str
) -> None:
    said = refusal(lambda: call(memories))
    assert said.startswith(message)
    assert "secret" not in said


def test_with_in_place_of_async_with_is_named(memories: Any, tmp_path: Path) -> None:
    async def both_ways() -> None:
        chat: Any = open_chat_memory(data_dir=str(tmp_path), llm_provider="offline")
        try:
            with (
                pytest.raises(InputError, match=r"asynchronous; write `async with`, or use M"),
                chat,
            ):
                pass
        finally:
            await chat.close()
        with pytest.raises(InputError, match="Memories: is not asynchronous; write `with`, or"):
            async with memories:
                pass

    asyncio.run(both_ways())


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("search", "use recall"),
        ("get_all", "use list"),
        ("get", r"use store.get\(memory_id\)"),
        ("audit", r"use clean\(dry_run=True\)"),
        (
            "exort",
            "use one of clean, close, forget, forget_user, history, list, matching, recall, re",
        ),
    ],
)
def test_a_name_of_another_library_is_answered_with_ours(
    memories: Memories, name: str, instead: str
) -> None:
    with pytest.raises(AttributeError, match=f"Memories has no '{name}'; {instead}"):
        getattr(memories, name)


@pytest.mark.parametrize("face", [Memories, ChatMemory])
def test_every_argument_of_every_verb_is_checked(
    memories: Memories, face: type, tmp_path: Path
) -> None:
    async def check(opened: Any) -> None:
        for verb, function in vars(face).items():
            if verb.startswith("_") or not callable(function):
                continue
            parameters = [*inspect.signature(function).parameters.values()][1:]
            needed = {one.name: GOOD[one.name] for one in parameters if one.default is one.empty}
            for wrong in parameters:
                with pytest.raises(InputError, match=rf"{verb}: {wrong.name} must be .*; write"):
                    await getattr(opened, verb)(**needed | {wrong.name: object()})

    async def run() -> None:
        async with open_chat_memory(data_dir=str(tmp_path), llm_provider="offline") as chat:
            await check(memories if face is Memories else chat)

    asyncio.run(run())


def test_a_chat_memory_stays_a_coroutine_and_keeps_its_signature() -> None:
    assert inspect.iscoroutinefunction(ChatMemory.recall)
    assert [*inspect.signature(Memories.list).parameters] == ["self", "user", "limit"]


def test_a_right_call_is_let_through(memories: Memories) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    memories.remember("Mia rows.", user="Mia", at=at, metadata={"from": "chat"}, expires_at=None)
    memories.remember("The library is open.", user=None)
    [found] = memories.recall("rows", user=("Mia",), k=1, tags=(), since=at, metadata=None)
    assert found.content == "Mia rows."
    assert memories.recall("", user="Mia") == []
    assert memories.list(user="Mia", limit=0) == []
