"""The time words of German; `TimeWords` explains the fields."""

from __future__ import annotations

from memory.text.times.words import TimeWords, Verbs

_NUMBERS = (
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"
).split()


def _forms(stems: str, ends: str = "e er es en em") -> str:
    return "|".join(stem + end for stem in stems.split() for end in ends.split())


_LAST, _THIS = _forms("letzt vergangen vorig"), _forms("dies")
_NEXT, _COMING = _forms("nächst"), _forms("kommend")
_UNITS = {"week": "woche", "weekend": "wochenende", "month": "monat", "year": "jahr"}

GERMAN = TimeWords(
    table={
        "day": {
            0: "heute|" + _forms("heutig"), 1: "morgen|" + _forms("morgig"),
            -1: "gestern|" + _forms("gestrig"), 2: "übermorgen", -2: "vorgestern",
        },
        "day and part": {
            (0, "morning"): "heute morgen|heute früh|heute vormittag|heut morgen",
            (0, "afternoon"): "heute nachmittag", (0, "evening"): "heute abend",
            (None, "night"): "heute nacht", (-1, "evening"): "gestern abend",
            (1, "morning"): "morgen früh|morgen vormittag", (1, "evening"): "morgen abend",
            (-1, "morning"): "gestern morgen|gestern früh|gestern vormittag",
        },
        "part": {
            "morning": "vormittag|früh", "afternoon": "nachmittag|mittag", "evening": "abend",
            "night": "nacht",
        },
        "parts": {"": "morgens|vormittags|nachmittags|mittags|abends|nachts"},
        "weekday": {
            0: "montag", 1: "dienstag", 2: "mittwoch", 3: "donnerstag", 4: "freitag",
            5: "samstag|sonnabend", 6: "sonntag",
        },
        "weekdays": {
            "": "montags|dienstags|mittwochs|donnerstags|freitags|samstags|sonntags|wochenends"
        },
        "unit": {
            "day": "tag|tage|tagen|tages", "week": "woche|wochen", "month": "monat|monate|monaten"
            "|monats", "weekend": "wochenende|wochenendes|wochenenden",
            "year": "jahr|jahre|jahren|jahres", "hour": "stunde|stunden",
            "minute": "minute|minuten",
        },
        "month": {
            1: "januar|jänner", 2: "februar", 3: "märz", 4: "april", 5: "mai", 6: "juni", 7: "juli",
            8: "august", 9: "september", 10: "oktober", 11: "november", 12: "dezember",
        },
        "season": {
            0: "frühling|frühjahr", 1: "sommer|sommers", 2: "herbst|herbstes", 3: "winter|winters"
        },
        "holiday": {
            "christmas": "weihnachten", "christmas eve": "heiligabend|heilig abend",
            "new year's eve": "silvester|sylvester", "new year's day": "neujahr",
            "halloween": "halloween", "good friday": "karfreitag", "easter": "ostern",
            "easter sunday": "ostersonntag", "easter monday": "ostermontag",
            "pentecost": "pfingsten",
        },
        "which": {"last": _LAST, "this": _THIS, "next": _NEXT, "coming": _COMING},
        "which unit": {
            (unit, step): "|".join(f"{stem}{end} {name}" for end in "e er es en em".split())
            for unit, name in _UNITS.items()
            for step, stem in ((2, "übernächst"), (-2, "vorletzt"))
        }
        | {("year", 0): "heuer"},
        "window": {1: "innerhalb von|innerhalb|binnen"},
        "event": {
            "": _forms("folgend darauffolgend jen") + "|derselbe|demselben|denselben|derselben"
        },
        "event time": {
            "": "am nächsten tag|am nächsten morgen|am nächsten abend|der nächste tag|tags darauf"
                "|am tag darauf|am tag danach|am tag davor|am tag zuvor|am vortag|an dem tag"
                "|an diesem tag|in dieser nacht|die woche darauf|in der woche darauf"
        },
        "later": {"": "später|danach|darauf|davor|zuvor|vorher|nachher"},
        "every": {"": _forms("jed") + "|alle|pro"},
        "number": {1: "ein|eine|einen|einem|einer|eins"}
        | dict(enumerate(_NUMBERS, start=2))
        | {20: "zwanzig", 30: "dreißig"},
        "vague number": {"": "ein paar|paar|einige|einigen|wenige|wenigen|mehrere|mehreren"},
        "half": {"": "ein halbes|einem halben|einer halben|eine halbe|halbes|halben|halbe"},
        "ago before": {"": "vor|vor etwa|vor rund|vor fast"},
        "in": {"": "in"},
        "since": {"": "seit"},
        "lead": {
            "": "am|im|an|zu|um|während|über", "article": "der|die|das|den|dem|des",
        },
        "bound": {"": "bis|bis zum|zum|auf|für|nach", "from": "ab"},
        "of": {"": "vom"},
        "be": {"": "ist|bin|sind|bist"},
        "old": {"": "alt"},
        "and": {"": "und|aber|jetzt|nun|inzwischen|mittlerweile"},
        "recently": {
            "": "kürzlich|neulich|vor kurzem|unlängst|jüngst|letztens|in letzter zeit"
        },
        "soon": {"": "bald|demnächst|in kürze|in nächster zeit|in naher zukunft"},
        "other": {
            "": "guten morgen|guten tag|guten abend|gute nacht|eines tages|eines abends|so bald"
                "heutzutage|von heute auf morgen|heute wie damals|die heutige jugend"
                "|heutige jugend"
                "|die heutige zeit|heutige welt|heutigen jugend|heutigen zeit|heutigen welt"
                "|die welt von morgen|die welt von gestern|bis bald|den ganzen tag|jeden tag"
                "|in diesen tagen|schwarzer freitag|robinson und freitag|das letzte mal"
                "|nächstes mal|nächste mal|letztes mal|letzte mal|diesmal|am tag|in der nacht"
                "|in der früh|am morgen|am abend|am nachmittag|am vormittag"
        },
    },
    common=frozenset(
        "der das und ist nicht ich auf mit für wird hat sind zum zur vom beim im ein eine "
        "einen in war am ins sich er sie es wir mein meine ihr ihre seine bei wohnt nach hier "
        "seit vor".split()
    ),
    past=Verbs(
        words=frozenset(
            "war waren wurde wurden hatte hatten kam kamen ging gingen fuhr fuhren sah sahen fand "
            "fanden bekam bekamen blieb blieben starb zog zogen flog flogen gab gaben verlor traf "
            "trafen gegangen gefahren geflogen gekommen gezogen umgezogen eingezogen ausgezogen "
            "gereist abgereist gestorben entlaufen gelaufen geblieben gewesen geworden gefallen "
            "gestürzt gelandet angekommen passiert machte kaufte spielte gewann lief aß "
            "schrieb las brach".split()
        ),
        helpers=frozenset("hat habe haben hast".split()),
        participles_like=(
            r"(?:\w{2,5})?ge\w{2,}(?:t|en)|\w{3,}iert|(?:be|ver|er|ent|zer|miss)\w{3,}(?:t|en)"
        ),
        reach=40,
    ),
    future=Verbs(
        words=frozenset(
            "wird werden werde will wollen möchte möchten plant planen soll sollen".split()
        )
    ),
    present=frozenset(
        "wollte verlegt wollten sollte sollten plante könnte würde müsste geplant verschoben "
        "gebucht "
        "vereinbart eingeladen angesetzt kann muss darf immer meistens oft manchmal nie".split()
    ),
    reports=frozenset(
        "sagt sagte gesagt erzählt erzählte meint meinte glaubt glaubte behauptet behauptete "
        "berichtet schreibt schrieb fragt fragte gehört angeblich laut".split()
    ),
    recurring=frozenset(
        "geburtstag namenstag hochzeitstag jahrestag geboren jährlich jeden jedes immer "
        "feiert feiern".split()
    ),
    before_name=frozenset(
        "frau herr herrn familie namens heißt hund kater katze dr und mit von bei zu".split()
    ),
    copulas=frozenset("ist sind".split()),
    off=frozenset({"frei"}),
    capitals="KkMHUPSZpT",
    people=frozenset(
        "er sie ich wir sohn tochter bruder schwester mutter vater oma opa mann frau kind freund "
        "freundin cousin cousine nichte neffe tante onkel partner partnerin chef chefin".split()
    ),
)  # fmt: skip
