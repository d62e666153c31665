"""Erases memories for good: from the ledger, waiting turns, search index and database log."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from uuid import uuid4

from memory import coverage
from memory.errors import IndexFault, LedgerError, MemoryNotFound, StillStatedBy
from memory.ledger import (
    FORGOTTEN_REASON,
    NOTHING_BEFORE,
    DecisionRecord,
    Ledger,
    PendingTurn,
    Reader,
    Writer,
    turn_of,
)
from memory.models import (
    MAX_NAME,
    Action,
    Decision,
    KeptCandidate,
    Memory,
    Row,
    Turn,
    check_length,
    name_of_candidate,
    turns_of,
)
from memory.search import SearchRouter
from memory.text import (
    Kind,
    clean,
    counted,
    guarded,
    has_cjk,
    is_name,
    normalise,
    retold,
    sentences,
    statements,
    telling_words,
    text_key,
    tokens,
)

logger = logging.getLogger(__name__)

_UNSCRUBBED = "unscrubbed"
"""Metadata key, set while a search index or the database's files may hold forgotten memories."""
_FEWEST_WORDS = 2
"""The fewest telling words that a memory must have for paraphrases of it to be recognised.

Telling words distinguish a text from others. A memory with fewer of them counts as stated only by a
sentence or clause with the same text.
"""
_BETWEEN_CLAUSES = re.compile(r"[,;:]\s++|[、，]|(?<!\s)\s++(?:and|but|so|or)\s++", re.IGNORECASE)


@dataclass(frozen=True)
class Forgotten:
    """The result of erasing a memory; `memory` is the memory as it was before.

    `erased` is False if a search index, the database's files or a copy of the ledger may still hold
    it. The files of a PostgreSQL server do not count. `origins`: the retired memories that the
    memory had replaced; they were erased too. `set_aside`: paths of ledger copies that a restore or
    an upgrade left; a person must delete them. `remaining`: live memories that state the same, and
    that a search folded with the erased one. `superseded`: memories that it had superseded, which
    stay retired; erase them by their ids, or all together with `lineage=True`.

    >>> outcome = memories.remember("Bo rows.", user="Bo")
    >>> newer = memories.remember("Bo rows!", user="Bo")
    >>> forgotten = memories.forget(newer.memory.id)
    >>> forgotten.erased, [memory.content for memory in forgotten.origins]
    (True, ['Bo rows.'])
    """

    memory: Memory
    erased: bool
    origins: tuple[Memory, ...] = ()
    set_aside: tuple[str, ...] = ()
    remaining: tuple[Memory, ...] = ()
    superseded: tuple[Memory, ...] = ()


def erase(
    ledger: Ledger, memory_id: str, at: datetime, *, lineage: bool = False, items: bool = True
) -> tuple[Memory, tuple[Memory, ...]]:
    """Erase a memory and all retired memories that it replaced; return them as they were before.

    If the memory was replaced by one that is superseded or expired, that one is erased instead.

    With `lineage`, the memories that it superseded are erased too; without it, they stay. `items`:
    also the items that another program stored and of which these memories were made.

    The ledger keeps the memories' ids. It keeps the vector and the verdicts of a text only if
    another memory has the same text. The memories' words are also erased from turns that wait for
    extraction and from recorded decisions. All search indexes are marked as stale.

    >>> outcome = memories.remember("Di rows.", user="Di")
    >>> memory, origins = erase(store.ledger, outcome.memory.id, datetime.now(UTC))
    >>> memory.content, store.get(memory.id)
    ('Di rows.', None)

    Raises: MemoryNotFound; StillStatedBy if the memory was retired and its successor is live;
    LedgerError.
    """
    comparisons = ComparisonCache()
    for _ in range(2):  # the second time, only turns that arrived meanwhile are new
        with ledger.reading(at) as reader:
            gone = _with_origins(reader, memory_id, lineage)[1]
            turns = TurnsToForget(reader, gone, comparisons)
        turns.compare()
    with ledger.writing() as writer:
        rows, gone = _with_origins(writer, memory_id, lineage)
        turns = TurnsToForget(writer, gone, comparisons)
        turns.compare()
        if items:
            writer.items.forget([row.memory.id for row in rows])
        _erase_rows(writer, rows, at)
        turns.write(writer)
    return gone[0], tuple(gone[1:])


