"""Who calls: bearer tokens, each of one user."""

from __future__ import annotations

import hashlib
import hmac
import logging
import stat
from collections.abc import Mapping
from pathlib import Path

from memory.errors import InputError
from memory.runtime import open_regular
from memory.text import clean

logger = logging.getLogger(__name__)

_SHORTEST = 16
_MOST_BYTES = 10_000_000
_FORM = "write a token, a space and a user, one of them a line"


class Tokens:
    """Held as digests only, and compared in constant time: no answer tells how much was right."""

    def __init__(self, users: Mapping[bytes, str]) -> None:
        self._users = dict(users)

    @classmethod
    def read(cls, source: Path | str, text: str) -> Tokens:
        """Of lines `TOKEN USER`; empty lines, and those that begin with #, are passed over.

        Raises: InputError, naming the line and never a token.
        """
        users: dict[bytes, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            token, _, user = line.strip().partition(" ")
            if not token or token.startswith("#"):
                continue
            if not clean(user):
                raise InputError(source, "has a token without a user", _FORM, number)
            if len(token) < _SHORTEST or not token.isascii():
                short = f"has a token of fewer than {_SHORTEST} plain characters"
                raise InputError(source, short, "make one with `openssl rand -hex 24`", number)
            if _digest(token) in users:
                raise InputError(source, "has a token twice", "give each user another", number)
            users[_digest(token)] = clean(user)
        if not users:
            raise InputError(source, "has no token", _FORM)
        return cls(users)

    @property
    def users(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._users.values()))

    def user_of(self, authorization: str) -> str | None:
        """Whose token an `Authorization` header carries; None for nobody's."""
        scheme, _, token = authorization.strip().partition(" ")
        given = _digest(token.strip())
        found = None
        for digest, user in self._users.items():  # all of them, whichever fits
            if hmac.compare_digest(digest, given):
                found = user
        return found if scheme.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file; a warning where others can read it.

    Raises: InputError.
    """
    try:
        with open_regular(path) as file:
            read = file.read(_MOST_BYTES + 1)
        if len(read) > _MOST_BYTES:
            raise InputError(path, f"has more than {_MOST_BYTES:,} bytes", _FORM)
        text = read.decode()
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            logger.warning("%s can be read by others; chmod 600 makes it yours alone", path)
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "is not UTF-8 text"
        raise InputError(path, f"cannot be read: {why}", _FORM) from exc
    return Tokens.read(path, text)
