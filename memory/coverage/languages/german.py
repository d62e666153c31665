"""German: articles and prepositions told as English ones, and the passive undone."""

from __future__ import annotations

from memory.text import GERMAN_ARTICLES, GERMAN_GOVERNING, GERMAN_TURNING, Kind, Token


def in_german(token: Token) -> Token:
    """Articles tell the case, and so who does what; prepositions govern."""
    if token.kind is not Kind.CONTENT and token.kind is not Kind.FILLER:
        return token if token.kind is not Kind.GOVERNING else token._replace(key="in")
    low = token.surface.lower()
    if low in GERMAN_TURNING:
        return token._replace(key=low, kind=Kind.TURNING)
    if low in GERMAN_ARTICLES:
        case = GERMAN_ARTICLES[low]
        return token._replace(key=case, kind=Kind.GOVERNING if case else Kind.FILLER)
    if low in GERMAN_GOVERNING:
        return token._replace(key=GERMAN_GOVERNING[low], kind=Kind.GOVERNING)
    return token