def _with_origins(reader: Reader, memory_id: str, lineage: bool) -> tuple[list[Row], list[Memory]]:
    alive, end = reader.memories.living(memory_id), _end(reader.memories.row, memory_id)
    if alive is not None and alive.memory.id != memory_id:
        raise StillStatedBy(memory_id, alive.memory.id)
    if end is None or end.forgotten:
        raise MemoryNotFound(memory_id)
    memory_id = end.memory.id
    ended = [row.memory.id for row in reader.superseded.by(memory_id)] if lineage else []
    names = [memory_id, *ended]
    rows = reader.memories.rows([*names, *reader.memories.ancestors(*names)])
    origins = (row.memory for name, row in rows.items() if name != memory_id)
    return list(rows.values()), [end.memory, *origins]


def _end(row_of: Callable[[str], Row | None], memory_id: str) -> Row | None:
    """Return the memory that stands for a replaced one: a live, superseded or expired one."""
    seen = set[str]()  # a damaged ledger may lead back
    row = row_of(memory_id)
    while row is not None and row.until is None and row.successor_id and memory_id not in seen:
        seen.add(memory_id)
        memory_id = row.successor_id
        row = row_of(memory_id)
    return row


@dataclass(frozen=True)
class ForgottenUser:
    """The result of erasing everything about a user.

    `memories`: how many of the erased memories were live. `erased` and `set_aside` mean the same as
    in `Forgotten`.

    >>> older = memories.remember("Cy rows.", user="Cy")
    >>> newer = memories.remember("Cy rows!", user="Cy")
    >>> memories.forget_user("Cy").memories  # only one of them was live
    1
    """

    memories: int
    erased: bool
    set_aside: tuple[str, ...] = ()


def forget_user(
    ledger: Ledger, index: SearchRouter, user: str, at: datetime, *, at_once: int = 200
) -> ForgottenUser:
    """Erase everything about a user: memories, episodes, and turns that wait for extraction.

    A conversation of the user's name gets a hash as its name, so that no turn is heard twice. What
    others said in it keeps the name: their waiting turns, and their memories' metadata. Longer
    names that contain the user's name stay.

    Each transaction erases at most `at_once` memories, and those that they replaced. After a crash,
    call this function again to erase the rest.

    >>> outcome = memories.remember("Ed rows.", user="Ed")
    >>> forgotten = forget_user(store.ledger, store.index, "Ed", datetime.now(UTC))
    >>> forgotten.memories
    1

    Raises: InputError if the name is too long; LedgerError.
    """
    check_length("user", user, MAX_NAME)
    user = clean(user)
    with ledger.writing() as writer:
        _forget_said_by(writer, user)
    count = 0
    try:
        while (erased := _forget_some_of(ledger, user, at, at_once)) is not None:
            count += erased
    except LedgerError as exc:
        problem = f"{counted(count, 'memory')} of {user} erased, others not: {exc.problem}"
        remedy = f"{exc.remedy}; then forget the user again" if exc.remedy else "forget them again"
        raise LedgerError(problem, remedy) from exc
    aside = tuple(ledger.set_aside_files())
    return ForgottenUser(count, scrub(ledger, index) and not aside, aside)


def _forget_some_of(ledger: Ledger, user: str, at: datetime, most: int) -> int | None:
    """Erase up to `most` memories of a user, and the memories that these replaced.

    Return how many of the user's erased memories were live; the memories that these replaced do
    not count. If the user had no memories before the call, erase the user's turns, episodes and
    verdicts instead, and return None.
    """
    with ledger.writing() as writer:
        rows = writer.memories.first_of(user, most)
        if not rows:
            _forget_said_by(writer, user)  # what was said meanwhile
            writer.distinct.drop_of(user)
            return None
        names = [row.memory.id for row in rows]
        origins = writer.memories.rows(writer.memories.ancestors(*names))
        writer.items.forget([*names, *origins])
        _erase_rows(writer, [*rows, *origins.values()], at)
    return sum(row.live for row in rows)


