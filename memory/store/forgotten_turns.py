"""Removes what was forgotten from conversation turns, so that no extraction brings it back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from memory import coverage, offline
from memory.ledger import SHARED, PendingTurn, Reader, Writer
from memory.models import KeptCandidate, Memory, Turn, name_of_candidate
from memory.text import sentences, telling_words, text_key

_FEWEST_WORDS = 2
"""If a memory has fewer content words, only a sentence or clause with the same text states it."""
_BETWEEN_CLAUSES = re.compile(r"[,;:]\s+|[、，]|\s+(?:and|but|so|or)\s+", re.IGNORECASE)


class ComparisonCache:
    """Compares texts with forgotten memories, and remembers the results.

    `left_of` and `states_any` are the functions `_without` and `_states_any`, with a cache. Because
    a comparison takes long, turns are compared before the transaction that erases the memories. In
    the transaction, only turns that arrived in between must still be compared. Do not keep this
    object after the erasure, because it holds forgotten texts.
    """

    def __init__(self) -> None:
        self.left_of = cache(_without)
        self.states_any = cache(_states_any)


@dataclass(frozen=True)
class _Change:
    """The new state of the waiting turn with the number `seq`.

    If `turn` is None, the turn is dropped and will not be extracted. `candidates` are the facts
    that a model found in the turn, with None for each erased one. If `candidates` itself is None,
    the candidates do not change.
    """

    seq: int
    turn: Turn | None
    candidates: Sequence[KeptCandidate | None] | None = None


def forget_turns_of(writer: Writer, user: str) -> None:
    """Erase the turns of a user that wait for extraction, and the bot's answers to this user.

    Candidates (facts that a model found) in other people's waiting turns are erased if they are
    about this user, or if a turn of this user states them. The extracted turns of all users lose
    their texts, and all extractions that are under way start again.
    """
    theirs = {one.conversation for one in writer.turns.with_text() if one.speaker == user}
    every = writer.turns.waiting()
    names = {(one.turn.conversation, one.name) for one in every if one.turn.speaker == user}
    for waiting in every:
        answered = waiting.turn.is_bot and (
            waiting.turn.conversation in theirs or _may_answer_anyone(waiting.turn)
        )
        if waiting.turn.speaker == user or answered:
            writer.turns.drop(waiting.seq)
        elif waiting.candidates is not None:
            conversation = waiting.turn.conversation
            others = [
                one
                if one is not None
                and one.user != user
                and names.isdisjoint((conversation, name) for name in one.said_in)
                else None
                for one in waiting.candidates
            ]
            writer.turns.keep_candidates(waiting.seq, others)
    writer.turns.clear_extracted()
    writer.leases.free_all()


class TurnsToForget:
    """Finds what must be removed from turns that wait for extraction when memories are forgotten.

    `gone` are the forgotten memories. These changes are found:

    - A person's turn loses the sentences that state a forgotten memory of this person. It also
      loses the candidates (facts that a model found) that state one. A turn that a forgotten memory
      was made from is not extracted again.
    - A candidate loses its merged text if it would replace a forgotten memory, or a memory that is
      no longer live.
    - A turn of the bot is removed if it recalled or quotes a forgotten memory, or if a forgotten
      memory came from its conversation.
    - Conversations that a forgotten memory came from lose the texts of their extracted turns. If
      such a conversation is being extracted, its extraction starts again.
    """

    def __init__(self, reader: Reader, gone: Sequence[Memory]) -> None:
        self._waiting = reader.turns.waiting()
        self._last_shared = reader.turns.last_before_upgrade()
        self._ids = {memory.id for memory in gone}
        self._unnamed = self._ids | _named_but_not_live(reader, self._waiting)
        self._candidates = {memory.external_id for memory in gone}
        self._turns = {turn for memory in gone for turn in _turns_of(memory)}
        self._contents: dict[str, tuple[str, ...]] = {}
        """The texts of the forgotten memories, by user."""
        for memory in gone:
            if memory.user is not None:
                self._contents[memory.user] = (*self._contents.get(memory.user, ()), memory.content)
        heard = {
            one.conversation
            for one in reader.turns.with_text()
            if one.speaker in self._contents or not self._ids.isdisjoint(one.recalled_ids)
        }
        self._sources = {conversation for conversation, _ in self._turns}
        if SHARED in self._sources:
            self._sources.update(self._contents)  # the upgrade gave its turns to their speakers
        self._conversations = heard | self._sources
        """Conversations whose extracted turns lose their texts. Their extraction starts again."""
        self._changes: list[_Change] = []

    def compare(self, comparisons: ComparisonCache) -> None:
        """Compare each waiting turn with the forgotten memories, to find what `write` must change.

        The results of comparisons are kept in `comparisons`. The caller needs no open transaction.
        """
        for waiting in self._waiting:
            change = (self._of_bot if waiting.turn.is_bot else self._of_person)(
                waiting, comparisons
            )
            if change is not None:
                self._changes.append(change)
                self._conversations.add(waiting.turn.conversation)

    def write(self, writer: Writer) -> None:
        """Apply the changes that `compare` found."""
        for change in self._changes:
            if change.candidates is not None:
                writer.turns.keep_candidates(change.seq, change.candidates)
            if change.turn is None:
                writer.turns.drop(change.seq)
            else:
                writer.turns.reword(change.seq, change.turn)
        writer.turns.clear_extracted(self._conversations)
        for conversation in sorted(self._conversations):
            writer.leases.free(conversation)

    def _of_person(self, waiting: PendingTurn, comparisons: ComparisonCache) -> _Change | None:
        """Return the change to a person's turn; None if nothing changes."""
        turn, contents = waiting.turn, self._contents.get(waiting.turn.speaker, ())
        is_source = contents and not self._turns.isdisjoint(self._names(waiting))
        text = "" if is_source else comparisons.left_of(turn.text, turn.speaker, turn.at, contents)
        reworded = turn.model_copy(update={"text": text})
        if waiting.candidates is None:
            return None if text == turn.text else _Change(waiting.seq, reworded if text else None)
        names = self._names(waiting)
        left = [
            _without_named(one, self._unnamed)
            if one is not None
            and self._candidates.isdisjoint(name_of_candidate(*name, n) for name in names)
            and not comparisons.states_any((one.content,), contents)
            else None  # so that the others keep their positions
            for n, one in enumerate(waiting.candidates)
        ]
        if left.count(None) > waiting.candidates.count(None):
            reworded = turn.model_copy(update={"text": ""})
        elif text == turn.text and left == list(waiting.candidates):
            return None
        return _Change(waiting.seq, reworded if any(left) else None, left)

    def _of_bot(self, waiting: PendingTurn, comparisons: ComparisonCache) -> _Change | None:
        """Return a change that erases the bot's turn; None if the turn may stay."""
        turn = waiting.turn
        heard = turn.conversation in self._conversations or _may_answer_anyone(turn)
        quotes = heard and any(
            comparisons.states_any((sentence,), contents)
            for sentence in sentences(turn.text)
            for contents in self._contents.values()
        )
        recalled = not self._ids.isdisjoint(turn.recalled_ids)
        if recalled or quotes or turn.conversation in self._sources:
            return _Change(waiting.seq, None)
        return None

    def _names(self, waiting: PendingTurn) -> list[tuple[str, str]]:
        """Return the pairs (conversation, name) under which a memory may refer to the turn.

        The first pair is the present one. If an upgrade moved the turn to another conversation, the
        second pair is the one from before the upgrade.
        """
        turn, names = waiting.turn, [(waiting.turn.conversation, waiting.name)]
        if waiting.seq <= self._last_shared and turn.conversation == turn.speaker:
            names.append((SHARED, waiting.name.removesuffix(f"~{waiting.seq}")))
        return names


