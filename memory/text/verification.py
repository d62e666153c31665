"""Whether a merged text can be believed: it invents nothing and loses nothing. Pure.

Hard facts are held by rule: a wrong one refuses the text. Where nothing but wording differs, the
text is doubtful, and whoever can read decides. Reasons are words that a model can act on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory.text.facts import faults, persons
from memory.text.outdating import outdated
from memory.text.relations import related_otherwise, tense_lost
from memory.text.stating import CONNECTING, REPORTING, unstated
from memory.text.wording import Term, Wording, stems, wordings


class Belief(StrEnum):
    """What the words alone tell about a merged text."""

    BELIEVED = "believed"
    DOUBTFUL = "doubtful"
    REFUSED = "refused"


@dataclass(frozen=True)
class Lost:
    """Words of a source, by position from 0, that the merged text may have lost."""

    source: int
    words: str


@dataclass(frozen=True)
class Verification:
    """Whether a merged text is believed, and why not.

    `lost` and `new` are what a second reading has to decide where it is doubtful: what the sources
    state in words that the text has not, and words of the text that no source has so.
    """

    belief: Belief
    reason: str = ""
    lost: tuple[Lost, ...] = ()
    new: tuple[str, ...] = ()


def verify(text: str, sources: Sequence[str]) -> Verification:
    """Hold a merged text against its sources, oldest first.

    Refused: a number, date, name, negation or modality that no source states, or that the newest
    states or no newer contradicts and the text does not; somebody else doing what was done.
    Believed: every word of the sources is there, each governed as it was, and no other.
    """
    if not text.strip():
        return Verification(Belief.REFUSED, "the merged text is empty")
    merged, *told = wordings([text, *sources])
    fault = next(filter(None, faults(merged, told)), "")
    if fault:
        return Verification(Belief.REFUSED, fault)
    lost = tuple(_lost(merged, told, sources))
    new = tuple(dict.fromkeys(_new(merged, told)))
    if lost or new:
        return Verification(Belief.DOUBTFUL, _doubts(lost, new), lost, new)
    return Verification(Belief.BELIEVED)


def _doubts(lost: Sequence[Lost], new: Sequence[str]) -> str:
    told = []
    if lost:
        told.append("may have lost " + ", ".join(repr(one.words) for one in lost))
    if new:
        told.append("may have added " + ", ".join(map(repr, new)))
    return f"the merged text {' and '.join(told)}"


def _lost(merged: Wording, told: Sequence[Wording], sources: Sequence[str]) -> Iterator[Lost]:
    for place, source in enumerate(told):
        gone = frozenset[str]().union(*(outdated(source, newer) for newer in told[place + 1 :]))
        reports = _how_it_reports(sources[place])
        for term in unstated(source, [merged]):
            kept = term.key in gone or _is_derived(term, merged)
            if not (kept or term.sort.is_hard or term.surface == reports):
                yield Lost(place, term.surface)
    yield from (Lost(len(told) - 1, words) for words in tense_lost(merged, told[-1]))


def _is_derived(term: Term, merged: Wording) -> bool:
    """Whether another word of its family is there: passionate for passion."""
    own = {term.surface.casefold()}
    return any(merged.stems.get(stem, own) - own for stem in stems(term.plain))


_REPORT = re.compile(
    r"^\w+(?: \w+)? (?P<verb>said|says|mentioned|mentions|expressed|expresses|shared|shares|noted|"
    r"notes|stated|states|explained|explains|added|adds) that "
    r".*\b(?:he|she|they|his|her|their|them)\b"
)


def _how_it_reports(source: str) -> str | None:
    """What somebody does who tells of themselves: Mia said that she sails."""
    found = _REPORT.match(source)
    return None if found is None else found["verb"]


def _new(merged: Wording, told: Sequence[Wording]) -> Iterator[str]:
    new = [term for term in unstated(merged, told) if not term.sort.is_hard]
    yield from (term.surface for term in new)
    yield from sorted(merged.persons - persons(told) - {"they"})
    joining = (CONNECTING | REPORTING).difference(*(source.keys for source in told))
    yield from related_otherwise(merged, told, joining.union(term.key for term in new))
