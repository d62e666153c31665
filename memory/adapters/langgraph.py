"""LangGraph's `BaseStore` on a memory store: what resembles each other is kept once.

Every value is kept as it was put. In the namespaces that are configured, the text of a value is
also a memory, which goes through the deduplicator; a key whose memory was absorbed answers with the
text of its successor. Files, prompts and everything else in the same store are left alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
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
from memory.ledger import ItemPlace, Reader, Row, StoredItem, Writer
from memory.models import MAX_CONTENT, MAX_NAME, Action, Decision, Memory, Survivor
from memory.protocols import Embedder, LanguageModel
from memory.runtime import LoopThread, in_thread
from memory.store import Conflict, MemoryStore, WhileUnchanged, cosines_to, erase
from memory.text import clean, text_key

logger = logging.getLogger(__name__)

Namespace = tuple[str, ...]
Field = tuple[str, ...]
ANY = "*"
"""Stands for any label of a configured namespace."""
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: bool(value == wanted),
    "$ne": lambda value, wanted: bool(value != wanted),
    "$gt": lambda value, wanted: value > wanted,
    "$gte": lambda value, wanted: value >= wanted,
    "$lt": lambda value, wanted: value < wanted,
    "$lte": lambda value, wanted: value <= wanted,
}


@dataclass(frozen=True)
class _Answer:
    """What a key answers with, and the memory that lives for it; None where it has none."""

    item: StoredItem
    value: dict[str, Any]
    living: str | None


@dataclass(frozen=True)
class _Left:
    """A memory that a key leaves behind, and the new one of that key; None where it is deleted."""

    memory_id: str
    new_id: str | None


class DedupStore(BaseStore):
    """`put`, `get`, `search`, `delete` and `list_namespaces` as LangGraph means them.

    From any event loop and any thread. `with` closes it. A time to live is refused.
    """

    supports_ttl = False

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        *,
        namespaces: Sequence[Sequence[str]],
        fields: Sequence[str] = ("text",),
        release: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Values in these namespaces, and inside them, are deduplicated by the text of a field.

        A label `*` is any one. A field is a key, or a path to one (`content.content`); of several,
        the first that a value has. `release` closes what is not needed after.
        """
        self._store = store
        self._deduplicator = deduplicator
        self._namespaces = [tuple(prefix) for prefix in namespaces]
        self._fields = [tuple(field.split(".")) for field in fields]
        self._release = release
        self._is_silent = True
        """Until it has said that its fields match nothing."""
        self._locks: WeakValueDictionary[Namespace, asyncio.Lock] = WeakValueDictionary()
        self._loop = LoopThread("langgraph-store")

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The answers in the order of the operations; reads see what was before the writes."""
        return self._loop.start(self._run(list(ops))).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same without holding up the event loop; what is begun is ended though cancelled."""
        return await asyncio.shield(self._loop.run(self._run(list(ops))))

    def catch_up(self) -> int:
        """Deduplicate what a process put and did not live to deduplicate; gives how many."""
        return self._loop.start(self._catch_up()).result()

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
            _check(op)
        results = await in_thread(self._read, ops)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if puts:
            async with AsyncExitStack() as stack:
                for namespace in sorted({namespace for namespace, _ in puts}):
                    await stack.enter_async_context(self._lock(namespace))
                await self._write(list(puts.values()))
        return results

    def _lock(self, namespace: Namespace) -> asyncio.Lock:
        return self._locks.setdefault(namespace, asyncio.Lock())

    async def _write(self, puts: Sequence[PutOp]) -> None:
        """The values first, in one transaction; then their texts, one after the other."""
        new, left = await in_thread(self._put, puts)
        if new:
            await self._deduplicator.check_and_merge_all(new)
        erased = [await in_thread(self._leave, one) for one in left]
        if any(erased):
            await in_thread(self._store.scrub)

    async def _catch_up(self) -> int:
        missing = await in_thread(self._unplaced)
        if missing:
            await self._deduplicator.check_and_merge_all(missing)
        return len(missing)

    # --- reading ---

    def _read(self, ops: Sequence[Op]) -> list[Result]:
        with self._store.ledger.reading() as reader:
            return [self._found(reader, op) for op in ops]

    def _found(self, reader: Reader, op: Op) -> Any:
        if isinstance(op, GetOp):
            item = reader.items.get(op.namespace, op.key)
            answers = self._answers(reader, [item]) if item is not None else []
            return next(map(_as_item, answers), None)
        if isinstance(op, SearchOp):
            return self._page(reader, op)
        if isinstance(op, ListNamespacesOp):
            return _listed(reader.items.namespaces(), op)
        return None

    def _answers(self, reader: Reader, items: Sequence[StoredItem]) -> list[_Answer]:
        arrived = [item.memory_id for item in items if item.memory_id is not None]
        living = reader.memories.living_ids(arrived)
        rows = reader.memories.rows(list(dict.fromkeys(living.values())))
        return [
            self._answer(item, rows.get(living.get(item.memory_id or "", ""))) for item in items
        ]

    def _answer(self, item: StoredItem, row: Row | None) -> _Answer:
        """The value as it was put, but for the text where another one stands for it."""
        value: dict[str, Any] = json.loads(item.value)
        if row is None:
            return _Answer(item, value, None)
        path, text = self._text(value)
        if path and clean(text) != row.memory.content:
            value = _with_text(value, path, row.memory.content)
        return _Answer(item, value, row.memory.id)

    def _page(self, reader: Reader, op: SearchOp) -> list[SearchItem]:
        """The nearest first where there is a query, then what has no memory, the last put first.

        Values are read of the items of the page alone, of all only for a filter.
        """
        places = reader.items.under(op.namespace_prefix)
        if op.filter:
            matching = {
                name
                for name, one in self._answers_at(reader, [place.id for place in places]).items()
                if _matches(one.value, op.filter)
            }
            places = [place for place in places if place.id in matching]
        living, text_keys = _living(reader, places)
        scores = cosines_to(self._store, reader, op.query or "", text_keys)
        ids = [
            (place.id, living.get(place.memory_id or "")) for place in _each_once(places, living)
        ]
        ids.sort(key=lambda one: -scores.get(one[1] or "", -2.0))
        some = ids[op.offset : op.offset + op.limit]
        answers = self._answers_at(reader, [name for name, _ in some])
        return [_as_search_item(answers[name], scores.get(end or "")) for name, end in some]

    def _answers_at(self, reader: Reader, ids: Sequence[str]) -> dict[str, _Answer]:
        items = reader.items.at(ids)
        return dict(zip(items, self._answers(reader, list(items.values())), strict=True))

    # --- writing ---

    def _put(self, puts: Sequence[PutOp]) -> tuple[list[Memory], list[_Left]]:
        """Keep the values; gives what is to be deduplicated, and what their keys leave behind."""
        new: list[Memory] = []
        left: list[_Left] = []
        with self._store.ledger.writing() as writer:
            for op in puts:
                before = writer.items.get(op.namespace, op.key)
                memory_id = self._put_one(writer, op, before, new)
                if before is not None and before.memory_id not in (None, memory_id):
                    assert before.memory_id is not None
                    left.append(_Left(before.memory_id, memory_id))
            for one in left:
                self._tell_apart(writer, one, new)
        return new, left

    def _put_one(
        self, writer: Writer, op: PutOp, before: StoredItem | None, new: list[Memory]
    ) -> str | None:
        """Gives the memory that the value arrives as; None where it is none."""
        if op.value is None:
            writer.items.delete(op.namespace, op.key)
            return None
        at = self._store.clock()
        value = dict(op.value)
        path, text = self._text(value)
        memory_id = None
        if self._is_deduplicated(op, path, text):
            self._is_silent = False
            memory_id = self._kept(writer, before, text)
            if memory_id is None:
                new.append(self._memory(op.namespace, op.key, text))
                memory_id = new[-1].id
        elif not path:
            self._warn_of_fields(op, value)
        writer.items.put(op.namespace, op.key, json.dumps(value), memory_id, at)
        return memory_id

    def _warn_of_fields(self, op: PutOp, value: Mapping[str, Any]) -> None:
        """Say once that no value has had any of the fields: nothing would be deduplicated."""
        here = any(_starts_with(op.namespace, prefix) for prefix in self._namespaces)
        if self._is_silent and here and op.index is not False:
            self._is_silent = False
            logger.warning(
                "nothing is deduplicated: a value in %s has none of the fields %s; its keys are "
                "%s: name the one with the text, fields=[...]",
                ".".join(op.namespace),
                ", ".join(".".join(field) for field in self._fields),
                ", ".join(_paths(value)) or "none",
            )

    def _kept(self, writer: Writer, before: StoredItem | None, text: str) -> str | None:
        """The memory of a key whose text stays what it was, or what it answered with."""
        if before is None or before.memory_id is None:
            return None
        [answer] = self._answers(writer, [before])
        told = {self._text(json.loads(before.value))[1], self._text(answer.value)[1]}
        return before.memory_id if text in told else None

    def _tell_apart(self, writer: Writer, one: _Left, new: Sequence[Memory]) -> None:
        """What overwrites a text is not merged with it."""
        arrival = next((memory for memory in new if memory.id == one.new_id), None)
        old = _alone(writer, one.memory_id)
        if arrival is None or old is None or text_key(old.content) == text_key(arrival.content):
            return
        scope = self._store.scope_of(arrival)
        writer.distinct.mark(scope, old.content, arrival.content, "overwritten", "person")

    def _leave(self, one: _Left) -> bool:
        """Erase a memory that no key has any more, and say so; what overwrote it stands for it."""
        with self._store.ledger.reading() as reader:
            old, revision = _alone(reader, one.memory_id), reader.revision()
            living = reader.memories.living_ids([one.new_id] if one.new_id else [])
            rows = reader.memories.rows(list(living.values()))
        if old is None:
            return False
        if one.new_id is None:
            return self._erase(old.id)
        for row in rows.values():
            if row.memory.id != old.id:
                survivor = Survivor(row.memory, (old.id,))
                members = (old, row.memory)
                decision = Decision(Action.UPDATE, "its key was overwritten", members, (survivor,))
                done = self._store.apply(decision, WhileUnchanged(revision))
                if isinstance(done, Conflict):  # another process came first: look again
                    return self._leave(one)
        return False

    def _erase(self, memory_id: str) -> bool:
        """Whether there was something to erase; index and log are cleared of it afterwards."""
        try:
            erase(self._store.ledger, memory_id, self._store.clock())
        except (MemoryNotFound, StillStatedBy):
            return False
        return True

    def _unplaced(self) -> list[Memory]:
        with self._store.ledger.reading() as reader:
            items = reader.items.unplaced()
        told = [(item, self._text(json.loads(item.value))[1]) for item in items]
        return [
            self._memory(item.namespace, item.key, text).model_copy(update={"id": item.memory_id})
            for item, text in told
            if text
        ]

    # --- which text of which value ---

    def _is_deduplicated(self, op: PutOp, path: Field, text: str) -> bool:
        """A text of a configured field, in a configured namespace, that is to be found again."""
        indexed = op.index is None or (op.index is not False and ".".join(path) in op.index)
        here = any(_starts_with(op.namespace, prefix) for prefix in self._namespaces)
        return bool(indexed and here and clean(text) and len(text) <= MAX_CONTENT)

    def _text(self, value: Mapping[str, Any]) -> tuple[Field, str]:
        """The first of the fields that is a text, and where it stands; empty where none is."""
        for path in self._fields:
            found: Any = value
            for name in path:
                found = found.get(name) if isinstance(found, Mapping) else None
            if isinstance(found, str) and clean(found):
                return path, found
        return (), ""

    def _memory(self, namespace: Namespace, key: str, text: str) -> Memory:
        """A memory of now in a scope of its namespace."""
        told = {"namespace": ".".join(namespace), "key": key}
        memory = self._store.new_memory(text, user=_scope_name(namespace))
        return Memory.model_validate({**dict(memory), "metadata": told})


