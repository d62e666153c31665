"""Rewordings that change nothing, undone, so that two texts can be laid beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.coverage.phrases import (
    had,
    made_of,
    meant_for,
    qualities_first,
    works_as,
)
from memory.text import (
    AUXILIARIES,
    BE,
    NO_IDIOMS,
    NOT,
    SAME_AS,
    WAS,
    Kind,
    Token,
)


def reworded(found: list[Token], keys: set[str], *, owns: bool) -> list[Token]:
    """With all of them undone; `keys`: those of `found`, `owns`: whether an apostrophe is there."""
    if owns and any(token[2][-2:] in _GENITIVE for token in found):
        found = _owners(found)
        keys.add("have")
    there = keys & _TRIGGERS
    if there:
        for triggers, undo in _REWORDINGS:
            if not there.isdisjoint(triggers):
                found = undo(found)
    return found


_GENITIVE = frozenset({"'s", "’s", "s'", "s’"})


def _owners(found: Sequence[Token]) -> list[Token]:
    """Mia's office is one that Mia has."""
    told: list[Token] = []
    for token in found:
        told.append(token)
        if token.kind is Kind.CONTENT and token.surface[-2:] in _GENITIVE:
            told.append(Token("have", Kind.CONTENT, token.surface[-2:]))
    return told


_DETERMINERS = frozenset("a an the this that these those its such own".split())


def _without_auxiliaries(found: list[Token]) -> list[Token]:
    """Has adopted is adopted, does not is not; but to have a doctor is not to be one."""
    for place, token in enumerate(found):
        if token.key in AUXILIARIES and _helps(found, place):
            found[place] = token._replace(kind=Kind.FILLER)
    return found


def _helps(found: Sequence[Token], place: int) -> bool:
    """Whether a participle follows "have", or a negation "do"."""
    after = place + 1
    while after < len(found) and _may_stand_between(found[after]):
        after += 1
    if found[place].key != "have":
        return after > place + 1 and any(t.kind is Kind.NOT for t in found[place + 1 : after])
    return after < len(found) and (found[after].participle or found[after].key == "been")


def _may_stand_between(token: Token) -> bool:
    if token.kind is Kind.FILLER:
        return token.key not in _DETERMINERS and token.key != "been"
    return token.kind is Kind.NOT or token.surface.endswith("ly")


def _several(found: list[Token]) -> list[Token]:
    """A few friends are several; few friends are not."""
    for place in range(1, len(found)):
        if found[place].key == "few" and found[place - 1].key == "a":
            found[place] = found[place]._replace(key="several")
    return found


_ALL = frozenset("all every everything everyone everybody anything anyone anybody".split()) | {NOT}


def _except(found: list[Token]) -> list[Token]:
    """Everything but fish is not everything, but fish."""
    for place in range(1, len(found)):
        before = found[place - 1]
        if found[place].key == "but" and (before.key in _ALL or before.surface.lower() in _ALL):
            found[place] = found[place]._replace(key="except", kind=Kind.TURNING)
    return found


def _many(found: list[Token]) -> list[Token]:
    """A lot of friends, and lots of them, are many."""
    for place in range(len(found) - 1):
        if found[place].key == "lot" and found[place + 1].key == "of":
            found[place] = found[place]._replace(key=SAME_AS["many"])
            found[place + 1] = found[place + 1]._replace(kind=Kind.FILLER)
    return found


def _no_idioms(found: list[Token]) -> list[Token]:
    """By no means is "not"; in no time denies nothing."""
    for place in range(len(found) - 3, -1, -1):
        before, no, noun = found[place : place + 3]
        if no.kind is not Kind.NOT or no.surface.lower() != "no":
            continue
        denies = NO_IDIOMS.get((before.surface.lower(), noun.key))
        if denies is not None:
            told = f"{before.surface} no {noun.surface}"
            key, kind = (NOT, Kind.NOT) if denies else (told.lower(), Kind.CONTENT)
            found[place : place + 3] = [Token(key, kind, told)]
    return found


def _no_before_verb(found: list[Token]) -> list[Token]:
    """With no job is she happy: the verb before the subject tells that all of it is denied."""
    if len(found) > _BE_BEHIND and found[0].kind is Kind.GOVERNING and found[1].kind is Kind.NOT:
        verb = found[_BE_BEHIND]
        if verb.key in BE or verb.key in WAS:
            found[_BE_BEHIND] = verb._replace(kind=Kind.CONTENT)
    return found


_BE_BEHIND = 3
"""Where the verb stands behind a preposition, "no" and a noun."""


_BESIDE = frozenset({"next", "close"})


def _beside(found: list[Token]) -> list[Token]:
    """Next to and close to are near."""
    for place in range(len(found) - 2, -1, -1):
        if found[place].key in _BESIDE and found[place + 1].key == "to":
            surface = f"{found[place].surface} to"
            found[place : place + 2] = [Token(SAME_AS["near"], Kind.CONTENT, surface)]
    return found


