"""What a person sees of one group: planned, or as it was decided."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from memory.decide import AlikeGroup, GroupPlan, RoundPlan, certainty, planned_steps, similarities
from memory.ledger import DecisionRecord, Reader, Row
from memory.models import Action, Decision, Frozen

Fate = Literal["keep", "retire", "judge", "beside", "forgotten"]
"""`beside`: it was looked at with the others, and what was decided about them left it alone."""
NO_MODEL = "the rules, without a model"
LATER = "later"
"""The action of a card whose question a person has put off."""
ON_REQUEST = "whoever asked for it"
_REQUESTED = {Action.UPDATE, Action.UNDO, Action.FORGET}


class CardMember(Frozen):
    """One memory of a group as it was then, and what becomes of it."""

    id: str
    content: str
    content_hash: str
    """Names the exact text; another text has another."""
    user: str | None
    timestamp: datetime
    fate: Fate
    alike: float | None
    """To the newest of the group; None where that was not recorded."""


class KeptText(Frozen):
    """A text that lives on, and the members it stands for, by position from 0, its own too."""

    id: str
    text: str
    """Empty where it was taken back or forgotten since."""
    members: tuple[int, ...]
    is_new: bool
    """Whether it was written from them, rather than one of them."""


class Recorded(Frozen):
    """Where in the ledger a decision stands, and whose it was."""

    number: int
    run: str | None
    at: datetime
    by: str
    verified: str | None
    cosine: float | None
    """What the similarity was before the scale."""
    pending: bool
    undone: bool
    reversible: bool
    """Whether it can be taken back, unless it was."""


class Card(Frozen):
    """One group: its members oldest to newest, how alike they are, what is done and why."""

    key: str
    """Made of the members and their texts: where one has changed, it is another card."""
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
    """Known without a model, or by now; empty where a question is still to be asked."""
    certainty: float
    """0 to 1, as `decide.certainty`; what a model judged counts as what one is to judge."""
    recorded: Recorded | None = None


def content_hash(content: str) -> str:
    """16 hex digits that name an exact text."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def card_key(members: Iterable[tuple[str, str]]) -> str:
    """16 hex digits that name a group by its members' ids and content hashes, whatever order."""
    return hashlib.sha256(json.dumps(sorted(members)).encode()).hexdigest()[:16]


def least_certain_first(cards: Iterable[Card]) -> list[Card]:
    """The order in which a person had best look at them."""
    return sorted(cards, key=lambda card: (card.certainty, card.members[0].timestamp, card.key))


# --- planned ----------------------------------------------------------------------------------


def cards_of(plan: RoundPlan) -> list[Card]:
    """Every group of a round, in its order."""
    alike = plan.likeness.groups([group.members for group in plan.groups])
    return [_card(group, its) for group, its in zip(plan.groups, alike, strict=True)]


def planned_card(group: GroupPlan, plan: RoundPlan) -> Card:
    """A group of a round, as its report tells it."""
    return _card(group, plan.likeness.among(group.members))


def _card(group: GroupPlan, alike: AlikeGroup) -> Card:
    steps = planned_steps(group)
    scores = [score for _, _, score in similarities(group.members, alike)]
    *older, newest = group.members
    to_newest = [alike.of(one, newest) for one in older]
    members = tuple(
        _member(one.id, one.content, one.user, one.timestamp, steps.fates[one.id], score)
        for one, score in zip(group.members, [*to_newest, None], strict=True)
    )
    return Card(
        key=_key(members),
        user=members[0].user,
        is_private=group.members[0].is_private,
        members=members,
        similarity=min(scores, default=1.0),
        highest=max(scores, default=1.0),
        action=steps.action,
        reason=steps.reason,
        kept=_kept(group.replacement, members) if group.replacement else (),
        certainty=round(certainty(group), 6),
    )


def _kept(decision: Decision, members: Sequence[CardMember]) -> tuple[KeptText, ...]:
    place = {member.id: n for n, member in enumerate(members)}
    return tuple(
        KeptText(
            id=one.memory.id,
            text=one.memory.content,
            members=_places(place, (one.memory.id, *one.stands_for)),
            is_new=one.memory.id not in place,
        )
        for one in decision.survivors
    )


