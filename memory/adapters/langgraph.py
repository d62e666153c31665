"""An implementation of LangGraph's `BaseStore` that deduplicates texts in its values.

In configured namespaces, the text of a value becomes a memory. If this memory is merged into
another one, reading the value returns the text of the merged memory. All other values, such as
files and prompts, are stored and returned as they are.
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
    validate_op_namespace,
)

from memory import assembly
from memory.config import Config, configured
from memory.deduplicator import MemoryDeduplicator
from memory.errors import MemoryNotFound, StillStatedBy
from memory.ledger import ItemPlace, Reader, StoredItem, Writer
from memory.models import MAX_CONTENT, MAX_NAME, Action, Decision, Memory, Survivor
from memory.protocols import Embedder, LanguageModel
from memory.runtime import LoopThread, in_thread
from memory.store import Conflict, MemoryStore, WhileUnchanged, cosines_to, erase
from memory.text import clean, text_key

logger = logging.getLogger(__name__)

Namespace = tuple[str, ...]
Field = tuple[str, ...]
ANY = "*"  # stands for any label at its position in a configured namespace
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class _FormerMemory(NamedTuple):
    """A memory whose key was overwritten or deleted.

    `new_id` is the id of the key's new memory; None if the key was deleted or its new value has no
    memory.
    """

    memory_id: str
    new_id: str | None


class DedupStore(BaseStore):
    """A LangGraph store that deduplicates the texts in configured namespaces.

    It may be used from any thread and any event loop. As a context manager, it closes itself at the
    end. It refuses values with a time to live.
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
        """Keep all values in `store`, and deduplicate the values' texts with `deduplicator`.

        `namespaces`: the namespaces whose values are deduplicated, with all namespaces inside them;
        the label `*` stands for any label. `fields`: the keys under which a value may have its
        text, or paths of keys such as `content.content`; the first field that holds a text is used.
        `release`: an async function that is called when this store is closed; None for no call.
        """
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

        All reads run before all writes. So a read does not see what the same call writes.

        Raises: ValueError if an operation is not valid; NotImplementedError for a time to live;
        LedgerError.
        """
        return self._loop.start(self._run(list(ops))).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations and return their results in the same order.

        The event loop is not blocked. All reads run before all writes. So a read does not see what
        the same call writes. If the caller is cancelled, the operations are still finished.

        Raises: ValueError if an operation is not valid; NotImplementedError for a time to live;
        LedgerError.
        """
        return await asyncio.shield(self._loop.run(self._run(list(ops))))

    def catch_up(self) -> int:
        """Deduplicate the texts that were stored but not deduplicated; return their number.

        There are such texts if a process was killed after it stored them and before it deduplicated
        them.
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
        """Run all reads, then all writes; return the results in the order of `ops`.

        All values are stored in one transaction. Then the new texts are deduplicated. Finally, the
        memories of deleted keys are erased, and those of overwritten keys are retired.
        """
        for op in ops:
            _check(op)
        results = await in_thread(self._read, ops)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if not puts:
            return results
        async with AsyncExitStack() as stack:
            for namespace in sorted({namespace for namespace, _ in puts}):
                lock = self._locks.setdefault(namespace, asyncio.Lock())
                await stack.enter_async_context(lock)
            new, former = await in_thread(self._put, list(puts.values()))
            if new:
                await self._deduplicator.check_and_merge_all(new)
            erased = [await in_thread(self._drop, memory) for memory in former]
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
        """Return the fields of LangGraph's `Item` for each stored item.

        `items` has the stored items under any names. The result has the same names. A value is
        returned as it was put, with one exception: if the memory of the value's text is retired,
        the value has the text of the live memory that replaced this memory.
        """
        arrived = [item.memory_id for item in items.values() if item.memory_id is not None]
        living = reader.memories.living_rows(arrived)
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
        """Return a page of search results.

        With a query, the results most similar to the query come first. Without a query, the results
        stored last come first. If one live memory stands for several keys, only one of these keys
        is returned. If the search has a filter, all values are read; otherwise only the values of
        this page are read.
        """
        places = reader.items.under(op.namespace_prefix)
        if op.filter:
            answers = self._item_fields(reader, reader.items.at([place.id for place in places]))
            places = [place for place in places if _matches(answers[place.id]["value"], op.filter)]
        living, text_keys = _live_memories(reader, places)
        scores = cosines_to(self._store, reader, op.query or "", text_keys)
        ids = [
            (place.id, living.get(place.memory_id or "", ""))
            for place in _one_key_each(places, living)
        ]
        ids.sort(key=lambda named: -scores.get(named[1], -2.0))
        page = ids[op.offset : op.offset + op.limit]
        answers = self._item_fields(reader, reader.items.at([name for name, _ in page]))
        return [SearchItem(**answers[name], score=scores.get(end)) for name, end in page]

    # --- writing ---

    def _put(self, puts: Sequence[PutOp]) -> tuple[list[Memory], list[_FormerMemory]]:
        """Store the values in one transaction.

        Return two lists: the new memories, which are still to be deduplicated, and the former
        memories of keys that were overwritten or deleted.
        """
        new: list[Memory] = []
        former: list[_FormerMemory] = []
        with self._store.ledger.writing() as writer:
            for op in puts:
                before = writer.items.get(op.namespace, op.key)
                memory_id = self._put_one(writer, op, before, new)
                if before is not None and before.memory_id not in (None, memory_id):
                    assert before.memory_id is not None
                    former.append(_FormerMemory(before.memory_id, memory_id))
            for memory in former:
                self._mark_distinct(writer, memory, new)
        return new, former

    def _put_one(
        self, writer: Writer, op: PutOp, before: StoredItem | None, new: list[Memory]
    ) -> str | None:
        """Store or delete the value of one key, as the operation `op` says.

        Return the id of the value's memory; None if the value has no memory or was deleted.
        `before` is the item that the key had before; None if it had none. If the value needs a new
        memory, the memory is appended to `new`.
        """
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
        """Log a warning if no value so far has had any of the configured fields; warn only once.

        Without such a field, no text is deduplicated, so the configured `fields` are probably
        wrong. `value` is the value that `op` stores.
        """
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
        """Return the id of a key's memory if it also fits the new text, else None.

        `before` is the item that the key has so far; None if it has none. `text` is the new text.
        The memory fits if `text` equals the text that was put under the key last, or the text that
        a read of the key would return. If the result is None, the text needs a new memory.
        """
        if before is None or before.memory_id is None:
            return None
        values = json.loads(before.value), self._item_fields(writer, {"": before})[""]["value"]
        return before.memory_id if text in {self._text(value)[1] for value in values} else None

    def _mark_distinct(self, writer: Writer, former: _FormerMemory, new: Sequence[Memory]) -> None:
        """Record that an overwritten text and the text that overwrote it are distinct.

        After this, the deduplicator does not merge the two texts. `former` has the ids of the old
        and the new memory; the new memory is looked up in `new`. Nothing is recorded if the key
        has no new memory, or if the old one must stay because another key refers to it.
        """
        arrival = next((memory for memory in new if memory.id == former.new_id), None)
        old = _unreferenced(writer, former.memory_id)
        if arrival is None or old is None or text_key(old.content) == text_key(arrival.content):
            return
        scope = self._store.scope_of(arrival)
        writer.distinct.mark(scope, old.content, arrival.content, "overwritten", "person")

    def _drop(self, former: _FormerMemory) -> bool:
        """Erase the memory of a deleted key, or retire the memory of an overwritten key.

        The key's new memory becomes the successor of the retired one. If another key still refers
        to the former memory, it stays. Return True if a memory was erased, and False if a memory
        was retired or none was changed.
        """
        with self._store.ledger.reading() as reader:
            old, revision = _unreferenced(reader, former.memory_id), reader.revision()
            row = reader.memories.row(former.new_id) if former.new_id else None
            heir = reader.memories.living(row) if row is not None else None
        if old is None:
            return False
        if former.new_id is None:
            try:
                erase(self._store.ledger, old.id, self._store.clock())
            except (MemoryNotFound, StillStatedBy):
                return False
            return True
        if heir is not None and heir.memory.id != old.id:
            survivor, members = Survivor(heir.memory, (old.id,)), (old, heir.memory)
            decision = Decision(Action.UPDATE, "its key was overwritten", members, (survivor,))
            done = self._store.apply(decision, WhileUnchanged(revision))
            if isinstance(done, Conflict):  # another process came first: look again
                return self._drop(former)
        return False

    # --- which text of which value ---

    def _is_inside(self, namespace: Namespace) -> bool:
        return any(_starts_with(namespace, prefix) for prefix in self._namespaces)

    def _is_deduplicated(self, op: PutOp, path: Field, text: str) -> bool:
        """Return whether the text of a value is to be deduplicated.

        `path` is the field that has the text. The value must be in a configured namespace,
        LangGraph must be asked to index this field, and the text must be neither empty nor too
        long.
        """
        indexed = op.index is None or (op.index is not False and ".".join(path) in op.index)
        return bool(
            indexed and self._is_inside(op.namespace) and clean(text) and len(text) <= MAX_CONTENT
        )

    def _text(self, value: Mapping[str, Any]) -> tuple[Field, str]:
        """Return the path and the text of the first configured field that has a text.

        Return `((), "")` if there is no such field.
        """
        for path in self._fields:
            held: Any = value
            for name in path:
                held = held.get(name) if isinstance(held, Mapping) else None
            if isinstance(held, str) and clean(held):
                return path, held
        return (), ""

    def _memory(self, namespace: Namespace, key: str, text: str) -> Memory:
        """Return a new memory with this text, for the value under `key` in `namespace`.

        The name of the namespace becomes the memory's user, so that the text is compared only with
        texts of the same namespace. The namespace and the key go into the metadata.
        """
        return Memory(
            id=self._store.new_id(),
            content=text,
            user=_scope_name(namespace),
            timestamp=self._store.clock(),
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

    If a process was killed before it had deduplicated all texts that it stored, the remaining texts
    are deduplicated first.

    `namespaces`: the namespaces whose values are deduplicated, with all namespaces inside them; the
    label `*` stands for any label. `fields`: the keys under which a value may have its text, or
    paths of keys such as `content.content`; the first field that holds a text is used. `settings`
    override single settings of the configuration. `model` and `embedder` replace the configured
    ones.

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
    except BaseException:  # also Ctrl-C: the ledger must not stay open; the error goes on
        opened.close()
        raise
    return opened


# --- pure: operations, values, names -------------------------------------------------------------


def _check(op: Op) -> None:
    """Check that an operation is valid and supported.

    Raises: InvalidNamespaceError; NotImplementedError for a time to live; ValueError for an unknown
    type of operation.
    """
    if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
        raise ValueError(f"unknown operation {type(op).__name__}")
    validate_op_namespace(op)
    if isinstance(op, PutOp) and op.ttl is not None:
        raise NotImplementedError("DedupStore keeps what is put until it is deleted; set ttl=None")


def _unreferenced(reader: Reader, memory_id: str) -> Memory | None:
    """Return the live memory that stands for `memory_id`; None if it must not be erased or retired.

    The result is None in three cases:

    - No live memory stands for `memory_id`.
    - A key still refers to the live memory, or to a memory that was merged into it.
    - One of these memories was not stored by this adapter.
    """
    row = reader.memories.row(memory_id)
    living = reader.memories.living(row) if row is not None else None
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
    """Find the live memories of some items; return two mappings.

    `places` has the ids of the items and of their memories. The first mapping leads from the id of
    an item's memory to the id of the live memory that stands for it. If the item's memory is live,
    the two ids are equal. If no live memory stands for it, the mapping does not have it. The second
    mapping leads from the id of a live memory to its text key, a hash of its text.
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


