"""An implementation of LangGraph's `BaseStore` that deduplicates texts in its values.

In configured namespaces, the text of a value becomes a memory. A search shows one item for each
live memory, with the memory's present text; `get` returns every value as it was put.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import operator
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from memory import Config, MemoryDeduplicator, MemoryStore, assembly, load_config
from memory.assembly import Conflict, ItemPlace, Reader, StoredItem, Writer, erase, superseding
from memory.errors import MemoryNotFound, StillStatedBy
from memory.models import (
    MAX_CONTENT,
    MAX_NAME,
    PERSON,
    Condition,
    Embedder,
    LanguageModel,
    Memory,
    Scope,
    SearchResult,
)
from memory.runtime import LoopThread, in_thread
from memory.text import clean, starts_with

logger = logging.getLogger(__name__)

_LONGEST_TTL = 500_000_000.0  # minutes, about 950 years
Namespace = tuple[str, ...]
Field = tuple[str, ...]
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class FoundItem(SearchItem):
    """An item that a search returned.

    `also`: the items that state the same, and are left out of the result for that reason. They are
    not changed if this item is updated or deleted.
    """

    __slots__ = ("also",)

    def __init__(self, *, also: Sequence[Item] = (), **fields: Any) -> None:
        super().__init__(**fields)
        self.also = tuple(also)

    def dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().dict()
        return fields | ({"also": [item.dict() for item in self.also]} if self.also else {})


class DedupStore(BaseStore):
    """A LangGraph store that deduplicates the texts in configured namespaces.

    It may be used from any thread and any event loop.

    `namespaces`: values in these namespaces and all namespaces inside them are deduplicated; the
    label `*` stands for any label. A value that is put with `index=False` is not deduplicated.
    `fields`: where to look for the text in a value. Each field is a key, or a path of keys such as
    `content.content`. The first field that has a text is used. `ttl`: the default time to live,
    and whether reads prolong it; an expired item is deleted at the next call. `release` is awaited
    when this store is closed.
    """

    supports_ttl = True

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        *,
        namespaces: Sequence[Sequence[str]],
        fields: Sequence[str] = ("text",),
        ttl: TTLConfig | None = None,
        release: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._store = store
        self._deduplicator = deduplicator
        self._namespaces = [tuple(prefix) for prefix in namespaces]
        self._fields = [tuple(field.split(".")) for field in fields]
        self.ttl_config = ttl
        self._release = release
        self._matched = False  # True after a value had a configured field, or after the warning
        self._locks: WeakValueDictionary[Namespace, asyncio.Lock] = WeakValueDictionary()
        self._loop = LoopThread("langgraph-store")

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations and return their results in the same order.

        All reads run before all writes, so a read does not see what the same call writes.

        Raises: ValueError if an operation is not valid; LedgerError.
        """
        return self._loop.start(self._run(list(ops))).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as `batch`, without blocking the event loop.

        If the caller is cancelled, the operations are still finished.
        """
        return await asyncio.shield(self._loop.run(self._run(list(ops))))

    def catch_up(self) -> int:
        """Deduplicate the texts that a killed process stored but did not deduplicate.

        Return the number of these texts.
        """
        with self._store.ledger.reading() as reader:
            items = reader.items.unplaced()
        texts = [(item, self._text(json.loads(item.value))[1]) for item in items]
        missing = [
            self._memory(item.namespace, item.key, text).model_copy(
                update={"id": item.memory_id, "expires_at": item.expires_at}
            )
            for item, text in texts
            if text
        ]
        if missing:
            self._loop.start(self._deduplicator.check_and_merge_all(missing)).result()
        return len(missing)

    def close(self) -> None:
        if self._release is not None:
            self._loop.start(self._release()).result()
        self._loop.stop()

    def __enter__(self) -> DedupStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- a batch: all reads, then all writes ---

    async def _run(self, ops: list[Op]) -> list[Result]:
        for op in ops:
            if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
                raise ValueError(f"unknown operation {type(op).__name__}")
            validate_op_namespace(op)
            if isinstance(op, PutOp) and not 0.0 <= (op.ttl or 0.0) <= _LONGEST_TTL:
                raise ValueError(f"ttl is {op.ttl}, not minutes from 0 to {_LONGEST_TTL:,.0f}")
        results = await in_thread(self._read, ops)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if not puts:
            return results
        async with AsyncExitStack() as stack:
            for namespace in sorted({namespace for namespace, _ in puts}):
                await stack.enter_async_context(self._locks.setdefault(namespace, asyncio.Lock()))
            new, former = await in_thread(self._put, list(puts.values()))
            if new:
                await self._deduplicator.check_and_merge_all(new)
            erased = [await in_thread(self._end, one) for one in former]
            if any(erased):
                await in_thread(self._store.scrub)
        return results

    # --- reading ---

    def _read(self, ops: Sequence[Op]) -> list[Result]:
        now = self._store.clock()
        self._delete_expired(now)
        read: list[StoredItem] = []
        with self._store.ledger.reading() as reader:
            results = [self._found(reader, op, read) for op in ops]
        if read:
            with self._store.ledger.writing() as writer:
                for item in read:
                    writer.items.touch(item, now)
                    if item.memory_id is not None:
                        writer.superseded.prolong(item.memory_id, _expiry(now, item.ttl_minutes))
        return results

    def _delete_expired(self, now: datetime) -> None:
        with self._store.ledger.reading(now) as reader:
            if not reader.items.due(now):
                return
        with self._store.ledger.writing() as writer:
            due = writer.items.due(now)
            for item in due:
                writer.items.delete(item.namespace, item.key)
        for item in due:
            if item.memory_id is not None:  # a memory that another item has stays
                self._end(_Former(item.memory_id, is_shown=False, new_id=None))
        self._store.scrub()

    def _found(self, reader: Reader, op: Op, read: list[StoredItem]) -> Any:
        """Return the result of an operation; add the items to `read` whose time it prolongs."""
        if isinstance(op, GetOp):
            item = reader.items.get(op.namespace, op.key)
            read += [item] if item and op.refresh_ttl and item.ttl_minutes is not None else []
            return None if item is None else Item(**_fields_of(item))
        if isinstance(op, SearchOp):
            return self._search_page(reader, op, read)
        if isinstance(op, ListNamespacesOp):
            return _listed(reader.items.namespaces(), op)
        return None

    def _search_page(
        self, reader: Reader, op: SearchOp, read: list[StoredItem]
    ) -> list[SearchItem]:
        places = reader.items.under(op.namespace_prefix, values=bool(op.filter))
        living = reader.memories.living_ids(
            place.memory_id for place in places if place.memory_id and not place.is_live
        )
        living |= {one.memory_id: one.memory_id for one in places if one.memory_id and one.is_live}
        if op.filter:
            places = self._fitting(reader, places, living, op.filter)
        shown: dict[str, ItemPlace] = {}  # by live memory: its own item, or else the latest put
        for place in places:
            end = living.get(place.memory_id or "")
            if end and (end not in shown or place.memory_id == end):
                shown[end] = place
        last = op.offset + op.limit
        hits = self._hits(op, shown, last)
        named = {memory.id for hit in hits for memory in (hit.memory, *hit.also)}
        ends = {place.id: end for end, place in shown.items()}
        ids = [shown[hit.memory.id].id for hit in hits]
        if len(hits) < last:  # also what has no memory; an item without a live one is not shown
            ids += [
                place.id
                for place in places
                if place.memory_id is None or ends.get(place.id) not in {None, *named}
            ]
        also = {ids[n]: [shown[one.id].id for one in hit.also] for n, hit in enumerate(hits)}
        scores = {ids[n]: hit.score for n, hit in enumerate(hits)}
        page = ids[op.offset : last]
        wanted = [*page, *(name for one in page for name in also.get(one, ()))]
        stored = reader.items.at(wanted)
        if op.refresh_ttl:
            read += [item for item in stored.values() if item.ttl_minutes is not None]
        items = self._items(reader, stored, ends)
        return [
            FoundItem(
                **items[name],
                score=scores.get(name),
                also=[Item(**items[one]) for one in also.get(name, ())],
            )
            for name in page
        ]

    def _fitting(
        self,
        reader: Reader,
        places: Sequence[ItemPlace],
        living: Mapping[str, str],
        wanted: Mapping[str, Any],
    ) -> list[ItemPlace]:
        """Return the items whose values match a filter. `living`: the ends of their memories."""
        retired = {place.memory_id for place in places if not place.is_live}
        rows = reader.memories.rows([end for name, end in living.items() if name in retired])

        def fits(place: ItemPlace) -> bool:
            end = rows.get(living.get(place.memory_id or "", ""))
            text = place.text if place.is_live or end is None else end.memory.content
            value = self._present(place.value or "{}", text)
            return all(_matches(_at(value, name), part) for name, part in wanted.items())

        return list(filter(fits, places))

    def _hits(self, op: SearchOp, shown: Mapping[str, ItemPlace], k: int) -> list[SearchResult]:
        if not (op.query and clean(op.query) and shown and k > 0):
            return []
        names = {place.namespace for place in shown.values()}
        whole = Scope.of_all(private=True)
        scope = Scope.of_user(_user_of_namespace(*names)) if len(names) == 1 else whole
        return self._store.search(op.query, k, scope=scope, among=shown.keys())

    def _items(
        self, reader: Reader, items: Mapping[str, StoredItem], ends: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """Return the arguments of LangGraph's `Item` for each stored item, by its id.

        The text in the value is the present one of the item's live memory. `ends`: the ids of
        these memories, by the items' ids.
        """
        rows = reader.memories.rows([ends[name] for name in items if name in ends])
        texts = {name: rows[end].memory.content for name, end in ends.items() if end in rows}
        return {
            name: _fields_of(item) | {"value": self._present(item.value, texts.get(name))}
            for name, item in items.items()
        }

    def _present(self, stored: str, text: str | None) -> dict[str, Any]:
        """Return a stored value, with the present text of its memory; None leaves it as it is."""
        value: dict[str, Any] = json.loads(stored)
        path, held = self._text(value) if text is not None else ((), "")
        if text is None or not path or held == text:
            return value
        return _with_text(value, path, text)

    # --- writing ---

    def _put(self, puts: Sequence[PutOp]) -> tuple[list[Memory], list[_Former]]:
        """Store or delete items in one transaction; return the new memories and the former ones.

        The new memories are not stored yet.
        """
        new: list[Memory] = []
        former: list[_Former] = []
        with self._store.ledger.writing() as writer:
            for op in puts:
                before = writer.items.get(op.namespace, op.key)
                is_shown = before is not None and _is_shown(writer, before)
                memory_id = self._put_one(writer, op, before, new)
                if before is not None and before.memory_id not in (None, memory_id):
                    former.append(_Former(str(before.memory_id), is_shown, memory_id))
            for one in former:
                self._mark_distinct(writer, one, new)
        return new, former

    def _put_one(
        self, writer: Writer, op: PutOp, before: StoredItem | None, new: list[Memory]
    ) -> str | None:
        if op.value is None:
            writer.items.delete(op.namespace, op.key)
            return None
        at = self._store.clock()
        value = dict(op.value)
        path, text = self._text(value)
        memory_id = None
        if self._is_deduplicated(op, path, text):
            self._matched = True
            memory_id = self._unchanged_memory(writer, before, text)
            ends = _expiry(at, op.ttl)
            if memory_id is None:
                made = self._memory(op.namespace, op.key, text)
                new.append(made.model_copy(update={"expires_at": ends}))
                memory_id = made.id
            else:
                writer.superseded.prolong(memory_id, ends)
        elif not path:
            self._warn_of_fields(op, value)
        writer.items.put(op.namespace, op.key, json.dumps(value), memory_id, at, op.ttl)
        return memory_id

    def _warn_of_fields(self, op: PutOp, value: Mapping[str, Any]) -> None:
        if not self._matched and self._is_inside(op.namespace) and op.index is not False:
            self._matched = True
            logger.warning(
                "nothing is deduplicated: a value in %s has none of the fields %s; its keys are "
                "%s: name the one with the text, fields=[...]",
                ".".join(op.namespace),
                ", ".join(".".join(field) for field in self._fields),
                ", ".join(_paths(value)) or "none",
            )

    def _unchanged_memory(self, writer: Writer, before: StoredItem | None, text: str) -> str | None:
        if before is None or before.memory_id is None:
            return None
        alive = writer.memories.living(before.memory_id)
        if alive is None:
            return None
        values = json.loads(before.value), self._present(before.value, alive.memory.content)
        return before.memory_id if text in {self._text(value)[1] for value in values} else None

    def _mark_distinct(self, writer: Writer, former: _Former, new: Sequence[Memory]) -> None:
        arrival = next((memory for memory in new if memory.id == former.new_id), None)
        old = _ending(writer, former)
        if arrival is None or old is None or old.dated_key == arrival.dated_key:
            return
        writer.distinct.mark(
            self._store.scope_of(arrival), old.dated_key, arrival.dated_key, "overwritten", "person"
        )

    def _end(self, former: _Former) -> bool:
        """End the memory of an item that was overwritten or deleted, if it must end.

        If the item has a new memory, this one supersedes it. Otherwise it is erased, with what it
        superseded that no item has. Return whether a memory was erased.
        """
        while True:
            with self._store.ledger.reading() as reader:
                old, revision = _ending(reader, former), reader.revision()
                if old is None:
                    return False
                heir = reader.memories.living(former.new_id) if former.new_id else None
                earlier = [row.memory for row in reader.superseded.by(old.id)]
                earlier = [one for one in earlier if _is_unused(reader, one.id)]
            if former.new_id is None:
                for memory in (*earlier, old):
                    with contextlib.suppress(MemoryNotFound, StillStatedBy):
                        erase(self._store.ledger, memory.id, self._store.clock(), items=False)
                return True
            if heir is None or heir.memory.id == old.id:
                return False
            why, unchanged = "its key was overwritten", Condition(revision)
            done = superseding(old, heir.memory, why, PERSON, unchanged)
            if not isinstance(self._store.apply(done), Conflict):
                return False

    # --- which text of which value ---

    def _is_inside(self, namespace: Namespace) -> bool:
        return any(starts_with(namespace, prefix) for prefix in self._namespaces)

    def _is_deduplicated(self, op: PutOp, path: Field, text: str) -> bool:
        indexed = op.index is None or (op.index is not False and ".".join(path) in op.index)
        return bool(
            indexed and self._is_inside(op.namespace) and clean(text) and len(text) <= MAX_CONTENT
        )

    def _text(self, value: Mapping[str, Any]) -> tuple[Field, str]:
        for path in self._fields:
            held: Any = value
            for name in path:
                held = held.get(name) if isinstance(held, Mapping) else None
            if isinstance(held, str) and (text := clean(held)):
                return path, text
        return (), ""

    def _memory(self, namespace: Namespace, key: str, text: str) -> Memory:
        return Memory(
            id=self._store.new_id(),
            content=text,
            user=_user_of_namespace(namespace),
            timestamp=self._store.now(),
            metadata={"namespace": ".".join(namespace), "key": key},
        )


def open_dedup_store(
    config: Config | Path | None = None,
    *,
    namespaces: Sequence[Sequence[str]],
    fields: Sequence[str] = ("text",),
    ttl: TTLConfig | None = None,
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    **settings: Any,
) -> DedupStore:
    """Open the store at the configured location.

    Texts that a killed process stored but did not deduplicate are deduplicated first. `config` is
    the configuration, or the path of its file. `settings` override single settings. `namespaces`,
    `fields` and `ttl` are as in `DedupStore`. `model` and `embedder` replace the configured ones.

    Raises: ConfigError, LedgerError, EmbedderMismatch.
    """
    config = load_config(config, settings=settings)
    language = assembly.build_model(config, model)
    store = assembly.open_store(config, embedder=embedder)

    async def release() -> None:
        await language.aclose()
        await in_thread(store.close)

    opened = DedupStore(
        store,
        assembly.build_deduplicator(store, config, language),
        namespaces=namespaces,
        fields=fields,
        ttl=ttl,
        release=release,
    )
    try:
        opened.catch_up()
    except BaseException:  # also Ctrl-C: the ledger must not stay open; the error goes on
        opened.close()
        raise
    return opened


# --- pure: operations, values, names -------------------------------------------------------------


class _Former(NamedTuple):
    """The memory of an item that was overwritten or deleted."""

    id: str
    is_shown: bool
    """Whether a search showed this item for the memory, or for the one that replaced it."""
    new_id: str | None
    """The item's new memory; None if it has none."""


