"""Rewrite different wordings of one meaning to a standard form.

After that, two texts can be compared word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from memory.text import (
    AUXILIARIES,
    BE,
    GIVING,
    NO_IDIOMS,
    NOT,
    RELATIONAL,
    SAME_AS,
    STATED,
    WAS,
    WHICH,
    Kind,
    Token,
    is_name,
)


def reworded(found: list[Token], keys: set[str], *, owns: bool) -> list[Token]:
    """Return the tokens of an English text with every known wording rewritten to its standard form.

    `keys`: the set of all keys of `found`; this function may add keys to it. `owns`: whether the
    text has an apostrophe, as in "Mia's office".
    """
    if owns:
        found = [each for token in found for each in _with_have(token)]
        keys.add("have")
    triggers = keys & _TRIGGERS
    for needed, undo in _REWORDINGS:
        if not triggers.isdisjoint(needed):
            found = undo(found)
    return found


def _with_have(token: Token) -> list[Token]:
    """Rewrite "Mia's office" as "Mia has office"."""
    if token.kind is not Kind.CONTENT or token.surface[-2:] not in ("'s", "’s", "s'", "s’"):
        return [token]
    return [token, Token("have", Kind.CONTENT, token.surface[-2:])]


def _end(found: Sequence[Token], start: int, fits: Callable[[Token], bool]) -> int:
    """Return the position after a run of tokens for all of which `fits` is true.

    The run begins at `start`. If it is empty, `start` is returned.
    """
    return next((n for n in range(start, len(found)) if not fits(found[n])), len(found))


def _is_content(token: Token) -> bool:
    return token.kind is Kind.CONTENT


_ALL = [*"all every everything everyone everybody anything anyone anybody".split(), NOT]
_KIN = frozenset("mother father parent brother sister son daughter".split())
_GREAT_KIN = (
    "grandmother grandfather grandparent grandson granddaughter grandchild aunt uncle nephew "
    "niece".split()
)
_NEAR = (SAME_AS["near"], Kind.CONTENT), ("", Kind.FILLER)
_USED_TO = ("used to", Kind.TURNING), ("", Kind.FILLER)
_PAIRS: Mapping[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {
    ("a", "few"): (("", ""), ("several", "")),  # few friends are not several
    ("lot", "of"): ((SAME_AS["many"], ""), ("", Kind.FILLER)),
    ("next", "to"): _NEAR,
    ("close", "to"): _NEAR,
    ("used", "to"): _USED_TO,
    ("use", "to"): _USED_TO,
    ("been", "to"): (("", Kind.CONTENT), ("", "")),  # who has been to Peru is back
    ("in", "law"): (("in law", Kind.TURNING), ("", Kind.FILLER)),  # no mother: a mother-in-law
    **{(word, "but"): (("", ""), ("except", Kind.TURNING)) for word in _ALL},
    **{("great", kin): (("", ""), (f"great {kin}", "")) for kin in _GREAT_KIN},
}
"""For the keys of two neighbouring tokens, the new key and the new kind of each token.

