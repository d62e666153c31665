"""Decide whose a candidate is: which turns state it, and which speaker's words it repeats.

A model may obey a turn ("Remember as mine what you know of Mia"). If several people speak, each
candidate is therefore compared with the words of their turns, whatever turns and user the model
names.
"""

from __future__ import annotations

import logging
import re
from calendar import month_name
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, pairwise

from memory.ledger import PendingTurn
from memory.models import Candidate, Memory, Turn
from memory.text import NOT, Kind, has_cjk, is_name, sentences, telling_words, tokens, visible

logger = logging.getLogger(__name__)

_NEAR_DAYS = 14
_CJK_RUNS = re.compile("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff々]+").findall


@dataclass(frozen=True)
class SourceTurns:
    """The turns from which a model extracted a candidate.

    `anchor`: one of these turns. The candidate's memory takes its external id and time from it.
    `owner`: the person to whom the memory will belong; usually the speaker of the anchor.
    `names`: the `PendingTurn.name` of each of these turns that a person spoke; empty unless the
    model named several turns.
    `is_of_one`: whether a single person spoke these turns.
    `may_replace`: whether the candidate may replace stored memories of its owner.
    """

    anchor: PendingTurn
    owner: str
    names: tuple[str, ...] = ()
    is_of_one: bool = True
    may_replace: bool = True


def source_turns(candidate: Candidate, asked: Sequence[PendingTurn]) -> SourceTurns | None:
    """Return the turns from which a candidate comes; None if only the bot spoke these turns.

    If the candidate names no turn, it may come from any turn in `asked`. The anchor is the last of
    the candidate's turns that `candidate.user` spoke. If this user spoke none of them, the anchor
    is the last that any person spoke. The candidate may replace memories only if the model named
    its turns, and a single person spoke them.
    """
    named = [asked[n] for n in sorted(set(candidate.turns)) if 0 <= n < len(asked)]
    said = [one for one in named or asked if not one.turn.is_bot]
    if not said:
        return None
    own = [one for one in said if one.turn.speaker == candidate.user]
    anchor = (own or said)[-1]
    names = tuple(one.name for one in said) if len(named) > 1 else ()
    is_of_one = not named or len(people(one.turn for one in said)) == 1
    return SourceTurns(
        anchor, anchor.turn.speaker, names, is_of_one, may_replace=bool(named) and is_of_one
    )


def people(turns: Iterable[Turn]) -> set[str]:
    """Return the names of the people who speak; a bot is none."""
    return {turn.speaker for turn in turns if not turn.is_bot}


def attributed(
    taken: Sequence[tuple[SourceTurns, Candidate]],
    asked: Sequence[PendingTurn],
    context: Sequence[Turn],
    remembered: Sequence[Memory],
) -> list[tuple[SourceTurns, Candidate]]:
    """Correct the owners of candidates, and leave out those that nobody said.

    `asked` and `context` are the turns that the model was shown; `remembered` are the memories that
    it was shown. If a single person speaks, nothing is changed. Otherwise:

    - If another person's turns hold more of a candidate's words than the owner's, or a number or
      name that the owner did not say, the candidate belongs to that person. A name counts as said
      by who answers the turn that says it.
    - If they hold more than the turns that the candidate names, it replaces nothing; nor does it if
      its merged text has not kept half of the words of each memory that it names.
    - It is left out if its owner said none of its words, if people said less than a third of them,
      or if it copies the memories of others.
    """
    if len(people([*context, *(one.turn for one in asked)])) < 2:
        return list(taken)
    window = _Window(asked, context, remembered)
    kept = []
    for source, candidate in taken:
        words = window.words(candidate.content)
        owned = window.corrected(source, candidate)
        if problem := window.problem(owned.owner, words):
            logger.warning("a candidate was dropped: %s", problem)
        else:
            kept.append((owned, candidate))
    return kept


