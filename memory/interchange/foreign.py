"""Rows of other programs' stores as memories: where they keep text, owner and time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from memory.errors import InputError
from memory.models import Frozen, Memory, UtcTime, first_problem
from memory.text import clean, clean_json, shortened

TEXT_KEYS = ("data", "text", "content", "memory", "page_content")
"""The keys under which a row without a document keeps its text, in order of preference."""
_USER_KEYS = ("user_id", "userId", "user")
_OTHER_OWNERS = (("agent", "agent_id"), ("run", "run_id"))
"""The owner of a row that names no user, as `agent:NAME` or `run:NAME`."""
_TIME_KEYS = ("timestamp", "updated_at", "created_at", "updatedAt", "createdAt", "time", "date")
_DERIVED = ("hash", "text_lemmatized")
"""The keys under which mem0 keeps what it derives from the text."""
_LISTS = ("linked_ids", "tags")
_OURS = ("category", "emotion", "intensity", "importance", *_LISTS)
"""Keys of our fields; a value that the field does not accept stays metadata."""
MILLISECONDS_FROM = 1e11
"""As seconds, the year 5138: what is larger was counted in milliseconds."""
EXPIRY = ("expiration_date", "expires_at")
"""Keys that decide when a row expires."""
UPDATED = ("updated_at", "updatedAt")
_SHOWN = 80
"""Characters of a row's id in a message."""


@dataclass(frozen=True)
class ForeignRow:
    """A row of another program's store."""

    id: str
    document: str | None
    metadata: dict[str, Any]
    links: list[dict[str, Any]] = field(default_factory=list)
    """Links to other rows by their ids, where the store has links."""
    expires: datetime | None = None
    """When the store stops showing the row, if that is kept outside of the metadata."""

    def says_the_same(self, other: ForeignRow) -> bool:
        return (self.document, self.metadata) == (other.document, other.metadata)


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that change, by key; None for a key that goes."""
    keys = before.keys() | after.keys()
    return {key: after.get(key) for key in keys if before.get(key) != after.get(key)}


def with_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with other ones for some keys; None removes a key."""
    changed = {**values, **changes}
    return {key: one for key, one in changed.items() if one is not None or key not in changes}


class Reading(Frozen):
    """The keys by which rows are read; for None, the usual keys are tried."""

    text_key: str | None = None
    user_key: str | None = None
    time_key: str | None = None
    id_key: str | None = None
    no_user: bool = False
    """Whether a row without a user is imported as nobody's; otherwise it is left out."""
    default_time: UtcTime | None = None
    """The time of rows that have none."""
    assume_utc: bool = False
    namespaces: tuple[str, ...] | None = None
    """LangGraph's namespaces that were chosen, without those inside them; None: not chosen yet."""


def as_memories(
    rows: Sequence[ForeignRow], source: str, reading: Reading
) -> Iterator[Memory | InputError]:
    """Yield each row as a memory of its owner, or the problem, which names the row.

    Raises: InputError where no row names an owner, or has a key that `reading` names.
    """
    _refuse_unknown_keys(rows, source, reading)
    for row in rows:
        try:
            yield as_memory(row, reading)
        except ValueError as exc:
            where = f"{source}: {shortened(row.id, _SHOWN)}"
            yield InputError(where, str(exc), "this memory is left out")


def _refuse_unknown_keys(rows: Sequence[ForeignRow], source: str, reading: Reading) -> None:
    keys = {key for row in rows for key in row.metadata}
    listed = f"its metadata has the keys: {', '.join(sorted(keys)) or 'none'}"
    for option in ("text_key", "time_key", "id_key"):
        wanted = getattr(reading, option)
        if wanted is not None and wanted not in keys and rows:
            remedy = f"name another --{option.replace('_', '-')}"
            raise InputError(source, f"no row has {wanted!r}; {listed}", remedy)
    usual = {*_USER_KEYS, *(key for _, key in _OTHER_OWNERS)}
    owners = usual if reading.user_key is None else {reading.user_key}
    nobodys = reading.no_user and reading.user_key is None
    if rows and not nobodys and not owners & keys:
        remedy = "name the user's with --user-key KEY, or give --no-user"
        raise InputError(source, f"whose memories are these? {listed}", remedy)


def as_memory(row: ForeignRow, reading: Reading) -> Memory:
    """Return a row as a memory with a new id; the row's id becomes the `external_id`.

    Unknown keys become metadata. A wrong `is_private` never makes a memory public.

    Raises: ValueError with the problem in one line.
    """
    left = dict(row.metadata)
    given: dict[str, Any] = {
        "external_id": _named(row, reading),
        "timestamp": _recorded(left, reading),
        "content": _text(row, left, reading),
        "user": _owner(left, reading),
        "is_private": _private(left),
    }
    if row.links:
        given["linked_ids"] = row.links
    for name in _OURS:
        if name in left:
            value = left.pop(name)
            given[name] = _listed(value) if name in _LISTS and isinstance(value, str) else value
    return _checked(given, left, row)


def _named(row: ForeignRow, reading: Reading) -> str:
    if reading.id_key is None:
        return row.id
    if row.metadata.get(reading.id_key) in (None, ""):
        raise ValueError(f"has no {reading.id_key}: what is it called?")
    return str(row.metadata[reading.id_key])


