"""An implementation of LangGraph's `BaseStore` that deduplicates texts in its values.

In configured namespaces, the text of a value becomes a memory. If the memory is later merged or
replaced, reading the value returns the text of its live successor. All other values are stored and
returned as they are.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import operator
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
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
    validate_op_namespace,
)

from memory import assembly
from memory.config import Config, configured
from memory.deduplicator import MemoryDeduplicator
from memory.errors import MemoryNotFound, StillStatedBy
from memory.interchange import starts_with
from memory.ledger import ItemPlace, Reader, StoredItem, Writer
from memory.models import (
    MAX_CONTENT,
    MAX_NAME,
    Action,
    Condition,
    Decision,
    Memory,
    SearchResult,
    Survivor,
)
from memory.protocols import Embedder, LanguageModel
from memory.runtime import LoopThread, in_thread
from memory.store import FOLDED, Conflict, MemoryStore, cosines_to, erase
from memory.text import clean

logger = logging.getLogger(__name__)

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


class DedupStore(BaseStore):
    """A LangGraph store that deduplicates the texts in configured namespaces.

    It may be used from any thread and any event loop. It refuses values with a time to live.

    `namespaces`: values in these namespaces and all namespaces inside them are deduplicated; the
    label `*` stands for any label. A value that is put with `index=False` is not deduplicated.
    `fields`: where to look for the text in a value. Each field is a key, or a path of keys such as
    `content.content`. The first field that has a text is used. `release` is awaited when this
    store is closed.
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        *,
        namespaces: Sequence[Sequence[str]],
        fields: Sequence[str] = ("text",),
        release: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._store = store
        self._deduplicator = deduplicator
        self._namespaces = [tuple(prefix) for prefix in namespaces]
        self._fields = [tuple(field.split(".")) for field in fields]
        self._release = release
        self._matched = False  # True after a value had a configured field, or after the warning
        self._locks: WeakValueDictionary[Namespace, asyncio.Lock] = WeakValueDictionary()
        self._loop = LoopThread("langgraph-store")

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations and return their results in the same order.

        All reads run before all writes, so a read does not see what the same call writes.

        Raises: ValueError if an operation is not valid; NotImplementedError for a time to live;
        LedgerError.
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
            self._memory(item.namespace, item.key, text).model_copy(update={"id": item.memory_id})
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
            if isinstance(op, PutOp) and op.ttl is not None:
                raise NotImplementedError(
                    "DedupStore keeps what is put until it is deleted; set ttl=None"
                )
        results = await in_thread(self._read, ops)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if not puts:
            return results
        async with AsyncExitStack() as stack:
            for namespace in sorted({namespace for namespace, _ in puts}):
                await stack.enter_async_context(self._locks.setdefault(namespace, asyncio.Lock()))
            new, successors = await in_thread(self._put, list(puts.values()))
            if new:
                await self._deduplicator.check_and_merge_all(new)
            erased = [await in_thread(self._drop, *former) for former in successors.items()]
            if any(erased):
                await in_thread(self._store.scrub)
        return results

    # --- reading ---

    def _read(self, ops: Sequence[Op]) -> list[Result]:
        with self._store.ledger.reading() as reader:
            return [self._found(reader, op) for op in ops]

    def _found(self, reader: Reader, op: Op) -> Any:
        if isinstance(op, GetOp):
            item = reader.items.get(op.namespace, op.key)
            return (
                None if item is None else Item(**self._item_fields(reader, {op.key: item})[op.key])
            )
        if isinstance(op, SearchOp):
            return self._search_page(reader, op)
        if isinstance(op, ListNamespacesOp):
            return _listed(reader.items.namespaces(), op)
        return None

    def _item_fields(
        self, reader: Reader, items: Mapping[str, StoredItem]
    ) -> dict[str, dict[str, Any]]:
        """Return the arguments of LangGraph's `Item` for each stored item, under the same key.

        If an item has a memory, the text in `value` is the present text of this memory. If the
        memory is retired, the text in `value` is the text of its live successor.
        """
        living = reader.memories.living_rows(
            item.memory_id for item in items.values() if item.memory_id is not None
        )
        answers = {}
        for name, item in items.items():
            value: dict[str, Any] = json.loads(item.value)
            row = living.get(item.memory_id or "")
            path, text = self._text(value)
            if row is not None and path and clean(text) != row.memory.content:
                value = _with_text(value, path, row.memory.content)
            answers[name] = {
                "value": value,
                "key": item.key,
                "namespace": item.namespace,
                "created_at": item.created_at,
                "updated_at": item.updated_at,
            }
        return answers

    def _search_page(self, reader: Reader, op: SearchOp) -> list[SearchItem]:
        places = reader.items.under(op.namespace_prefix)
        if op.filter:
            answers = self._item_fields(reader, reader.items.at([place.id for place in places]))
            places = [place for place in places if _matches(answers[place.id]["value"], op.filter)]
        living, text_keys = _live_memories(reader, places)
        scores = cosines_to(self._store, reader, op.query or "", text_keys)
        ends = [(place, living.get(place.memory_id or "", "")) for place in places]
        shown: dict[str, ItemPlace] = {}  # by live memory: its own item, or else the first
        for place, end in ends:
            if end not in shown or place.memory_id == end:
                shown[end] = place
        ids = [(place.id, end) for place, end in ends if not end or shown[end] is place]
        ids.sort(key=lambda named: -scores.get(named[1], -2.0))
        if op.query and clean(op.query):
            ids = self._folded(reader, ids, scores, op.offset + op.limit)
        page = ids[op.offset : op.offset + op.limit]
        answers = self._item_fields(reader, reader.items.at([name for name, _ in page]))
        return [SearchItem(**answers[name], score=scores.get(end)) for name, end in page]

    def _folded(
        self,
        reader: Reader,
        ids: Sequence[tuple[str, str]],
        scores: Mapping[str, float],
        wanted: int,
    ) -> list[tuple[str, str]]:
        """Return the first `wanted` items, best first, without those that another one states.

        `ids`: pairs of an item's id and the id of its live memory, "" if it has none. `scores`: the
        cosine of each live memory.
        """
        window = wanted
        while True:
            window += FOLDED
            own = {end: (name, end) for name, end in ids[:window] if end}
            rows = reader.memories.rows(list(own))
            hits = [SearchResult(rows[end].memory, scores.get(end, 0.0)) for end in own]
            shown = [own[hit.memory.id] for hit in self._store.showing.arranged(hits)]
            shown += [named for named in ids[:window] if not named[1]]
            if len(shown) >= wanted or window >= len(ids):
                return shown
            window *= 2

    # --- writing ---

    def _put(self, puts: Sequence[PutOp]) -> tuple[list[Memory], dict[str, str | None]]:
        """Store or delete items in one transaction; return the new memories and the replaced ones.

        The new memories are not stored yet. The dict tells which memories were replaced, because
        their items were overwritten or deleted. It maps the id of each replaced memory to the id of
        the item's new memory, or to None if the item has no memory now.
        """
        new: list[Memory] = []
        successors: dict[str, str | None] = {}
        with self._store.ledger.writing() as writer:
            for op in puts:
                before = writer.items.get(op.namespace, op.key)
                memory_id = self._put_one(writer, op, before, new)
                former_id = before.memory_id if before is not None else None
                if former_id is not None and former_id != memory_id:
                    successors[former_id] = memory_id
            for former_id, new_id in successors.items():
                self._mark_distinct(writer, former_id, new_id, new)
        return new, successors

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
            if memory_id is None:
                new.append(self._memory(op.namespace, op.key, text))
                memory_id = new[-1].id
        elif not path:
            self._warn_of_fields(op, value)
        writer.items.put(op.namespace, op.key, json.dumps(value), memory_id, at)
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
        values = json.loads(before.value), self._item_fields(writer, {"": before})[""]["value"]
        return before.memory_id if text in {self._text(value)[1] for value in values} else None

    def _mark_distinct(
        self, writer: Writer, former_id: str, new_id: str | None, new: Sequence[Memory]
    ) -> None:
        arrival = next((memory for memory in new if memory.id == new_id), None)
        old = _unreferenced(writer, former_id)
        if arrival is None or old is None or old.dated_key == arrival.dated_key:
            return
        writer.distinct.mark(
            self._store.scope_of(arrival), old.dated_key, arrival.dated_key, "overwritten", "person"
        )

    def _drop(self, former_id: str, new_id: str | None) -> bool:
        """Remove the former memory of an item that was overwritten or deleted.

        If the former memory is retired already, its live successor is removed. If `new_id` is None,
        the removed memory is erased. Otherwise it is retired, and the memory `new_id` becomes its
        successor. If `_unreferenced` returns None, nothing is removed. Return whether a memory was
        erased.
        """
        with self._store.ledger.reading() as reader:
            old, revision = _unreferenced(reader, former_id), reader.revision()
            heir = reader.memories.living(new_id) if new_id else None
        if old is None:
            return False
        if new_id is None:
            try:
                erase(self._store.ledger, old.id, self._store.clock())
            except (MemoryNotFound, StillStatedBy):
                return False
            return True
        if heir is not None and heir.memory.id != old.id:
            survivor, members = Survivor(heir.memory, (old.id,)), (old, heir.memory)
            why, unchanged = "its key was overwritten", Condition(revision)
            decision = Decision(Action.UPDATE, why, members, (survivor,), condition=unchanged)
            if isinstance(self._store.apply(decision), Conflict):
                # another process came first: look again
                return self._drop(former_id, new_id)
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
            if isinstance(held, str) and clean(held):
                return path, held
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
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    **settings: Any,
) -> DedupStore:
    """Open the store at the configured location.

    Texts that a killed process stored but did not deduplicate are deduplicated first. `config` is
    the configuration, or the path of its file. `settings` override single settings. `namespaces`
    and `fields` are as in `DedupStore`. `model` and `embedder` replace the configured ones.

    Raises: ConfigError, LedgerError, EmbedderMismatch.
    """
    config = configured(config, settings)
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
        release=release,
    )
    try:
        opened.catch_up()
    except BaseException:  # also Ctrl-C: the ledger must not stay open; the error goes on
        opened.close()
        raise
    return opened


