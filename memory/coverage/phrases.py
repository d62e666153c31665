"""One thing told in another order: what is somebody's, of something, for something."""

from __future__ import annotations

from collections.abc import Sequence

from memory.text import BE, RELATIONAL, SAME_AS, WHICH, Kind, Token, is_name


def had(found: list[Token]) -> list[Token]:
    """The mother of Mia is Mia's mother; the address of Mia's router is its address."""
    place = 1
    while place < len(found) - 1:
        if found[place].key == "of" and found[place - 1].key in _RELATIONAL:
            end = _end_of_owner(found, place + 1)
            start = place - 1
            while start and found[start - 1].kind is Kind.CONTENT:
                start -= 1
            if end > place + 1:
                owner = found[place + 1 : end]
                chain = any(token.key == "have" for token in owner)
                have = [] if chain else [Token("have", Kind.CONTENT, "of")]
                found[start:end] = [*owner, *have, *found[start:place]]
                place = end
        place += 1
    return found


_RELATIONAL = frozenset(SAME_AS.get(word, word) for word in RELATIONAL)


def _end_of_owner(found: Sequence[Token], start: int) -> int:
    """Where the owner that starts here ends: a name, or what somebody with a name has."""
    end = start
    while end < len(found) and is_name(found[end]):
        end += 1
    if start < end < len(found) and found[end].key == "have":
        end += 1
        while end < len(found) and found[end].kind is Kind.CONTENT:
            end += 1
    return end


def works_as(found: list[Token]) -> list[Token]:
    """Who works at a shop as a cook is a cook at the shop."""
    work = next((n for n, t in enumerate(found) if t.key == "work" and not t.past), None)
    role = next((n for n, t in enumerate(found) if t.key == "as"), None)
    if work is None or role is None or not work + 2 < role < len(found) - 1:
        return found
    place, job = found[work + 1 : role], found[role + 1 :]
    end = next((n for n, t in enumerate(job) if t.kind is Kind.STOP), len(job))
    plain = all(token.kind in (Kind.CONTENT, Kind.FILLER) for token in (*place[1:], *job[:end]))
    if place[0].key != "in" or not plain:
        return found
    return [*found[:work], *job[:end], *place, *job[end:]]


def made_of(found: list[Token]) -> list[Token]:
    """A wall made of stone is a stone wall; a raise of 5 % is a 5 % raise."""
    place = 1
    while place < len(found) - 1:
        made = found[place - 1].key == "make" and found[place - 1].past
        if found[place].key == "of" and made and place > 1:
            found[place - 2 : place + 2] = [found[place + 1], found[place - 2]]
        elif found[place].key == "of" and found[place + 1].kind is Kind.NUMBER:
            end = place + 2 + (found[place + 2].key == "percent" if place + 2 < len(found) else 0)
            if found[place - 1].kind is Kind.CONTENT:
                found[place - 1 : end] = [*found[place + 1 : end], found[place - 1]]
        place += 1
    return found


_MADE = frozenset({"make", "use", "design"})


def meant_for(found: list[Token]) -> list[Token]:
    """A rope for climbing, or used for it, is a climbing rope; a coat for Leo is no Leo coat."""
    for place in range(2, len(found) - 1):
        if found[place].key == "for":
            made = found[place - 1].key in _MADE and found[place - 1].past
            thing = place - 1 - made
            end = place + 1
            while end < len(found) and found[end].kind is Kind.CONTENT and not is_name(found[end]):
                end += 1
            if end > place + 1 and _is_thing(found, thing) and not _goes_on(found, end):
                start = _start_of_noun(found, thing)
                found[start:end] = [*found[place + 1 : end], *found[start : thing + 1]]
                return found
    return found


def _is_thing(found: Sequence[Token], place: int) -> bool:
    """Whether it is a noun by itself: a pen, but no pen that somebody bought."""
    token = found[place]
    article = place > 0 and found[_start_of_noun(found, place) - 1].key in ("a", "an")
    return token.kind is Kind.CONTENT and not is_name(token) and not token.past and article


def _goes_on(found: Sequence[Token], end: int) -> bool:
    """Whether a noun phrase that ends here has more of it behind: a name, a number, a person."""
    return end < len(found) and found[end].kind in (Kind.CONTENT, Kind.NUMBER, Kind.PERSON)


def qualities_first(found: list[Token]) -> list[Token]:
    """A dog which is black, or a dog, which is black, is a black dog."""
    place = 1
    while place < len(found) - 2:
        if found[place].key in WHICH and found[place + 1].key in BE:
            head = place - 1 - (found[place - 1].kind is Kind.STOP)
            end = _end_of_qualities(found, place + 2)
            if head >= 0 and found[head].kind is Kind.CONTENT and end > place + 2:
                qualities = [t for t in found[place + 2 : end] if t.kind is Kind.CONTENT]
                after = end + (end < len(found) and found[end].kind is Kind.STOP)
                start = _start_of_noun(found, head)
                found[start:after] = [*qualities, *found[start : head + 1]]
        place += 1
    return found


def _start_of_noun(found: Sequence[Token], head: int) -> int:
    """Where a noun of several words starts (a pork chop), as its article shows; else the head."""
    start = head
    while start and found[start - 1].kind is Kind.CONTENT:
        start -= 1
    return start if start and found[start - 1].key in _ARTICLES else head


_ARTICLES = frozenset({"a", "an", "the"})


def _end_of_qualities(found: Sequence[Token], start: int) -> int:
    """Where the qualities that start here end; `start` itself where they are none."""
    end = start
    while end < len(found) and (
        found[end].kind is Kind.CONTENT
        or (found[end].key in ("and", "very") and end + 1 < len(found))
    ):
        end += 1
    if end == len(found) or found[end].kind is Kind.STOP or found[end].key in BE:
        return end - (found[end - 1].key == "and")
    return start