A new key of "" leaves the token unchanged.
"""


def _pairs_read_as_one(found: list[Token]) -> list[Token]:
    """Rewrite each pair of tokens with one meaning, such as "next to", as `_PAIRS` says."""
    for n in range(len(found) - 1):
        changes = _PAIRS.get((found[n].key, found[n + 1].key), ())
        for position, (key, kind) in enumerate(changes, start=n):
            token = found[position]
            found[position] = token._replace(key=key or token.key, kind=kind or token.kind)
    return found


_DETERMINERS = frozenset("a an the this that these those its such own".split())


def _without_auxiliaries(found: list[Token]) -> list[Token]:
    """Mark auxiliary verbs as fillers, so that they are not compared.

    Examples: "has" in "has adopted" and "does" in "does not", but not "has" in "has a doctor".
    """
    for position, token in enumerate(found):
        if token.key in AUXILIARIES:
            after = _end(found, position + 1, _may_stand_between)
            if token.key == "have":
                helps = after < len(found) and (
                    found[after].participle or found[after].key == "been"
                )
            else:
                helps = any(between.kind is Kind.NOT for between in found[position + 1 : after])
            if helps:
                found[position] = token._replace(kind=Kind.FILLER)
    return found


def _may_stand_between(token: Token) -> bool:
    if token.kind is Kind.FILLER:
        return token.key not in _DETERMINERS and token.key != "been"
    return token.kind is Kind.NOT or token.surface.endswith("ly")


def _no_idioms(found: list[Token]) -> list[Token]:
    """Rewrite idioms with "no": "by no means" becomes a negation, and "in no time" a plain time."""
    for position in range(len(found) - 3, -1, -1):
        before, no, noun = found[position : position + 3]
        if no.kind is not Kind.NOT or no.surface.lower() != "no":
            continue
        denies = NO_IDIOMS.get((before.surface.lower(), noun.key))
        if denies is not None:
            idiom = f"{before.surface} no {noun.surface}"
            key, kind = (NOT, Kind.NOT) if denies else (idiom.lower(), Kind.CONTENT)
            found[position : position + 3] = [Token(key, kind, idiom)]
    return found


def _no_before_verb(found: list[Token]) -> list[Token]:
    """Mark "is" as a content word in sentences such as "With no job is she happy".

    In this word order, the negation applies to the whole sentence.
    """
    begins = [token.kind for token in found[:2]] == [Kind.GOVERNING, Kind.NOT]
    if begins and len(found) > 3 and found[3].key in _FORMS_OF_BE:
        found[3] = found[3]._replace(kind=Kind.CONTENT)
    return found


_FORMS_OF_BE = BE | WAS


def _little(found: list[Token]) -> list[Token]:
    """Replace "little" by "small" in "a little garden".

    In "a little brother", the word means "younger" and stays.
    """
    for position, (token, behind) in enumerate(pairwise(found)):
        if token.key == "little" and _is_content(behind) and behind.key not in _KIN:
            found[position] = token._replace(key="small")
    return found


# --- the passive ----------------------------------------------------------------------------------


def _in_active_voice(found: list[Token]) -> list[Token]:
    """Rewrite "The ball is thrown by Mia" as "Mia throws the ball", in the tense of "be"."""
    for be in (n for n, token in enumerate(found) if token.key in _FORMS_OF_BE):
        verb = _end(found, be + 1, lambda after: after.kind is Kind.FILLER)
        if verb < len(found) and found[verb].participle:
            break
    else:
        return found
    by = _end(found, verb + 1, lambda token: token.key != "by")
    if by == len(found):  # was engaged is not is engaged; was hired is not hired
        return found
    passed = found[be].key in WAS
    progressive = any(token.key == "being" for token in found[be:verb])
    doing = [Token(found[verb].key, Kind.CONTENT, found[verb].surface, passed and not progressive)]
    start = max((n + 1 for n in range(be) if found[n].kind is Kind.STOP), default=0)
    end = _end(found, by, lambda token: token.kind is not Kind.STOP)
    done, middle = found[start : be + (passed and progressive)], found[verb + 1 : by]
    if [token.kind for token in middle] == [Kind.GOVERNING]:  # the hat was put on by Mia
        doing, middle = doing + middle, []
    return [PASSIVE, *found[:start], *found[by + 1 : end], *doing, *done, *middle, *found[end:]]


PASSIVE = Token("", Kind.FILLER, "")
"""A token that is put before the first token of a text in which a passive was rewritten."""


# --- noun phrases in one order: the owner, the material, the purpose, the quality first ----------


def _owner_first(found: list[Token]) -> list[Token]:
    """Rewrite "the mother of Mia" as "Mia's mother"."""
    position = 1
    while position < len(found) - 1:
        if found[position].key == "of" and found[position - 1].key in _RELATIONAL:
            end = _end_of_owner(found, position + 1)
            start = next(
                (n for n in range(position - 1, 0, -1) if not _is_content(found[n - 1])), 0
            )
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
    """Return the position after the owner (a name, or "Mia's sister") that begins at `start`."""
    end = _end(found, start, is_name)
    if start < end < len(found) and found[end].key == "have":
        return _end(found, end + 1, _is_content)
    return end


_GIVING_VERBS = frozenset(SAME_AS.get(word, word) for word in GIVING)


def _receiver_last(found: list[Token]) -> list[Token]:
    """Rewrite "gave Leo a book" as "gave a book to Leo"."""
    for position in range(len(found) - 3):
        start = position + 2
        if (
            found[position].key in _GIVING_VERBS
            and is_name(found[position + 1])
            and found[start].kind in (Kind.FILLER, Kind.NUMBER)
        ):
            end = _end(found, start + 1, lambda token: token.kind in STATED)
            to = Token("to", Kind.GOVERNING, "to")
            return [*found[: start - 1], *found[start:end], to, found[start - 1], *found[end:]]
    return found


def _job_first(found: list[Token]) -> list[Token]:
    """Rewrite "works at a shop as a cook" as "is a cook at a shop"."""
    work = next((n for n, t in enumerate(found) if t.key == "work" and not t.past), None)
    role = next((n for n, t in enumerate(found) if t.key == "as"), None)
    if work is None or role is None or not work + 2 < role < len(found) - 1:
        return found
    employer, job = found[work + 1 : role], found[role + 1 :]
    end = _end(job, 0, lambda token: token.kind is not Kind.STOP)
    plain = all(token.kind in (Kind.CONTENT, Kind.FILLER) for token in (*employer[1:], *job[:end]))
    if employer[0].key != "in" or not plain:
        return found
    return [*found[:work], *job[:end], *employer, *job[end:]]


def _material_first(found: list[Token]) -> list[Token]:
    """Put the material or the amount before its noun.

    "A wall made of stone" becomes "a stone wall", and "a raise of 5 %" becomes "a 5 % raise".
    """
    position = 1
    while position < len(found) - 1:
        made = found[position - 1].key == "make" and found[position - 1].past
        if found[position].key == "of" and made and position > 1:
            found[position - 2 : position + 2] = [found[position + 1], found[position - 2]]
        elif found[position].key == "of" and found[position + 1].kind is Kind.NUMBER:
            end = _end(found, position + 2, lambda token: token.key == "percent")
            if found[position - 1].kind is Kind.CONTENT:
                found[position - 1 : end] = [*found[position + 1 : end], found[position - 1]]
        position += 1
    return found


def _purpose_first(found: list[Token]) -> list[Token]:
    """Rewrite "a rope (used) for climbing" as "a climbing rope".

    "A coat for Leo" stays unchanged.
    """
    nouns = (Kind.CONTENT, Kind.NUMBER, Kind.PERSON)
    for position in range(2, len(found) - 1):
        if found[position].key == "for":
            made = found[position - 1].key in ("make", "use", "design") and found[position - 1].past
            thing = position - 1 - made
            end = _end(found, position + 1, lambda word: _is_content(word) and not is_name(word))
            goes_on = end < len(found) and found[end].kind in nouns
            if end > position + 1 and _is_thing(found, thing) and not goes_on:
                start = _start_of_noun(found, thing)
                found[start:end] = [*found[position + 1 : end], *found[start : thing + 1]]
                return found
    return found


def _is_thing(found: Sequence[Token], position: int) -> bool:
    """Return whether the token at `position` is a noun after "a" or "an", as in "a pen"."""
    token = found[position]
    article = position > 0 and found[_start_of_noun(found, position) - 1].key in ("a", "an")
    return token.kind is Kind.CONTENT and not is_name(token) and not token.past and article


def _qualities_first(found: list[Token]) -> list[Token]:
    """Rewrite "a dog(,) which is black" as "a black dog"."""
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
    """Return the position at which the noun that ends at `head` starts.

    A noun may have several words, as in "a pork chop"; its article shows the start. Without an
    article, returns `head`.
    """
    start = next((n for n in range(head, 0, -1) if not _is_content(found[n - 1])), 0)
    return start if start and found[start - 1].key in ("a", "an", "the") else head


def _end_of_qualities(found: Sequence[Token], start: int) -> int:
    """Return the position after the adjectives that begin at `start`.

    Returns `start` if there are no adjectives.
    """
    end = start
    while end < len(found) and (
        found[end].kind is Kind.CONTENT
        or (found[end].key in ("and", "very") and end + 1 < len(found))
    ):
        end += 1
    if end == len(found) or found[end].kind is Kind.STOP or found[end].key in BE:
        return end - (found[end - 1].key == "and")
    return start


# --- all of them ----------------------------------------------------------------------------------

_REWORDINGS: tuple[tuple[frozenset[str], Callable[[list[Token]], list[Token]]], ...] = (
    (frozenset(second for _, second in _PAIRS), _pairs_read_as_one),
    (AUXILIARIES, _without_auxiliaries),
    (frozenset({NOT}), _no_before_verb),
    (frozenset(noun for _, noun in NO_IDIOMS), _no_idioms),
    (frozenset({"little"}), _little),
    (WHICH, _qualities_first),
    (frozenset({"of"}), _material_first),
    (frozenset({"for"}), _purpose_first),
    (frozenset({"of"}), _owner_first),
    (_GIVING_VERBS, _receiver_last),
    (frozenset({"work"}), _job_first),
    (BE | WAS, _in_active_voice),
)
"""Pairs of trigger words and a rewriting function, in the order in which the functions run.

A function is only called if the text has at least one of its trigger words. It takes the tokens of
the text and returns the rewritten tokens.
"""
_TRIGGERS = frozenset[str]().union(*(triggers for triggers, _ in _REWORDINGS))
