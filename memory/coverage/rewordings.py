"""Rewrite different wordings of one meaning to a standard form, for comparison word by word."""

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


def reworded(tokens: list[Token], keys: set[str], *, owns: bool) -> list[Token]:
    """Rewrite every known wording of an English text to its standard form.

    `keys` must hold the keys of all `tokens`; both may be changed in place. `owns`: whether the
    text contains any apostrophe. If it does, "have" is added after each word that ends in "'s" or
    "s'", such as "Mia's".
    """
    if owns:
        tokens = [part for token in tokens for part in _with_have(token)]
        keys.add("have")
    triggers = keys & _TRIGGERS
    for needed, undo in _REWORDINGS:
        if not triggers.isdisjoint(needed):
            tokens = undo(tokens)
    return tokens


def _with_have(token: Token) -> list[Token]:
    if token.kind is not Kind.CONTENT or token.surface[-2:] not in ("'s", "’s", "s'", "s’"):
        return [token]
    return [token, Token("have", Kind.CONTENT, token.surface[-2:])]


def _end(tokens: Sequence[Token], start: int, fits: Callable[[Token], bool]) -> int:
    return next((n for n in range(start, len(tokens)) if not fits(tokens[n])), len(tokens))


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
"""Pairs of adjacent words that mean something else together, such as "a few".

The keys of the two words are mapped to a new (key, kind) for the first word, and a new (key, kind)
for the second. An empty key or kind means that the old one stays.
"""


def _pairs_read_as_one(tokens: list[Token]) -> list[Token]:
    for n in range(len(tokens) - 1):
        changes = _PAIRS.get((tokens[n].key, tokens[n + 1].key), ())
        for position, (key, kind) in enumerate(changes, start=n):
            token = tokens[position]
            tokens[position] = token._replace(key=key or token.key, kind=kind or token.kind)
    return tokens


_DETERMINERS = frozenset("a an the this that these those its such own".split())


def _without_auxiliaries(tokens: list[Token]) -> list[Token]:
    """Mark auxiliary verbs as fillers: "has" in "has adopted", not in "has a doctor"."""
    for position, token in enumerate(tokens):
        if token.key in AUXILIARIES:
            after = _end(tokens, position + 1, _may_stand_between)
            helps = (
                after < len(tokens) and (tokens[after].participle or tokens[after].key == "been")
                if token.key == "have"
                else any(between.kind is Kind.NOT for between in tokens[position + 1 : after])
            )
            if helps:
                tokens[position] = token._replace(kind=Kind.FILLER)
    return tokens


def _may_stand_between(token: Token) -> bool:
    if token.kind is Kind.FILLER:
        return token.key not in _DETERMINERS and token.key != "been"
    return token.kind is Kind.NOT or token.surface.endswith("ly")


def _idioms_with_no(tokens: list[Token]) -> list[Token]:
    """Replace each idiom that contains "no" by one token.

    "By no means" becomes a negation. "In no time" becomes an ordinary word: it negates nothing.
    """
    for position in range(len(tokens) - 3, -1, -1):
        if position + 3 > len(tokens):
            continue  # an idiom at the end of the list has just become one token
        before, no, noun = tokens[position : position + 3]
        denies = NO_IDIOMS.get((before.surface.lower(), noun.key))
        if denies is not None and no.kind is Kind.NOT and no.surface.lower() == "no":
            idiom = f"{before.surface} no {noun.surface}"
            key, kind = (NOT, Kind.NOT) if denies else (idiom.lower(), Kind.CONTENT)
            tokens[position : position + 3] = [Token(key, kind, idiom)]
    return tokens


def _inversion_after_no(tokens: list[Token]) -> list[Token]:
    begins = [token.kind for token in tokens[:2]] == [Kind.GOVERNING, Kind.NOT]
    if begins and len(tokens) > 3 and tokens[3].key in _FORMS_OF_BE:
        tokens[3] = tokens[3]._replace(kind=Kind.CONTENT)
    return tokens


_FORMS_OF_BE = BE | WAS


def _little(tokens: list[Token]) -> list[Token]:
    for position, (token, behind) in enumerate(pairwise(tokens)):
        if token.key == "little" and _is_content(behind) and behind.key not in _KIN:
            tokens[position] = token._replace(key="small")
    return tokens


