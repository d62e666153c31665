"""One transaction on the ledger: wholly or not at all, numbered by its revision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from memory.ledger import tables as t
from memory.ledger.reader import Reader, chunks, decisions_about, seen_from
from memory.ledger.records import (
    DecisionRecord,
)
from memory.models import (
    INVERSE_LINK,
    Candidate,
    Decision,
    Episode,
    LinkType,
    Memory,
    MemoryLink,
    Scope,
    Turn,
    Vector,
)
from memory.text import text_key

FORGOTTEN_SUMMARY = "(forgotten)"
"""What an episode says that quoted a memory since forgotten."""
_CANDIDATES = TypeAdapter(tuple[Candidate, ...])


class Writer(Reader):
    """One transaction."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._touched: set[str] = set()
        self._recorded: list[int] = []

    def _upsert(self, table: sa.Table) -> Any:
        """An INSERT that can say what to do on a conflict, in the dialect of this database."""
        insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        return insert[self._connection.dialect.name](table)

    def set_meta(self, key: str, value: str) -> None:
        statement = self._upsert(t.meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def drop_meta(self, key: str) -> None:
        self._connection.execute(t.meta.delete().where(t.meta.c.key == key))

    def insert(self, memory: Memory) -> None:
        """A new live memory, with its links."""
        columns = {"live": True, "identity_hash": t.identity_hash(memory), **t.to_columns(memory)}
        self._connection.execute(t.memories.insert().values(columns))
        self._put_links(memory)
        self._touched.add(memory.id)

    def rewrite(self, memory: Memory) -> None:
        """New values for an existing memory; its links stay as they are."""
        self._connection.execute(
            t.memories.update().where(t.memories.c.id == memory.id).values(**t.to_columns(memory))
        )
        self._touched.add(memory.id)

    def retire(self, memory_id: str, successor_id: str) -> None:
        """Keep a memory's text and vector, and say who stands for it now and inherits its links."""
        for link in self._link_rows([memory_id], dangling=True):
            end = seen_from(memory_id, link)
            if end.target_id != successor_id:
                self._put_link(successor_id, end, replace=False)
        self._unlink(memory_id)
        self._connection.execute(
            t.memories.update()
            .where(t.memories.c.id == memory_id)
            .values(live=False, successor_id=successor_id)
        )
        self._touched.add(memory_id)

    def _unlink(self, memory_id: str) -> None:
        for link in self._link_rows([memory_id], dangling=True):
            self._touched |= {link.low_id, link.high_id}
        touching = sa.or_(t.links.c.low_id == memory_id, t.links.c.high_id == memory_id)
        self._connection.execute(t.links.delete().where(touching))

    def _put_links(self, memory: Memory) -> None:
        for link in memory.linked_ids:
            self._put_link(memory.id, link, replace=True)

    def _put_link(self, memory_id: str, link: MemoryLink, *, replace: bool) -> None:
        target = self._heir(link.target_id)
        if target is None or target == memory_id:
            return
        self._touched |= {memory_id, target}
        low, high = sorted((memory_id, target))
        kind = link.link_type if low == memory_id else INVERSE_LINK[link.link_type]
        values = {"link_type": kind, "note": link.note, "confidence": link.confidence}
        statement = self._upsert(t.links).values(low_id=low, high_id=high, **values)
        ends = ["low_id", "high_id"]
        if replace:
            statement = statement.on_conflict_do_update(index_elements=ends, set_=values)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=ends)
        self._connection.execute(statement)

    def _heir(self, memory_id: str) -> str | None:
        """Who lives for a memory; itself where it has not arrived yet, None where it is forgotten.

        What is being retired has no heir that lives, and is named itself.
        """
        row = self.row(memory_id)
        if row is not None and row.forgotten:
            return None
        alive = self.living(row) if row is not None else None
        return alive.memory.id if alive is not None else memory_id

    def forget(self, memory_id: str) -> None:
        """Erase a memory and all it was made from, for good; tombstones keep the ids.

        Text, metadata, vectors, links, remembered pairs, turns that wait, and what decisions
        recorded of them go. A vector or a pair that another memory's same text needs stays.
        Every index is marked as stale: an earlier state of the memory may have been copied.
        """
        ids = [memory_id, *self.ancestors(memory_id)]
        rows = self.rows(ids)
        self._forget_turns([row.memory for row in rows.values()])
        self.forget_in_episodes({row.memory.content for row in rows.values()})
        self._bury(ids)
        self._drop_unused({row.text_key for row in rows.values()})
        self._scrub_decisions(set(ids))
        self._connection.execute(t.index_state.update().values(stale=True))

    def _bury(self, ids: Sequence[str]) -> None:
        """Only the ids stay, so that nobody takes them and whoever follows hears of it."""
        for name in ids:
            self._unlink(name)
            self._connection.execute(
                t.memories.update().where(t.memories.c.id == name).values(**t.TOMBSTONE)
            )
        self._touched |= set(ids)

    def _drop_unused(self, keys: Iterable[str]) -> None:
        """Vectors and remembered pairs of texts that no memory has any more."""
        for key in keys:
            if not self._count(t.memories, t.memories.c.text_key == key):
                self._connection.execute(t.vectors.delete().where(t.vectors.c.text_key == key))
                pairs = t.distinct_pairs.c
                either = sa.or_(pairs.low_key == key, pairs.high_key == key)
                self._connection.execute(t.distinct_pairs.delete().where(either))

    def _forget_turns(self, memories: Sequence[Memory]) -> None:
        """Turns that wait neither keep the text nor bring it back."""
        contents = {memory.content for memory in memories}
        for kept in self.kept_turns():
            found = kept.candidates or ()
            left = [one for one in found if one.content not in contents]
            said = any(content in kept.turn.text for content in contents)
            if said or len(left) < len(found):
                silent = kept.turn.model_copy(update={"text": ""})
                self.keep_candidates(kept.seq, left)
                self._connection.execute(
                    t.turns.update()
                    .where(t.turns.c.seq == kept.seq)
                    .values(turn=silent.model_dump_json())
                )

    def _scrub_decisions(self, ids: set[str]) -> None:
        """Decisions keep who was involved; what they recorded of the forgotten goes."""
        about: dict[int, DecisionRecord] = {}
        for some in chunks(sorted(ids)):
            query = sa.select(t.decisions).where(decisions_about(some, involved_only=False))
            about |= {recorded.number: recorded for recorded in self._recorded_by(query)}
        for number, recorded in about.items():
            before = json.loads(recorded.before)
            before["rows"] = {
                key: None if key in ids else kept for key, kept in before["rows"].items()
            }
            before["links"] = [link for link in before["links"] if not ids & set(link[:2])]
            scrubbed = {
                "before": json.dumps(before),
                "reason": "forgotten",
                "pending": recorded.pending and not ids & set(recorded.members),
            }
            self._connection.execute(
                t.decisions.update().where(t.decisions.c.seq == number).values(**scrubbed)
            )

    def put_vector(self, text: str, vector: Vector) -> None:
        """Remember a text's vector; a known one stays. Whoever follows reads its rows again."""
        blob = np.ascontiguousarray(vector, dtype=np.float32).tobytes()
        statement = self._upsert(t.vectors).values(text_key=text_key(text), vector=blob)
        if self._connection.execute(statement.on_conflict_do_nothing()).rowcount:
            holders = sa.select(t.memories.c.id).where(t.memories.c.text_key == text_key(text))
            self._touched |= set(self._connection.scalars(holders))

    def drop_vectors(self) -> None:
        """Forget every vector, and start every index again: the next come from another embedder."""
        self._connection.execute(t.vectors.delete())
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))
        self._touched |= set(self._connection.scalars(sa.select(t.memories.c.id)))

    def mark_distinct(
        self, scope: Scope, text_a: str, text_b: str, reason: str, by: t.Judge = "model"
    ) -> None:
        """Two texts say different things in this scope; a lower judge's word gives way."""
        low, high = sorted((text_key(text_a), text_key(text_b)))
        pair = {"scope": scope.key, "low_key": low, "high_key": high}
        verdict = {"reason": reason, "by": by}
        statement = self._upsert(t.distinct_pairs).values(**pair, **verdict)
        lower = t.distinct_pairs.c.by.in_(t.JUDGES[: t.JUDGES.index(by)])
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=[*pair], set_=verdict, where=lower)
        )

    def record(self, decision: Decision, before: str, at: datetime, run: str | None) -> None:
        """What was decided and why, with the state that undo goes back to."""
        survivors = [
            {"id": survivor.memory.id, "stands_for": survivor.stands_for}
            for survivor in decision.survivors
        ]
        result: Any = self._connection.execute(
            t.decisions.insert().values(
                revision=0,
                run=run,
                at=at.isoformat(),
                action=decision.action.value,
                reason=decision.reason,
                similarity=decision.similarity,
                candidates=json.dumps(decision.candidates),
                members=json.dumps([member.id for member in decision.members]),
                survivors=json.dumps(survivors),
                before=before,
                pending=decision.pending,
                model=decision.model,
                usage=decision.usage.model_dump_json(),
            )
        )
        number = int(result.inserted_primary_key[0])
        self._recorded.append(number)
        involved = {member.id for member in decision.members} | {
            name for one in decision.survivors for name in (one.memory.id, *one.stands_for)
        }
        linked = {end for link in json.loads(before)["links"] for end in link[:2]}
        compared = ({name for name, _ in decision.candidates} | linked) - involved
        self._connection.execute(
            t.mentions.insert(),
            [
                {"decision": number, "memory_id": name, "involved": name in involved}
                for name in sorted(involved | compared)
            ],
        )

    def close_pending(self, numbers: Iterable[int]) -> None:
        """These open questions are answered."""
        closed = t.decisions.update().where(t.decisions.c.seq.in_(list(numbers)))
        self._connection.execute(closed.values(pending=False))

    def close_pending_about(self, ids: Collection[str]) -> None:
        """Open questions about these memories, and no others, are answered."""
        open_ones = sa.select(t.decisions).where(t.decisions.c.pending)
        for some in chunks(sorted(ids)):
            about = self._recorded_by(open_ones.where(decisions_about(some)))
            self.close_pending(one.number for one in about if set(one.members) <= set(ids))

    def take_back(self, recorded: DecisionRecord, *, keep_pending: bool = False) -> None:
        """Restore the rows and links of a decision's members; what it made is gone.

        Links that came later stay with whom they led to: where that row goes, with the newest
        member. `keep_pending` leaves its question open.
        """
        before = json.loads(recorded.before)
        later = self._links_since(recorded, before["links"])
        made = {row.text_key for row in self.rows(recorded.created).values()}
        changed = {row.text_key for row in self.rows(recorded.members).values()}
        for name in recorded.members:
            self._unlink(name)
        self._bury(recorded.created)
        for name, columns in before["rows"].items():
            kept = {key: value for key, value in columns.items() if key not in ("seq", "revision")}
            self._connection.execute(
                t.memories.update().where(t.memories.c.id == name).values(kept)
            )
        for source, end in [*_links_of_image(before["links"]), *later]:
            self._restore_link(source, end)
        self._touched |= set(recorded.members)
        self._drop_unused(made | changed)
        undone = t.decisions.update().where(t.decisions.c.seq == recorded.number)
        self._connection.execute(undone.values(undone=True, pending=keep_pending))

    def _links_since(
        self, recorded: DecisionRecord, before: Sequence[Sequence[Any]]
    ) -> list[tuple[str, MemoryLink]]:
        """Links of the survivors that the decision did not find, with whom they stay."""
        heir_of = {name: heir for heir, retired in recorded.survivors for name in retired}
        found = {
            frozenset(heir_of.get(end) or self._heir(end) for end in link[:2]) for link in before
        }
        instead = dict.fromkeys(recorded.created, recorded.members[-1])
        heirs = [heir for heir, _ in recorded.survivors]
        later = []
        for link in self._link_rows(heirs, dangling=True):
            if frozenset((link.low_id, link.high_id)) not in found:
                end = seen_from(link.low_id, link)
                target = instead.get(end.target_id, end.target_id)
                moved = end.model_copy(update={"target_id": target})
                later.append((instead.get(link.low_id, link.low_id), moved))
        return later

    def _restore_link(self, source: str, end: MemoryLink) -> None:
        """Between those who stand for its ends today; none that leads to a forgotten one."""
        if (heir := self._heir(source)) is not None:
            self._put_link(heir, end, replace=False)

    def keep_turn(self, turn: Turn, name: str) -> bool:
        """Keep a turn until it is extracted; whether it was not known before."""
        digest = hashlib.sha256(turn.text.encode()).hexdigest()[:32]
        statement = self._upsert(t.turns).values(
            conversation=turn.conversation,
            name=name,
            digest=digest,
            pending=True,
            turn=turn.model_dump_json(),
        )
        return bool(self._connection.execute(statement.on_conflict_do_nothing()).rowcount)

    def keep_candidates(self, seq: int, candidates: Sequence[Candidate]) -> None:
        """What a model found in a turn: after a crash it need not be asked again."""
        found = _CANDIDATES.dump_json(tuple(candidates)).decode()
        self._connection.execute(
            t.turns.update().where(t.turns.c.seq == seq).values(candidates=found)
        )

    def count_attempt(self, seq: int) -> None:
        """A turn could not be extracted this time."""
        attempts = t.turns.c.attempts + 1
        self._connection.execute(
            t.turns.update().where(t.turns.c.seq == seq).values(attempts=attempts)
        )

    def finish_turn(self, seq: int) -> None:
        """A turn is extracted: all that stays of it is how it is known again."""
        self._connection.execute(
            t.turns.update()
            .where(t.turns.c.seq == seq)
            .values(pending=False, turn=None, candidates=None)
        )

    def image(self, ids: Sequence[str]) -> str:
        """The rows and links of these memories as they are now, as JSON; None for unknown ids."""
        rows: dict[str, Any] = dict.fromkeys(ids)
        for some in chunks(ids):
            query = sa.select(t.memories).where(t.memories.c.id.in_(some))
            for row in self._connection.execute(query).mappings():
                rows[row["id"]] = dict(row)
        links = [list(link) for link in self._link_rows(ids, dangling=True)]
        return json.dumps({"rows": rows, "links": links})

    # --- links and episodes, for the agent ---

    def link(
        self, source_id: str, target_id: str, kind: LinkType, note: str = "", *, replace: bool
    ) -> bool:
        """Link two memories; whether they were not linked before.

        A link that is there keeps its confidence, and with `replace` takes the new kind and note.
        """
        known = self._link_between(source_id, target_id)
        confidence = known.confidence if known else MemoryLink(target_id=target_id).confidence
        end = MemoryLink(target_id=target_id, link_type=kind, note=note, confidence=confidence)
        if known is None or replace:
            self._put_link(source_id, end, replace=replace)
        return known is None

    def bump_confidence(self, a: str, b: str, by: float) -> bool:
        """Trust a link more, up to 1; False where there is none."""
        known = self._link_between(a, b)
        if known is None:
            return False
        raised = min(1.0, round(known.confidence + by, 6))
        here = sa.and_(t.links.c.low_id == known.low_id, t.links.c.high_id == known.high_id)
        self._connection.execute(t.links.update().where(here).values(confidence=raised))
        self._touched |= {a, b}
        return True

    def _link_between(self, a: str, b: str) -> sa.Row[Any] | None:
        low, high = sorted((a, b))
        query = sa.select(t.links).where(t.links.c.low_id == low, t.links.c.high_id == high)
        return self._connection.execute(query).first()

    def put_episode(self, episode: Episode) -> None:
        """Store an episode, or new values for it."""
        values = {
            "summary": episode.summary,
            "memory_ids": json.dumps(episode.memory_ids),
            "start_time": episode.start_time.isoformat(),
            "end_time": episode.end_time.isoformat(),
            "importance": episode.importance,
        }
        statement = self._upsert(t.episodes).values(id=episode.id, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["id"], set_=values)
        )

    def forget_in_episodes(self, contents: Collection[str]) -> None:
        """Summaries that quote a text lose their words; the ids are filtered by who reads."""
        for episode in self.episodes():
            if any(content in episode.summary for content in contents):
                self.put_episode(episode.model_copy(update={"summary": FORGOTTEN_SUMMARY}))

    def set_index_state(self, collection: str, place: str, watermark: int) -> None:
        """The collection at a place has followed this far; it is as stale as it was."""
        values = {"place": place, "watermark": watermark}
        statement = self._upsert(t.index_state).values(collection=collection, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["collection"], set_=values)
        )

    def index_is_clean(self, collection: str) -> None:
        """A collection holds nothing any more of what was forgotten."""
        mine = t.index_state.c.collection == collection
        self._connection.execute(t.index_state.update().where(mine).values(stale=False))

    def drop_other_indexes(self, place: str, collection: str) -> None:
        """At this place there is only this collection now."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == place, state.collection != collection)
        self._connection.execute(gone)

    def load(self, table_name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Rows as `dump` gave them, into the same tables, which are empty or hold one row."""
        table = t.schema.tables[table_name]
        if table in (t.meta, t.counter):
            self._connection.execute(table.delete())
        self._connection.execute(table.insert(), rows)
        if self._connection.dialect.name == "postgresql" and "seq" in table.c:
            last = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, "seq")
            self._connection.execute(sa.select(sa.func.setval(sequence, last)))

    def take_revision(self) -> None:
        """Number what this transaction wrote; the last step before the commit."""
        if not (self._touched or self._recorded):
            return
        self._connection.execute(t.counter.update().values(value=t.counter.c.value + 1))
        number = self.revision()
        for some in chunks(sorted(self._touched)):
            written = t.memories.update().where(t.memories.c.id.in_(some))
            self._connection.execute(written.values(revision=number))
        decided = t.decisions.update().where(t.decisions.c.seq.in_(self._recorded))
        self._connection.execute(decided.values(revision=number))


def _links_of_image(links: Iterable[Sequence[Any]]) -> Iterator[tuple[str, MemoryLink]]:
    for low_id, high_id, link_type, note, confidence in links:
        yield (
            low_id,
            MemoryLink(target_id=high_id, link_type=link_type, note=note, confidence=confidence),
        )
