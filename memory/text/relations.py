"""What a merged text relates otherwise than its sources: who does it, to what, and when. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from memory.text.stating import REPORTING
from memory.text.vocabulary import IRREGULAR_PLURALS
from memory.text.wording import Sort, Term, Wording


def related_otherwise(
    merged: Wording, told: Sequence[Wording], fresh: frozenset[str]
) -> Iterator[str]:
    """Words and phrases that no source has so; `fresh`: the keys of those that none has at all."""
    terms = [term for term in merged.terms if term.key not in fresh]
    yield from _other_tense(terms, told, merged.language)
    yield from _other_number(merged, terms, told)
    yield from _other_role(terms, told, merged.language)
    yield from _other_doer(merged, told, fresh)
    yield from _other_company(terms, told)
    if merged.language == "ja":
        yield from _other_sequence(terms, told)
    for place, (first, second) in enumerate(pairwise(terms), start=1):
        if first.clause != second.clause or _stand_so(first, second, merged, told):
            continue
        without = [source for source in told if second.key not in source.keys]
        if not any(_stand_so(first, one, merged, without) for one in _phrase(terms, place)):
            yield f"{first.surface} {second.surface}"


def doings(told: Wording) -> Iterator[tuple[str, str]]:
    """Each name with the word after it, where it stands alone."""
    for before, name, after in zip((None, *told.terms), told.terms, told.terms[1:], strict=False):
        alone = before is None or before.sort is not Sort.NAME
        acts = name.sort is Sort.NAME and alone and not name.role
        if acts and after.sort is Sort.WORD and after.clause == name.clause and not after.role:
            yield name.key, after.key


def counts(told: Wording) -> Iterator[tuple[str, str]]:
    """Each number with every word of the phrase that it stands before; in Japanese, behind."""
    for place, term in enumerate(told.terms):
        if term.sort is not Sort.NUMBER:
            continue
        if told.language == "ja" and place and told.terms[place - 1].role:
            yield term.key, told.terms[place - 1].key
        for behind in range(place + 1, len(told.terms)):
            thing = told.terms[behind]
            if not thing.joined or thing.sort is not Sort.WORD:
                break
            yield term.key, thing.key


def _other_tense(terms: Sequence[Term], told: Sequence[Wording], language: str) -> Iterator[str]:
    """Words that every source which has them tells as past, or none does."""
    forms = frozenset[str]().union(*(source.forms for source in told))
    keys = frozenset[str]().union(*(source.keys for source in told)) - REPORTING
    for term in terms:
        told_of = term.sort is Sort.WORD and term.key in keys
        if told_of and not _told_so(term, forms, language):
            yield term.surface


def _told_so(term: Term, forms: frozenset[str], language: str) -> bool:
    """Whether a verb has this form; a Japanese one in mid-sentence leaves its tense to the last."""
    if language == "ja":
        return term.form == term.key or not forms.isdisjoint((term.form, term.key))
    return term.form in forms


def tense_lost(merged: Wording, newest: Wording) -> Iterator[str]:
    """Words of the newest source that the merged text tells in an older one's tense."""
    keys = merged.keys - REPORTING
    for term in newest.terms:
        told_of = term.sort is Sort.WORD and term.key in keys
        if told_of and not _told_so(term, merged.forms, newest.language):
            yield term.surface


def _other_number(merged: Wording, terms: Sequence[Term], told: Sequence[Wording]) -> Iterator[str]:
    """Cats where every source has a cat, or the reverse."""
    surfaces = {term.surface.casefold() for source in told for term in source.terms}
    single = frozenset[str]().union(*(source.single for source in told))
    for term in terms:
        surface = term.surface.casefold()
        several = surface == f"{term.plain}s" or surface in IRREGULAR_PLURALS
        other = (several and term.plain in single) or surface in merged.single
        if other and surface not in surfaces and term.sort is Sort.WORD:
            yield term.surface


def _other_role(terms: Sequence[Term], told: Sequence[Wording], language: str) -> Iterator[str]:
    """Words that something else governs, or nothing any more: from Mia, to Mia."""
    roles = {
        (term.key, _rule(term, role))
        for source in told
        for term in source.terms
        for role in (term.role, term.phrase_role)
    }
    marked = {key for key, rule in roles if rule}
    for term in terms:
        rule = _rule(term, term.role)
        if language == "ja":
            free = not rule or term.key not in marked
        else:
            free = not rule and term.sort is Sort.DATE
        if not free and (term.key, rule) not in roles:
            yield f"{term.role} {term.surface}".strip()


def _rule(term: Term, role: str) -> str:
    """A role as far as it tells who does what: "of" never does, "to" not before a verb."""
    if role in ("of", "や") or (role == "to" and term.sort is Sort.WORD):
        return ""
    return role


def _other_doer(merged: Wording, told: Sequence[Wording], fresh: frozenset[str]) -> Iterator[str]:
    """Somebody, or a number, with another word behind: Mia saw, 3 cats."""
    pairs = {pair for source in told for pair in (*doings(source), *counts(source))}
    for who, what in (*doings(merged), *counts(merged)):
        if (who, what) not in pairs and what not in fresh and who not in fresh:
            yield f"{who} {what}"


_OWN_FACTS = frozenset({Sort.NAME, Sort.NUMBER, Sort.DATE})


