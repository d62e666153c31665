"""The words of German; `Grammar` in `memory/text/languages/__init__.py` explains each list."""

from __future__ import annotations

from collections.abc import Mapping

# --- in German texts ------------------------------------------------------------------------------

FUNCTION_WORDS = frozenset(
    """
der dem eine einen einem einer eines und ist nicht ich auf mit für wird hat sind zum zur vom beim
im ein wurde wurden
""".split()
)
DECIMAL_COMMA = True
CAPITAL_NOUNS = True

# --- in every text --------------------------------------------------------------------------------

LETTERS = "äöüßÄÖÜ"
NUMBERS: Mapping[str, int] = {
    word: number
    for number, word in enumerate(
        "null eins zwei drei vier fünf sechs sieben acht neun zehn".split()
    )
}
MONTHS: Mapping[str, str] = {
    "januar": "january", "februar": "february", "märz": "march", "april": "april", "mai": "may",
    "juni": "june", "juli": "july", "august": "august", "september": "september",
    "oktober": "october", "november": "november", "dezember": "december",
}  # fmt: skip
WEEKDAYS: Mapping[str, str] = {
    "montag": "monday", "dienstag": "tuesday", "mittwoch": "wednesday", "donnerstag": "thursday",
    "freitag": "friday", "samstag": "saturday", "sonntag": "sunday",
}  # fmt: skip
NEGATIONS = frozenset(
    """
nicht kein keine keinen keinem keiner keines nie niemals niemand nirgends ohne weder
""".split()
)
TURNING = frozenset(
    """
vielleicht früher war waren hatte hatten möchte wollte würde könnte sollte falls oder außer statt
kaum selten
""".split()
)
NUMBERED = frozenset({"typ", "teil", "stufe", "kapitel", "band"})
O_CLOCK = frozenset({"Uhr"})
FIRST_PERSON = frozenset("ich mich mir mein meine meinen meinem meiner meines".split())