def _ending(reader: Reader, former: _Former) -> Memory | None:
    """Return the memory that must end because an item was overwritten or deleted, or None.

    That is the item's memory, or the one that replaced it. It stays if a search showed it as
    another item, if it also stands for a memory that does not come from an item, or if it is
    superseded and the item was overwritten.
    """
    row = reader.memories.row(former.id)
    while row is not None and not row.live and row.until is None:
        row = reader.memories.row(row.successor_id) if row.successor_id else None
    if row is None or not (row.live or former.new_id is None):
        return None
    if not (former.is_shown or _is_unused(reader, row.memory.id)):
        return None
    rows = reader.memories.rows([row.memory.id, *reader.memories.ancestors(row.memory.id)])
    from_items = all("namespace" in one.memory.metadata for one in rows.values())
    return row.memory if from_items else None


def _is_unused(reader: Reader, memory_id: str) -> bool:
    """Return whether no item has this memory or one that it replaced."""
    return not reader.items.of_memories([memory_id, *reader.memories.ancestors(memory_id)])


def _is_shown(reader: Reader, item: StoredItem) -> bool:
    """Return whether a search shows this item for its memory, or for the one that replaced it."""
    living = reader.memories.living(item.memory_id) if item.memory_id else None
    if living is None:
        return False
    end = living.memory.id
    items = reader.items.of_memories([end, *reader.memories.ancestors(end)])
    own = [one for one in items if one.memory_id == end]
    return [*own, *items][0] == item