def _used_to(found: list[Token]) -> list[Token]:
    """What somebody used to do is over; what is used for something is not."""
    for place in range(len(found) - 1):
        if _is_used(found[place]) and found[place + 1].key == "to":
            found[place] = found[place]._replace(key="used to", kind=Kind.TURNING)
    return found


def _is_used(token: Token) -> bool:
    return token.key == "used" or (token.key == "use" and token.past)


_KIN = frozenset("mother father parent brother sister son daughter".split())
_GREAT_KIN = frozenset(
    "grandmother grandfather grandparent grandson granddaughter grandchild aunt uncle nephew "
    "niece".split()
)


def _in_law(found: list[Token]) -> list[Token]:
    """A mother-in-law is no mother."""
    place = 1
    while place < len(found) - 1:
        kin = found[place - 1]
        if kin.key in _KIN and found[place].key == "in" and found[place + 1].key == "law":
            told = f"{kin.surface}-in-law"
            found[place - 1 : place + 2] = [Token(f"{kin.key} in law", Kind.CONTENT, told)]
        place += 1
    return found


def _little(found: list[Token]) -> list[Token]:
    """A little garden is a small one; a little brother is a younger one."""
    for place in range(len(found) - 1):
        behind = found[place + 1]
        if found[place].key == "little" and behind.kind is Kind.CONTENT and behind.key not in _KIN:
            found[place] = found[place]._replace(key="small")
    return found


def _great_kin(found: list[Token]) -> list[Token]:
    """A great-grandmother is no grandmother."""
    for place in range(len(found) - 1):
        kin = found[place + 1]
        if found[place].key == "great" and kin.key in _GREAT_KIN:
            found[place + 1] = kin._replace(key=f"great {kin.key}")
    return found


def _been_to(found: list[Token]) -> list[Token]:
    """Who has been to Peru is back."""
    for place in range(len(found) - 1):
        if found[place].key == "been" and found[place + 1].key == "to":
            found[place] = found[place]._replace(kind=Kind.CONTENT)
    return found


# --- the passive and the cleft sentence -----------------------------------------------------------


def active(found: list[Token]) -> list[Token]:
    """The ball is thrown by Mia: Mia throws the ball, in the tense that "be" tells."""
    if not any(token.participle for token in found):
        return found
    for place in range(len(found) - 1):
        be = found[place]
        if be.key not in BE and be.key not in WAS:
            continue
        verb = place + 1
        while verb < len(found) and found[verb].kind is Kind.FILLER:
            verb += 1
        if verb < len(found) and found[verb].participle:
            return _in_active_voice(found, place, verb)
    return found


def _in_active_voice(found: list[Token], be: int, verb: int) -> list[Token]:
    passed = found[be].key in WAS
    progressive = any(token.key == "being" for token in found[be:verb])
    by = next((n for n in range(verb + 1, len(found)) if found[n].key == "by"), None)
    if by is None:  # was engaged is not is engaged; was hired is not hired
        return found
    past = passed and not progressive
    doing = Token(found[verb].key, Kind.CONTENT, found[verb].surface, past)
    dropped = found[:be] if not (passed and progressive) else found[: be + 1]
    start = max((n + 1 for n in range(be) if found[n].kind is Kind.STOP), default=0)
    end = next((n for n in range(by, len(found)) if found[n].kind is Kind.STOP), len(found))
    head, done, middle = found[:start], dropped[start:], found[verb + 1 : by]
    if [token.kind for token in middle] == [Kind.GOVERNING]:  # the hat was put on by Mia
        doing_so, middle = [doing, *middle], []
    else:
        doing_so = [doing]
    return [PASSIVE, *head, *found[by + 1 : end], *doing_so, *done, *middle, *found[end:]]


PASSIVE = Token("", Kind.FILLER, "")
"""Stands first where a passive was undone."""


# --- all of them ----------------------------------------------------------------------------------

_REWORDINGS: tuple[tuple[frozenset[str], Callable[[list[Token]], list[Token]]], ...] = (
    (AUXILIARIES, _without_auxiliaries),
    (frozenset({"been"}), _been_to),
    (frozenset({NOT}), _no_before_verb),
    (frozenset(noun for _, noun in NO_IDIOMS), _no_idioms),
    (frozenset({"law"}), _in_law),
    (frozenset({"little"}), _little),
    (frozenset({"great"}), _great_kin),
    (frozenset({"which", "that", "who"}), qualities_first),
    (frozenset({"of"}), made_of),
    (frozenset({"for"}), meant_for),
    (frozenset({"of"}), had),
    (frozenset({"work"}), works_as),
    (BE | WAS, active),
    (frozenset({"few"}), _several),
    (frozenset({"but"}), _except),
    (frozenset({"lot"}), _many),
    (_BESIDE, _beside),
    (frozenset({"use", "used"}), _used_to),
)
"""What undoes each rewording, and the words without which there is nothing to undo."""
_TRIGGERS = frozenset[str]().union(*(triggers for triggers, _ in _REWORDINGS))