def _erase_rows(writer: Writer, rows: Sequence[Row], at: datetime) -> None:
    ids = [row.memory.id for row in rows]
    keys = {row.text_key for row in rows}
    writer.memories.tombstone(ids)
    writer.drop_unused_texts(keys)
    writer.readings.drop(keys)
    scrubbed = writer.decisions.scrub(set(ids))
    _forget_reasons(writer, scrubbed)
    # what an undone decision made of them had taken up their words
    made = {name for record in scrubbed if record.undone for name, _ in record.survivors}
    writer.episodes.forget(made.union(ids))
    writer.followers.mark_all_stale()
    writer.set_meta(_UNSCRUBBED, uuid4().hex)
    live = tuple(row.memory for row in rows if row.live)
    if live:
        decision = Decision(Action.FORGET, FORGOTTEN_REASON, live)
        writer.decisions.record([(decision, NOTHING_BEFORE)], at, None)


def _forget_reasons(writer: Writer, scrubbed: Sequence[DecisionRecord]) -> None:
    judged = [record for record in scrubbed if record.model is not None]
    reasons = {record.reason for record in judged} - {FORGOTTEN_REASON}
    if not reasons:
        return
    rows = writer.memories.rows([name for record in judged for name in record.involved])
    keys = {row.text_key for row in rows.values()}
    writer.distinct.forget_reasons(reasons, keys)
    writer.decisions.forget_reasons(reasons, keys)


def scrub(ledger: Ledger, index: SearchRouter) -> bool:
    """Erase what the search index and the database's files still hold of forgotten memories.

    Return whether both are free of forgotten memories afterwards.
    """
    with ledger.reading() as reader:
        forgotten = reader.meta(_UNSCRUBBED)
        stale = reader.followers.stale()
    if forgotten is None and not stale:
        return True
    if stale:
        with ledger.writing() as writer:
            for place in stale:
                if Path(place).is_absolute() and not Path(place).exists():
                    writer.followers.drop_others(place, "")  # its owner deleted the index
        try:
            index.scrub()
        except IndexFault as exc:
            logger.debug("the index is not scrubbed yet: %s", exc)  # the result says so too
    emptied = ledger.database.erase_remains()
    with ledger.writing() as writer:
        clean = emptied and not writer.followers.stale()
        if clean and writer.meta(_UNSCRUBBED) == forgotten:  # else another came meanwhile
            writer.drop_meta(_UNSCRUBBED)
    return clean


# --- turns that wait for extraction ---


class ComparisonCache:
    """A cache of comparisons of texts with forgotten memories.

    A comparison takes long, so most are made before the transaction that erases, and turns are
    parsed before. Drop the cache after the erasure: it holds forgotten texts.
    """

    def __init__(self) -> None:
        self.turn_of = cache(turn_of)
        self.left_of = cache(_without)
        self.states_any = cache(_states_any)


@dataclass(frozen=True)
class _Change:
    """The new state of a waiting turn. If `turn` is None, the turn is dropped.

    `candidates`: the facts that a model found in the turn, with None in place of each erased fact.
    If `candidates` itself is None, the facts stay as they are.
    """

    seq: int
    turn: Turn | None
    candidates: Sequence[KeptCandidate | None] | None = None


def _forget_said_by(writer: Writer, user: str) -> None:
    """Erase a user's waiting turns and episodes, and the bot's waiting answers to this user.

    A turn waits until its facts are extracted and stored. The other waiting turns stay, but a fact
    already found in one of them is erased if it is about this user, or if one of this user's turns
    states it too. For all users, the texts of extracted turns are erased, and extractions under way
    start again.
    """
    every = writer.turns.waiting()
    heard = [*writer.turns.extracted(), *(one.turn for one in every)]
    theirs = {user, *(one.conversation for one in heard if one.speaker == user)}
    names = {(one.turn.conversation, one.name) for one in every if one.turn.speaker == user}
    for waiting in every:
        answered = waiting.turn.is_bot and (
            waiting.turn.conversation in theirs or _may_answer_anyone(waiting.turn)
        )
        if waiting.turn.speaker == user or answered:
            writer.turns.drop(waiting.seq)
        elif waiting.candidates is not None:
            others = [
                one
                if one is not None
                and user not in (one.user, one.owner)
                and names.isdisjoint((waiting.turn.conversation, name) for name in one.said_in)
                else None
                for one in waiting.candidates
            ]
            writer.turns.keep_candidates(waiting.seq, others)
    writer.turns.clear_extracted()
    writer.turns.forget_name(user)
    writer.leases.free_all()
    writer.episodes.forget_user(user)
    writer.set_meta(_UNSCRUBBED, uuid4().hex)