def _fields_of(item: StoredItem) -> dict[str, Any]:
    """Return the arguments of LangGraph's `Item`, with the value as it was put."""
    return {
        "value": json.loads(item.value),
        "key": item.key,
        "namespace": item.namespace,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _expiry(at: datetime, ttl_minutes: float | None) -> datetime | None:
    return None if ttl_minutes is None else at + timedelta(minutes=ttl_minutes)


def _at(value: Mapping[str, Any], name: str) -> Any:
    """Return what a filter's name stands for in a value; a dotted name leads into mappings."""
    if name in value or "." not in name:
        return value.get(name)
    first, _, deeper = name.partition(".")
    inner = value.get(first)
    return _at(inner, deeper) if isinstance(inner, Mapping) else None


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, str | int | float | None):  # most filters, and Mapping is slow to ask
        return bool(value == wanted)
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        return all(_fulfils(value, name, operand) for name, operand in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and all(
            _matches(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(map(_matches, value, wanted))
        )
    return bool(value == wanted)


def _fulfils(value: Any, name: str, operand: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"unsupported operator {name!r}: use {', '.join(_OPERATORS)}")
    if name in ("$eq", "$ne"):
        return _OPERATORS[name](value, operand)
    try:
        return _OPERATORS[name](float(value), float(operand))
    except (TypeError, ValueError):
        return False


def _listed(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    listed = [
        name
        for name in namespaces
        if all(_meets(name, condition) for condition in op.match_conditions or ())
    ]
    if op.max_depth is not None:
        listed = sorted({name[: op.max_depth] for name in listed})
    return listed[op.offset : op.offset + op.limit]


def _meets(namespace: Namespace, condition: MatchCondition) -> bool:
    if condition.match_type == "prefix":
        return starts_with(namespace, condition.path)
    if condition.match_type == "suffix":
        return starts_with(namespace[::-1], condition.path[::-1])
    raise ValueError(f"unsupported match type {condition.match_type!r}: use prefix or suffix")


def _with_text(value: dict[str, Any], path: Field, text: str) -> dict[str, Any]:
    name, *deeper = path
    inner = _with_text(value[name], tuple(deeper), text) if deeper else text
    return {**value, name: inner}


def _paths(value: Mapping[str, Any]) -> list[str]:
    deeper = [
        f"{name}.{path}"
        for name, held in value.items()
        if isinstance(held, Mapping)
        for path in _paths(held)
    ]
    return [name for name, held in value.items() if isinstance(held, str)] + deeper


def _user_of_namespace(namespace: Namespace) -> str:
    """Return the user of a namespace's memories; different namespaces have different users."""
    name = ".".join(namespace)
    if clean(name) == name and len(name) <= MAX_NAME:
        return name
    return "sha256." + hashlib.sha256(json.dumps(name).encode()).hexdigest()
