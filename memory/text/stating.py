"""Which words of a text another one states, in whatever form that surely says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from memory.text.synonyms import KINDS
from memory.text.wording import Sort, Term, Wording, squeezed

_LONGEST_ABBREVIATION = 5
_SHORTEST_COMPOUND = 6
REPORTING = frozenset("say state mention note remark express share tell explain add".split())
"""Words that only tell that somebody said it: one is as good as another, in any tense."""
CONNECTING = frozenset("all both own current currently now include also where".split())
"""Words that only join what is told, and so state nothing."""


def unstated(own: Wording, others: Sequence[Wording]) -> list[Term]:
    """The terms of one text that none of the others states, each once."""
    known = frozenset[str]().union(*(_stated_by(other, own) for other in others))
    left = {
        term.key: term
        for term in own.terms
        if term.sort is not Sort.DENIAL and not term.surface.startswith(("'", "’"))
    }
    return [
        term
        for term in left.values()
        if term.key not in known and not any(_inflects(term, other) for other in others)
        if not any(_written_otherwise(term, own, other) for other in others)
    ]


def _inflects(term: Term, other: Wording) -> bool:
    """Whether it is there in another form; the same form with another sense is another word."""
    return term.plain in other.plain_words and term.surface.casefold() not in other.words


def _stated_by(other: Wording, own: Wording) -> frozenset[str]:
    general = (kind for kind, special in KINDS if not special.isdisjoint(other.keys))
    reporting = REPORTING if not REPORTING.isdisjoint(other.keys) else ()
    return other.keys.union(CONNECTING, _spelled_out(own, other), reporting, *general)


def _spelled_out(own: Wording, other: Wording) -> Iterator[str]:
    """What stands in one text in full and in the other as U.S., and the reverse."""
    if short := {term.key for term in other.terms if _is_abbreviation(term)}:
        for run in _runs(own):
            if _initials(run) in short:
                yield from (term.key for term in run)
    if abbreviated := {term.key for term in own.terms if _is_abbreviation(term)}:
        yield from abbreviated.intersection(_initials(run) for run in _runs(other))


def _is_abbreviation(term: Term) -> bool:
    return term.surface.isupper() and 2 <= len(term.key) <= _LONGEST_ABBREVIATION


def _runs(told: Wording) -> Iterator[Sequence[Term]]:
    """Stretches of words with a capital."""
    for start in range(len(told.terms)):
        most = min(start + _LONGEST_ABBREVIATION, len(told.terms))
        for end in range(start, most):
            if not told.terms[end].surface[:1].isupper():
                break
            if end > start:
                yield told.terms[start : end + 1]


def _initials(run: Sequence[Term]) -> str:
    return "".join(term.surface[0] for term in run).upper()


def _written_otherwise(term: Term, own: Wording, other: Wording) -> bool:
    """Whether it is there as one word or as two (common-sense), or within a longer one."""
    if own.language == "ja":
        return term.sort is Sort.WORD and _in_pieces(term.key, other.squeezed)
    word = squeezed(term.surface)
    if len(word) >= _SHORTEST_COMPOUND and word in other.compounds:
        return True
    near = {
        squeezed(a.surface + b.surface)
        for place in own.places_of(term)
        for a, b in pairwise(own.terms[max(0, place - 1) : place + 2])
    }
    return not near.isdisjoint(other.words)


def _in_pieces(word: str, text: str) -> bool:
    """Whether a word in kanji stands in a text, whole or cut into parts of two and more."""
    if _KATAKANA.match(word) or len(word) > _LONGEST_RUN:
        return False
    reached = {0}
    for end in range(1, len(word) + 1):
        if any(word[start:end] in text for start in reached if end - start > 1 or len(word) == 1):
            reached.add(end)
    return len(word) in reached


_KATAKANA = re.compile("^[\u30a1-\u30fc]+$")
_LONGEST_RUN = 40
