"""What a merged text relates otherwise than its sources: who does it, to what, and when. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from memory.text.wording import Sort, Term, Wording


def related_otherwise(
    merged: Wording, told: Sequence[Wording], fresh: frozenset[str]
) -> Iterator[str]:
    """Words and phrases that no source has so; `fresh`: the keys of those that none has at all."""
    yield from _other_tense(merged, told, fresh)
    yield from _other_role(merged, told, fresh)
    yield from _other_doer(merged, told, fresh)
    yield from _other_order(merged, told, fresh)


def doings(told: Wording) -> Iterator[tuple[str, str]]:
    """Each name with the word after it, where it stands alone."""
    for before, name, after in zip((None, *told.terms), told.terms, told.terms[1:], strict=False):
        alone = before is None or before.sort is not Sort.NAME
        acts = name.sort is Sort.NAME and alone and not name.role
        if acts and after.sort is Sort.WORD and after.clause == name.clause and not after.role:
            yield name.key, after.key


def counts(told: Wording) -> Iterator[tuple[str, str]]:
    """Each number with every word of the phrase that it stands before."""
    for place, term in enumerate(told.terms):
        if term.sort is not Sort.NUMBER:
            continue
        for thing in told.terms[place + 1 :]:
            if not thing.joined or thing.sort is not Sort.WORD:
                break
            yield term.key, thing.key


def _other_tense(merged: Wording, told: Sequence[Wording], fresh: frozenset[str]) -> Iterator[str]:
    forms = frozenset().union(*(source.forms for source in told))
    keys = frozenset().union(*(source.keys for source in told))
    for term in merged.terms:
        told_of = term.sort is Sort.WORD and term.key in keys - fresh - _REPORTING
        if told_of and term.form not in forms:
            yield term.surface


_REPORTING = frozenset("say express share tell explain".split())


_FREE_ROLES = frozenset({"", "of", "to"})
_FREE_PARTICLES = frozenset({"", "や"})


def _other_role(merged: Wording, told: Sequence[Wording], fresh: frozenset[str]) -> Iterator[str]:
    """Words that something else governs: from Mia, to Mia."""
    roles = {
        (term.key, role)
        for source in told
        for term in source.terms
        for role in (term.role, term.phrase_role)
    }
    free = _FREE_PARTICLES if merged.language == "ja" else _FREE_ROLES
    for term in merged.terms:
        governed = term.key not in fresh and term.role not in free
        if governed and (term.key, term.role) not in roles:
            yield f"{term.role} {term.surface}"


def _other_doer(merged: Wording, told: Sequence[Wording], fresh: frozenset[str]) -> Iterator[str]:
    """Somebody, or a number, with another word behind: Mia saw, 3 cats."""
    pairs = {pair for source in told for pair in (*doings(source), *counts(source))}
    for who, what in (*doings(merged), *counts(merged)):
        if (who, what) not in pairs and what not in fresh and who not in fresh:
            yield f"{who} {what}"


def _other_order(merged: Wording, told: Sequence[Wording], fresh: frozenset[str]) -> Iterator[str]:
    """Neighbours that every source which has both tells in the other order."""
    terms = [term for term in merged.terms if term.key not in fresh]
    if merged.language == "ja":
        terms = [term for term in terms if _KATAKANA.match(term.key) or term.sort.is_hard]
    for first, second in pairwise(terms):
        if first.clause != second.clause and merged.language != "ja":
            continue
        both = [source for source in told if {first.key, second.key} <= source.keys]
        if _moves_freely(first) or _moves_freely(second):
            continue
        if both and not any(_follows(source, first, second) for source in both):
            yield f"{first.surface} {second.surface}"


_KATAKANA = re.compile("^[\u30a1-\u30fc]+$")


def _follows(told: Wording, first: Term, second: Term) -> bool:
    """Whether the second comes after the first, done by it or to it as it is there."""
    if (second.surface.casefold(), first.surface.casefold()) in told.predicates:
        return True
    keys = [term.key for term in told.terms]
    after = told.terms[keys.index(first.key) + 1 :]
    return any(
        term.key == second.key and (term.role == "by") == (second.role == "by") for term in after
    ) or _belongs(told, first, second)


def _moves_freely(term: Term) -> bool:
    """Whether it is an adverb that says how: personally thanked, thanked personally."""
    return term.sort is Sort.WORD and term.surface.endswith("ly") and len(term.surface) > 5


def _belongs(told: Wording, first: Term, second: Term) -> bool:
    """Whether they only changed places as "the park's patron" and "patron of the park" do."""
    for a, b in zip(told.terms, told.terms[1:], strict=False):
        if (a.key, b.key) == (second.key, first.key):
            return "of" in (second.role, b.role) or (
                b.key == "have" or a.surface.endswith(("'s", "’s"))
            )
    return False