def described_turns(reader: Reader, user: str, description: str) -> list[PendingTurn]:
    """Return the waiting turns of a user that `matching` names, oldest first.

    >>> with store.ledger.reading() as reader:
    ...     described_turns(reader, "Gil", "the yak")
    []
    """
    speaker = clean(user)
    said = {
        f"mem_{one.seq:012x}": one for one in reader.turns.waiting() if one.turn.speaker == speaker
    }
    told = (
        Memory(id=name, content=f"{user}: {one.turn.text}", user=user, timestamp=one.turn.at)
        for name, one in said.items()
    )
    return [said[memory.id] for memory in matching(told, description)]


def forget_turns(ledger: Ledger, index: SearchRouter, user: str, description: str) -> int:
    """Erase the waiting turns of a user that a description names; return how many.

    A turn goes whole. The bot's waiting turns of these conversations may quote them, so they are
    erased too, and so are facts that were found in them and in other turns.

    >>> forget_turns(store.ledger, store.index, "Gil", "the yak")
    0
    """
    with ledger.writing() as writer:
        named = described_turns(writer, user, description)
        conversations = {one.turn.conversation for one in named}
        gone = {(one.turn.conversation, one.name) for one in named}
        for one in writer.turns.waiting():
            if one in named or (one.turn.is_bot and one.turn.conversation in conversations):
                writer.turns.drop(one.seq)
            elif one.candidates is not None:
                left = [
                    fact
                    if fact and gone.isdisjoint((one.turn.conversation, n) for n in fact.said_in)
                    else None
                    for fact in one.candidates
                ]
                writer.turns.keep_candidates(one.seq, left)
        if named:
            _start_again(writer, conversations)
            writer.set_meta(_UNSCRUBBED, uuid4().hex)
    if named:
        scrub(ledger, index)
    return len(named)


def _start_again(writer: Writer, conversations: Set[str]) -> None:
    """Erase the extracted turns of conversations, and let extractions under way start again."""
    writer.turns.clear_extracted(conversations)
    for conversation in sorted(conversations):
        writer.leases.free(conversation)