# --- recorded ---------------------------------------------------------------------------------


def recorded_cards(reader: Reader, records: Sequence[DecisionRecord]) -> list[Card]:
    """Decisions as cards, in the order of the records, which is oldest first.

    Each member's text is the one it had then; where the decision changed nothing, and kept no image
    of it, the one it has now. A text that lived on is as a later one of these decisions found it,
    else as it is now.
    """
    unseen = {name for one in records for name in set(one.members) - _rows_before(one).keys()}
    now = {name: _as_now(row) for name, row in reader.memories.rows(sorted(unseen)).items()}
    survivors = [name for record in records for name, _ in record.survivors]
    texts = {name: row.memory.content for name, row in reader.memories.rows(survivors).items()}
    cards = []
    for record in reversed(records):
        cards.append(_recorded_card(record, texts, now))
        texts |= {name: row["content"] for name, row in _rows_before(record).items() if row}
    return cards[::-1]


def _recorded_card(record: DecisionRecord, texts: dict[str, str], now: _Rows) -> Card:
    before = {name: now[name] for name in record.members if name in now} | _rows_before(record)
    members = tuple(_member_then(name, before.get(name), record) for name in record.members)
    members = tuple(sorted(members, key=lambda one: one.timestamp))
    known = [row for name in record.members if (row := before.get(name))]
    alike = record.similarity or 0.0
    judged = record.pending or record.model is not None
    return Card(
        key=_key(members),
        user=known[-1]["user"] if known else None,
        is_private=any(row["is_private"] for row in known),
        members=members,
        similarity=record.similarity,
        highest=record.similarity,
        action=LATER if record.left_for_later else record.action.value,
        reason=record.reason,
        kept=_kept_then(record, members, texts),
        certainty=alike / 2 if judged else (1.0 + alike) / 2,
        recorded=_recorded(record),
    )


_Rows = dict[str, dict[str, Any] | None]
"""The columns of memories by id; None for one that was forgotten."""


def _rows_before(record: DecisionRecord) -> _Rows:
    rows: _Rows = json.loads(record.before)["rows"]
    return rows


def _as_now(row: Row) -> dict[str, Any] | None:
    """The columns that a card shows."""
    if row.forgotten:
        return None
    memory = row.memory
    at = memory.timestamp.isoformat()
    told = {"content": memory.content, "user": memory.user, "is_private": memory.is_private}
    return {**told, "timestamp": at}


def _member_then(name: str, row: dict[str, Any] | None, record: DecisionRecord) -> CardMember:
    """A member as the decision found it; of a forgotten one only the id is left."""
    if row is None:
        return _member(name, "", None, record.at, "forgotten")
    retired = {gone for _, stood_for in record.survivors for gone in stood_for}
    touched = retired | {survivor for survivor, _ in record.survivors}
    stays = "beside" if touched and name not in touched else "keep"
    at = datetime.fromisoformat(row["timestamp"])
    return _member(name, row["content"], row["user"], at, "retire" if name in retired else stays)


def _kept_then(
    record: DecisionRecord, members: Sequence[CardMember], texts: dict[str, str]
) -> tuple[KeptText, ...]:
    place = {member.id: n for n, member in enumerate(members)}
    return tuple(
        KeptText(
            id=name,
            text=texts.get(name, ""),
            members=_places(place, (name, *stands_for)),
            is_new=name not in place or record.action is Action.UPDATE,
        )
        for name, stands_for in record.survivors
    )


def _recorded(record: DecisionRecord) -> Recorded:
    return Recorded(
        number=record.number,
        run=record.run,
        at=record.at,
        by=_by(record),
        verified=record.verified,
        cosine=record.cosine,
        pending=record.pending,
        undone=record.undone,
        reversible=record.reversible,
    )


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
    return CardMember.model_validate(
        {
            "id": name,
            "content": content,
            "content_hash": content_hash(content),
            "user": user,
            "timestamp": timestamp,
            "fate": fate,
            "alike": alike,
        }
    )


def _key(members: Iterable[CardMember]) -> str:
    return card_key((member.id, member.content_hash) for member in members)


def _places(place: dict[str, int], names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(place[name] for name in names if name in place))