def _one_key_each(places: Sequence[ItemPlace], living: Mapping[str, str]) -> list[ItemPlace]:
    """Return `places` in the same order, with only one item for each live memory.

    `living` maps the id of an item's memory to the id of the live memory that stands for it. If
    several items have the same live memory, the item from which this memory was made is kept. If
    `places` does not have that item, the first of the several items is kept. Items without a live
    memory are all kept.
    """
    chosen: dict[str, ItemPlace] = {}
    for place in places:
        end = living.get(place.memory_id or "")
        if end is not None and (end not in chosen or place.memory_id == end):
            chosen[end] = place
    ends = ((place, living.get(place.memory_id or "")) for place in places)
    return [place for place, end in ends if end is None or chosen[end] is place]


def _matches(value: Any, wanted: Any) -> bool:
    """Return whether a value fits the filter `wanted` of a search.

    There are four kinds of filter:

    - a mapping of operators such as `{"$gt": 3}`: the value must fulfil all operators;
    - any other mapping: under each of its keys, the value must have something that fits;
    - a list: the value must be a list of the same length whose items fit one by one;
    - anything else: the value must equal the filter.
    """
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
    """Return whether `value` fulfils the operator `name`, such as `$gt`, with its operand.

    Operators such as `$gt` compare numbers; if one of the two is not a number, the result is False.

    Raises: ValueError for an unknown operator.
    """
    if name not in _OPERATORS:
        raise ValueError(f"unsupported operator {name!r}: use {', '.join(_OPERATORS)}")
    if name in ("$eq", "$ne"):
        return _OPERATORS[name](value, operand)
    try:
        return _OPERATORS[name](float(value), float(operand))
    except (TypeError, ValueError):
        return False


def _listed(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    conditions = op.match_conditions or ()
    listed = [
        name for name in namespaces if all(_meets(name, condition) for condition in conditions)
    ]
    if op.max_depth is not None:
        listed = sorted({name[: op.max_depth] for name in listed})
    return listed[op.offset : op.offset + op.limit]


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
    """Return the paths of all text fields of a value, such as `text` or `content.content`."""
    inner = ((name, held) for name, held in value.items() if isinstance(held, Mapping))
    deeper = [f"{name}.{path}" for name, held in inner for path in _paths(held)]
    return [name for name, held in value.items() if isinstance(held, str)] + deeper


def _scope_name(namespace: Namespace) -> str:
    """Return the user name under which a namespace's memories are stored.

    Labels contain no period, so no two namespaces get the same name.
    """
    name = ".".join(namespace)
    if clean(name) == name and len(name) <= MAX_NAME:
        return name
    return "sha256." + hashlib.sha256(json.dumps(name).encode()).hexdigest()
