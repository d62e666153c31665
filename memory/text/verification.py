"""Whether a merged text can be believed: it invents nothing and loses nothing. Pure.

Each check answers with what is wrong, in words that a model can act on; empty where nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory.text.coverage import amounts, denied, missing, names, negations, persons, replaced

Denials = frozenset[tuple[str, str]]

_LINKING = frozenset({"call", "name", "own", "currently", "now", "include", "since", "because"})
"""Words that only join what sources state, and so invent nothing."""


def rejection_reason(text: str, sources: Sequence[str]) -> str:
    """Why a merged text cannot be believed; empty where it can. `sources` are oldest first.

    Everything in it stands in a source: every number and what it counts, every date, name and
    word, every negation and what it denies. Everything that the newest source states is in it,
    and everything older that no newer source contradicts. It is no longer than its sources
    together.
    """
    return next(filter(None, _faults(text, sources)), "")


def _faults(text: str, sources: Sequence[str]) -> Iterator[str]:
    if not text.strip():
        yield "the merged text is empty"
        return
    if len(text) > sum(len(source) + 1 for source in sources):
        yield "the merged text is longer than its sources together"
    yield _invented(text, sources)
    yield _miscounted(text, sources)
    yield _turned_around(text, sources)
    yield _swapped(text, sources[-1])
    yield _dropped(text, sources)


def _invented(text: str, sources: Sequence[str]) -> str:
    new = missing("\n".join(sources), text)
    told = [worded for key, worded in new.items() if key not in _LINKING]
    others = persons(text) - {"they"}.union(*map(persons, sources))
    told += sorted(others)
    return f"the merged text states what no source states: {', '.join(told)}" if told else ""


def _miscounted(text: str, sources: Sequence[str]) -> str:
    wrong = sorted(amounts(text).difference(*map(amounts, sources)))
    shown = ", ".join(f"{number} {counted}" for number, counted in wrong)
    return f"the merged text counts what no source counts: {shown}" if wrong else ""


def _turned_around(text: str, sources: Sequence[str]) -> str:
    """A negation that moved, came from nowhere, or is gone from what the newest states."""
    newest = sources[-1]
    allowed = frozenset().union(*map(denied, sources))
    wrong = _unlike(denied(text), allowed) | _unlike(denied(newest), denied(text))
    if wrong or not _as_often(text, sources):
        what = ", ".join(sorted(" ".join(said).strip() for said in wrong))
        return f"the merged text turns a negation around: {what or 'how often'}"
    return ""


def _swapped(text: str, newest: str) -> str:
    """Names that both have, in another order: who does what to whom."""
    here, there = names(text), names(newest)
    shared = [name for name in there if name in here]
    if [name for name in here if name in shared] == shared:
        return ""
    return f"the merged text changes who does what: {', '.join(shared)}"


def _unlike(denials: Denials, others: Denials) -> set[tuple[str, str]]:
    """Those that deny something else than any of the others."""
    return {
        (first, second)
        for first, second in denials
        if not any(first == a and (second == b or "" in (second, b)) for a, b in others)
    }


def _as_often(text: str, sources: Sequence[str]) -> bool:
    said = [negations(source) for source in sources]
    return said[-1] <= negations(text) <= sum(said)


def _dropped(text: str, sources: Sequence[str]) -> str:
    lost = missing(text, sources[-1])
    if lost:
        return f"the merged text drops what the newest states: {', '.join(lost.values())}"
    for place, older in enumerate(sources[:-1]):
        gone = missing(text, older)
        contradicted = frozenset().union(*(replaced(older, new) for new in sources[place + 1 :]))
        kept_out = [worded for key, worded in gone.items() if key not in contradicted]
        if kept_out:
            return f"the merged text drops what an older one states: {', '.join(kept_out)}"
    return ""
