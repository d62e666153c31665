"""Where a merged text gets a hard fact wrong: who, how many, when, whether, and whether not. Pure.

Each check answers with what is wrong, in words that a model can act on; empty where nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory.text.outdating import outdated
from memory.text.relations import counts, doings
from memory.text.stating import unstated
from memory.text.wording import Sort, Term, Wording, denials

Denials = set[tuple[str, ...]]


def faults(merged: Wording, told: Sequence[Wording]) -> Iterator[str]:
    """What is wrong, check by check; `told` are the words of the sources, oldest first."""
    if len(merged.terms) > sum(len(source.terms) for source in told):
        yield "the merged text is longer than its sources together"
    yield _invented(merged, told)
    yield _miscounted(merged, told)
    yield _turned_around(merged, told)
    yield _swapped(merged, told)
    yield _dropped(merged, told)


def _invented(merged: Wording, told: Sequence[Wording]) -> str:
    new = unstated(merged, told)
    words = _hard_first(new)
    if _other_sex(merged, told):
        words += sorted(merged.persons - persons(told))
    elif not any(term.sort.is_hard for term in new):
        return ""
    return f"the merged text states what no source states: {', '.join(words)}"


def _hard_first(terms: Sequence[Term]) -> list[str]:
    return [term.surface for term in sorted(terms, key=lambda term: not term.sort.is_hard)]


def persons(told: Sequence[Wording]) -> frozenset[str]:
    return frozenset().union(*(source.persons for source in told))


def _other_sex(merged: Wording, told: Sequence[Wording]) -> bool:
    """He where the sources have she, or the reverse."""
    known = persons(told) & {"he", "she"}
    return bool(known and (merged.persons & {"he", "she"}) - known)


def _miscounted(merged: Wording, told: Sequence[Wording]) -> str:
    """A number that counts what another number counts in the sources."""
    counted = {pair for source in told for pair in counts(source)}
    things = {thing for _, thing in counted}
    for number, thing in counts(merged):
        if thing in things and (number, thing) not in counted:
            return f"the merged text counts what no source counts: {number} {thing}"
    return ""


def _turned_around(merged: Wording, told: Sequence[Wording]) -> str:
    """A negation that moved, came from nowhere, or is gone from what the newest states."""
    allowed = {denial for source in told for denial in denials(source)}
    said, newest = denials(merged), denials(told[-1])
    wrong = _unlike(said, allowed) | _unlike(newest, said) | _exchanged(said, allowed, told)
    wrong |= _affirmed(merged, said, told)
    if wrong:
        what = ", ".join(sorted(" ".join(said).strip() or "not" for said in wrong))
        return f"the merged text turns a negation around: {what}"
    return ""


def _unlike(some: Denials, others: Denials) -> Denials:
    """Those that deny nothing that the others deny."""
    return {
        said for said in some if said not in others and not any(set(said) & set(o) for o in others)
    }


def _exchanged(said: Denials, allowed: Denials, told: Sequence[Wording]) -> Denials:
    """Denials of what the sources state, where they deny something else of it."""
    stated = frozenset().union(*(source.keys for source in told))
    denied = {key for denial in allowed for key in denial}
    return {denial for denial in said if denial not in allowed and (set(denial) - denied) & stated}


def _affirmed(merged: Wording, said: Denials, told: Sequence[Wording]) -> Denials:
    """What an older source denies and the merged text states, though no newer source does."""
    return {
        denial
        for place, source in enumerate(told[:-1])
        for denial in _unlike(denials(source), said)
        if denial
        and merged.keys.issuperset(denial)
        and not any(newer.keys.issuperset(denial) for newer in told[place + 1 :])
    }


def _swapped(merged: Wording, told: Sequence[Wording]) -> str:
    """Somebody named who does what only somebody else does in the sources."""
    does = {pair for source in told for pair in doings(source)}
    for who, what in doings(merged):
        others = {other for other, deed in does if deed == what}
        if (who, what) not in does and others & merged.keys:
            return f"the merged text changes who does what: {who} {what}"
    return ""


def _dropped(merged: Wording, told: Sequence[Wording]) -> str:
    for place, source in enumerate(told):
        later = [(newer, outdated(source, newer)) for newer in told[place + 1 :]]
        gone = [
            term
            for term in unstated(source, [merged])
            if not any(term.key in keys or _recounted(term, source, newer) for newer, keys in later)
        ]
        if any(term.sort.is_hard for term in gone):
            whose = "the newest states" if source is told[-1] else "an older one states"
            return f"the merged text drops what {whose}: {', '.join(_hard_first(gone))}"
    return ""


def _recounted(term: Term, source: Wording, newer: Wording) -> bool:
    """Whether a newer text has another number or date next to the same word."""
    if term.sort not in (Sort.NUMBER, Sort.DATE):
        return False
    mine, others = _around(source, term.key), set[str]()
    for other in newer.terms:
        if other.sort is term.sort and other.key not in source.keys:
            others |= _around(newer, other.key)
    return not mine.isdisjoint(others)


def _around(told: Wording, key: str) -> set[str]:
    """The words right before and after a number."""
    near = [told.terms[max(0, place - 1) : place + 2] for place in told.places[key]]
    return {term.key for terms in near for term in terms if term.key != key}