class TurnsToForget:
    """Finds what must be removed from turns when the memories `gone` are forgotten.

    - A person's waiting turn loses the sentences that state a forgotten memory of this person.
    - A fact already found in this turn is removed if it states a forgotten memory of this person,
      or if a forgotten memory was made from the fact. The turn then loses its whole text.
    - If a forgotten memory was made from a person's waiting turn, the turn loses its whole text.
      Other facts already found in the turn stay.
    - A fact may name memories that it would replace. If one of these is forgotten or not live, the
      fact replaces none of them and loses its merged text.
    - A bot's waiting turn is removed if it recalled or quotes a forgotten memory, or if a forgotten
      memory came from its conversation.
    - The extracted turns of a conversation lose their texts if a forgotten memory came from the
      conversation, or may have been said or recalled in it. An extraction under way in the
      conversation starts again.
    """

    def __init__(
        self, reader: Reader, gone: Sequence[Memory], comparisons: ComparisonCache
    ) -> None:
        self._comparisons = comparisons
        self._waiting = reader.turns.waiting(comparisons.turn_of)
        self._ids = {memory.id for memory in gone}
        kept = [one for turn in self._waiting for one in turn.candidates or () if one is not None]
        named = {memory.id for one in kept for memory in one.named}
        rows = reader.memories.rows(sorted(named))
        alive = {name for name, row in rows.items() if row.live}
        self._unnamed = self._ids | (named - alive)
        self._candidates = {memory.external_id for memory in gone}
        self._turns = {
            (conversation, name)
            for memory in gone
            for conversation, names in turns_of(memory.metadata).items()
            for name in names
        }
        self._contents: dict[str, tuple[str, ...]] = {}
        for memory in gone:
            if memory.user is not None:
                self._contents[memory.user] = (*self._contents.get(memory.user, ()), memory.content)
        heard = {
            one.conversation
            for one in (*reader.turns.extracted(), *(waiting.turn for waiting in self._waiting))
            if one.speaker in self._contents or not self._ids.isdisjoint(one.recalled_ids)
        }
        self._sources = {conversation for conversation, _ in self._turns}
        self._conversations = heard | self._sources
        self._changes: list[_Change] = []

    def compare(self) -> None:
        for waiting in self._waiting:
            change = (self._of_bot if waiting.turn.is_bot else self._of_person)(waiting)
            if change is not None:
                self._changes.append(change)
                self._conversations.add(waiting.turn.conversation)

    def write(self, writer: Writer) -> None:
        for change in self._changes:
            if change.candidates is not None:
                writer.turns.keep_candidates(change.seq, change.candidates)
            if change.turn is None:
                writer.turns.drop(change.seq)
            else:
                writer.turns.reword(change.seq, change.turn)
        _start_again(writer, self._conversations)

    def _of_person(self, waiting: PendingTurn) -> _Change | None:
        turn, contents = waiting.turn, self._contents.get(waiting.turn.speaker, ())
        name = (turn.conversation, waiting.name)
        is_source = contents and name in self._turns
        text = (
            ""
            if is_source
            else self._comparisons.left_of(turn.text, turn.speaker, turn.at, contents)
        )
        reworded = turn.model_copy(update={"text": text})
        if waiting.candidates is None:
            return None if text == turn.text else _Change(waiting.seq, reworded if text else None)
        left = [
            _without_named(one, self._unnamed)
            if one is not None
            and name_of_candidate(*name, n) not in self._candidates
            and not self._comparisons.states_any(
                (one.content,), self._contents.get(one.owner or turn.speaker, ())
            )
            else None  # so that the others keep their positions
            for n, one in enumerate(waiting.candidates)
        ]
        if left.count(None) > waiting.candidates.count(None):
            reworded = turn.model_copy(update={"text": ""})
        elif text == turn.text and left == list(waiting.candidates):
            return None
        return _Change(waiting.seq, reworded if any(left) else None, left)

    def _of_bot(self, waiting: PendingTurn) -> _Change | None:
        turn = waiting.turn
        heard = turn.conversation in self._conversations or _may_answer_anyone(turn)
        quotes = heard and any(
            self._comparisons.states_any((sentence,), contents)
            for sentence in sentences(turn.text)
            for contents in self._contents.values()
        )
        recalled = not self._ids.isdisjoint(turn.recalled_ids)
        if recalled or quotes or turn.conversation in self._sources:
            return _Change(waiting.seq, None)
        return None


def _may_answer_anyone(turn: Turn) -> bool:
    return turn.is_bot and turn.conversation == turn.speaker


def _without_named(candidate: KeptCandidate, gone: Set[str]) -> KeptCandidate:
    if gone.isdisjoint(one.id for one in candidate.named):
        return candidate
    return candidate.model_copy(update={"named": (), "merged": ""})


def _without(text: str, speaker: str, at: datetime, contents: Sequence[str]) -> str:
    """Return the text without the sentences that state any of `contents`.

    Return "" if the text as a whole states one of them, but no single sentence does.
    """
    if not contents:
        return text
    left, end, is_cut = list[str](), 0, False
    for sentence in (every := sentences(text)):
        start = text.index(sentence, end)
        states = _states_any(_forms(sentence, speaker, at), contents)
        left += [text[end:start], "" if states else sentence]
        end, is_cut = start + len(sentence), is_cut or states
    if is_cut:
        return "".join([*left, text[end:]]).strip()
    if every == [text]:
        return text
    return "" if _states_any(_forms(text, speaker, at), contents) else text


def _forms(said: str, speaker: str, at: datetime) -> list[str]:
    clauses = dict.fromkeys([said, *_BETWEEN_CLAUSES.split(said)])
    as_told = [retold(clause, speaker, at) for clause in clauses if clause]
    stated = (one.text for one in statements(said, speaker, at))
    return list(dict.fromkeys([*clauses, *as_told, *stated]))


def _states_any(forms: Sequence[str], contents: Sequence[str]) -> bool:
    keys = {text_key(form) for form in forms}
    return any(
        text_key(content) in keys
        or (
            len(telling_words(content)) >= _FEWEST_WORDS
            and any(_states(form, content) for form in forms)
        )
        for content in contents
    )