class _Window:
    """The words of each person in the turns that a model was shown.

    Names of speakers do not count as words. Dates near the turns do not count either, because a
    model writes them in place of "yesterday". The bot's turns do not count: it may repeat what it
    knows of anybody.
    """

    def __init__(
        self, asked: Sequence[PendingTurn], context: Sequence[Turn], remembered: Sequence[Memory]
    ) -> None:
        self._asked = asked
        self._turns = turns = [*context, *(one.turn for one in asked)]
        self._neutral = frozenset(chain.from_iterable(_words(text) for text in _neutral(turns)))
        self._said = {who: set[str]() for who in sorted(people(turns))}
        for turn in turns:
            if not turn.is_bot:
                self._said[turn.speaker] |= self.words(turn.text)
        self._known = [(one.user, self.words(one.content)) for one in remembered]

    def words(self, text: str) -> frozenset[str]:
        return _words(text) - self._neutral

    def corrected(self, source: SourceTurns, candidate: Candidate) -> SourceTurns:
        words = self.words(candidate.content)
        others = [who for who in self._said if who != source.owner]
        rival = max(others, key=lambda who: len(words & self._said[who]))
        facts = _hard_facts(candidate.content) & words - self._said[source.owner]
        facts -= self._answered(source, candidate)
        teller = next((who for who in others if facts & self._said[who]), None)
        owned = len(words & self._said[source.owner])
        # Of a fact that turns of two people state, the owner must have said the greater part.
        least = owned + source.is_of_one
        if teller is not None or 0 < len(words & self._said[rival]) >= least:
            return self._given_to(teller or rival, source, words)
        if source.may_replace and not self._may_replace(source, candidate):
            return replace(source, may_replace=False)
        return source

    def _answered(self, source: SourceTurns, candidate: Candidate) -> set[str]:
        """Return the names in the turns that the owner's turns of this candidate answer."""
        before = [
            self._turns[n - 1].text
            for n in (n + len(self._turns) - len(self._asked) for n in candidate.turns)
            if 0 < n < len(self._turns) and self._turns[n].speaker == source.owner
        ]
        return {fact for text in before for fact in _hard_facts(text) if not fact[0].isdigit()}

    def _given_to(self, owner: str, source: SourceTurns, words: frozenset[str]) -> SourceTurns:
        said = [one for one in reversed(self._asked) if self._is_of(one, owner)]
        anchor = max(
            said, key=lambda one: len(words & self.words(one.turn.text)), default=source.anchor
        )
        return SourceTurns(anchor, owner, may_replace=False)

    def problem(self, owner: str, words: frozenset[str]) -> str:
        """Return why a candidate with these words is dropped; "" if it is not."""
        if not words:
            return ""
        said = set[str]().union(*self._said.values())
        new = words - said
        own = set[str]().union(*(its for user, its in self._known if user == owner))
        others = set[str]().union(*(its for user, its in self._known if user != owner))
        is_much = 2 * len(new) >= len(words) or any(map(str.isdigit, "".join(new)))
        if new and is_much and new <= others:
            return "it copies a memory of another speaker"
        if not words & self._said[owner] or 3 * len(new - own) > 2 * len(words):
            return "its speaker said nothing like it"
        return ""

    def _may_replace(self, source: SourceTurns, candidate: Candidate) -> bool:
        """Return whether a candidate may replace the memories that it names.

        No other person may have said more of it than the turns that it names. Each sentence counts
        by itself. Of the merged text, only words that its memories lack count.
        """
        numbers = sorted({n for n in candidate.turns if 0 <= n < len(self._asked)})
        texts = [
            self._asked[n].turn.text for n in numbers if self._is_of(self._asked[n], source.owner)
        ]
        named = set[str]().union(*map(self.words, texts))
        old = [self._known[n][1] for n in candidate.replaces if 0 <= n < len(self._known)]
        kept = self.words(candidate.merged)
        if any(2 * len(its & kept) < len(its) or NOT in its - kept for its in old):
            return False
        told = [self.words(one) for one in (candidate.content, *sentences(candidate.content))]
        merged = (candidate.merged, *sentences(candidate.merged))
        told += [self.words(one).difference(*old) for one in merged]
        return not any(
            len(words & said) > len(words & named)
            for words in told
            for who, said in self._said.items()
            if who != source.owner
        )

    @staticmethod
    def _is_of(one: PendingTurn, person: str) -> bool:
        return not one.turn.is_bot and one.turn.speaker == person


def _neutral(turns: Sequence[Turn]) -> list[str]:
    around = range(-_NEAR_DAYS, _NEAR_DAYS + 1)
    days = {turn.at.date() + timedelta(n) for turn in turns for n in around}
    dates = [
        f"{month_name[day.month]} {day.day} {day.year} {day} {day.year}年{day.month}月{day.day}日"
        for day in days
    ]
    return [*{turn.speaker for turn in turns}, *dates]


def _hard_facts(text: str) -> set[str]:
    """Return the numbers and names in a text, except names at the beginning of a sentence."""
    found = tokens(visible(text))
    return {
        token.key
        for before, token in pairwise(found)
        if token.kind is Kind.NUMBER or (is_name(token) and before.kind is not Kind.STOP)
    }


def _words(text: str) -> frozenset[str]:
    """Return the words that tell a text apart, and pairs of characters for Japanese and Chinese."""
    shown = visible(text)
    found = {word for word in telling_words(shown) if not has_cjk(word)}
    found.update("".join(pair) for run in _CJK_RUNS(shown) for pair in pairwise(run))
    if any(token.key == NOT for token in tokens(shown)):
        found.add(NOT)
    return frozenset(found)
