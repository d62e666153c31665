"""Find the metadata fields that keep rows of different kinds apart, such as todos and messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.errors import InputError
from memory.interchange.foreign import EXPIRY, OWNERS, TEXT_KEYS, TIME_KEYS, Reading
from memory.ledger import Ledger, Reader
from memory.models import Memory

_KINDS = "kind_keys"
# Fields that stores and this program set themselves; a difference in them tells a user nothing
_INTERNAL = frozenset(
    {*OWNERS, *EXPIRY, *TIME_KEYS, *TEXT_KEYS, "key", "hash", "text_lemmatized",
     "conversation", "turn", "turns", "other_turns"}
)  # fmt: skip
_PLACES = frozenset(
    "channel room thread server guild chat source url path page folder location place".split()
)
_NEARLY_UNIQUE = 0.9  # different values per row, from which on a field identifies the row


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


def note_kinds(ledger: Ledger, kinds: Iterable[str], across: Iterable[str] = ()) -> None:
    """Note in the ledger that memories that differ in these fields are never compared.

    What is noted of the fields in `across` is deleted.
    """
    with ledger.writing() as writer:
        before = noted_kinds(writer)
        names = [name for name in dict.fromkeys([*before, *kinds]) if name not in across]
        if names != list(before):
            writer.set_meta(_KINDS, json.dumps(names))


def noted_kinds(reader: Reader) -> tuple[str, ...]:
    """Return the metadata fields that keep memories apart in this ledger.

    >>> note_kinds(store.ledger, ["status"])
    >>> with store.ledger.reading() as reader:
    ...     noted_kinds(reader)
    ('status',)
    """
    return tuple(json.loads(reader.meta(_KINDS) or "[]"))