# --- the passive ----------------------------------------------------------------------------------


def _in_active_voice(tokens: list[Token]) -> list[Token]:
    """Rewrite "The ball was thrown by Mia" as "Mia threw the ball".

    The rewritten list begins with the token `PASSIVE`. If no passive with "by" is found, `tokens`
    is returned unchanged.
    """
    for be in (n for n, token in enumerate(tokens) if token.key in _FORMS_OF_BE):
        verb = _end(tokens, be + 1, lambda after: after.kind is Kind.FILLER)
        if verb < len(tokens) and tokens[verb].participle:
            break
    else:
        return tokens
    by = _end(tokens, verb + 1, lambda token: token.key != "by")
    if by == len(tokens):  # was engaged is not is engaged; was hired is not hired
        return tokens
    passed = tokens[be].key in WAS
    progressive = any(token.key == "being" for token in tokens[be:verb])
    doing = [
        Token(tokens[verb].key, Kind.CONTENT, tokens[verb].surface, passed and not progressive)
    ]
    start = max((n + 1 for n in range(be) if tokens[n].kind is Kind.STOP), default=0)
    end = _end(tokens, by, lambda token: token.kind is not Kind.STOP)
    done, middle = tokens[start : be + (passed and progressive)], tokens[verb + 1 : by]
    if [token.kind for token in middle] == [Kind.GOVERNING]:  # the hat was put on by Mia
        doing, middle = doing + middle, []
    return [PASSIVE, *tokens[:start], *tokens[by + 1 : end], *doing, *done, *middle, *tokens[end:]]


PASSIVE = Token("", Kind.FILLER, "")


# --- noun phrases in one order: the owner, the material, the purpose, the quality first ----------


def _owner_first(tokens: list[Token]) -> list[Token]:
    """Rewrite "the mother of Mia" as "Mia's mother"."""
    position = 1
    while position < len(tokens) - 1:
        if tokens[position].key == "of" and tokens[position - 1].key in _RELATIONAL:
            end = _end_of_owner(tokens, position + 1)
            start = next(
                (n for n in range(position - 1, 0, -1) if not _is_content(tokens[n - 1])), 0
            )
            if end > position + 1:
                owner = tokens[position + 1 : end]
                chain = any(token.key == "have" for token in owner)
                have = [] if chain else [Token("have", Kind.CONTENT, "of")]
                tokens[start:end] = [*owner, *have, *tokens[start:position]]
                position = end
        position += 1
    return tokens


_RELATIONAL = frozenset(SAME_AS.get(word, word) for word in RELATIONAL)


def _end_of_owner(tokens: Sequence[Token], start: int) -> int:
    end = _end(tokens, start, is_name)
    if start < end < len(tokens) and tokens[end].key == "have":
        return _end(tokens, end + 1, _is_content)
    return end


def _receiver_last(tokens: list[Token]) -> list[Token]:
    """Rewrite "gave Leo a book" as "gave a book to Leo"."""
    for position in range(len(tokens) - 3):
        start = position + 2
        if (
            tokens[position].key in GIVING
            and is_name(tokens[position + 1])
            and tokens[start].kind in (Kind.FILLER, Kind.NUMBER)
        ):
            end = _end(tokens, start + 1, lambda token: token.kind in STATED)
            to = Token("to", Kind.GOVERNING, "to")
            return [*tokens[: start - 1], *tokens[start:end], to, tokens[start - 1], *tokens[end:]]
    return tokens


def _job_first(tokens: list[Token]) -> list[Token]:
    """Rewrite "works at a shop as a cook" as "is a cook at a shop"."""
    work = next((n for n, t in enumerate(tokens) if t.key == "work" and not t.past), None)
    role = next((n for n, t in enumerate(tokens) if t.key == "as"), None)
    if work is None or role is None or not work + 2 < role < len(tokens) - 1:
        return tokens
    employer, job = tokens[work + 1 : role], tokens[role + 1 :]
    end = _end(job, 0, lambda token: token.kind is not Kind.STOP)
    plain = all(token.kind in (Kind.CONTENT, Kind.FILLER) for token in (*employer[1:], *job[:end]))
    if employer[0].key != "in" or not plain:
        return tokens
    return [*tokens[:work], *job[:end], *employer, *job[end:]]


