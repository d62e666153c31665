"""Cards: each shows a person a group of memories, and a planned or recorded decision about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import Field

from memory.coverage import difference, marked
from memory.decide import (
    AlikeGroup,
    GroupPlan,
    RoundPlan,
    certainty,
    differences,
    planned_steps,
    similarities,
)
from memory.ledger import DecisionRecord, Reader
from memory.models import Action, Frozen, Memory, Refusal, Row, Scope
from memory.text import one_line, shortened, text_of, visible

_REQUESTED = {Action.UPDATE, Action.EXPIRE, Action.UNDO, Action.FORGET}
_MOST_COMPARED = 12
_MOST_SHOWN = 160  # characters of what speaks for joining a group, and of what speaks against it


class CardMember(Frozen):
    """A member of a group: its text before the decision, and what the decision does with it.

    `fate`: one of five words. `keep`: it stays. `retire`: another memory replaces it. `judge`: a
    model or a person must decide. `beside`: it stays, and the decision changed only other members.
    `forgotten`: its text was erased, and `content` is empty.

    `alike`: the similarity to the group's newest member. It is None for the newest member itself,
    and for all members if the decision is already recorded.

    >>> copies = [store.new_memory(text, user="Ben") for text in ("I row.", "I row!")]
    >>> count = store.add_batch(copies)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Ben"]
    >>> [(member.fate, member.alike) for member in card.members]
    [('retire', 1.0), ('keep', None)]
    """

    id: str
    content: str
    content_hash: str = Field(default_factory=lambda given: content_hash(given["content"]))
    user: str | None
    timestamp: datetime
    fate: str
    alike: float | None = None


class KeptText(Frozen):
    """A survivor of the decision on a card.

    `members`: the positions in `Card.members`, from 0, of the memories that it replaces, and of
    itself if it is a member. `is_new`: true if it is not a member, or if an update changed it.
    """

    id: str
    text: str
    members: tuple[int, ...]
    is_new: bool


class Recorded(Frozen):
    """A recorded decision.

    `by`: who decided, such as "a person" or a model's name. `verified`: how the merged text was
    checked; None if no check is recorded. `cosine`: the lowest cosine of the compared memories;
    None if it was not recorded. `reversible`: whether decisions of this kind can be undone.
    `refused`: the merged texts that were refused.
    """

    number: int
    run: str | None
    at: datetime
    by: str
    verified: str | None
    cosine: float | None
    pending: bool
    undone: bool
    reversible: bool
    refused: tuple[Refusal, ...] = ()


class Card(Frozen):
    """A group of memories for display: its members, oldest first, and what happens to them and why.

    `similarity` and `highest`: the lowest and the highest similarity of two members. On the card of
    a recorded decision, both are the similarity in the record; None if the record has none. `kept`:
    the survivors. `certainty`: from 0 to 1; at most 0.5 if a model or a person must decide, or has
    decided; otherwise at least 0.5. `recorded`: None if the decision is only planned. `in_favour`
    and `against`: what speaks for joining the members, and what against it, each in one line.

    >>> copies = [store.new_memory(text, user="Ann") for text in ("I row.", "I row!")]
    >>> count = store.add_batch(copies)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Ann"]
    >>> card.action, card.certainty, [(member.content, member.fate) for member in card.members]
    ('replace', 1.0, [('I row.', 'retire'), ('I row!', 'keep')])
    """

    key: str
    user: str | None
    is_private: bool
    members: tuple[CardMember, ...]
    similarity: float | None
    highest: float | None
    action: str
    reason: str
    kept: tuple[KeptText, ...]
    certainty: float
    recorded: Recorded | None = None
    in_favour: str = ""
    against: str = ""


def content_hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def card_key(members: Iterable[tuple[str, str]]) -> str:
    """Return a hash, 16 hexadecimal digits, that identifies a group by its members and their texts.

    `members` are pairs of a memory's id and the hash of its text (`content_hash`), in any order.
    """
    return hashlib.sha256(json.dumps(sorted(members)).encode()).hexdigest()[:16]


def least_certain_first(cards: Iterable[Card]) -> list[Card]:
    """Return the cards, those first that need a person most.

    >>> texts = ("Una rows.", "Una rows!"), ("Uli has 2 cats.", "Uli has 3 cats.")
    >>> copies = [store.new_memory(one, user=two[0][:3]) for two in texts for one in two]
    >>> count = store.add_batch(copies)
    >>> cards = cards_of((await audit_store(store, config)).plan)
    >>> certain = [card.certainty for card in least_certain_first(cards)]
    >>> certain == sorted(certain), certain[0] <= 0.5 < certain[-1]
    (True, True)
    """
    return sorted(cards, key=lambda card: (card.certainty, card.members[0].timestamp, card.key))


# --- planned ----------------------------------------------------------------------------------


def cards_of(plan: RoundPlan) -> list[Card]:
    """Return a card for each group of a plan, in the plan's order.

    >>> copies = [store.new_memory(text, user="Cem") for text in ("I row.", "I row!")]
    >>> count = store.add_batch(copies)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Cem"]
    >>> card.reason, [kept.text for kept in card.kept]
    ('same text', ['I row!'])
    """
    alike = plan.likeness.groups([group.members for group in plan.groups])
    return [_card(group, its) for group, its in zip(plan.groups, alike, strict=True)]


def _card(group: GroupPlan, alike: AlikeGroup) -> Card:
    steps = planned_steps(group)
    scores = [score for _, _, score in similarities(group.members, alike)]
    newest = group.members[-1]
    members = tuple(
        CardMember(
            id=member.id,
            content=member.content,
            user=member.user,
            timestamp=member.timestamp,
            fate=steps.fates[member.id],
            alike=None if member is newest else alike.of(member, newest),
        )
        for member in group.members
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
        in_favour=_in_favour(group.members, min(scores, default=1.0), steps.fates.values()),
        against=_against(group.members, steps.fates.values()),
    )


def _in_favour(members: Sequence[Memory], similarity: float, fates: Iterable[str]) -> str:
    """Say what speaks for joining members, such as 'all say "Mia runs"; similarity 0.97'."""
    *others, newest = (member.content for member in members)
    pieces = marked(newest, others[-_MOST_COMPARED:])[::2]
    shared = [one_line(piece).strip() for piece in pieces if any(map(str.isalnum, piece))]
    found = [f'all say "{shortened(" … ".join(shared), _MOST_SHOWN)}"'] if shared else []
    found.append(f"similarity {similarity:.2f}")
    if "judge" not in fates:
        found.append("what stays states the rest")
    return "; ".join(found)


def _against(members: Sequence[Memory], fates: Iterable[str]) -> str:
    parts = dict.fromkeys("; ".join(differences(members)).split("; "))
    found = [shortened(part, _MOST_SHOWN) for part in list(parts)[:4] if part]
    if "judge" in fates:
        found.append("no text states all of the others")
    return "; ".join(found) or "nothing: the texts say the same"


# --- recorded ---------------------------------------------------------------------------------

_Columns = dict[str, Any]


def recorded_cards(reader: Reader, records: Sequence[DecisionRecord]) -> list[Card]:
    """Return a card for each recorded decision. `records` are oldest first, and so are the cards.

    A card shows the texts of its members before the decision, and of the survivors after it.

    >>> old = memories.remember("Gus rows.", user="Gus")
    >>> new = memories.remember("Gus rows!", user="Gus")
    >>> with store.ledger.reading() as reader:
    ...     [card] = recorded_cards(reader, store.history(new.memory.id)[-1:])
    >>> card.reason, card.recorded.number == new.number
    ('same text', True)
    """
    unseen = {
        name for record in records for name in set(record.members) - _rows_before(record).keys()
    }
    now = {
        name: row.memory.model_dump(
            mode="json", include={"content", "user", "is_private", "timestamp"}
        )
        for name, row in reader.memories.rows(sorted(unseen)).items()
        if not row.forgotten
    }
    survivors = [name for record in records for name, _ in record.survivors]
    texts = {name: row.memory.content for name, row in reader.memories.rows(survivors).items()}
    cards = []
    for record in reversed(records):
        cards.append(_recorded_card(record, texts, now))
        texts |= {name: row["content"] for name, row in _rows_before(record).items() if row}
    return cards[::-1]


def _recorded_card(record: DecisionRecord, texts: dict[str, str], now: dict[str, _Columns]) -> Card:
    before = {name: now.get(name) for name in record.members} | _rows_before(record)
    then = (_member_then(name, before[name], record) for name in record.members)
    members = tuple(sorted(then, key=lambda member: member.timestamp))
    known = [row for name in record.members if (row := before[name])]
    alike = record.similarity or 0.0
    judged = record.pending or record.model is not None
    on_request = record.action in _REQUESTED
    unjudged_by = "whoever asked for it" if on_request else "the rules, without a model"
    kept = [(name, texts.get(name, ""), stands_for) for name, stands_for in record.survivors]
    return Card(
        key=_key(members),
        user=known[-1]["user"] if known else None,
        is_private=any(row["is_private"] for row in known),
        members=members,
        similarity=record.similarity,
        highest=record.similarity,
        action="later" if record.left_for_later else record.action.value,
        reason=record.reason,
        kept=_kept(kept, members, reworded=record.action is Action.UPDATE),
        certainty=alike / 2 if judged else (1.0 + alike) / 2,
        recorded=Recorded(
            number=record.number,
            run=record.run,
            at=record.at,
            by="a person" if record.by_person else record.model or unjudged_by,
            verified=record.verified,
            cosine=record.cosine,
            pending=record.pending,
            undone=record.undone,
            reversible=record.reversible,
            refused=record.refused,
        ),
    )


def _rows_before(record: DecisionRecord) -> dict[str, _Columns | None]:
    """Return the saved table rows from before the decision, by memory id; None if erased."""
    rows: dict[str, _Columns | None] = json.loads(record.before)["rows"]
    return rows


def _member_then(name: str, row: _Columns | None, record: DecisionRecord) -> CardMember:
    if row is None:
        return CardMember(id=name, content="", user=None, timestamp=record.at, fate="forgotten")
    retired = {gone for _, stands_for in record.survivors for gone in stands_for}
    touched = retired | {survivor for survivor, _ in record.survivors}
    stays = "beside" if touched and name not in touched else "keep"
    return CardMember(
        id=name,
        content=row["content"],
        user=row["user"],
        timestamp=datetime.fromisoformat(row["timestamp"]),
        fate="retire" if name in retired else stays,
    )


# --- open -----------------------------------------------------------------------------------------


def open_card(memories: Sequence[Memory], action: str, reason: str) -> Card:
    """Return the card of memories, oldest first, about which a person is asked."""
    members = tuple(
        CardMember(id=m.id, content=m.content, user=m.user, timestamp=m.timestamp, fate="judge")
        for m in memories
    )
    return Card(
        key=_key(members),
        user=members[0].user,
        is_private=memories[0].is_private,
        members=members,
        similarity=None,
        highest=None,
        action=action,
        reason=reason,
        kept=(),
        certainty=0.0,
        against=_against(memories, ()),
    )


def question_cards(reader: Reader, most: int) -> tuple[list[Card], int]:
    """Return the cards of open questions, and how many questions there are.

    The newest `most` pending decisions come first, then as many pairs that a model failed to judge.
    """
    pending, failed = reader.decisions.pending(), _failed_pairs(reader)
    cards = recorded_cards(reader, pending[-most:])[::-1]
    return [*cards, *failed[:most]], len(pending) + len(failed)


def _failed_pairs(reader: Reader) -> list[Card]:
    attempts = reader.attempts.all()
    rows: dict[str, list[Row]] = {
        key: [] for attempt in attempts for key in (attempt.low_key, attempt.high_key)
    }
    for row in reversed(reader.memories.live_with_texts({*map(text_of, rows)}, Scope(()))):
        if row.dated_key in rows:
            rows[row.dated_key].append(row)
    cards = []
    for attempt in attempts:
        low, high = rows[attempt.low_key], rows[attempt.high_key]
        again = f"asked again from {attempt.next_at[:16]} on" if attempt.next_at else "not asked"
        why = f"{attempt.model} failed {attempt.attempts} times; it is {again}"
        if low and high:
            cards.append(open_card([row.memory for row in low + high], "failed", why))
    return cards


# --- both -------------------------------------------------------------------------------------


def _kept(
    survivors: Iterable[tuple[str, str, Sequence[str]]],
    members: Sequence[CardMember],
    *,
    reworded: bool = False,
) -> tuple[KeptText, ...]:
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
    """A memory, the memories that it has replaced, and all decisions about them, oldest first.

    `wordings`: the memory and those that it has replaced; a live memory comes last. `living`: the
    memory's own id if it is live, otherwise the id of its live successor; None if it has none.

    >>> old = memories.remember("Eve rows.", user="Eve").memory
    >>> new = memories.remember("Eve rows!", user="Eve").memory
    >>> with store.ledger.reading() as reader:
    ...     history = memory_history(reader, old.id)
    >>> history.living == new.id, [card.action for card in history.decisions]
    (True, ['add', 'replace'])
    """

    wordings: tuple[Row, ...]
    decisions: tuple[Card, ...]
    living: str | None

    @property
    def card(self) -> Card:
        """The wordings as the members of one card."""
        card = open_card([row.memory for row in self.wordings], "wordings", "")
        fates = ("keep" if row.live else "retire" for row in self.wordings)
        pairs = zip(card.members, fates, strict=True)
        members = tuple(one.model_copy(update={"fate": fate}) for one, fate in pairs)
        return card.model_copy(update={"members": members})


def memory_history(reader: Reader, memory_id: str) -> MemoryHistory | None:
    """Return the history of a live or retired memory; None if it is unknown or was forgotten.

    >>> row = memories.remember("Fay rows.", user="Fay").memory
    >>> with store.ledger.reading() as reader:
    ...     history = memory_history(reader, row.id)
    ...     print(memory_history(reader, "mem_0123456789ab"))
    None
    >>> [member.content for member in history.card.members]
    ['Fay rows.']
    """
    row = reader.memories.row(memory_id)
    if row is None or row.forgotten:
        return None
    names = [memory_id, *reader.memories.ancestors(memory_id)]
    rows = sorted(reader.memories.rows(names).values(), key=lambda row: (row.live, row.seq))
    records = {record.number: record for name in names for record in reader.decisions.about(name)}
    alive = reader.memories.living(memory_id)
    return MemoryHistory(
        wordings=tuple(row for row in rows if not row.forgotten),
        decisions=tuple(recorded_cards(reader, [records[n] for n in sorted(records)])),
        living=alive.memory.id if alive is not None else None,
    )


# --- as JSON, for the page ------------------------------------------------------------------------


def card_data(card: Card) -> dict[str, Any]:
    """Return a card as the script of the page draws it.

    The text of a member is a list of pieces, of which every second one differs from the others.

    >>> copies = [store.new_memory(text, user="Dot") for text in ("I row.", "I row!")]
    >>> count = store.add_batch(copies)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Dot"]
    >>> card_data(card)["members"][0]["text"]
    ('I row', '.')
    """
    as_it_is = {"key", "similarity", "action", "certainty", "recorded"}
    texts = [member.content for member in card.members]
    return {
        **card.model_dump(mode="json", include=as_it_is),
        "alike": _similarities(card),
        "user": visible(card.user) if card.user is not None else None,
        "private": card.is_private,
        "reason": one_line(card.reason),
        "in_favour": one_line(visible(card.in_favour)),
        "against": one_line(visible(card.against)),
        "members": [_member_data(member, n, texts) for n, member in enumerate(card.members)],
        "kept": [_kept_data(kept, card.members) for kept in card.kept],
    }


def _similarities(card: Card) -> str | None:
    if card.similarity is None or card.highest is None:
        return None
    low, high = f"{card.similarity:.2f}", f"{card.highest:.2f}"
    return low if low == high else f"{low} to {high}"


def _member_data(member: CardMember, position: int, texts: Sequence[str]) -> dict[str, Any]:
    others = [text for n, text in enumerate(texts) if n != position]
    return {
        "id": member.id,
        "hash": member.content_hash,
        "user": visible(member.user) if member.user is not None else None,
        "at": member.timestamp.isoformat(timespec="minutes"),
        "fate": member.fate,
        "alike": None if member.alike is None else f"{member.alike:.2f}",
        "text": marked(member.content, others[-_MOST_COMPARED:]),
    }


def _kept_data(kept: KeptText, members: Sequence[CardMember]) -> dict[str, Any]:
    data: dict[str, Any] = {"id": kept.id, "members": kept.members, "is_new": kept.is_new}
    if kept.is_new and kept.text and kept.members:
        runs = difference(members[kept.members[-1]].content, kept.text)
        data["text"] = [[run.kind, run.text] for run in runs]
    elif kept.is_new:
        data["text"] = [["kept", visible(kept.text)]] if kept.text else []
    return data