def _shares_a_word(form: str, content: str) -> bool:
    return not set(telling_words(form)).isdisjoint(telling_words(content))


@guarded(_shares_a_word)  # if in doubt, here the text goes: what was forgotten must not come back
def _states(form: str, content: str) -> bool:
    """Return whether a text has all words of a forgotten one, and as many negations."""
    told, forgotten = coverage.parse(form), coverage.parse(content)
    return forgotten.counts <= told.counts and forgotten.negations == told.negations


_MAIL = re.compile(r"[0-9A-Za-z_.+-]{1,64}@[0-9A-Za-z-]{1,64}(?:\.[0-9A-Za-z-]{1,64}){1,8}")
_CODE = re.compile(
    r"\+?[0-9A-Za-z]{1,64}(?:[-–._][0-9A-Za-z]{1,64}|(?<=[0-9])[ /()]{1,2}[0-9]{1,64}"
    r"|(?<=[0-9A-Fa-f]{2}):[0-9A-Fa-f]{2}(?![0-9A-Za-z])){0,12}"
)
_SEPARATORS = re.compile(r"[-–._: /()]")
_LETTER = re.compile(r"(?<=[^\W\d_] )[A-HJ-Z](?![\w'’])")  # "Building A", not the word I
_GENITIVE = re.compile(r"(?<=\w)['’]s\b|s['’](?!\w)")
_FEWEST_DIGITS = 6
_RUN = re.compile(
    r"[\u30a1-\u30fa\u30fc]{2,}|[\u3400-\u9fff々][\u3040-\u309f]?(?:[\u30a1-\u30fa\u30fc\u3400-\u9fff々])+"
)


def identifiers(text: str) -> frozenset[str]:
    """Return the e-mail addresses of a text, and its words of six or more digits.

    The case of an address and the separators in a number do not count.

    >>> sorted(identifiers("Call 415-555-0123, or write to ANA@example.org."))
    ['4155550123', 'ana@example.org']
    """
    mails = {found.casefold() for found in _MAIL.findall(text)}
    found = set()
    for word in _CODE.findall(_MAIL.sub(" ", text)):
        code = _SEPARATORS.sub("", word)
        if sum(map(str.isdecimal, code)) >= _FEWEST_DIGITS:
            local = re.sub(r"^\+\d{1,3}(?=\d{10}$)", "", code)
            found |= {code.removeprefix("+"), local.removeprefix("+")}
    return frozenset(mails | found)


@dataclass(frozen=True)
class _Text:
    identifiers: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]
    shown: str

    @classmethod
    def of(cls, text: str) -> _Text:
        """Read a text. In Japanese and Chinese, which have no capitals, all words are names."""
        shown = normalise(text)
        found = [one for one in tokens(text) if one.kind in (Kind.CONTENT, Kind.NUMBER)]
        names = {one.key for one in found if is_name(one)} | {*_RUN.findall(shown)}
        names |= {*_LETTER.findall(text)}
        words = {one.key.strip(":/") for one in found if not has_cjk(one.surface)} - {*names, ""}
        return cls(identifiers(text), frozenset(names), frozenset(words), shown)

    def has_name(self, name: str, written: Set[str]) -> bool:
        """Return whether the text has a name; of those in `written`, capitals count: Rose, rose."""
        return (
            name in self.names
            or (name in self.words and name not in written)
            or (has_cjk(name) and name in self.shown)
        )

    def has_word(self, word: str) -> bool:
        return word in self.words or word in self.names

    def has_part(self, code: str) -> bool:
        """Return whether a code is a part of a longer one, such as "sk-17q" of "sk-17q-secret"."""
        longer = (word.replace(":", "-") for word in self.words)
        return _is_code(code) and any(f"-{code}-" in f"-{word}-" for word in longer)

    def needs(self, name: str) -> bool:
        """Return whether a word is surely a name: not the first word, nor Japanese or Chinese."""
        return not has_cjk(name) and not self.shown.startswith(name.casefold())


