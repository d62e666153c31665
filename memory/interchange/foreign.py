"""Turn rows of other programs' stores into memories: find their text, owner and time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from memory.errors import InputError
from memory.models import Frozen, Memory, UtcTime, first_problem
from memory.text import clean, clean_json, shortened

TEXT_KEYS = ("data", "text", "content", "memory", "page_content")
"""Metadata keys that may hold the text of a row without a document, the first choice first."""
_USER_KEYS = ("user_id", "userId", "user")
_OTHER_OWNERS = (("agent", "agent_id"), ("run", "run_id"))
"""Kinds of owners of a row without a user, each with the metadata key that has the owner's name.

The memory's user is then called `agent:NAME` or `run:NAME`.
"""
_TIME_KEYS = ("timestamp", "updated_at", "created_at", "updatedAt", "createdAt", "time", "date")
_DERIVED = ("hash", "text_lemmatized")  # mem0 derives their values from the text
_LISTS = ("linked_ids", "tags")
_OURS = ("category", "emotion", "intensity", "importance", *_LISTS)
"""Metadata keys that become fields of a memory; an invalid value stays in the metadata."""
MILLISECONDS_FROM = 1e11
"""Numbers from this value on are read as milliseconds since 1970, smaller numbers as seconds.

Read as seconds, this value would be in the year 5138.
"""
EXPIRY = ("expiration_date", "expires_at")
UPDATED = ("updated_at", "updatedAt")
_SHOWN = 80  # characters of a row's id in a message


@dataclass(frozen=True)
class ForeignRow:
    """A row of another program's store, as an import reads it.

    `document` is the row's text if the store keeps it outside of the metadata, otherwise None.
    """

    id: str
    document: str | None
    metadata: dict[str, Any]
    links: list[dict[str, Any]] = field(default_factory=list)
    """The row's links; each has `target_id`, the id of another row, `link_type` and `note`."""
    expires: datetime | None = None
    """When the row expires, if the store keeps that outside of the metadata; None otherwise."""

    def says_the_same(self, other: ForeignRow) -> bool:
        """Return whether two rows have equal documents and metadata.

        Ids, links and the separate expiry are not compared.
        """
        return (self.document, self.metadata) == (other.document, other.metadata)


class Reading(Frozen):
    """How the rows of a collection are read as memories.

    `text_key`, `user_key`, `time_key` and `id_key` are the metadata keys that hold a row's text,
    user, time and id. If one of the first three is None, the usual keys are tried. If `id_key` is
    None, the row's own id is used.
    """

    text_key: str | None = None
    user_key: str | None = None
    time_key: str | None = None
    id_key: str | None = None
    no_user: bool = False
    """Whether a row without a user becomes a memory without a user; otherwise it is left out."""
    default_time: UtcTime | None = None
    """The time given to rows that have none; if None, such rows are left out."""
    assume_utc: bool = False
    """Whether a time without a time zone is read as UTC; otherwise its row is left out."""
    namespaces: tuple[str, ...] | None = None
    """The full names of the LangGraph namespaces to read.

    None for any other store, and also before the namespaces have been chosen.
    """


def as_memories(
    rows: Sequence[ForeignRow], source: str, reading: Reading
) -> Iterator[Memory | InputError]:
    """Read rows as memories; yield a memory or an error for each row, in the order of `rows`.

    An error names the row that cannot be read. `source` is the store's name in errors.

    Raises: InputError if no row names an owner, or if no row has a key that `reading` names.
    """
    _refuse_unknown_keys(rows, source, reading)
    for row in rows:
        try:
            yield as_memory(row, reading)
        except ValueError as exc:
            where = f"{source}: {shortened(row.id, _SHOWN)}"
            yield InputError(where, str(exc), "this memory is left out")