def open_dedup_store(
    config: Config | Path | None = None,
    *,
    namespaces: Sequence[Sequence[str]],
    fields: Sequence[str] = ("text",),
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    **settings: Any,
) -> DedupStore:
    """A store of its own at the configured place, as `open_chat_memory` opens one.

    Raises: ConfigError, LedgerError, EmbedderMismatch.
    """
    config = configured(config, settings)
    language = assembly.build_model(config, model)
    store = assembly.open_store(config, embedder=embedder)

    async def release() -> None:
        await language.aclose()
        await in_thread(store.close)

    deduplicator = assembly.build_deduplicator(store, config, language)
    opened = DedupStore(store, deduplicator, namespaces=namespaces, fields=fields, release=release)
    try:
        opened.catch_up()
    except BaseException:  # Ctrl-C too must not leave the ledger open
        opened.close()
        raise
    return opened


# --- pure: operations, values, names -------------------------------------------------------------


def _check(op: Op) -> None:
    """Raises: InvalidNamespaceError, NotImplementedError for a time to live, ValueError."""
    if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
        raise ValueError(f"unknown operation {type(op).__name__}")
    validate_op_namespace(op)
    if isinstance(op, PutOp) and op.ttl is not None:
        raise NotImplementedError("DedupStore keeps what is put until it is deleted; set ttl=None")


