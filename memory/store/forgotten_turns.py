"""Removes what was forgotten from conversation turns, so that no extraction brings it back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory import coverage, offline
from memory.ledger import SHARED, PendingTurn, Reader, Writer
from memory.models import KeptCandidate, Memory, Turn, name_of_candidate
from memory.text import sentences, telling_words, text_key

_FEWEST_WORDS = 2
"""A memory with fewer content words is stated only by a sentence or clause with the same text."""
_BETWEEN_CLAUSES = re.compile(r"[,;:]\s+|[、，]|\s+(?:and|but|so|or)\s+", re.IGNORECASE)


class Moved(Exception):
    """Raised if a turn or a memory has changed after its texts were compared for an erasure."""


class Stated:
    """A cache of comparisons, each of which says whether a text states what a memory states.

    Comparing takes long. So it is done before the transaction that erases memories; within the
    transaction, only the cached results are used.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}
        self.closed = False
        """If true, a comparison that is not in the cache raises `Moved` instead of being made."""

    def left_of(self, turn: Turn, memories: Sequence[Memory]) -> str:
        """Return a turn's text without the sentences that state one of the memories.

        `memories` are memories of the turn's speaker.
        """
        key = (turn.text, turn.speaker, turn.at, *(one.content for one in memories))
        text: str = self._of(key, lambda: _without(turn, memories))
        return text

    def states_any(self, text: str, memories: Sequence[Memory]) -> bool:
        """Return whether a text states everything that at least one of the memories states."""
        key = (text, *(one.content for one in memories))
        return bool(self._of(key, lambda: _state_any([text], memories)))

    def _of(self, key: tuple[object, ...], work: Callable[[], object]) -> Any:
        if key not in self._known:
            if self.closed:
                raise Moved
            self._known[key] = work()
        return self._known[key]


@dataclass(frozen=True)
class _Change:
    """The new state of the waiting turn with the number `seq`.

    If `turn` is None, the turn will not be extracted any more. `candidates` are the facts that a
    model found in it, with None for each erased one; if `candidates` itself is None, they do not
    change.
    """

    seq: int
    turn: Turn | None
    candidates: Sequence[KeptCandidate | None] | None = None


@dataclass(frozen=True)
class ForgottenTurns:
    """Changes of turns that remove forgotten memories; `write` applies them in a transaction."""

    changes: Sequence[_Change]
    conversations: Collection[str]
    """Conversations whose extracted turns lose their texts, and whose extraction starts again."""

    def write(self, writer: Writer) -> None:
        for one in self.changes:
            if one.candidates is not None:
                writer.turns.keep_candidates(one.seq, one.candidates)
            if one.turn is None:
                writer.turns.drop(one.seq)
            else:
                writer.turns.reword(one.seq, one.turn)
        writer.turns.clear_extracted(self.conversations)
        for conversation in sorted(self.conversations):
            writer.leases.free(conversation)


