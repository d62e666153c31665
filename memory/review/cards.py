"""A group as a person sees it: as it is planned, or as it was decided."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from memory.decide import AlikeGroup, GroupPlan, RoundPlan, certainty, planned_steps, similarities
from memory.ledger import DecisionRecord, Reader, Row
from memory.models import Action, Frozen

NO_MODEL = "the rules, without a model"
LATER = "later"
"""The action of a card whose question a person put off."""
ON_REQUEST = "whoever asked for it"
_REQUESTED = {Action.UPDATE, Action.UNDO, Action.FORGET}


class CardMember(Frozen):
    """One memory of a group as it was then, and what happens to it."""

    id: str
    content: str
    content_hash: str
    """Identifies the exact text."""
    user: str | None
    timestamp: datetime
    fate: str
    """`keep`, `retire`, `forgotten`, `judge` for a memory that needs a decision, or `beside` for
    one that the decision about the others left alone."""
    alike: float | None
    """Similarity to the newest of the group; None if it was not recorded."""


class KeptText(Frozen):
    """A text that lives on."""

    id: str
    text: str
    """Empty if it was undone or forgotten since."""
    members: tuple[int, ...]
    """Positions, from 0, of the members that it stands for, its own included."""
    is_new: bool
    """Whether it was written from the members instead of being one of them."""


class Recorded(Frozen):
    """A decision of the ledger: its number, its time, and who made it."""

    number: int
    run: str | None
    at: datetime
    by: str
    verified: str | None
    cosine: float | None
    """The similarity before the embedder's scale."""
    pending: bool
    undone: bool
    reversible: bool
    """Whether decisions of its kind can be undone."""


class Card(Frozen):
    """One group: its members from oldest to newest, how alike they are, what happens and why."""

    key: str
    """Identifies the members and their exact texts."""
    user: str | None
    is_private: bool
    members: tuple[CardMember, ...]
    similarity: float | None
    """Of the two members that are least alike."""
    highest: float | None
    """Of the two different texts that are most alike."""
    action: str
    reason: str
    kept: tuple[KeptText, ...]
    """Empty while a question is open."""
    certainty: float
    """0 to 1, as `decide.certainty`; below 0.5 if a model or a person judges."""
    recorded: Recorded | None = None


