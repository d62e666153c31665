"""Select the rows that are memories and have not expired, and the fields that keep rows apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.interchange.databases import copied, sqlite_file
from memory.interchange.foreign import (
    EXPIRY,
    OWNERS,
    TEXT_KEYS,
    TIME_KEYS,
    ForeignRow,
    Reading,
    ends_at,
    grouped,
    text_of,
)
from memory.interchange.vector_stores import is_qdrant
from memory.models import Memory
from memory.text import shortened, starts_with

MEM0_COLLECTION = "mem0"  # mem0's default
_OWN_RECORDS = "migrations_"  # begins the folder names of mem0's internal stores
_MEMORY_WORDS = frozenset({"memory", "memories", "fact", "facts", "semantic", "episodic"})
_NO_MEMORY_WORDS = frozenset(
    "file files filesystem prompt prompts instruction instructions template templates greeting "
    "greetings document documents doc docs page pages skill skills setting settings config cache "
    "checkpoint checkpoints draft drafts report reports code".split()
)
_NO_MEMORY_KEYS = frozenset(
    "modified_at encoding lines path file_path filename file_name mime_type media_type size_bytes "
    "prompt template system_prompt variables input_variables".split()
)
_OTHER_KIND_WORDS = frozenset(
    "todo todos task tasks message messages chat chats example examples shot shots event events "
    "log logs score scores metric metrics evaluation evaluations rating ratings feedback trace "
    "traces".split()
)
_GENERATED_KEY = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|[0-9a-f]{8,}|[0-9A-Z]{26}"
    r"|[a-z]{0,8}[-_:]?\d+",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"/|\.[A-Za-z]\w{0,4}$")
_PLACEHOLDER = re.compile(r"\{\{?\s*[A-Za-z_][\w.]*\s*\}?\}|<[A-Z_]{3,}>")
_LONGEST = 1_000  # characters of a text that is taken for a memory
_NAMED = 20  # namespaces that a message lists
_QUOTED = 40  # characters of a sample
# Fields that stores and this program set themselves; a difference in them tells a user nothing
_INTERNAL = frozenset(
    {*OWNERS, *EXPIRY, *TIME_KEYS, *TEXT_KEYS, "key", "hash", "text_lemmatized",
     "conversation", "turn", "turns", "other_turns"}
)  # fmt: skip
_PLACES = frozenset(
    "channel room thread server guild chat source url path page folder location place".split()
)
_NEARLY_UNIQUE = 0.9  # different values per row, from which on a field identifies the row


# --- mem0 -----------------------------------------------------------------------------------------


def vector_folder(path: Path) -> Path:
    """Return the folder of mem0's Chroma or Qdrant store: `path` itself, or the only store in it.

    >>> Path("mem0/chroma").mkdir(parents=True)
    >>> Path("mem0/chroma/chroma.sqlite3").touch()
    >>> vector_folder(Path("mem0")).name
    'chroma'

    Raises: InputError if there is no such store, or more than one.
    """
    if not path.is_dir():
        raise InputError(
            path,
            "is not a folder" if path.exists() else "there is no such folder",
            "give mem0's folder, or its Chroma or Qdrant folder",
        )
    inside = [sub for sub in sorted(path.iterdir()) if not sub.name.startswith(_OWN_RECORDS)]
    stores = [
        folder
        for folder in [path, *inside]
        if (folder / "chroma.sqlite3").is_file() or is_qdrant(folder)
    ]
    if len(stores) == 1 or path in stores:
        return stores[0]
    if stores:
        raise InputError(
            path,
            f"holds several stores: {', '.join(folder.name for folder in stores)}",
            "name one of these folders",
        )
    raise InputError(
        path, "holds no store of mem0", "give its Chroma or Qdrant folder; by default /tmp/qdrant"
    )


def with_history(rows: Sequence[ForeignRow], path: Path) -> list[ForeignRow]:
    """Return mem0's rows; a row without a time gets its time from mem0's file `history.db`.

    `path` is mem0's folder. A row that is not in the file stays as it is. If there is no such file,
    all rows stay as they are.

    >>> Path("own/chroma").mkdir(parents=True)
    >>> Path("own/chroma/chroma.sqlite3").touch()
    >>> rows = [ForeignRow("1", "Mia rows.", {})]
    >>> with_history(rows, Path("own")) == rows  # there is no history.db
    True

    Raises: InputError if the history cannot be read, or `path` is not mem0's folder.
    """
    times: dict[str, str] = {}
    created: dict[str, str] = {}
    files = (path / "history.db", vector_folder(path).parent / "history.db")
    if file := next((file for file in files if file.is_file()), None):
        with copied(file, [file]) as copy, sqlite_file(file, copy) as history:
            changes = list(history.run("SELECT * FROM history ORDER BY rowid"))
        for row in changes:
            created.setdefault(row["memory_id"], row["created_at"])
        dated = {row["memory_id"]: row["updated_at"] or row["created_at"] for row in changes}
        times = {name: at for name, at in dated.items() if at}
    return [
        row
        if row.metadata.get("updated_at") or row.metadata.get("created_at") or row.id not in times
        else replace(
            row, metadata=row.metadata | {"created_at": times[row.id]}, created=created[row.id]
        )
        for row in rows
    ]


def unexpired(rows: Sequence[ForeignRow], now: datetime) -> Iterator[ForeignRow]:
    """Yield the rows that do not expire, or expire after `now`.

    >>> over = ForeignRow("1", "Mia rows.", {"expiration_date": "2020-01-01"})
    >>> lasting = ForeignRow("2", "Mia sails.", {})
    >>> [row.id for row in unexpired([over, lasting], datetime.now(UTC))]
    ['2']
    """
    return (row for row in rows if (at := ends_at(row)) is None or at > now)


# --- LangGraph ------------------------------------------------------------------------------------


def choose_namespaces(
    rows: Sequence[ForeignRow], source: str, reading: Reading, wanted: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Choose which LangGraph namespaces to import.

    Return the full names of the chosen namespaces, sorted, and a dict from the name of each other
    namespace to the number of its items.

    `wanted` has names such as `users.mia`, which has the labels `users` and `mia`. A label `*`
    stands for any one label. Namespaces inside a wanted one are chosen too. If `wanted` is empty,
    the namespaces that seem to hold memories are chosen. `source` is the store's name in errors.

    >>> rows = notes.opened()[0].found().rows
    >>> choose_namespaces(rows, "notes", notes.reading, ["memories.*"])
    (('memories.noa',), {})

    Raises: InputError if a wanted namespace does not exist. InputError, too, if `wanted` is empty
    and the namespaces that could be chosen hold rows of several kinds, such as memories and todos.
    """
    by_namespace = grouped(rows, namespace_of)
    for prefix in wanted:
        if not any(_is_inside(name, prefix) for name in by_namespace):
            raise InputError(
                source,
                f"has no namespace {prefix!r}",
                f"there are: {', '.join(sorted(by_namespace)[:20]) or 'none'}",
            )
    if wanted:
        chosen = {
            name for name in by_namespace if any(_is_inside(name, prefix) for prefix in wanted)
        }
    else:
        possible = {
            name: items for name, items in by_namespace.items() if _holds_memories(items, reading)
        }
        chosen = _of_one_kind(possible, source, reading)
    left = {name: len(items) for name, items in by_namespace.items() if name not in chosen}
    return tuple(sorted(chosen)), left


