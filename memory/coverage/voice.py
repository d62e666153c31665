"""The passive and the cleft sentence: who does what, told from behind."""

from __future__ import annotations

from memory.text import AUXILIARIES, BE, WAS, WHICH, Kind, Token, is_name


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


def cleft(found: list[Token]) -> list[Token]:
    """It was Mia who left: Mia left. It was in Rome that Mia met Leo: Mia met Leo in Rome.

    Whom Mia saw stands behind the verb: "It was Leo that Mia saw" does not say that Leo saw her.
    """
    if found[0].key != "it" or len(found) < 5 or found[1].key not in BE | WAS:
        return found
    joint = next((n for n, t in enumerate(found[:9]) if n > 2 and t.key in WHICH), None)
    end = next((n for n, t in enumerate(found) if t.kind is Kind.STOP), len(found))
    if joint is None or joint + 1 >= end:
        return found
    topic, rest = found[2:joint], found[joint + 1 : end]
    if any(t.kind not in _PLAIN for t in topic) or not any(t.kind is Kind.CONTENT for t in topic):
        return found
    if topic[0].kind is Kind.GOVERNING:
        told = [*rest, *topic]
    elif len(rest) > 1 and is_name(rest[0]) and rest[1].kind is Kind.CONTENT:
        told = [*rest[:2], *topic, *rest[2:]]
    elif _is_finite(rest[0]):
        told = [*topic, *rest]
    else:
        return found
    return [*told, *found[end:]]


_PLAIN = frozenset({Kind.CONTENT, Kind.FILLER, Kind.GOVERNING})


def _is_finite(token: Token) -> bool:
    """Whether it is a verb, as its form shows: left, sings, is."""
    if token.key in BE | WAS | AUXILIARIES:
        return True
    return token.kind is Kind.CONTENT and (token.past or token.surface.endswith("s"))
