"""Turn rows of other programs' stores into memories: find their text, owner and time."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from memory.errors import InputError
from memory.models import MAX_QUOTED, Checked, LocalTime, Memory, first_problem, too_large
from memory.text import clean, clean_json, shortened

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
TEXT_KEYS = ("data", "text", "content", "memory", "page_content")
_USER_KEYS = ("user_id", "userId", "user")
_OTHER_OWNER_KEYS = (("agent", "agent_id"), ("run", "run_id"))
TIME_KEYS = ("timestamp", "updated_at", "created_at", "updatedAt", "createdAt", "time", "date")
CREATED = ("created_at", "createdAt", "timestamp", "time", "date")
SAID = "said"
UNKNOWN = "unknown"
_LISTS = ("linked_ids", "tags")
_OPTIONAL_FIELDS = ("category", "emotion", "intensity", "importance", *_LISTS)
# Numbers from this value on are milliseconds since 1970, smaller numbers are seconds. Read as
# seconds, this value would be in the year 5138.
MILLISECONDS_FROM = 1e11
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of a key such as messageRole or task_status
LAST_DAY = "expiration_date"
EXPIRY = (LAST_DAY, "expires_at")
UPDATED = ("updated_at", "updatedAt")
OWNERS = ("user_id", "userId", "agent_id", "run_id", "actor_id", "session_id", "thread_id",
          "app_id", "org_id", "project_id", "tenant_id", "namespace")  # fmt: skip
# Rows with different values under such a key are rows of different kinds, such as an open and a
# done todo. A key is one if its last word is in the first set, or if all of it is in the second.
_KIND_WORDS = frozenset({"status", "role", "label", "type", "kind"})
_KIND_KEYS = frozenset(
    "score priority state done completed level severity event sentiment rating verdict".split()
)


@dataclass(frozen=True, eq=False)
class PlainRow:
    """A row of another program's store.

    `document` is the row's text if the store keeps it outside of the metadata, otherwise None.
    """

    id: str
    document: str | None
    metadata: dict[str, Any]

    def has_same_content(self, other: PlainRow) -> bool:
        return (self.document, self.metadata) == (other.document, other.metadata)


@dataclass(frozen=True)
class ForeignRow(PlainRow):
    """A row of another program's store, in the form that an import reads.

    Each of the `links` is a dict with `link_type`, `note` and `target_id`, the id of another row.
    `expires` is the time of expiry, and `created` the time of creation, if the store keeps them
    outside of the metadata; otherwise None.

    >>> row = notes.opened()[0].found().rows[0]
    >>> row.id, row.document, row.created
    ('memories.noa/1', None, '2026-05-01 08:00:00+00:00')
    """

    links: list[dict[str, Any]] = field(default_factory=list)
    expires: datetime | None = None
    created: str | None = None


class Reading(Checked):
    """How the rows of a collection are read as memories.

    `text_key`, `user_key`, `time_key` and `id_key` are the metadata keys that hold a row's text,
    user, time and id. If `text_key`, `user_key` or `time_key` is None, the usual names are tried.
    If `id_key` is None, the row's own id is used.

    A row without a user is left out; with `no_user`, it becomes a memory of nobody. A row without a
    time gets the `default_time`, and it is unknown when its text was said; if `default_time` is
    None, the row is left out. With `assume_utc`, a time without a zone is taken as UTC, otherwise
    as a time of the IANA zone `timezone`; if that is None, such a row is left out.

    `namespaces` are the full names of the LangGraph namespaces to read.

    `kind_keys` are metadata keys that keep rows apart, in addition to those that `keeps_apart`
    knows. `across` are keys that do not keep rows apart, although it knows them.

    >>> Reading(text_key="note", user_key="owner").text_key
    'note'
    """

    text_key: str | None = None
    user_key: str | None = None
    time_key: str | None = None
    id_key: str | None = None
    no_user: bool = False
    default_time: LocalTime | None = None
    assume_utc: bool = False
    timezone: str | None = None
    namespaces: tuple[str, ...] | None = None
    kind_keys: tuple[str, ...] = ()
    across: tuple[str, ...] = ()

    def keeps_apart(self, key: str) -> bool:
        """Return whether a metadata key says of which kind a row is.

        Rows with different values under such a key are never merged.

        >>> Reading().keeps_apart("task_status"), Reading().keeps_apart("channel")
        (True, False)
        """
        if key in self.across:
            return False
        words = _WORD.findall(key)
        return (
            key in self.kind_keys
            or key.lower() in _KIND_KEYS
            or bool(words and words[-1].lower() in _KIND_WORDS)
        )

    @property
    def zone(self) -> ZoneInfo | None:
        return None if self.timezone is None else ZoneInfo(self.timezone)

    def moment(self, value: Any) -> str:
        return moment(value, assume_utc=self.assume_utc, zone=self.zone)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by their keys, both in the order of `items`."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def as_memories(
    rows: Sequence[ForeignRow], source: str, reading: Reading
) -> Iterator[Memory | InputError]:
    """Read rows as memories; yield a memory or an error for each row, in the order of `rows`.

    `source` is the store's name in errors.

    >>> rows = [ForeignRow("1", "Mia rows.", {"user_id": "Mia", "created_at": "2026-05-01T08:00Z"})]
    >>> [(memory.user, memory.content) for memory in as_memories(rows, "notes", Reading())]
    [('Mia', 'Mia rows.')]

    Raises: InputError in two cases. In the first, `reading` names a metadata key that no row has.
    In the second, no row has a user, an agent or a run, and `reading.no_user` is False.
    """
    _refuse_unknown_keys(rows, source, reading)
    for row in rows:
        try:
            yield as_memory(row, reading)
        except ValueError as exc:
            yield InputError(
                f"{source}: {shortened(row.id, 80)}", str(exc), "this memory is left out"
            )


def _refuse_unknown_keys(rows: Sequence[ForeignRow], source: str, reading: Reading) -> None:
    keys = {key for row in rows for key in row.metadata}
    listed = f"its metadata has the keys: {', '.join(sorted(keys)) or 'none'}"
    for option in ("text_key", "time_key", "id_key"):
        wanted = getattr(reading, option)
        if wanted is not None and wanted not in keys and rows:
            raise InputError(
                source,
                f"no row has {wanted!r}; {listed}",
                f"name another --{option.replace('_', '-')}",
            )
    usual = {*_USER_KEYS, *(key for _, key in _OTHER_OWNER_KEYS)}
    owners = usual if reading.user_key is None else {reading.user_key}
    if rows and not owners & keys and not (reading.no_user and reading.user_key is None):
        raise InputError(
            source,
            f"whose memories are these? {listed}",
            "name the user's with --user-key KEY, or give --no-user",
        )


def as_memory(row: ForeignRow, reading: Reading) -> Memory:
    """Return a row as a memory with a new id; the row's id becomes the `external_id`.

    Metadata keys that are not fields of a memory stay in its metadata. An unreadable `is_private`
    is an error, so that no private memory becomes public.

    Raises: ValueError, whose message says in one line why the row cannot be read.
    """
    if problem := too_large([row.id, row.document, row.metadata, row.links]):
        raise ValueError(problem)
    left = dict(row.metadata)
    if reading.id_key is not None and row.metadata.get(reading.id_key) in (None, ""):
        raise ValueError(f"has no {reading.id_key}: what is it called?")
    given: dict[str, Any] = {
        "external_id": row.id if reading.id_key is None else str(row.metadata[reading.id_key]),
        "timestamp": _recorded(left, reading),
        "said": said_of(row, reading),
        "content": _text(row, left, reading),
        "user": _owner(left, reading),
    }
    if _written_said(row, reading) is not None:
        del left[SAID]
    is_private = left.pop("is_private", False)
    # Some stores have no booleans.
    given["is_private"] = bool(is_private) if is_private in (None, 0, 1) else is_private
    if row.links:
        given["linked_ids"] = row.links
    if ends := ends_at(row):
        given["expires_at"] = ends.isoformat()
    for name in left.keys() & set(_OPTIONAL_FIELDS):
        value = left.pop(name)
        given[name] = _listed(value) if name in _LISTS and isinstance(value, str) else value
    return _checked(given, left, row)


def _text(row: ForeignRow, left: dict[str, Any], reading: Reading) -> str:
    key = text_key_of(row, reading)
    if key is None:
        return row.document or ""
    text = left.pop(key)
    if key == "data":
        for name in ("hash", "text_lemmatized"):  # mem0 derived them from the text
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
    try:
        key = text_key_of(row, reading)
    except ValueError:
        return ""
    return (row.document or "") if key is None else str(row.metadata[key])


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(clean(value))


def _owner(left: dict[str, Any], reading: Reading) -> str | None:
    keys = _USER_KEYS if reading.user_key is None else (reading.user_key,)
    for key in keys:
        if left.get(key) not in (None, ""):
            owner = str(left.pop(key))
            if any(owner.startswith(f"{kind}:") for kind, _ in _OTHER_OWNER_KEYS):
                raise ValueError(
                    f"its {key} {owner!r} is how rows of agents and runs are named here"
                )
            return _unpadded(owner, key)
    if reading.user_key is None:
        for kind, key in _OTHER_OWNER_KEYS:
            if left.get(key) not in (None, ""):
                return f"{kind}:{_unpadded(str(left[key]), key)}"
    if reading.no_user:
        return None
    names = reading.user_key or f"{', '.join(_USER_KEYS)}, agent_id or run_id"
    raise ValueError(f"has no {names}: whose memory is it? --no-user takes it as nobody's")


def _unpadded(owner: str, key: str) -> str:
    if clean(owner) != owner:
        raise ValueError(f"its {key} {owner!r} has space or control characters around it")
    return owner


def _recorded(fields: dict[str, Any], reading: Reading) -> str:
    keys = TIME_KEYS if reading.time_key is None else (reading.time_key,)
    times = [fields[key] for key in keys if fields.get(key) not in (None, "")]
    if not times:
        if reading.default_time is not None:
            return reading.default_time.isoformat()
        raise ValueError(
            "timestamp is missing: when was it recorded? --time-key KEY, or --default-time T"
        )
    if reading.time_key is None:
        fields.pop("timestamp", None)
    for at in times:
        with contextlib.suppress(ValueError):
            return reading.moment(at)
    return reading.moment(times[0])  # raises the first problem


def said_of(row: ForeignRow, reading: Reading) -> str | None:
    """Return when a row's text was said; None if only an edit or a default time is known.

    A write-back keeps this time under the key SAID, if it is not that of the row.
    """
    if (written := _written_said(row, reading)) is not None:
        return None if written == UNKNOWN else written
    named = () if reading.time_key in (None, *UPDATED) else (reading.time_key,)
    times = [row.metadata.get(key) for key in (*named, *CREATED)]
    times.insert(len(named), row.created)
    for at in times:
        with contextlib.suppress(ValueError):
            return reading.moment(at)
    return None


def _written_said(row: ForeignRow, reading: Reading) -> str | None:
    value = row.metadata.get(SAID)
    with contextlib.suppress(ValueError):
        if isinstance(value, str):
            return UNKNOWN if value == UNKNOWN else reading.moment(value)
    return None


def moment(value: Any, *, assume_utc: bool, zone: tzinfo | None = None) -> str:
    """Return a time as ISO 8601 text with an offset.

    `value` is ISO 8601 text, or a number of seconds or milliseconds since 1970. With `assume_utc`,
    text without a time zone is taken as UTC, otherwise as a time of `zone`; if that is None, such
    text is an error. A number gets the offset of `zone`.

    Raises: ValueError, whose message says in one line what is wrong.
    """
    if value is None:
        raise ValueError("timestamp is missing: when was it recorded?")
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= MILLISECONDS_FROM else value
            read = datetime.fromtimestamp(seconds, zone or UTC)
        else:
            read = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError) as exc:
        raise ValueError(f"timestamp {_quoted(value)} is not ISO 8601") from exc
    if read.tzinfo is None:
        if not assume_utc and zone is None:
            raise ValueError(
                f"timestamp {_quoted(value)} has no time zone: add one, or --assume-utc"
            )
        read = read.replace(tzinfo=UTC if assume_utc else zone)
    return read.isoformat()


def _quoted(value: object) -> str:
    return shortened(repr(value), MAX_QUOTED)


def expiry_of(value: object) -> datetime | None:
    """Return a time of expiry; None if `value` is not a time.

    `value` is ISO 8601, or seconds or milliseconds since 1970. Without a time zone, it is in UTC.
    """
    text = str(value)
    for form in (float, str):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(moment(form(text), assume_utc=True))
    return None


def last_day(value: object) -> datetime | None:
    """Return the end of a day, such as mem0's `expiration_date`; None if `value` is no day."""
    with contextlib.suppress(ValueError, OverflowError):
        after = date.fromisoformat(str(value)) + timedelta(days=1)
        return datetime.combine(after, time.min, UTC)
    return None