def _refuse_unknown_keys(rows: Sequence[ForeignRow], source: str, reading: Reading) -> None:
    """Check that each key named by `reading` is in some row, and that some row names an owner.

    No owner is needed if `reading` allows rows without a user. `source` is the store's name in
    errors.

    Raises: InputError if the check fails; the error lists the keys that the rows have.
    """
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

    Metadata keys that are not fields of a memory stay in its metadata. A value of `is_private` that
    cannot be read is an error, so that no private memory becomes public.

    Raises: ValueError, whose message says in one line why the row cannot be read.
    """
    left = dict(row.metadata)
    if reading.id_key is not None and row.metadata.get(reading.id_key) in (None, ""):
        raise ValueError(f"has no {reading.id_key}: what is it called?")
    given: dict[str, Any] = {
        "external_id": row.id if reading.id_key is None else str(row.metadata[reading.id_key]),
        "timestamp": _recorded(left, reading),
        "content": _text(row, left, reading),
        "user": _owner(left, reading),
    }
    is_private = left.pop("is_private", False)
    # Some stores have no booleans.
    given["is_private"] = bool(is_private) if is_private in (None, 0, 1) else is_private
    if row.links:
        given["linked_ids"] = row.links
    for name in _OURS:
        if name in left:
            value = left.pop(name)
            given[name] = _listed(value) if name in _LISTS and isinstance(value, str) else value
    return _checked(given, left, row)


def _text(row: ForeignRow, left: dict[str, Any], reading: Reading) -> str:
    """Return the row's text; if the text is in the metadata `left`, remove it there.

    Values that mem0 derived from the text are removed from `left` too.

    Raises: ValueError if the row has no text.
    """
    key = text_key_of(row, reading)
    if key is None:
        return row.document or ""
    text = left.pop(key)
    if key == "data":
        for name in _DERIVED:
            left.pop(name, None)
    return str(text)


def text_key_of(row: ForeignRow, reading: Reading) -> str | None:
    """Return the metadata key that holds the row's text; None if the document is the text.

    Raises: ValueError if the row has no text.
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
    """Return the row's text; an empty string if it has none."""
    try:
        key = text_key_of(row, reading)
    except ValueError:
        return ""
    return (row.document or "") if key is None else str(row.metadata[key])


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(clean(value))


def _owner(left: dict[str, Any], reading: Reading) -> str | None:
    """Return the name of a row's owner: a user, an agent or a run.

    The result is None if the row has no owner and `reading` allows that. `left` is the row's
    metadata. If a key names a user, it is removed from `left`. A key that names an agent or a run
    stays.

    Raises: ValueError if the row needs an owner and has none, or if the owner's name could be
    mistaken for the name of another owner.
    """
    keys = _USER_KEYS if reading.user_key is None else (reading.user_key,)
    for key in keys:
        if left.get(key) not in (None, ""):
            owner = str(left.pop(key))
            if any(owner.startswith(f"{kind}:") for kind, _ in _OTHER_OWNERS):
                problem = f"its {key} {owner!r} is how rows of agents and runs are named here"
                raise ValueError(problem)
            return _unpadded(owner, key)
    if reading.user_key is None:
        for kind, key in _OTHER_OWNERS:
            if left.get(key) not in (None, ""):
                return f"{kind}:{_unpadded(str(left[key]), key)}"
    if reading.no_user:
        return None
    names = reading.user_key or f"{', '.join(_USER_KEYS)}, agent_id or run_id"
    raise ValueError(f"has no {names}: whose memory is it? --no-user takes it as nobody's")


def _unpadded(owner: str, key: str) -> str:
    """Return the name `owner` unchanged, after a check.

    The name must not begin or end with a space or a control character. These would be removed
    later, so that two owners could get the same name. `key` is the metadata key that has the name.

    Raises: ValueError if the name begins or ends with such a character.
    """
    if clean(owner) != owner:
        raise ValueError(f"its {key} {owner!r} has space or control characters around it")
    return owner


def _recorded(fields: dict[str, Any], reading: Reading) -> str:
    """Return the time at which a row was recorded, in ISO 8601, from the row's metadata `fields`.

    If `reading` names a key, the time is taken from this key. Otherwise the usual keys are tried in
    order, the first readable time is taken, and the key `timestamp` is removed from `fields`. If
    none of the keys has a value, the result is the default time of `reading`.

    Raises: ValueError if there is no time and no default, or if no time can be read.
    """
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
    """Return a time as ISO 8601 text with an offset.

    `value` is ISO 8601 text, or a number of seconds or milliseconds since 1970. With `assume_utc`,
    text without a time zone is taken as UTC; otherwise such text is an error.

    Raises: ValueError, whose message says in one line what is wrong.
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


def _listed(text: str) -> list[Any]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = [part.strip() for part in text.split(",") if part.strip()]
    return listed if isinstance(listed, list) else [listed]


def _checked(given: dict[str, Any], left: dict[str, Any], row: ForeignRow) -> Memory:
    """Return a memory with the fields `given` and the metadata `left`.

    If a value from `row` is invalid for one of the fields in `_OURS`, such as `tags`, that value
    goes into the metadata instead.

    Raises: ValueError if any other field is invalid.
    """
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
    """Return the number of users whose memories have different values of `agent_id`.

    By default, memories of one user are compared with each other even if their agents differ.
    """
    agents: dict[str, set[str]] = {}
    for memory in memories:
        if memory.user is not None and "agent_id" in memory.metadata:
            agents.setdefault(memory.user, set()).add(str(memory.metadata["agent_id"]))
    return sum(len(named) > 1 for named in agents.values())
