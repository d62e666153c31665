"""The agent's server over HTTP: real clients, and who sees what."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult
from typer.testing import CliRunner

from memory.agent import build_tools
from memory.agent.server import Tokens, read_tokens, token_gate
from memory.assembly import open_store
from memory.cli import app
from memory.config import load_config
from memory.errors import InputError, LedgerError
from memory.runtime import Address
from tests.agent.driving import text_of
from tests.agent.serving import serving

MIA, BEN = "mias-token-0123456789", "bens-token-0123456789"
LINES = f"# who may call\n\n{MIA} Mia\n{BEN}  Ben of the North\n"


@asynccontextmanager
async def client(
    at: str, token: str | None = None, timeout_s: float = 30.0
) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=timeout_s) as web:
        transport = streamable_http_client(f"http://{at}/mcp", http_client=web)
        async with Client(transport) as opened:
            yield opened


async def call(one: Client, tool: str, **arguments: Any) -> CallToolResult:
    return await one.call_tool(tool, arguments)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("http")
    (folder / "tokens").write_text(LINES)
    (folder / "tokens").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def tokened(store: Path) -> Iterator[str]:
    with serving(store, "--tokens", "tokens", "--quiet-scaffolds", untold=(MIA, BEN)) as at:
        yield at


def posted(at: str, **headers: str) -> tuple[int, str]:
    """A request as a program that knows nothing of MCP would send it: its status and answer."""
    host, _, port = at.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(connection):
        connection.request("POST", "/mcp", json.dumps(body), sent | named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def health(at: str, **headers: str) -> tuple[int, bytes]:
    host, _, port = at.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", "/health", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_health_needs_no_token(tokened: str) -> None:
    assert health(tokened, host="10.0.0.7:1") == (200, b"ok\n"), "a probe calls it by any name"
    assert posted(tokened)[0] == 401


def test_health_says_when_the_ledger_cannot_be_read() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def unused(*_: Any) -> Any:
        raise AssertionError

    def check() -> None:
        raise LedgerError("the disk is gone: /secret/place")

    gate = token_gate(unused, Tokens.read("tokens", LINES), check)
    asyncio.run(gate({"type": "http", "path": "/health", "headers": []}, unused, send))
    assert [sent[0]["status"], sent[1]["body"]] == [503, b"the ledger cannot be read\n"]


# --- whose memories -------------------------------------------------------------------------------


def test_two_clients_with_different_tokens_never_see_each_others_memories(tokened: str) -> None:
    async def both() -> None:
        async with client(tokened, MIA) as mia, client(tokened, BEN) as ben:
            text = "The study printer answers at 192.168.7.1."
            first = await call(mia, "remember", content=text)
            second = await call(ben, "remember", content=text)
            ids = []
            for saved in (first, second):
                assert saved.structured_content is not None
                assert saved.structured_content["saved"], "the other's copy is no repetition"
                assert saved.structured_content["related"] == []
                ids.append(saved.structured_content["id"])
            for one, user, own, other in (
                (mia, "Mia", *ids),
                (ben, "Ben of the North", *reversed(ids)),
            ):
                told = await call(one, "recall", context="printer", n_results=10)
                assert told.structured_content is not None
                seen = [(m["id"], m["user"]) for m in told.structured_content["memories"]]
                assert seen == [(own, user)]
                recent = await call(one, "introspect")
                assert other not in text_of(recent)
                for tool, arguments in (
                    ("forget", {"memory_id": other}),
                    ("merge_memories", {"keep_id": own, "remove_id": other}),
                    ("link_memories", {"source_id": own, "target_id": other}),
                    ("create_episode", {"memory_ids": [own, other], "summary": "both"}),
                    ("remember", {"content": "Something else.", "replaces": other}),
                    ("remember", {"content": "Something else.", "user": "Zoe"}),
                    ("recall", {"context": "printer", "user": "Zoe"}),
                ):
                    refused = await call(one, tool, **arguments)
                    answer = text_of(refused)
                    assert refused.is_error or answer == f"Memory not found: {other}", tool
                    assert "printer" not in answer

    asyncio.run(both())


def test_an_answer_does_not_tell_how_many_decisions_others_have(tokened: str) -> None:
    async def both() -> None:
        async with client(tokened, MIA) as mia, client(tokened, BEN) as ben:
            ids = []
            for text in ("Ben rows.", "The bees like clover.", "A piano stands upstairs."):
                await call(mia, "remember", content=text, force=True)
                saved = await call(ben, "remember", content=text, force=True)
                assert saved.structured_content is not None
                ids.append(saved.structured_content["id"])
            corrected = await call(ben, "remember", content="Ben sails.", replaces=ids[0])
            merged = await call(ben, "merge_memories", keep_id=ids[1], remove_id=ids[2])
            assert f"`memory-dedup undo {ids[0]}` brings it back" in text_of(corrected)
            assert f"`memory-dedup undo {ids[2]}` takes it back" in text_of(merged)
            for answer in (corrected, merged):
                numbers = re.findall(r'"(\w+)": \d', json.dumps(answer.structured_content))
                assert set(numbers) <= {"links", "importance", "similarity"}

    asyncio.run(both())


@pytest.mark.drill
def test_long_texts_of_one_user_neither_hold_up_another_nor_their_long_text(tokened: str) -> None:
    long = "\n".join(f"The {n}th stone of the wall weighs {n * 7} kg." for n in range(2_000))

    async def both() -> None:
        async with client(tokened, MIA) as mia, client(tokened, BEN) as ben:
            ended: list[str] = []

            async def told(who: Client, name: str, content: str) -> None:
                saved = await call(who, "remember", content=f"{name}: {content}", force=True)
                assert not saved.is_error, text_of(saved)
                ended.append(name)

            async with asyncio.TaskGroup() as calls:
                for number in range(12):
                    calls.create_task(told(ben, f"long {number}", long))
                while not ended:
                    await asyncio.sleep(0.01)
                before = len(ended)
                calls.create_task(told(mia, "Mia's long", long))
                calls.create_task(told(mia, "Mia's short", "She rows."))
            assert ended.index("Mia's short") <= before + 4, ended
            assert ended.index("Mia's long") <= before + 5, ended
            assert len(ended) == 14

    asyncio.run(both())


def test_anothers_token_never_reads_an_episode_also_once_its_memories_are_gone(
    tokened: str,
) -> None:
    async def both() -> None:
        async with client(tokened, MIA) as mia, client(tokened, BEN) as ben:
            saved = await call(mia, "remember", content="The alarm code is 7788.")
            assert saved.structured_content is not None
            name = saved.structured_content["id"]
            told = await call(mia, "create_episode", memory_ids=[name], summary="Of the alarm")
            assert told.structured_content is not None
            episode = told.structured_content["id"]
            unknown = f"Episode not found: {episode}"
            assert text_of(await call(ben, "get_episode", episode_id=episode)) == unknown
            await call(mia, "forget", memory_id=name)
            assert text_of(await call(ben, "get_episode", episode_id=episode)) == unknown
            left = text_of(await call(mia, "get_episode", episode_id=episode))
            assert "Summary: (forgotten)" in left
            assert "alarm" not in left

    asyncio.run(both())


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", f"Bearer {MIA}x", f"Basic {MIA}", f"Bearer {MIA[:-1]}", MIA],
)
def test_without_a_known_token_nothing_is_said(tokened: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    status, said = posted(tokened, **headers)
    assert (status, said) == (401, "a bearer token is needed\n")


def test_without_questions_an_answer_ends_with_what_was_done(tokened: str) -> None:
    async def ask() -> str:
        async with client(tokened, MIA) as mia:
            return text_of(await call(mia, "remember", content="Mia's bees sleep in winter."))

    assert asyncio.run(ask()).startswith("Saved (id: mem_")
    assert "---" not in asyncio.run(ask())


# --- without tokens -------------------------------------------------------------------------------


def test_on_loopback_one_may_do_without_tokens_but_no_foreign_page_calls(tmp_path: Path) -> None:
    with serving(tmp_path, "--allow-host", "memory.example.org") as at:

        async def ask() -> list[Any]:
            async with client(at) as one:
                for user, text in (("Mia", "Mia has a cat."), ("Ben", "Ben has a cat.")):
                    saved = await call(one, "remember", content=text, user=user)
                    assert "\n---\n" in text_of(saved)
                told = await call(one, "recall", context="a cat", n_results=10, user="Ben")
                assert told.structured_content is not None
                return [one["content"] for one in told.structured_content["memories"]]

        assert asyncio.run(ask()) == ["Ben has a cat."]
        assert posted(at)[0] == 200
        assert posted(at, host="memory.example.org")[0] == 200
        assert posted(at, host="evil.example:80")[0] == 421
        assert posted(at, origin="http://evil.example")[0] == 403
        assert posted(at, origin=f"http://{at}")[0] == 200


@pytest.mark.drill
def test_half_requests_without_a_token_neither_hold_the_server_nor_fill_its_log(
    store: Path,
) -> None:
    half = (
        b"POST /mcp HTTP/1.1\r\nhost: x\r\nx-slow: ",
        b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf",
    )
    with (
        serving(store, "--tokens", "tokens", open_files=256) as at,
        contextlib.ExitStack() as clients,
    ):
        host, _, port = at.rpartition(":")
        for number in range(592):
            one = clients.enter_context(socket.create_connection((host, int(port)), timeout=20))
            with contextlib.suppress(ConnectionError):
                one.sendall(half[number % 2])
        began = time.monotonic()
        assert posted(at, authorization=f"Bearer {MIA}")[0] == 200
        assert time.monotonic() - began < 10.0  # 45 s without limits


# --- what is refused at the start -----------------------------------------------------------------


def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str, **env: str) -> str:
    monkeypatch.chdir(folder)
    for name, value in ({"MEMORY_DATA_DIR": str(folder / "data")} | env).items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["serve", *options])
    assert isinstance(done.exception, InputError)
    return str(done.exception)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--http", "0.0.0.0:0"], "others can reach 0.0.0.0, and no token is asked for"),
        (["--http", "8765"], "'8765': is not HOST:PORT; write 127.0.0.1:8765"),
        (["--http", "0.0.0.0:0", "--tokens", "tokens"], "give their name for it with --allow-host"),
        (["--http", "127.0.0.1:0", "--tokens", "tokens", "--user", "Mia"], "both name users"),
        (
            ["--http", "127.0.0.1:0", "--tokens", "tokens", "--workspace", "."],
            "--workspace: shows the memories of all users of the tokens",
        ),
        (["--tokens", "tokens"], "--tokens, --allow-host: are for HTTP; give --http HOST:PORT too"),
        (["--http", "127.0.0.1:0", "--tokens", "none"], "none: cannot be read: No such file"),
    ],
)
def test_settings_that_cannot_be_served_are_one_line(
    store: Path, options: list[str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert line in refused(store, monkeypatch, *options)


def test_where_memories_of_users_may_meet_tokens_are_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"MEMORY_DEDUP_SCOPE": "[category]", "MEMORY_AGENT_TOKENS": LINES}
    said = refused(store, monkeypatch, "--http", "127.0.0.1:0", **env)
    assert "memory.dedup_scope: lets memories of different users meet" in said


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (["--user", "Ben"], {}),
        (["--user", "Ben", "--http", "127.0.0.1:0"], {}),
        ([], {"MEMORY_AGENT_USER": "Ben"}),
    ],
)
def test_where_memories_of_users_may_meet_one_user_is_not_served_either(
    tmp_path: Path, options: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"MEMORY_DEDUP_SCOPE": "[category]", **env}
    said = refused(tmp_path, monkeypatch, *options, **env)
    assert said == (
        "memory.dedup_scope: lets memories of different users meet; "
        "put user into it, or serve without --user and agent.user"
    )
    assert list(tmp_path.iterdir()) == []


def test_tools_for_one_user_are_not_built_where_memories_of_users_may_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"data_dir": str(tmp_path), "dedup_scope": ["category"]}
    config = load_config(None, settings=settings | {"agent_user": "Ben"})
    with open_store(config) as opened, pytest.raises(InputError, match="different users meet"):
        build_tools(opened, config)


def test_a_port_that_is_taken_is_one_line(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Address("127.0.0.1", 0).listen() as taken:
        port = taken.getsockname()[1]
        said = refused(store, monkeypatch, "--http", f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port}: cannot listen there: Address already in use" in said


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_is_bound_to_one_user_whose_name_may_have_spaces() -> None:
    tokens = Tokens.read("tokens", LINES)
    assert tokens.users == {"Mia", "Ben of the North"}
    assert tokens.user_of(f"bearer   {BEN} ") == "Ben of the North"
    assert tokens.user_of(f"Bearer {MIA}\udcff") is None
    assert MIA not in repr(vars(tokens))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{MIA}\n", "tokens:1: has a token without a user"),
        ("short Mia\n", "tokens:1: has a token of fewer than 16 plain characters"),
        (f"{MIA} Mia\n{MIA} Ben\n", "tokens:2: has a token twice"),
        ("# none\n", "tokens: has no token"),
    ],
)
def test_a_wrong_line_is_named_and_no_token_is_told(text: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        Tokens.read("tokens", text)
    assert str(caught.value).startswith(line)
    assert MIA not in str(caught.value)


def test_a_file_of_tokens_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(LINES + "#" * 10_000_000)
    with pytest.raises(InputError, match="has more than 10,000,000 bytes"):
        read_tokens(file)


@pytest.mark.parametrize("tokens", [None, Tokens.read("tokens", LINES)], ids=["open", "tokened"])
def test_nobody_comes_in_over_anything_but_http(tokens: Tokens | None) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def inner(*_: object) -> None:
        raise AssertionError("somebody came in")

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(
        token_gate(inner, tokens, object)({"type": "websocket", "headers": []}, receive, send)
    )
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_file_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens"
    file.write_text(LINES)
    file.chmod(0o644)
    read_tokens(file)
    assert "can be read by others" in caplog.text