def ends_at(row: ForeignRow) -> datetime | None:
    """Return when a row of LangGraph or mem0 expires; None if it does not."""
    return row.expires or last_day(row.metadata.get(LAST_DAY))


def _listed(text: str) -> list[Any]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = [part.strip() for part in text.split(",") if part.strip()]
    return listed if isinstance(listed, list) else [listed]


def _checked(given: dict[str, Any], left: dict[str, Any], row: ForeignRow) -> Memory:
    """Return a memory with the fields `given` and the metadata `left`, both read from `row`.

    If the value of an optional field is not valid, it is put into the metadata instead.

    Raises: ValueError if any other field is not valid.
    """
    while True:
        try:
            return Memory.model_validate_json(json.dumps(clean_json({**given, "metadata": left})))
        except ValidationError as exc:
            names = {str(error["loc"][0]) for error in exc.errors() if error["loc"]}
            theirs = names & set(_OPTIONAL_FIELDS) & row.metadata.keys() & given.keys()
            if not theirs:
                raise ValueError(str(first_problem(exc))) from exc
            for name in theirs:
                del given[name]
                left[name] = row.metadata[name]
        except RecursionError as exc:
            raise ValueError("is nested too deeply") from exc


def users_of_several_agents(memories: Iterable[Memory]) -> int:
    """Return the number of users whose memories have different values of `agent_id`.

    >>> mine = store.new_memory("Mia rows.", user="Mia")
    >>> copies = [mine.model_copy(update={"metadata": {"agent_id": name}}) for name in "ab"]
    >>> users_of_several_agents(copies), users_of_several_agents(copies[:1])
    (1, 0)
    """
    pairs = {
        (memory.user, str(memory.metadata["agent_id"]))
        for memory in memories
        if memory.user is not None and "agent_id" in memory.metadata
    }
    return sum(agents > 1 for agents in Counter(user for user, _ in pairs).values())