def _text(row: ForeignRow, left: dict[str, Any], reading: Reading) -> str:
    """Return the text; remove it from `left`, with what mem0 derived from it."""
    key = text_key_of(row, reading)
    if key is None:
        return row.document or ""
    text = left.pop(key)
    if key == "data":
        for name in _DERIVED:
            left.pop(name, None)
    return str(text)


def text_key_of(row: ForeignRow, reading: Reading) -> str | None:
    """Return the metadata key that holds the text; None if the document holds it.

    Raises: ValueError where there is no text.
    """
    if reading.text_key is None and _is_text(row.document):
        return None
    wanted = TEXT_KEYS if reading.text_key is None else (reading.text_key,)
    for key in wanted:
        if _is_text(row.metadata.get(key)):
            return key
    where = "document" if reading.text_key is None else "document to read"
    raise ValueError(f"content is empty: it has no {where}, and no text under {', '.join(wanted)}")


def text_of(row: ForeignRow, reading: Reading) -> str:
    """Return the row's text, empty if it has none."""
    try:
        key = text_key_of(row, reading)
    except ValueError:
        return ""
    return (row.document or "") if key is None else str(row.metadata[key])


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(clean(value))


def _owner(left: dict[str, Any], reading: Reading) -> str | None:
    """Return the owner; remove a user from `left`, but not an agent or a run.

    Raises: ValueError where there is none, or the name could be taken for another owner's.
    """
    keys = _USER_KEYS if reading.user_key is None else (reading.user_key,)
    for key in keys:
        if left.get(key) not in (None, ""):
            return _own_name(str(left.pop(key)), key)
    if reading.user_key is None:
        for kind, key in _OTHER_OWNERS:
            if left.get(key) not in (None, ""):
                return f"{kind}:{_unpadded(str(left[key]), key)}"
    if reading.no_user:
        return None
    names = reading.user_key or f"{', '.join(_USER_KEYS)}, agent_id or run_id"
    raise ValueError(f"has no {names}: whose memory is it? --no-user takes it as nobody's")


def _own_name(owner: str, key: str) -> str:
    if any(owner.startswith(f"{kind}:") for kind, _ in _OTHER_OWNERS):
        raise ValueError(f"its {key} {owner!r} is how rows of agents and runs are named here")
    return _unpadded(owner, key)


def _unpadded(owner: str, key: str) -> str:
    """Raises: ValueError where cleaning would turn the name into another one."""
    if clean(owner) != owner:
        raise ValueError(f"its {key} {owner!r} has space or control characters around it")
    return owner


def _recorded(fields: dict[str, Any], reading: Reading) -> str:
    """Return the first time that can be read; remove `timestamp` from the fields."""
    keys = _TIME_KEYS if reading.time_key is None else (reading.time_key,)
    times = [fields[key] for key in keys if fields.get(key) not in (None, "")]
    if not times:
        if reading.default_time is not None:
            return reading.default_time.isoformat()
        problem = "timestamp is missing: when was it recorded?"
        raise ValueError(f"{problem} --time-key KEY, or --default-time T")
    if reading.time_key is None:
        fields.pop("timestamp", None)
    for time in times:
        with contextlib.suppress(ValueError):
            return moment(time, assume_utc=reading.assume_utc)
    return moment(times[0], assume_utc=reading.assume_utc)  # raises the first problem


def moment(value: Any, *, assume_utc: bool) -> str:
    """Return a time in ISO 8601 with an offset, from that or from (milli)seconds since 1970.

    Raises: ValueError, saying what is wrong in one line.
    """
    if value is None:
        raise ValueError("timestamp is missing: when was it recorded?")
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            in_ms = abs(value) >= MILLISECONDS_FROM
            read = datetime.fromtimestamp(value / 1000 if in_ms else value, UTC)
        else:
            read = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError) as exc:
        raise ValueError(f"timestamp {value!r} is not ISO 8601") from exc
    if read.tzinfo is None:
        if not assume_utc:
            raise ValueError(f"timestamp {value!r} has no time zone: add one, or --assume-utc")
        read = read.replace(tzinfo=UTC)
    return read.isoformat()


def _private(left: dict[str, Any]) -> object:
    """Return `is_private`; stores without booleans write 0 and 1."""
    value = left.pop("is_private", None)
    return bool(value) if value is None or value in (0, 1) else value


def _listed(text: str) -> list[Any]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = [part.strip() for part in text.split(",") if part.strip()]
    return listed if isinstance(listed, list) else [listed]


def _checked(given: dict[str, Any], left: dict[str, Any], row: ForeignRow) -> Memory:
    while True:
        try:
            whole = json.dumps(clean_json({**given, "metadata": left}))
            return Memory.model_validate_json(whole)
        except ValidationError as exc:
            names = {str(error["loc"][0]) for error in exc.errors() if error["loc"]}
            theirs = names & set(_OURS) & row.metadata.keys() & given.keys()
            if not theirs:
                raise ValueError(str(first_problem(exc))) from exc
            for name in theirs:
                del given[name]
                left[name] = row.metadata[name]
        except RecursionError as exc:
            raise ValueError("is nested too deeply") from exc


def users_of_several_agents(memories: Iterable[Memory]) -> int:
    """Count the users with memories of several agents, which only a wider scope keeps apart."""
    agents: dict[str, set[str]] = {}
    for memory in memories:
        if memory.user is not None and "agent_id" in memory.metadata:
            agents.setdefault(memory.user, set()).add(str(memory.metadata["agent_id"]))
    return sum(len(named) > 1 for named in agents.values())
