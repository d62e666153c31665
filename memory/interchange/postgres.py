"""Another program's PostgreSQL: statements, rights, failures. The only `psycopg` import."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from memory.errors import InputError
from memory.interchange.sqlite import PATIENCE_S
from memory.models import Vector

RIGHTS = ["SELECT", "INSERT", "UPDATE", "DELETE"]
_SECRETS = ("password", "sslpassword")
_PAGE = 1_000
_NAMED = re.compile(r'"(.+?)"')


def is_postgres(place: str) -> bool:
    return place.startswith(("postgresql://", "postgres://", "postgresql+psycopg://"))


def without_password(url: str) -> str:
    """Return the address without passwords.

    Raises: InputError where the address cannot be parsed.
    """
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        remedy = "give postgresql://USER@HOST/DATABASE"
        raise InputError("postgresql", f"the address cannot be read: {exc}", remedy) from exc
    account, at, host = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    query = [(key, value) for key, value in parse_qsl(parts.query) if key not in _SECRETS]
    shown = urlunsplit(("", f"{user}{at}{host}", parts.path, urlencode(query), ""))
    return f"{parts.scheme}://{shown.removeprefix('//')}"


@dataclass(frozen=True)
class Postgres:
    """An open connection, and the address that messages and files may show."""

    address: str
    connection: Any
    lock: ClassVar = " FOR UPDATE"
    """What is appended to a SELECT to lock its rows."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with _postgres_faults(self.address):
            cursor = self.connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def pages(self, statement: str, values: Sequence[Any] = ()) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a statement in pages; call it inside a transaction."""
        with _postgres_faults(self.address), self.connection.cursor(name="pages") as cursor:
            cursor.execute(statement, values)
            while page := cursor.fetchmany(_PAGE):
                yield page

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[None]:
        """Run a transaction that prints times in UTC; one that only reads sees one snapshot."""
        self.run("BEGIN" if writing else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            self.run("SET LOCAL TIME ZONE 'UTC'")
            self.run("SET LOCAL DateStyle = 'ISO'")
            self.run(f"SET LOCAL lock_timeout = '{PATIENCE_S}s'")
            yield
        except BaseException:  # Ctrl-C too must not leave it half done
            self.connection.rollback()
            raise
        self.run("COMMIT")

    def check_rights(self, tables: Sequence[str]) -> None:
        """Raises: InputError where this role may not write to these tables, named as in SQL."""
        asked = (
            "SELECT bool_and(has_table_privilege(asked, wanted)) AS may"
            " FROM unnest(%s::text[]) asked, unnest(%s::text[]) wanted"
        )
        [found] = self.run(asked, [list(tables), RIGHTS])
        if not found["may"]:
            remedy = f"grant this role {', '.join(RIGHTS)} on {' and '.join(tables)}"
            raise InputError(self.address, "cannot be written", remedy)

    def has(self, table: str) -> bool:
        [found] = self.run("SELECT to_regclass(%s) IS NOT NULL AS there", [table])
        return bool(found["there"])

    def identity(self, table: str) -> str:
        """Return a name of a table that does not depend on the address used."""
        [found] = self.run(
            "SELECT system_identifier::text AS server, current_database()::text AS database,"
            " to_regclass(%s)::oid::text AS store FROM pg_control_system()",
            [table],
        )
        return "/".join(map(str, found.values()))

    def as_written(self, value: object, kind: str) -> str:
        """Return a value of a type as it will be read once it has been written."""
        [found] = self.run(f"SELECT (%s::{kind})::text AS written", [value])
        return str(found["written"])

    def vector(self, vector: Vector) -> str:
        return f"[{','.join(map(str, np.asarray(vector, dtype=np.float32)))}]"


@contextmanager
def connected(url: str) -> Iterator[Postgres]:
    """Raises: InputError that names the database, and no password."""
    address = without_password(url)
    try:
        import psycopg
        from psycopg.rows import dict_row
        from psycopg.types.string import TextLoader
    except ImportError as exc:
        remedy = "pip install '.[postgres]'"
        raise InputError(address, "needs psycopg, which is not installed", remedy) from exc
    with _postgres_faults(address):
        connection = psycopg.connect(
            url.replace("postgresql+psycopg://", "postgresql://", 1),
            autocommit=True, prepare_threshold=None, row_factory=dict_row,
        )  # fmt: skip
    with closing(connection):
        for name in ("jsonb", "json", "timestamptz", "timestamp"):
            connection.adapters.register_loader(name, TextLoader)
        yield Postgres(address, connection)


@contextmanager
def _postgres_faults(address: str) -> Iterator[None]:
    import psycopg

    try:
        yield
    except psycopg.ProgrammingError as exc:
        if isinstance(exc, psycopg.errors.UndefinedTable):
            names = _NAMED.findall(str(exc)) or ["that was asked for"]
            remedy = "is it another database, or a schema: ?options=-csearch_path%3DNAME"
            raise InputError(address, f"has no table {names[0]!r}", remedy) from exc
        remedy = "check the address, and what this role may do"
        raise InputError(address, f"failed: {_first_line(exc)}", remedy) from exc
    except psycopg.Error as exc:
        remedy = "is the server there? PGPASSWORD or ~/.pgpass gives a password"
        raise InputError(address, f"failed: {_first_line(exc)}", remedy) from exc


def _first_line(exc: Exception) -> str:
    return next(iter(str(exc).strip().splitlines()), type(exc).__name__)


def quoted(name: str) -> str:
    """Return a name as it stands in SQL, also SQLite's."""
    return '"' + name.replace('"', '""') + '"'