def _material_first(tokens: list[Token]) -> list[Token]:
    """Rewrite "a wall made of stone" as "a stone wall", "a raise of 5 %" as "a 5 % raise"."""
    position = 1
    while position < len(tokens) - 1:
        made = tokens[position - 1].key == "make" and tokens[position - 1].past
        if tokens[position].key == "of" and made and position > 1:
            tokens[position - 2 : position + 2] = [tokens[position + 1], tokens[position - 2]]
        elif tokens[position].key == "of" and tokens[position + 1].kind is Kind.NUMBER:
            end = _end(tokens, position + 2, lambda token: token.key == "percent")
            if tokens[position - 1].kind is Kind.CONTENT:
                tokens[position - 1 : end] = [*tokens[position + 1 : end], tokens[position - 1]]
        position += 1
    return tokens


def _purpose_first(tokens: list[Token]) -> list[Token]:
    """Rewrite "a rope (used) for climbing" as "a climbing rope", but not "a coat for Leo"."""
    nouns = (Kind.CONTENT, Kind.NUMBER, Kind.PERSON)
    for position in range(2, len(tokens) - 1):
        if tokens[position].key == "for":
            made = (
                tokens[position - 1].key in ("make", "use", "design") and tokens[position - 1].past
            )
            thing = position - 1 - made
            end = _end(tokens, position + 1, lambda word: _is_content(word) and not is_name(word))
            goes_on = end < len(tokens) and tokens[end].kind in nouns
            if end > position + 1 and _is_thing(tokens, thing) and not goes_on:
                start = _start_of_noun(tokens, thing)
                tokens[start:end] = [*tokens[position + 1 : end], *tokens[start : thing + 1]]
                return tokens
    return tokens


def _is_thing(tokens: Sequence[Token], position: int) -> bool:
    token = tokens[position]
    article = position > 0 and tokens[_start_of_noun(tokens, position) - 1].key in ("a", "an")
    return token.kind is Kind.CONTENT and not is_name(token) and not token.past and article


def _qualities_first(tokens: list[Token]) -> list[Token]:
    position = 1
    while position < len(tokens) - 2:
        if tokens[position].key in WHICH and tokens[position + 1].key in BE:
            head = position - 1 - (tokens[position - 1].kind is Kind.STOP)
            end = _end_of_qualities(tokens, position + 2)
            if head >= 0 and tokens[head].kind is Kind.CONTENT and end > position + 2:
                qualities = [t for t in tokens[position + 2 : end] if t.kind is Kind.CONTENT]
                after = end + (end < len(tokens) and tokens[end].kind is Kind.STOP)
                start = _start_of_noun(tokens, head)
                tokens[start:after] = [*qualities, *tokens[start : head + 1]]
        position += 1
    return tokens


def _start_of_noun(tokens: Sequence[Token], head: int) -> int:
    start = next((n for n in range(head, 0, -1) if not _is_content(tokens[n - 1])), 0)
    return start if start and tokens[start - 1].key in ("a", "an", "the") else head


def _end_of_qualities(tokens: Sequence[Token], start: int) -> int:
    end = start
    while end < len(tokens) and (
        tokens[end].kind is Kind.CONTENT
        or (tokens[end].key in ("and", "very") and end + 1 < len(tokens))
    ):
        end += 1
    if end == len(tokens) or tokens[end].kind is Kind.STOP or tokens[end].key in BE:
        return end - (tokens[end - 1].key == "and")
    return start


# --- all of them ----------------------------------------------------------------------------------

_REWORDINGS: tuple[tuple[frozenset[str], Callable[[list[Token]], list[Token]]], ...] = (
    (frozenset(second for _, second in _PAIRS), _pairs_read_as_one),
    (AUXILIARIES, _without_auxiliaries),
    (frozenset({NOT}), _inversion_after_no),
    (frozenset(noun for _, noun in NO_IDIOMS), _idioms_with_no),
    (frozenset({"little"}), _little),
    (WHICH, _qualities_first),
    (frozenset({"of"}), _material_first),
    (frozenset({"for"}), _purpose_first),
    (frozenset({"of"}), _owner_first),
    (GIVING, _receiver_last),
    (frozenset({"work"}), _job_first),
    (BE | WAS, _in_active_voice),
)
_TRIGGERS = frozenset[str]().union(*(triggers for triggers, _ in _REWORDINGS))