def _alone(reader: Reader, memory_id: str) -> Memory | None:
    """The memory that lives for one that arrived under a key, where no key has it any more.

    None where nothing lives, or where something else than a key told it.
    """
    row = reader.memories.row(memory_id)
    living = reader.memories.living(row) if row is not None else None
    if living is None:
        return None
    ids = [living.memory.id, *reader.memories.ancestors(living.memory.id)]
    told = [row.memory.metadata for row in reader.memories.rows(ids).values()]
    if reader.items.of_memories(ids) or not all("namespace" in one for one in told):
        return None
    return living.memory


def _living(reader: Reader, places: Sequence[ItemPlace]) -> tuple[dict[str, str], dict[str, str]]:
    """Return who lives for each memory of these items, and the keys of the living ones' texts."""
    text_keys = {one.memory_id: one.text_key for one in places if one.memory_id and one.text_key}
    living = {name: name for name in text_keys}
    retired = [one.memory_id for one in places if one.memory_id and not one.text_key]
    ends = reader.memories.living_ids(retired)
    rows = reader.memories.rows(list(dict.fromkeys(ends.values())))
    return living | ends, text_keys | {name: row.text_key for name, row in rows.items()}


def _each_once(places: Sequence[ItemPlace], living: Mapping[str, str]) -> list[ItemPlace]:
    """One key for each memory: its own, else the last put of those that it stands for."""
    chosen: dict[str, ItemPlace] = {}
    for one in places:
        end = living.get(one.memory_id or "")
        if end is not None and (end not in chosen or one.memory_id == end):
            chosen[end] = one
    ends = ((one, living.get(one.memory_id or "")) for one in places)
    return [one for one, end in ends if end is None or chosen[end] is one]


