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
NEGATIONS = frozenset(
    """
nicht kein keine keinen keinem keiner keines keinerlei keineswegs nie niemals nimmer niemand
niemanden niemandem nirgends nirgendwo ohne weder
""".split()
)
_FILLERS = "der die das ein eine und ist sind wird auch sehr"
_CASES = {
    "den": "den", "einen": "den", "dem": "dem", "einem": "dem", "des": "des", "eines": "des",
    "einer": "dem",
}  # fmt: skip
_PREPOSITIONS = {
    "auf": "in", "an": "in", "im": "in", "am": "in", "in": "in", "ins": "in", "bei": "in",
    "beim": "in", "mit": "with", "von": "of", "vom": "of", "zu": "to", "zum": "to", "zur": "to",
    "nach": "to", "für": "for", "aus": "from", "als": "as", "über": "over", "durch": "through",
}  # fmt: skip
GOVERNING: Mapping[str, str] = dict.fromkeys(_FILLERS.split(), "") | _CASES | _PREPOSITIONS
TURNING = frozenset({"fast", "beinahe", "nur", "wohl"})
REACHING = frozenset(
    """
alle allen aller alles jeder jede jedes jeden jedem beide beiden meisten viele vielen
wenige wenig kaum fast beinahe nur bloß allein genau höchstens mindestens immer etwa
ungefähr wenn falls sofern ob außer sonst bevor bis ehe oder statt ohne solange sobald als
mehr weniger besser schlechter beste besten bester bestes erste ersten erster erstes
zweite zweiten dritte dritten letzte letzten letzter einzige einzigen lieblings zu
vielleicht wohl wahrscheinlich möglicherweise angeblich vermutlich scheinbar offenbar
könnte könnten würde würden sollte sollten soll sollen muss müssen möchte möchten will
wollen wollte dürfte mag glaubt glaube denkt denke meint sagt sagte hofft hoffe plant
versucht scheint behauptet laut zufolge hasst fürchtet vermeidet früher ehemalige
ehemaliger ehemaligen künftige falsche falscher einstige einstiger einstigen damalige
damaliger verstorbene verstorbener verstorbenen pensionierte pensionierter pensionierten
vermeintliche vermeintlicher angebliche angeblicher mutmaßliche mutmaßlicher sogenannte
sogenannter gefälschte gefälschter erfundene erfundener gefälschten erfundenen fiktiven
fiktive fiktiver künftiger künftigen zukünftige zukünftiger zukünftigen beziehungsweise
jeweils
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
CLEAR_NEGATIONS = frozenset(
    """
nicht kein keine keinen keinem keiner keines nie niemals niemand nirgends ohne weder
""".split()
)
CLEAR_TURNING = frozenset(
    """
vielleicht früher war waren hatte hatten möchte wollte würde könnte sollte falls oder außer statt
kaum selten
""".split()
)
AND = frozenset({"und"})
CONTRASTS = frozenset({"sondern"})
ADVERBS = frozenset({"bereits"})
RANKING = frozenset({"zuerst", "nacheinander", "der reihe nach", "reihenfolge"})
PREDICATES = frozenset({"ist", "sind", "hat", "haben"})
NUMBERED = frozenset({"typ", "teil", "stufe", "kapitel", "band"})
O_CLOCK = frozenset({"Uhr"})
FIRST_PERSON = frozenset("ich mich mir mein meine meinen meinem meiner meines".split())
QUOTABLE = frozenset(
    """
ich du er sie es wir ihr mein dein sein nicht nichts nie kein keine der die das ein eine und oder
im am um zu
""".split()
)