def _may_answer_anyone(turn: Turn) -> bool:
    """Return whether the bot said this turn outside of any conversation.

    Such a turn may have answered any user.
    """
    return turn.is_bot and turn.conversation == turn.speaker


def _turns_of(memory: Memory) -> Iterator[tuple[str, str]]:
    """Yield the (conversation, name) of each turn that a memory was made from."""
    conversation, others = memory.metadata.get("conversation"), memory.metadata.get("turns")
    for name in [memory.metadata.get("turn"), *(others if isinstance(others, list) else [])]:
        if isinstance(conversation, str) and isinstance(name, str):
            yield conversation, name


def _named_but_not_live(reader: Reader, waiting: Iterable[PendingTurn]) -> set[str]:
    """Return the ids of memories that candidates would replace, but that are no longer live.

    The candidates are those of the turns in `waiting`. Their merged texts may contain words of a
    forgotten memory.
    """
    candidates = [one for turn in waiting for one in turn.candidates or () if one is not None]
    named = {memory.id for candidate in candidates for memory in candidate.named}
    rows = reader.memories.rows(sorted(named))
    return named - {name for name, row in rows.items() if row.live}


def _without_named(candidate: KeptCandidate, gone: Set[str]) -> KeptCandidate:
    """Return the candidate; if it names a memory with an id in `gone`, empty two of its fields.

    These fields are `named`, the stored memories to replace, and `merged`, the merged text.
    """
    if gone.isdisjoint(one.id for one in candidate.named):
        return candidate
    return candidate.model_copy(update={"named": (), "merged": ""})


def _without(text: str, speaker: str, at: datetime, contents: Sequence[str]) -> str:
    """Return the text of a turn without the sentences that state any of `contents`.

    `speaker` said the text at the time `at`, and `contents` are texts of forgotten memories of this
    person. If no single sentence states one of them, but the whole text does, return "".
    """
    if not contents:
        return text
    left, end, is_cut = list[str](), 0, False
    for sentence in sentences(text):
        start = text.index(sentence, end)
        states = _states_any(_forms(sentence, speaker, at), contents)
        left += [text[end:start], "" if states else sentence]
        end, is_cut = start + len(sentence), is_cut or states
    if is_cut:
        return "".join([*left, text[end:]]).strip()
    return "" if _states_any(_forms(text, speaker, at), contents) else text


def _forms(said: str, speaker: str, at: datetime) -> list[str]:
    """Return wordings of `said`: the text, its clauses, and all of these in the third person.

    `speaker` is the person who said the text, and `at` the time when it was said.
    """
    clauses = [said, *_BETWEEN_CLAUSES.split(said)]
    retold = [offline.retold(clause, speaker, at) for clause in clauses if clause]
    statements = (one.text for one in offline.statements(said, speaker, at))
    return list(dict.fromkeys([*clauses, *retold, *statements]))


def _states_any(forms: Sequence[str], contents: Sequence[str]) -> bool:
    """Return whether a text states everything that at least one of `contents` states.

    `forms` are several wordings of the text.
    """
    keys = {text_key(form) for form in forms}
    for content in contents:
        if text_key(content) in keys:
            return True
        if len(telling_words(content)) < _FEWEST_WORDS:
            continue
        if any(coverage.covers(form, content) for form in forms):
            return True
    return False
