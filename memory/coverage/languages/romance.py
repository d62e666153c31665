"""French and Spanish: the same told in another form, as far as a few tables know. Pure.

The passive ("La lampe a été réparée par Mia"), the cleft ("Fue Mia quien cantó") and the agreement
of words that hold from both sides are undone. All else in these languages is compared word by word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.text import Kind, Token

_FEMININE = {
    "mariée": "marié",
    "fiancée": "fiancé",
    "divorcée": "divorcé",
    "casada": "casado",
    "comprometida": "comprometido",
    "divorciada": "divorciado",
    "emparentada": "emparentado",
}
MUTUAL = frozenset(_FEMININE.values())
"""Relations that hold from both sides: who is married to Mia, Mia is married to."""
WITH = frozenset({"à", "avec", "con", "de"})
"""What joins the other side to them."""
OPENING = frozenset(
    "en dans à chez sur sous depuis pendant avec après con desde durante sobre "
    "hier demain aujourd'hui lundi mardi mercredi jeudi vendredi samedi dimanche "
    "ayer hoy lunes martes miércoles jueves viernes sábado domingo".split()
)
"""What opens a phrase that may stand at either end: a place, a time, a company."""
REACHING = frozenset(
    "que qui quien quienes si solo sólo seulement uniquement cada chaque tous toutes todos todas "
    "aucun aucune ningún ninguna même aussi también tampoco".split()
)
"""Words for which it matters where a phrase stands."""
_AGREEMENT = re.compile("(?<=[éiu])(?:e|s|es)$")
_PARTICIPLE = re.compile("^(.+)(a|i)d(?:o|a|os|as)$")
_PRETERITES = {
    "escrito": "escribió",
    "hecho": "hizo",
    "visto": "vio",
    "abierto": "abrió",
    "roto": "rompió",
    "puesto": "puso",
    "dicho": "dijo",
    "descubierto": "descubrió",
}
_JOINING = frozenset({"par", "por"})

ROMANCE = frozenset({"été", "c'est", "c'était", "fue", "quien"}) | frozenset(_FEMININE)
"""The words without which there is nothing to undo."""


def plainly(found: list[Token]) -> list[Token]:
    """The tokens of a French or Spanish text, told the plain way."""
    told = [
        token._replace(key=_FEMININE[token.key]) if token.key in _FEMININE else token
        for token in found
    ]
    end = next((n for n, token in enumerate(told) if token.kind is Kind.STOP), len(told))
    clause = told[:end]
    plain = _without_cleft(clause) or _active_french(clause) or _active_spanish(clause)
    return [*plain, *told[end:]] if plain else told


def _without_cleft(clause: Sequence[Token]) -> list[Token]:
    """C'est Mia qui chante: Mia chante. Whom Mia saw (que) stays as it is told."""
    keys = [token.key for token in clause]
    for opening, joint in ((("c'est", "c'était"), "qui"), (("fue", "es"), "quien")):
        if keys[:1] and keys[0] in opening and joint in keys[2:]:
            place = keys.index(joint)
            if _is_plain(clause[1:place]) and place + 1 < len(clause):
                return [*clause[1:place], *clause[place + 1 :]]
    return []


def _active_french(clause: Sequence[Token]) -> list[Token]:
    """La lampe a été réparée par Mia: Mia a réparé la lampe."""
    keys = [token.key for token in clause]
    if "été" not in keys or "par" not in keys:
        return []
    been, by = keys.index("été"), keys.index("par")
    done, doer = clause[: been - 1], clause[by + 1 :]
    if by != been + 2 or keys[been - 1] not in ("a", "ont") or not _are_plain(done, doer):
        return []
    verb = clause[been + 1]
    return [
        *doer,
        clause[been - 1],
        verb._replace(key=_AGREEMENT.sub("", verb.surface.lower())),
        *done,
    ]


def _active_spanish(clause: Sequence[Token]) -> list[Token]:
    """La lámpara fue reparada por Mia: Mia reparó la lámpara."""
    keys = [token.key for token in clause]
    if "fue" not in keys or "por" not in keys:
        return []
    was, by = keys.index("fue"), keys.index("por")
    done, doer = clause[:was], clause[by + 1 :]
    verb = clause[was + 1] if was + 2 == by else None
    told = _preterite(verb.surface.lower()) if verb is not None else ""
    if verb is None or not told or not _are_plain(done, doer):
        return []
    return [*doer, verb._replace(key=told), *done]


def _preterite(participle: str) -> str:
    """What somebody did of whom it was done to: reparada, reparó; empty where it is unknown."""
    masculine = re.sub("(?:a|os|as)$", "o", participle)
    if masculine in _PRETERITES:
        return _PRETERITES[masculine]
    regular = _PARTICIPLE.match(participle)
    return f"{regular[1]}{'' if regular[2] == 'a' else 'i'}ó" if regular else ""


def _are_plain(done: Sequence[Token], doer: Sequence[Token]) -> bool:
    """Whether one did it to the other, and no more is told: names, or articles with a noun."""
    return all(0 < len(some) <= 3 and _is_plain(some) for some in (done, doer))


def _is_plain(some: Sequence[Token]) -> bool:
    return all(
        token.kind is Kind.CONTENT
        and token.key not in OPENING
        and token.key not in WITH
        and token.key not in REACHING
        for token in some
    )
