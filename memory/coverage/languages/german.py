"""German: articles and prepositions told as English ones, and the passive undone."""

from __future__ import annotations

from collections.abc import Sequence

from memory.text import GERMAN_ARTICLES, GERMAN_GOVERNING, GERMAN_TURNING, Kind, Token, is_name


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


def active_german(found: list[Token]) -> list[Token]:
    """Die Lampe wurde von Mia repariert: Mia hat die Lampe repariert.

    Where no more is told, and the thing done to has the form of both cases.
    """
    end = next((n for n, token in enumerate(found) if token.kind is Kind.STOP), len(found))
    keys = [token.key for token in found[:end]]
    if "wurde" not in keys or "of" not in keys or end < 5:
        return found
    became, by, last = keys.index("wurde"), keys.index("of"), found[end - 1]
    done, doer = found[:became], found[by + 1 : end - 1]
    named = len(doer) == 1 and is_name(doer[0]) and found[by].surface.lower() == "von"
    plain = by == became + 1 and all(t.kind in (Kind.CONTENT, Kind.FILLER) for t in done)
    participle = last.surface.startswith("ge") or last.surface.endswith(("iert", "t", "en"))
    if not (named and plain and participle and last.surface.islower()) or _is_der(done):
        return found
    have = Token("hat", Kind.CONTENT, found[became].surface)
    return [*doer, have, *done, last, *found[end:]]


def _is_der(done: Sequence[Token]) -> bool:
    """Whether it starts with "der" or "ein", which whom it is done to does not."""
    return bool(done) and done[0].surface.lower() in ("der", "ein")
