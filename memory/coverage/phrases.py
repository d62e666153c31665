"""Noun phrases in one order: the owner, the material, the purpose, the quality come first."""

from __future__ import annotations

from collections.abc import Sequence

from memory.text import BE, GIVING, RELATIONAL, SAME_AS, STATED, WHICH, Kind, Token, is_name


def owner_first(found: list[Token]) -> list[Token]:
    """Write "the mother of Mia" as "Mia's mother"."""
    position = 1
    while position < len(found) - 1:
        if found[position].key == "of" and found[position - 1].key in _RELATIONAL:
            end = _end_of_owner(found, position + 1)
            start = position - 1
            while start and found[start - 1].kind is Kind.CONTENT:
                start -= 1
            if end > position + 1:
                owner = found[position + 1 : end]
                chain = any(token.key == "have" for token in owner)
                have = [] if chain else [Token("have", Kind.CONTENT, "of")]
                found[start:end] = [*owner, *have, *found[start:position]]
                position = end
        position += 1
    return found


_RELATIONAL = frozenset(SAME_AS.get(word, word) for word in RELATIONAL)


def _end_of_owner(found: Sequence[Token], start: int) -> int:
    """Return where the owner that starts here ends: a name, or what somebody with a name has."""
    end = start
    while end < len(found) and is_name(found[end]):
        end += 1
    if start < end < len(found) and found[end].key == "have":
        end += 1
        while end < len(found) and found[end].kind is Kind.CONTENT:
            end += 1
    return end


GIVING_VERBS = frozenset(SAME_AS.get(word, word) for word in GIVING)


def receiver_last(found: list[Token]) -> list[Token]:
    """Write "gave Leo a book" as "gave a book to Leo"."""
    for position in range(len(found) - 3):
        start = position + 2
        if (
            found[position].key in GIVING_VERBS
            and is_name(found[position + 1])
            and found[start].kind in (Kind.FILLER, Kind.NUMBER)
        ):
            end = start + 1
            while end < len(found) and found[end].kind in STATED:
                end += 1
            to = Token("to", Kind.GOVERNING, "to")
            return [*found[: start - 1], *found[start:end], to, found[start - 1], *found[end:]]
    return found


def job_first(found: list[Token]) -> list[Token]:
    """Write "works at a shop as a cook" as "is a cook at a shop"."""
    work = next((n for n, t in enumerate(found) if t.key == "work" and not t.past), None)
    role = next((n for n, t in enumerate(found) if t.key == "as"), None)
    if work is None or role is None or not work + 2 < role < len(found) - 1:
        return found
    employer, job = found[work + 1 : role], found[role + 1 :]
    end = next((n for n, t in enumerate(job) if t.kind is Kind.STOP), len(job))
    plain = all(token.kind in (Kind.CONTENT, Kind.FILLER) for token in (*employer[1:], *job[:end]))
    if employer[0].key != "in" or not plain:
        return found
    return [*found[:work], *job[:end], *employer, *job[end:]]


def material_first(found: list[Token]) -> list[Token]:
    """Write "a wall made of stone" as "a stone wall", "a raise of 5 %" as "a 5 % raise"."""
    position = 1
    while position < len(found) - 1:
        made = found[position - 1].key == "make" and found[position - 1].past
        if found[position].key == "of" and made and position > 1:
            found[position - 2 : position + 2] = [found[position + 1], found[position - 2]]
        elif found[position].key == "of" and found[position + 1].kind is Kind.NUMBER:
            end = (
                position
                + 2
                + (found[position + 2].key == "percent" if position + 2 < len(found) else 0)
            )
            if found[position - 1].kind is Kind.CONTENT:
                found[position - 1 : end] = [*found[position + 1 : end], found[position - 1]]
        position += 1
    return found


_MADE = frozenset({"make", "use", "design"})


def purpose_first(found: list[Token]) -> list[Token]:
    """Write "a rope (used) for climbing" as "a climbing rope"; a coat for Leo is no Leo coat."""
    for position in range(2, len(found) - 1):
        if found[position].key == "for":
            made = found[position - 1].key in _MADE and found[position - 1].past
            thing = position - 1 - made
            end = position + 1
            while end < len(found) and found[end].kind is Kind.CONTENT and not is_name(found[end]):
                end += 1
            if end > position + 1 and _is_thing(found, thing) and not _goes_on(found, end):
                start = _start_of_noun(found, thing)
                found[start:end] = [*found[position + 1 : end], *found[start : thing + 1]]
                return found
    return found


def _is_thing(found: Sequence[Token], position: int) -> bool:
    """Whether a noun with "a" or "an" before it stands here: a pen, not the pen or bought pens."""
    token = found[position]
    article = position > 0 and found[_start_of_noun(found, position) - 1].key in ("a", "an")
    return token.kind is Kind.CONTENT and not is_name(token) and not token.past and article


def _goes_on(found: Sequence[Token], end: int) -> bool:
    """Whether a noun phrase goes on here: with a noun, a number or a person."""
    return end < len(found) and found[end].kind in (Kind.CONTENT, Kind.NUMBER, Kind.PERSON)


def qualities_first(found: list[Token]) -> list[Token]:
    """Write "a dog(,) which is black" as "a black dog"."""
    position = 1
    while position < len(found) - 2:
        if found[position].key in WHICH and found[position + 1].key in BE:
            head = position - 1 - (found[position - 1].kind is Kind.STOP)
            end = _end_of_qualities(found, position + 2)
            if head >= 0 and found[head].kind is Kind.CONTENT and end > position + 2:
                qualities = [t for t in found[position + 2 : end] if t.kind is Kind.CONTENT]
                after = end + (end < len(found) and found[end].kind is Kind.STOP)
                start = _start_of_noun(found, head)
                found[start:after] = [*qualities, *found[start : head + 1]]
        position += 1
    return found


def _start_of_noun(found: Sequence[Token], head: int) -> int:
    """Return where a noun of several words (a pork chop) starts, by its article; else the head."""
    start = head
    while start and found[start - 1].kind is Kind.CONTENT:
        start -= 1
    return start if start and found[start - 1].key in _ARTICLES else head


_ARTICLES = frozenset({"a", "an", "the"})


def _end_of_qualities(found: Sequence[Token], start: int) -> int:
    """Return where the qualities that start here end; `start` itself where there are none."""
    end = start
    while end < len(found) and (
        found[end].kind is Kind.CONTENT
        or (found[end].key in ("and", "very") and end + 1 < len(found))
    ):
        end += 1
    if end == len(found) or found[end].kind is Kind.STOP or found[end].key in BE:
        return end - (found[end - 1].key == "and")
    return start