def _of_one_kind(
    possible: Mapping[str, Sequence[ForeignRow]], source: str, reading: Reading
) -> set[str]:
    """Return the names of the namespaces `possible`; none if their rows seem to be no memories.

    Raises: InputError if the rows are of several kinds.
    """
    kinds = {_kind(row, reading) for items in possible.values() for row in items}
    if len(kinds) > 1:
        rows = [row for items in possible.values() for row in items]
        raise InputError(
            source,
            f"holds rows of several kinds; which are memories? {described(rows, reading)}",
            "import these with --namespace NAME, which may be repeated",
        )
    unmarked = {name for name in possible if not _MEMORY_WORDS & _words(name)}
    return set(possible) if kinds == {frozenset()} else set(possible) - unmarked


def _kind(row: ForeignRow, reading: Reading) -> frozenset[str]:
    """Return what tells rows of one kind from others; it is empty for plain memories."""
    fields = {name for name in row.metadata if reading.keeps_apart(name)}
    if row.metadata.get("kind") == "Memory":  # langmem's
        fields.discard("kind")
    return frozenset(fields | (_OTHER_KIND_WORDS & _words(namespace_of(row))))


def described(rows: Iterable[ForeignRow], reading: Reading) -> str:
    """Describe the namespaces of the rows: how many rows each has, of which kind, and a sample.

    >>> described(notes.opened()[0].found().rows, notes.reading)
    "memories.noa (2, such as 'Noa has a cat.')"
    """
    by_namespace = grouped(rows, namespace_of)
    parts = []
    for name, items in sorted(by_namespace.items())[:_NAMED]:
        fields = sorted({key for row in items for key in row.metadata if reading.keeps_apart(key)})
        having = f" with {', '.join(fields)}" if fields else ""
        sample = shortened(text_of(items[0], reading), _QUOTED)
        parts.append(f"{name} ({len(items):,}{having}, such as {sample!r})")
    more = len(by_namespace) - _NAMED
    return ", ".join(parts) + (f" and {more:,} more" if more > 0 else "")


def in_namespaces(rows: Iterable[ForeignRow], chosen: Iterable[str]) -> list[ForeignRow]:
    """Return the rows in the namespaces `chosen`; leave out rows in namespaces inside these.

    >>> rows = notes.opened()[0].found().rows
    >>> len(in_namespaces(rows, ["memories.noa"])), in_namespaces(rows, ["memories"])
    (2, [])
    """
    names = set(chosen)
    return [row for row in rows if namespace_of(row) in names]


