"""`column IN (...)` with all its values in one parameter, so that the statement stays the same.

A statement that is made once is compiled once, by SQLAlchemy and by the database, however many
values it is asked about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
"""What no stored text has: PostgreSQL refuses it, and SQLite's JSON ends at NUL."""


class among(FunctionElement[bool]):  # noqa: N801 - read as the operator that it is
    """Whether a column of texts has one of these texts, or of those given under this name."""

    type = sa.Boolean()
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], texts: str | Collection[str]) -> None:
        if isinstance(texts, str):
            told = sa.bindparam(texts, type_=_Texts())
        else:
            told = sa.bindparam("texts", texts, type_=_Texts(), unique=True)
        super().__init__(column, told)

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - whatever it stands in
        """As it is: no index would be used for the `... = 1` that SQLite's booleans become."""
        return self


class _Texts(TypeDecorator[Collection[str]]):
    """Any number of texts: a JSON array in SQLite, an array in PostgreSQL."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(sa.Text())
        from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

        return dialect.type_descriptor(postgresql.ARRAY(sa.Text()))

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> Any:
        texts = [text for text in value or () if not _NEVER_STORED.search(text)]
        return texts if dialect.name == "postgresql" else json.dumps(texts)


@compiles(among, "sqlite")
def _in_sqlite(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(one, **settings) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - no value in it


@compiles(among, "postgresql")
def _in_postgresql(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(one, **settings) for one in element.clauses)
    return f"{column} = ANY ({texts})"