def _as_item(one: _Answer) -> Item:
    return Item(**_told(one))


def _as_search_item(one: _Answer, score: float | None) -> SearchItem:
    return SearchItem(**_told(one), score=score)


def _told(one: _Answer) -> dict[str, Any]:
    item = one.item
    return {
        "value": one.value,
        "key": item.key,
        "namespace": item.namespace,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value has what a filter names: operators, parts of mappings, lists, or itself."""
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        return all(_holds(value, name, than) for name, than in wanted.items())
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


def _holds(value: Any, operator: str, than: Any) -> bool:
    """Numbers are compared as numbers; what is none is neither more nor less than another."""
    if operator not in _OPERATORS:
        raise ValueError(f"unsupported operator {operator!r}: use {', '.join(_OPERATORS)}")
    if operator in ("$eq", "$ne"):
        return _OPERATORS[operator](value, than)
    try:
        return _OPERATORS[operator](float(value), float(than))
    except (TypeError, ValueError):
        return False


def _listed(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    conditions = op.match_conditions or ()
    found = [one for one in namespaces if all(_meets(one, it) for it in conditions)]
    if op.max_depth is not None:
        found = sorted({one[: op.max_depth] for one in found})
    return found[op.offset : op.offset + op.limit]


def _meets(namespace: Namespace, condition: MatchCondition) -> bool:
    if condition.match_type == "prefix":
        return _starts_with(namespace, condition.path)
    if condition.match_type == "suffix":
        return _starts_with(namespace[::-1], condition.path[::-1])
    raise ValueError(f"unsupported match type {condition.match_type!r}: use prefix or suffix")


def _starts_with(namespace: Sequence[str], path: Sequence[str]) -> bool:
    pairs = zip(namespace, path, strict=False)
    return len(namespace) >= len(path) and all(want in (ANY, label) for label, want in pairs)


def _with_text(value: dict[str, Any], path: Field, text: str) -> dict[str, Any]:
    name, *deeper = path
    inner = _with_text(value[name], tuple(deeper), text) if deeper else text
    return {**value, name: inner}


def _paths(value: Mapping[str, Any]) -> list[str]:
    """The fields of a value that are texts, as paths."""
    inner = ((name, one) for name, one in value.items() if isinstance(one, Mapping))
    deeper = [f"{name}.{path}" for name, one in inner for path in _paths(one)]
    return [name for name, one in value.items() if isinstance(one, str)] + deeper


def _scope_name(namespace: Namespace) -> str:
    """Whom a namespace's memories are about: labels have no period, so no two share a name."""
    name = ".".join(namespace)
    if clean(name) == name and len(name) <= MAX_NAME:
        return name
    return "sha256." + hashlib.sha256(json.dumps(name).encode()).hexdigest()