def content_hash(content: str) -> str:
    """Return 16 hex digits that identify an exact text."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def card_key(members: Iterable[tuple[str, str]]) -> str:
    """Return 16 hex digits that identify a group by its ids and content hashes, in any order."""
    return hashlib.sha256(json.dumps(sorted(members)).encode()).hexdigest()[:16]


def least_certain_first(cards: Iterable[Card]) -> list[Card]:
    """Return the cards in the order in which a person should look at them."""
    return sorted(cards, key=lambda card: (card.certainty, card.members[0].timestamp, card.key))


# --- planned ----------------------------------------------------------------------------------


def cards_of(plan: RoundPlan) -> list[Card]:
    """Return a card for every group of a plan, in its order."""
    alike = plan.likeness.groups([group.members for group in plan.groups])
    return [_card(group, its) for group, its in zip(plan.groups, alike, strict=True)]


def planned_card(group: GroupPlan, plan: RoundPlan) -> Card:
    """Return the card of one group of a plan."""
    return _card(group, plan.likeness.among(group.members))


def _card(group: GroupPlan, alike: AlikeGroup) -> Card:
    steps = planned_steps(group)
    scores = [score for _, _, score in similarities(group.members, alike)]
    *older, newest = group.members
    to_newest = [alike.of(member, newest) for member in older]
    members = tuple(
        _member(
            member.id, member.content, member.user, member.timestamp, steps.fates[member.id], score
        )
        for member, score in zip(group.members, [*to_newest, None], strict=True)
    )
    survivors = group.replacement.survivors if group.replacement else ()
    return Card(
        key=_key(members),
        user=members[0].user,
        is_private=group.members[0].is_private,
        members=members,
        similarity=min(scores, default=1.0),
        highest=max(scores, default=1.0),
        action=steps.action,
        reason=steps.reason,
        kept=_kept([(s.memory.id, s.memory.content, s.stands_for) for s in survivors], members),
        certainty=round(certainty(group), 6),
    )


# --- recorded ---------------------------------------------------------------------------------

_Columns = dict[str, Any]
"""Columns of a memory, by name."""


def recorded_cards(reader: Reader, records: Sequence[DecisionRecord]) -> list[Card]:
    """Return decisions as cards, in the order of the records, which is oldest first.

    A member has the text that it had then, or its present text if the decision changed nothing. A
    text that lived on is as the next of these decisions found it, or else as it is now.
    """
    unseen = {
        name for record in records for name in set(record.members) - _rows_before(record).keys()
    }
    now = {
        name: None
        if row.forgotten
        else row.memory.model_dump(
            mode="json", include={"content", "user", "is_private", "timestamp"}
        )
        for name, row in reader.memories.rows(sorted(unseen)).items()
    }
    survivors = [name for record in records for name, _ in record.survivors]
    texts = {name: row.memory.content for name, row in reader.memories.rows(survivors).items()}
    cards = []
    for record in reversed(records):
        cards.append(_recorded_card(record, texts, now))
        texts |= {name: row["content"] for name, row in _rows_before(record).items() if row}
    return cards[::-1]


def _recorded_card(
    record: DecisionRecord, texts: dict[str, str], now: dict[str, _Columns | None]
) -> Card:
    before = {name: now[name] for name in record.members if name in now} | _rows_before(record)
    members = tuple(_member_then(name, before.get(name), record) for name in record.members)
    members = tuple(sorted(members, key=lambda member: member.timestamp))
    known = [row for name in record.members if (row := before.get(name))]
    alike = record.similarity or 0.0
    judged = record.pending or record.model is not None
    kept = [(name, texts.get(name, ""), stands_for) for name, stands_for in record.survivors]
    return Card(
        key=_key(members),
        user=known[-1]["user"] if known else None,
        is_private=any(row["is_private"] for row in known),
        members=members,
        similarity=record.similarity,
        highest=record.similarity,
        action=LATER if record.left_for_later else record.action.value,
        reason=record.reason,
        kept=_kept(kept, members, reworded=record.action is Action.UPDATE),
        certainty=alike / 2 if judged else (1.0 + alike) / 2,
        recorded=Recorded(
            number=record.number,
            run=record.run,
            at=record.at,
            by=_by(record),
            verified=record.verified,
            cosine=record.cosine,
            pending=record.pending,
            undone=record.undone,
            reversible=record.reversible,
        ),
    )


def _rows_before(record: DecisionRecord) -> dict[str, _Columns | None]:
    """Return the members as the decision found them; None for one that was forgotten since."""
    rows: dict[str, _Columns | None] = json.loads(record.before)["rows"]
    return rows


def _member_then(name: str, row: _Columns | None, record: DecisionRecord) -> CardMember:
    """Return a member as the decision found it; of a forgotten one only the id is left."""
    if row is None:
        return _member(name, "", None, record.at, "forgotten")
    retired = {gone for _, stands_for in record.survivors for gone in stands_for}
    touched = retired | {survivor for survivor, _ in record.survivors}
    stays = "beside" if touched and name not in touched else "keep"
    at = datetime.fromisoformat(row["timestamp"])
    return _member(name, row["content"], row["user"], at, "retire" if name in retired else stays)


def _by(record: DecisionRecord) -> str:
    if record.by_person:
        return "a person"
    return record.model or (ON_REQUEST if record.action in _REQUESTED else NO_MODEL)


# --- both -------------------------------------------------------------------------------------


def _member(
    name: str,
    content: str,
    user: str | None,
    timestamp: datetime,
    fate: str,
    alike: float | None = None,
) -> CardMember:
    return CardMember(
        id=name,
        content=content,
        content_hash=content_hash(content),
        user=user,
        timestamp=timestamp,
        fate=fate,
        alike=alike,
    )


def _kept(
    survivors: Iterable[tuple[str, str, Sequence[str]]],
    members: Sequence[CardMember],
    *,
    reworded: bool = False,
) -> tuple[KeptText, ...]:
    """Return the texts that live on, given as id, text and the ids that it stands for."""
    position = {member.id: n for n, member in enumerate(members)}
    return tuple(
        KeptText(
            id=name,
            text=text,
            members=tuple(sorted(position[n] for n in (name, *stands_for) if n in position)),
            is_new=reworded or name not in position,
        )
        for name, text, stands_for in survivors
    )


def _key(members: Iterable[CardMember]) -> str:
    return card_key((member.id, member.content_hash) for member in members)


# --- one memory -----------------------------------------------------------------------------------


class MemoryHistory(NamedTuple):
    """Every wording of a memory, oldest first, and every decision about one of them."""

    wordings: tuple[Row, ...]
    decisions: tuple[Card, ...]
    living: str | None
    """Id of the live memory that stands for it today."""


def memory_history(reader: Reader, memory_id: str) -> MemoryHistory | None:
    """Return the history of a live or retired memory; None for an unknown or forgotten id."""
    row = reader.memories.row(memory_id)
    if row is None or row.forgotten:
        return None
    names = [memory_id, *reader.memories.ancestors(memory_id)]
    rows = sorted(reader.memories.rows(names).values(), key=lambda row: (row.live, row.seq))
    records = {record.number: record for name in names for record in reader.decisions.about(name)}
    alive = reader.memories.living(row)
    return MemoryHistory(
        wordings=tuple(row for row in rows if not row.forgotten),
        decisions=tuple(recorded_cards(reader, [records[n] for n in sorted(records)])),
        living=alive.memory.id if alive is not None else None,
    )