def namespace_of(row: ForeignRow) -> str:
    return str(row.metadata["namespace"])


def _is_inside(namespace: str, prefix: str) -> bool:
    return starts_with(namespace.split("."), prefix.split("."))


def _holds_memories(items: Sequence[ForeignRow], reading: Reading) -> bool:
    """Return whether the items of one namespace are memories.

    In case of doubt, return False, because rows of a chosen namespace may be deleted later.
    """
    words = _words(namespace_of(items[0]))
    if _NO_MEMORY_WORDS & words or any(_is_no_memory(row, reading) for row in items):
        return False
    texts = [row for row in items if text_of(row, reading)]
    return bool(texts) and (bool(_MEMORY_WORDS & words) or all(map(_is_marked_as_memory, texts)))


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", name.lower()))


def _is_no_memory(row: ForeignRow, reading: Reading) -> bool:
    text, key = text_of(row, reading), str(row.metadata["key"])
    return bool(
        len(text) > _LONGEST
        or _PLACEHOLDER.search(text)
        or _FILE_NAME.search(key)
        or _NO_MEMORY_WORDS & _words(key)
        or _NO_MEMORY_KEYS & row.metadata.keys()
        or any(isinstance(row.metadata.get(name), list) for name in TEXT_KEYS)
    )


def _is_marked_as_memory(row: ForeignRow) -> bool:
    return bool(
        row.metadata.get("kind") == "Memory"  # langmem's
        or "memory" in row.metadata
        or _GENERATED_KEY.fullmatch(str(row.metadata["key"]))
    )


# --- fields that keep rows of different kinds apart, such as todos and messages -------------------


@dataclass(frozen=True)
class DifferingFields:
    """The metadata fields in which memories differ.

    `kinds` are the fields that keep memories apart. `others` maps the fields that do not keep them
    apart to the reason, worded for a user ("" if there is none).
    """

    kinds: tuple[str, ...] = ()
    others: Mapping[str, str] | None = None

    def notes(self, *, with_others: bool = True) -> tuple[str, ...]:
        """Return a line for a user about `kinds` and, if wanted, one about `others`."""
        notes = []
        if self.kinds:
            named = ", ".join(self.kinds)
            notes.append(f"fields that keep rows apart: {named}; --across NAME turns one off")
        if self.others and with_others:
            named = ", ".join(
                f"{name} ({why})" if why else name for name, why in self.others.items()
            )
            notes.append(
                f"fields that do not keep rows apart: {named}; --kind-key NAME turns one on"
            )
        return tuple(notes)


def differing_fields(
    memories: Sequence[Memory], reading: Reading, source: str = "import"
) -> DifferingFields:
    """Return the metadata fields in which the memories differ.

    `source` is the store's name in errors.

    >>> from datetime import UTC, datetime
    >>> call = Memory(content="Call Ida.", timestamp=datetime(2026, 5, 1, tzinfo=UTC))
    >>> done = call.model_copy(update={"metadata": {"status": "done"}})
    >>> differing_fields([call, done], Reading()).kinds
    ('status',)

    Raises: InputError if `reading` names a field that no memory has.
    """
    values: dict[str, set[str]] = {}
    held: dict[str, int] = {}
    named = {*reading.kind_keys, *reading.across}
    for memory in memories:
        own = {"category": memory.category, "emotion": memory.emotion}
        for key, value in (memory.metadata | {k: own[k] for k in own.keys() & named}).items():
            values.setdefault(key, set()).add(value if isinstance(value, str) else repr(value))
            held[key] = held.get(key, 0) + 1
    if memories and (unknown := sorted(named - values.keys())):
        raise InputError(
            source,
            f"no memory has the field {unknown[0]!r}; there are: {', '.join(sorted(values))}",
            "name another one with --kind-key or --across",
        )
    differing = sorted(key for key in values if len(values[key]) > 1 or held[key] < len(memories))
    return DifferingFields(
        tuple(key for key in differing if reading.keeps_apart(key)),
        {
            key: _why_not(key, len(values[key]), held[key])
            for key in differing
            if not (reading.keeps_apart(key) or _is_internal(key))
        },
    )


def _is_internal(key: str) -> bool:
    return key in _INTERNAL or key.startswith("namespace.")


def _why_not(key: str, values: int, rows: int) -> str:
    if values > 1 and values >= rows * _NEARLY_UNIQUE:
        return "nearly unique"
    return "names a place" if _PLACES.intersection(key.lower().split("_")) else ""


def differences(row: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of a row's metadata in which another row differs."""
    return tuple(
        sorted(
            key
            for key in {**row, **other}
            if row.get(key) != other.get(key) and not _is_internal(key)
        )
    )