# --- pure: operations, values, names -------------------------------------------------------------


def _unreferenced(reader: Reader, memory_id: str) -> Memory | None:
    """Return the live successor of a memory, or None if this successor must not be removed.

    A live memory is its own successor. The successor and the memories that it replaced form a
    group. The successor must stay if an item refers to a memory of the group, or if a memory of the
    group does not come from a LangGraph item. Also return None if the memory was forgotten.
    """
    living = reader.memories.living(memory_id)
    if living is None:
        return None
    ids = [living.memory.id, *reader.memories.ancestors(living.memory.id)]
    origins = [row.memory.metadata for row in reader.memories.rows(ids).values()]
    if reader.items.of_memories(ids) or not all("namespace" in origin for origin in origins):
        return None
    return living.memory


def _live_memories(
    reader: Reader, places: Sequence[ItemPlace]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the ids of the items' live memories, and the hashes of their texts.

    The first dict maps the id of an item's memory to the id of its live successor; a live memory is
    its own successor. The second dict maps the id of each live memory to the hash of its text.
    """
    text_keys = {
        place.memory_id: place.text_key for place in places if place.memory_id and place.text_key
    }
    living = {name: name for name in text_keys}
    retired = [place.memory_id for place in places if place.memory_id and not place.text_key]
    for name, row in reader.memories.living_rows(retired).items():
        living[name] = row.memory.id
        text_keys[row.memory.id] = row.text_key
    return living, text_keys


def _matches(value: Any, wanted: Any) -> bool:
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
