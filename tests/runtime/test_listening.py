"""Where a process listens: addresses, sockets there, and what clients may take of it."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from starlette.requests import Request

from memory.errors import InputError
from memory.runtime.listening import MAX_BODY_BYTES, Address, Gate, serve_until, values_in
from memory.runtime.threads import LoopThread


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:80", "127.0.0.1", 80), ("[::1]:0", "::1", 0), ("localhost:1", "localhost", 1)],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    address = Address.read(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, True)
    for wrong in ("", ":", ":80", "host", "host:", "host:x", "host:99999", "u@host:1", "h:1/x"):
        with pytest.raises(InputError):
            Address.read(wrong)


def test_every_address_is_ipv4_and_ipv6() -> None:
    assert Address("::", 0).is_every
    try:
        Address("::1", 0).listen().close()
    except InputError:
        pytest.skip("this machine has no IPv6")
    with Address("::", 0).listen() as at:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, at.getsockname()[1])).close()


def test_no_answer_waits_for_its_head_to_be_acknowledged() -> None:
    """asyncio sees to it only for sockets that name their protocol."""
    with Address("127.0.0.1", 0).listen() as at, socket.create_connection(at.getsockname()):
        accepted, _ = at.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_host_stands_in_brackets_in_a_url_where_it_must() -> None:
    assert [Address(one, 1).name for one in ("::1", "127.0.0.1")] == ["[::1]", "127.0.0.1"]


# --- clients that send half a request, or too much ------------------------------------------------


async def say_hello(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads what it is sent and says how much it was."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    await answer(send, f"{size} bytes".encode())


async def answer(send: Any, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(app: Any = say_hello, **limits: Any) -> Iterator[tuple[str, int]]:
    """Where the application answers, within these limits."""
    loop, stop = LoopThread("http"), asyncio.Event()
    with Address("127.0.0.1", 0).listen() as at:
        place = at.getsockname()
        serving = loop.start(serve_until(stop, app, at, **limits))
        try:
            yield place
        finally:
            loop.soon(stop.set)
            serving.result(20)
            loop.stop()


def asked(place: tuple[str, int], body: bytes = b"") -> bytes:
    """The answer to an ordinary request."""
    with socket.create_connection(place, timeout=20) as client:
        head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        client.sendall(head.encode() + b"connection: close\r\n\r\n" + body)
        return answer_of(client)


def answer_of(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    said = b""
    with suppress(ConnectionError):
        while part := client.recv(65_536):
            said += part
    return said


@contextmanager
def opened(place: tuple[str, int], count: int, said: bytes) -> Iterator[list[socket.socket]]:
    """Clients that have sent so much."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = stack.enter_context(socket.create_connection(place, timeout=20))
            clients.append(client)
            with suppress(ConnectionError):  # the server may have cut it off already
                client.sendall(said)
        yield clients


HALF_HEADER = b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: "
HALF_BODY = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf"


@pytest.mark.parametrize("half", [HALF_HEADER, HALF_BODY, b""])
def test_many_half_requests_do_not_keep_others_from_being_answered(
    half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"header_s": 600.0, "body_s": 600.0, "connections": 20}
    with served(**limits) as place, opened(place, 80, half):
        for _ in range(5):
            assert asked(place, b"hello").endswith(b"5 bytes")
    assert len(caplog.records) == 1, "a line a minute"


@pytest.mark.parametrize("half", [HALF_HEADER, HALF_BODY, b""])
def test_half_a_request_is_cut_off_in_time(half: bytes, caplog: pytest.LogCaptureFixture) -> None:
    limits = {"header_s": 0.5, "body_s": 0.5}
    with served(**limits) as place, opened(place, 100, half) as clients:
        assert [answer_of(client) for client in clients] == [b""] * 100
        assert asked(place, b"hello").endswith(b"5 bytes")
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage() == "a client was cut off: it was too slow"


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off_too() -> None:
    with (
        served(header_s=0.5) as place,
        socket.create_connection(place, timeout=20) as client,
    ):
        client.sendall(HALF_HEADER)
        until = time.monotonic() + 60.0
        with suppress(ConnectionError):
            while time.monotonic() < until:
                client.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() < until


def test_an_endless_header_is_cut_off_early(caplog: pytest.LogCaptureFixture) -> None:
    with (
        served() as place,
        socket.create_connection(place, timeout=20) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        sent = 0
        with suppress(ConnectionError):
            while sent < 50_000_000:
                client.sendall(b"x-more: " + b"x" * 1_000 + b"\r\n")
                sent += 1_010
        assert sent < 10_000_000, "what the sockets hold, and not much more"
        assert asked(place).endswith(b"0 bytes")
    assert len(caplog.records) == 1


async def let_in(_request: Request) -> None:
    """Let every request pass."""


def test_a_body_that_is_too_large_is_refused_and_not_kept() -> None:
    with served(Gate(say_hello, let_in)) as place:
        assert asked(place, b"x" * MAX_BODY_BYTES).endswith(f"{MAX_BODY_BYTES} bytes".encode())
        with socket.create_connection(place, timeout=20) as client:
            client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            with suppress(ConnectionError):
                for _ in range(MAX_BODY_BYTES // 65_536 + 1):
                    client.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            assert b"413" in answer_of(client).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b'{"method":"ping"},' * 5_000 + b"{}]",
        b'{"a":' * 6_000 + b"1" + b"}" * 6_000,
        b"{" + b",".join(b'"k%d":1' % n for n in range(6_000)) + b"}",
        b"&".join([b"member=x"] * 6_000),
    ],
)
def test_a_body_of_too_many_values_is_refused(body: bytes) -> None:
    with served(Gate(say_hello, let_in)) as place:
        assert b"at most 5,000 values" in asked(place, body)


def test_commas_and_quotes_in_a_text_are_no_values() -> None:
    text = '1, 2, [3], {4} & "5", \\'
    assert values_in(json.dumps({"text": text * 5_000, "more": [1, 2]}).encode()) == 4


def test_requests_of_one_connection_have_their_time_each() -> None:
    """Together they take longer than one may."""
    answered, start = 0, time.monotonic()
    with (
        served(header_s=1.0) as place,
        socket.create_connection(place, timeout=20) as client,
    ):
        while time.monotonic() < start + 1.5:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            said = b""
            while not said.endswith(b"0 bytes"):
                part = client.recv(65_536)
                assert part, f"cut off after {answered} answers"
                said += part
            answered += 1
    assert answered > 1


def test_an_answer_may_take_longer_than_a_request() -> None:
    async def slow(_scope: Any, _receive: Any, send: Any) -> None:
        await asyncio.sleep(0.4)  # longer than a request may
        await answer(send, b"at last")

    with served(slow, header_s=0.2, body_s=0.2) as place:
        assert asked(place).endswith(b"at last")
