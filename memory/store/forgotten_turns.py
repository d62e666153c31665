"""Turns that wait keep and bring back nothing of what was forgotten."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from memory.ledger import PendingTurn, Writer
from memory.models import Memory, Turn, name_of_candidate
from memory.text import covers, retold, sentences, statements, telling_words, text_key

_FEWEST_WORDS = 2
"""A memory of fewer words states nothing: it is found as a whole text only."""
_BETWEEN_CLAUSES = re.compile(r"[,;:]\s+|[、，]|\s+(?:and|but|so|or)\s+", re.IGNORECASE)


def forget_turns(writer: Writer, gone: Sequence[Memory]) -> None:
    """Take out of waiting turns what states one of these memories, or what one was made from.

    A person's turns lose the sentences, and the candidates found in them, that state a memory
    of that person. A turn that a memory was made from is not extracted again. What the bot said
    goes where it recalled a memory, or answered in the conversation that a memory came from.
    Extracted turns of these conversations keep no text, and whoever extracts one starts again.
    """
    forgetting = _Forgetting(writer, gone)
    for waiting in writer.turns.waiting():
        if waiting.turn.is_bot:
            forgetting.take_from_bot(waiting)
        else:
            forgetting.take_from(waiting)
    forgetting.take_context()


def forget_turns_of(writer: Writer, user: str) -> None:
    """Drop what a user said, what the bot answered them, and what others' turns say about them.

    No extracted turn keeps its text, and whoever extracts a conversation starts again.
    """
    theirs = {one.conversation for one in writer.turns.with_text() if one.speaker == user}
    for waiting in writer.turns.waiting():
        answered = waiting.turn.is_bot and (
            waiting.turn.conversation in theirs or _answers_anybody(waiting.turn)
        )
        if waiting.turn.speaker == user or answered:
            writer.turns.drop(waiting.seq)
        elif waiting.candidates is not None:
            others = [one for one in waiting.candidates if one.user != user]
            writer.turns.keep_candidates(waiting.seq, others)
    writer.turns.clear_extracted()
    writer.leases.free_all()


class _Forgetting:
    """Some memories that are being forgotten, and what was recorded about where they came from."""

    def __init__(self, writer: Writer, gone: Sequence[Memory]) -> None:
        self._writer = writer
        self._ids = {memory.id for memory in gone}
        self._candidates = {memory.external_id for memory in gone}
        self._turns = {turn for memory in gone for turn in _turn_of(memory)}
        self._memories: dict[str, list[Memory]] = {}
        for memory in gone:
            if memory.user is not None:
                self._memories.setdefault(memory.user, []).append(memory)
        told = [
            one
            for one in writer.turns.with_text()
            if one.speaker in self._memories or not self._ids.isdisjoint(one.recalled_ids)
        ]
        sources = {conversation for conversation, _ in self._turns}
        self._conversations = {one.conversation for one in told} | sources
        self._sources = sources

    def take_from(self, waiting: PendingTurn) -> None:
        """Take from a person's turn what states a memory of that person."""
        turn, memories = waiting.turn, self._memories.get(waiting.turn.speaker, [])
        found = waiting.candidates
        if found is None:
            is_source = (turn.conversation, waiting.name) in self._turns and memories
            text = "" if is_source else _without(turn, memories)
            if text != turn.text:
                self._write(waiting, text)
            return
        names = [name_of_candidate(turn.conversation, waiting.name, n) for n in range(len(found))]
        left = [
            one
            for name, one in zip(names, found, strict=True)
            if name not in self._candidates and not _state_any([one.content], memories)
        ]
        if len(left) < len(found):
            self._writer.turns.keep_candidates(waiting.seq, left)
            self._write(waiting, "", keep=bool(left))

    def take_from_bot(self, waiting: PendingTurn) -> None:
        """Drop what the bot said where it may quote one of the memories."""
        turn = waiting.turn
        heard = turn.conversation in self._conversations or _answers_anybody(turn)
        quotes = heard and any(
            _state_any([one], memories)
            for one in sentences(turn.text)
            for memories in self._memories.values()
        )
        recalled = not self._ids.isdisjoint(turn.recalled_ids)
        if recalled or quotes or turn.conversation in self._sources:
            self._write(waiting, "")

    def take_context(self) -> None:
        """Drop the texts of extracted turns that may quote, and what extracts them now."""
        self._writer.turns.clear_extracted(self._conversations)
        for conversation in sorted(self._conversations):
            self._writer.leases.free(conversation)

    def _write(self, waiting: PendingTurn, text: str, *, keep: bool = False) -> None:
        """What is left of a turn; one of which nothing is left is not extracted any more."""
        self._conversations.add(waiting.turn.conversation)
        if text or keep:
            self._writer.turns.reword(waiting.seq, waiting.turn.model_copy(update={"text": text}))
        else:
            self._writer.turns.drop(waiting.seq)


def _answers_anybody(turn: Turn) -> bool:
    """Whether the bot spoke without a conversation: nobody knows whom it answered."""
    return turn.is_bot and turn.conversation == turn.speaker


def _turn_of(memory: Memory) -> Iterator[tuple[str, str]]:
    """The turn that a memory was made from, by its conversation and its name there."""
    conversation, name = memory.metadata.get("conversation"), memory.metadata.get("turn")
    if isinstance(conversation, str) and isinstance(name, str):
        yield conversation, name


def _without(turn: Turn, memories: Sequence[Memory]) -> str:
    """The text of a turn without the sentences that state a memory of its speaker."""
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
    """What somebody said, whole and clause by clause, as they said it and told of them by name."""
    clauses = [said, *_BETWEEN_CLAUSES.split(said)]
    told = [retold(one, speaker, at) for one in clauses if one]
    stated = (one.text for one in statements(said, speaker, at))
    return list(dict.fromkeys([*clauses, *told, *stated]))


def _state_any(forms: Collection[str], memories: Iterable[Memory]) -> bool:
    """Whether a text, given in several forms, states all that one of the memories states."""
    keys = {text_key(form) for form in forms}
    for memory in memories:
        if text_key(memory.content) in keys:
            return True
        if len(telling_words(memory.content)) < _FEWEST_WORDS:
            continue
        if any(covers(form, memory.content) for form in forms):
            return True
    return False