def _other_company(terms: Sequence[Term], told: Sequence[Wording]) -> Iterator[str]:
    """Names, numbers and dates two words after what no source tells them of: a cat called Rex."""
    for before, term in zip(terms, terms[2:], strict=False):
        if term.sort not in _OWN_FACTS or before.clause != term.clause:
            continue
        if not any({before.key, term.key} <= source.keys for source in told):
            yield f"{before.surface} {term.surface}"


# --- neighbours -----------------------------------------------------------------------------------


def _phrase(terms: Sequence[Term], start: int) -> Sequence[Term]:
    """The words that follow on this one: one of them is what it describes."""
    end = start + 1
    while end < len(terms) and terms[end].joined:
        end += 1
    return terms[start + 1 : end]


def _stand_so(first: Term, second: Term, merged: Wording, told: Sequence[Wording]) -> bool:
    """Whether a source has two neighbours of the merged text as neighbours too.

    What stands between them there may have gone, and not have moved elsewhere.
    """
    if _moves_freely(first) or _moves_freely(second):
        return True
    japanese = merged.language == "ja"
    if japanese and first.role not in ("", "の") and not _has_rival(first, merged):
        return True
    both = [source for source in told if {first.key, second.key} <= source.keys]
    if not both and _one_date(first, second):
        return True
    if not both and (_both_told_of_one(first, second, told) or _in_one_place(first, second, told)):
        return True
    if not both:
        return japanese and not _qualifies(first, second, merged)
    return any(
        (second.surface.casefold(), first.surface.casefold()) in source.predicates
        or _neighbours(first, second, source, merged)
        or _changed_places(first, second, source)
        for source in both
    )


def _has_rival(term: Term, merged: Wording) -> bool:
    """Whether something else stands in the same part of a Japanese sentence."""
    there = merged.roles[term.role]
    return len(there) > 1 or term.key not in there


def _moves_freely(term: Term) -> bool:
    """Whether it is an adverb that says how or when: personally thanked, thanked personally."""
    manner = term.surface.endswith("ly") and len(term.surface) > 5
    return term.sort is Sort.WORD and (manner or term.key in _DAYS)


_DAYS = frozenset("yesterday today tonight tomorrow now gestern heute morgen".split())


def _one_date(first: Term, second: Term) -> bool:
    """May and 2021, told apart, are May 2021."""
    return first.sort is second.sort is Sort.DATE


def _both_told_of_one(first: Term, second: Term, told: Sequence[Wording]) -> bool:
    """What is a cat, and a tabby, is a tabby cat."""
    said = frozenset[tuple[str, str]]().union(*(source.predicates for source in told))
    subjects = [
        {subject for subject, what in said if what == term.surface.casefold()}
        for term in (first, second)
    ]
    return not subjects[0].isdisjoint(subjects[1])


def _in_one_place(first: Term, second: Term, told: Sequence[Wording]) -> bool:
    """Who has a cat, and has a tabby, has a tabby cat; the first is a phrase of its own."""
    before = [
        {
            source.terms[place - 1].key
            for source in told
            for place in source.places_of(term)
            if place and (term is second or _ends_a_phrase(source, place))
        }
        for term in (first, second)
    ]
    return not before[0].isdisjoint(before[1])


def _ends_a_phrase(source: Wording, place: int) -> bool:
    after = source.terms[place + 1 : place + 2]
    return not any(term.joined for term in after)


def _qualifies(first: Term, second: Term, merged: Wording) -> bool:
    """Whether one Japanese word says which the other is: 赤い車, 静かな部屋, ミアの猫."""
    joints = (first.surface + joint + second.surface for joint in ("い", "な", "の"))
    return any(joint.casefold() in merged.squeezed for joint in joints)


def _changed_places(first: Term, second: Term, source: Wording) -> bool:
    """Whether they are "patron of the city park" here and "the city park's patron" there."""
    for end in source.places_of(first):
        between = source.terms[max(0, end - _LONGEST_PHRASE) : end]
        start = next((n for n, term in enumerate(between) if term.key == second.key), None)
        if start is not None:
            phrase = (*between[start + 1 :], source.terms[end])
            owned = second.role == "of" and all(term.joined for term in phrase)
            return owned or (len(phrase) == 1 and phrase[0].role == "of")
    return False


_LONGEST_PHRASE = 5


def _neighbours(first: Term, second: Term, source: Wording, merged: Wording) -> bool:
    words = (first.surface.casefold(), second.surface.casefold())
    moved = frozenset() if words in merged.stood_in else merged.keys
    own = (first.key, second.key)
    for start in source.places_of(first):
        end = _next_place(second, source, start)
        if end is None:
            return False
        gap = (source.terms[place].key for place in range(start + 1, end))
        if not any(key in moved and key not in own for key in gap):
            return True
    return False


def _next_place(term: Term, source: Wording, start: int) -> int | None:
    """Where it stands next behind a place, by somebody or not as here."""
    places = source.places_of(term)
    for n in range(bisect_right(places, start), len(places)):
        if (source.terms[places[n]].role == "by") == (term.role == "by"):
            return places[n]
    return None


_KATAKANA = re.compile("^[\u30a1-\u30fc]+$")


def _other_sequence(terms: Sequence[Term], told: Sequence[Wording]) -> Iterator[str]:
    """Names and numbers of a Japanese text that every source which has both turns around."""
    marked = [term for term in terms if term.sort in _OWN_FACTS or _KATAKANA.match(term.key)]
    for first, second in pairwise(marked):
        both = [source.places for source in told if {first.key, second.key} <= source.keys]
        if both and not any(of[second.key][-1] > of[first.key][0] for of in both):
            yield f"{first.surface} {second.surface}"