def described(reader: Reader, user: str, description: str) -> list[Memory]:
    """Return the memories of a user that `matching` names, as `forget` takes them, newest first.

    Superseded and expired memories are among them. A retired memory that was replaced can only be
    forgotten with the one that replaced it, which is returned.

    >>> outcome = memories.remember("Gil has a yak.", user="Gil")
    >>> newer = memories.remember("Gil has a yak!", user="Gil")  # replaces the first
    >>> with store.ledger.reading() as reader:
    ...     [memory.content for memory in described(reader, "Gil", "the yak")]
    ['Gil has a yak!']
    """
    rows = {row.memory.id: row for row in reader.memories.first_of(clean(user), None)}
    named = matching((row.memory for row in rows.values()), description)
    ends = (_end(rows.get, memory.id) for memory in named)
    found = {row.memory.id: row.memory for row in ends if row is not None}
    return sorted(found.values(), key=lambda memory: memory.timestamp, reverse=True)


def matching(memories: Iterable[Memory], description: str) -> list[Memory]:
    """Return the memories that a description names, in the order of `memories`.

    If it has an e-mail address or a number of six or more digits, these are the memories with all
    of them. If it has names, these are the memories with all of its names and numbers; words that
    are in some of them, such as "phone", must be in each. If no word is in any, "Ana's employer"
    names nothing, and "about Ana" all memories with the name; but not if it is the user's own.
    Without a name, all its words must be in a memory. Two spellings of one name or code are named
    with " / " between them: "plate ABC-1234 / abc1234".

    >>> from datetime import UTC, datetime
    >>> texts = "Ana works at Orbis.", "Ana lives in Faro.", "Leo lives in Rome."
    >>> stored = [Memory(content=one, timestamp=datetime(2026, 5, 1, tzinfo=UTC)) for one in texts]
    >>> [one.content for one in matching(stored, "everything about Ana")]
    ['Ana works at Orbis.', 'Ana lives in Faro.']
    >>> [one.content for one in matching(stored, "where Ana lives")]
    ['Ana lives in Faro.']
    >>> matching(stored, "Ana's employer")
    []
    """
    known = [(memory, _Text.of(memory.content)) for memory in memories]
    spellings = [_Text.of(part) for part in description.split(" / ")]
    if not all(_spell_the_same(one, other) for one, other in pairwise(spellings)):
        spellings = [_Text.of(description)]
    shared = {word for one in spellings for word in one.words if not _is_code(word)}
    wanted = [replace(one, words=one.words | shared) for one in spellings]
    found = {id(memory) for one in wanted for memory in _named(one, known)}
    return [memory for memory, _ in known if id(memory) in found]


def _spell_the_same(one: _Text, other: _Text) -> bool:
    """Return whether two texts share a name or a code, whatever its case and separators."""
    codes = [
        {_SEPARATORS.sub("", word).casefold() for word in text.names | text.words if _is_code(word)}
        for text in (one, other)
    ]
    return not one.names.isdisjoint(other.names) or any(
        short in long or long in short for short, long in product(*codes)
    )


def _is_code(word: str) -> bool:
    return _has_digit(word) and any(map(str.isalpha, word))


def _has_digit(word: str) -> bool:
    return any(map(str.isdecimal, word))


def _named(wanted: _Text, known: Sequence[tuple[Memory, _Text]]) -> list[Memory]:
    if wanted.identifiers:
        return [memory for memory, text in known if wanted.identifiers <= text.identifiers]
    written = frozenset[str]().union(*(text.names for _, text in known))
    names = {
        name for name in wanted.names if any(text.has_name(name, written) for _, text in known)
    }
    if not names:
        words = wanted.words | wanted.names
        return [memory for memory, text in known if words and all(map(text.has_word, words))]
    if any(map(wanted.needs, wanted.names - names)):
        return []
    named = [
        (memory, text)
        for memory, text in known
        if all(text.has_name(name, written) for name in names)
    ]
    whole = {word for word in wanted.words if any(text.has_word(word) for _, text in named)}
    parts = set(filter(_has_digit, wanted.words - whole))
    users = [_Text.of(user) for user in {memory.user for memory, _ in named if memory.user}]
    own = names <= {name for user in users for name in user.names | user.words}
    if wanted.words and not (whole or parts) and (own or _GENITIVE.search(wanted.shown)):
        return []  # "Leo's employer", and "Mia employer" among Mia's memories, which all name her
    return [
        memory
        for memory, text in named
        if all(map(text.has_word, whole)) and all(map(text.has_part, parts))
    ]