def forget_turns_of(writer: Writer, user: str) -> None:
    """Erase the turns of a user that wait for extraction, and the bot's answers to this user.

    Candidates (facts that a model found) about the user in other people's waiting turns are erased
    too. All extracted turns lose their texts, and extractions that are under way start again.
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
    - Conversations that a forgotten memory came from lose the texts of their extracted turns.
      Extractions under way in them start again.
    """

    def __init__(self, reader: Reader, gone: Sequence[Memory]) -> None:
        self._waiting = reader.turns.waiting()
        self._last_shared = reader.turns.last_before_upgrade()
        self._ids = {memory.id for memory in gone}
        self._unnamed = self._ids | _named_but_not_live(reader, self._waiting)
        self._candidates = {memory.external_id for memory in gone}
        self._turns = {turn for memory in gone for turn in _turns_of(memory)}
        self._memories: dict[str, list[Memory]] = {}
        for memory in gone:
            if memory.user is not None:
                self._memories.setdefault(memory.user, []).append(memory)
        heard = {
            one.conversation
            for one in reader.turns.with_text()
            if one.speaker in self._memories or not self._ids.isdisjoint(one.recalled_ids)
        }
        self._sources = {conversation for conversation, _ in self._turns}
        if SHARED in self._sources:
            self._sources.update(self._memories)  # the upgrade gave its turns to their speakers
        self._conversations = heard | self._sources

    def found(self, stated: Stated) -> ForgottenTurns:
        """Compare each waiting turn with the forgotten memories, and return the changes.

        `stated` caches the comparisons. The caller needs no open transaction.
        """
        changes = [change for one in self._waiting if (change := self._change(one, stated))]
        return ForgottenTurns(changes, self._conversations)

    def _change(self, waiting: PendingTurn, stated: Stated) -> _Change | None:
        change = (self._of_bot if waiting.turn.is_bot else self._of_person)(waiting, stated)
        if change is not None:
            self._conversations.add(waiting.turn.conversation)
        return change

    def _of_person(self, waiting: PendingTurn, stated: Stated) -> _Change | None:
        """Return the change of a person's turn; None if nothing changes."""
        turn, memories = waiting.turn, self._memories.get(waiting.turn.speaker, [])
        is_source = memories and not self._turns.isdisjoint(self._names(waiting))
        text = "" if is_source else stated.left_of(turn, memories)
        if waiting.candidates is not None:
            return self._of_candidates(waiting, waiting.candidates, memories, text, stated)
        return None if text == turn.text else _Change(waiting.seq, _reworded(turn, text))

    def _of_candidates(
        self,
        waiting: PendingTurn,
        found: Sequence[KeptCandidate | None],
        memories: Sequence[Memory],
        text: str,
        stated: Stated,
    ) -> _Change | None:
        """Return the change of a turn in which a model found facts; None if nothing changes.

        `found` are these facts, and `memories` the forgotten memories of the speaker. `text` is the
        turn's text without what was forgotten. An erased fact becomes None, so that the others keep
        their positions.
        """
        left = [
            _without_named(one, self._unnamed)
            if one is not None
            and self._candidates.isdisjoint(
                name_of_candidate(*turn, n) for turn in self._names(waiting)
            )
            and not stated.states_any(one.content, memories)
            else None
            for n, one in enumerate(found)
        ]
        if left.count(None) > found.count(None):
            text = ""
        elif text == waiting.turn.text and left == list(found):
            return None
        turn = waiting.turn.model_copy(update={"text": text}) if any(left) else None
        return _Change(waiting.seq, turn, left)

    def _of_bot(self, waiting: PendingTurn, stated: Stated) -> _Change | None:
        """Return a change that erases the bot's turn if it may repeat a forgotten memory."""
        turn = waiting.turn
        heard = turn.conversation in self._conversations or _may_answer_anyone(turn)
        quotes = heard and any(
            stated.states_any(one, memories)
            for one in sentences(turn.text)
            for memories in self._memories.values()
        )
        recalled = not self._ids.isdisjoint(turn.recalled_ids)
        if recalled or quotes or turn.conversation in self._sources:
            return _Change(waiting.seq, None)
        return None

    def _names(self, waiting: PendingTurn) -> list[tuple[str, str]]:
        """Return the turn's (conversation, name), and the one that it had before an upgrade."""
        turn, names = waiting.turn, [(waiting.turn.conversation, waiting.name)]
        if waiting.seq <= self._last_shared and turn.conversation == turn.speaker:
            names.append((SHARED, waiting.name.removesuffix(f"~{waiting.seq}")))
        return names


def _reworded(turn: Turn, text: str) -> Turn | None:
    return turn.model_copy(update={"text": text}) if text else None


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
    """Return the ids of memories that waiting candidates would replace and that are not live.

    The merged texts of these candidates may contain the words of a forgotten memory.
    """
    found = [one for turn in waiting for one in turn.candidates or () if one is not None]
    named = {one.id for candidate in found for one in candidate.named}
    rows = reader.memories.rows(sorted(named))
    return named - {name for name, row in rows.items() if row.live}


def _without_named(candidate: KeptCandidate, gone: Set[str]) -> KeptCandidate:
    """Return the candidate; if it names an id in `gone`, its `named` and `merged` are cleared."""
    if gone.isdisjoint(one.id for one in candidate.named):
        return candidate
    return candidate.model_copy(update={"named": (), "merged": ""})


def _without(turn: Turn, memories: Sequence[Memory]) -> str:
    """Return a turn's text without the sentences that state one of the speaker's memories."""
    if not memories:
        return turn.text
    left, end, cut = list[str](), 0, False
    for sentence in sentences(turn.text):
        start = turn.text.index(sentence, end)
        states = _state_any(_forms(sentence, turn.speaker, turn.at), memories)
        left += [turn.text[end:start], "" if states else sentence]
        end, cut = start + len(sentence), cut or states
    if cut:
        return "".join([*left, turn.text[end:]]).strip()
    return "" if _state_any(_forms(turn.text, turn.speaker, turn.at), memories) else turn.text


def _forms(said: str, speaker: str, at: datetime) -> list[str]:
    """Return several wordings of `said`: the whole text, its clauses, and the same in third person.

    `speaker` is the person who said the text, and `at` the time.
    """
    clauses = [said, *_BETWEEN_CLAUSES.split(said)]
    told = [offline.retold(one, speaker, at) for one in clauses if one]
    stated = (one.text for one in offline.statements(said, speaker, at))
    return list(dict.fromkeys([*clauses, *told, *stated]))


def _state_any(forms: Collection[str], memories: Iterable[Memory]) -> bool:
    """Return whether a text states everything that at least one of the memories states.

    `forms` are several wordings of the text.
    """
    keys = {text_key(form) for form in forms}
    for memory in memories:
        if text_key(memory.content) in keys:
            return True
        if len(telling_words(memory.content)) < _FEWEST_WORDS:
            continue
        if any(coverage.covers(form, memory.content) for form in forms):
            return True
    return False
