"""Where a process listens: addresses as they are written, and sockets there."""

from __future__ import annotations

import socket

import pytest

from memory.errors import InputError
from memory.listening import Address


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


def test_a_host_stands_in_brackets_in_a_url_where_it_must() -> None:
    assert [Address(one, 1).name for one in ("::1", "127.0.0.1")] == ["[::1]", "127.0.0.1"]
