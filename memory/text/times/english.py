"""The time words of English; `TimeWords` explains the fields."""

from __future__ import annotations

from memory.text.times.words import TimeWords, Verbs
from memory.text.vocabulary import PAST

_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_IS = frozenset({"he s", "she s", "it s", "who s"})

ENGLISH = TimeWords(
    table={
        "day": {
            0: "today", 1: "tomorrow|tmrw", -1: "yesterday",
            2: "the day after tomorrow|day after tomorrow",
            -2: "the day before yesterday|day before yesterday",
        },
        "day and part": {(0, "evening"): "tonight", (-1, "night"): "last night"},
        "part": {name: name for name in ("morning", "afternoon", "evening", "night")},
        "parts": {"": "mornings|afternoons|evenings|nights"},
        "weekday": {
            0: "monday|mon", 1: "tuesday|tue|tues", 2: "wednesday|wed", 3: "thursday|thu|thurs",
            4: "friday|fri", 5: "saturday|sat", 6: "sunday|sun",
        },
        "weekdays": {
            "": "mondays|tuesdays|wednesdays|thursdays|fridays|saturdays|sundays|weekends"
        },
        "unit": {
            "day": "day|days", "week": "week|weeks", "weekend": "weekend", "month": "month|months",
            "year": "year|years", "fortnight": "fortnight|fortnights", "hour": "hour|hours",
            "minute": "minute|minutes",
        },
        "month": {
            1: "january|jan", 2: "february|feb", 3: "march", 4: "april|apr", 5: "may",
            6: "june|jun", 7: "july|jul", 8: "august|aug", 9: "september|sep|sept",
            10: "october|oct", 11: "november|nov", 12: "december|dec",
        },
        "season": {0: "spring", 1: "summer", 2: "autumn|fall", 3: "winter"},
        "holiday": {
            "christmas": "christmas|xmas", "christmas eve": "christmas eve",
            "christmas day": "christmas day", "boxing day": "boxing day",
            "new year's eve": "new year s eve|new years eve", "new year": "new year",
            "new year's day": "new year s day|new years day", "halloween": "halloween",
            "valentine's day": "valentine s day|valentines day", "good friday": "good friday",
            "easter": "easter", "easter sunday": "easter sunday", "easter monday": "easter monday",
        },
        "which": {
            "last": "last", "this": "this", "next": "next",
            "coming": "this coming|the coming|this upcoming|the upcoming",
            "past": "this past",
        },
        "which unit": {
            (unit, step * 2): f"the {unit} {word}|{unit} {word}"
            for unit in ("week", "weekend", "month", "year")
            for step, word in ((1, "after next"), (-1, "before last"))
        },
        "window": {
            -1: "the past|the last|in the last|over the last|during the last|for the last|past",
            1: "the next|in the next|over the next|during the next|for the next|within the next"
               "|within",
        },
        "event": {"": "that|that same|the following|the same|that very|the previous"},
        "event time": {
            "": "the next day|the next morning|the next evening|the next night|the next week"
                "|the next weekend|the next month|the next year|the day before|the day after"
                "|the night before|the morning after|the week before|the week after"
        },
        "later": {"": "later|earlier|after|before|afterwards|beforehand|prior"},
        "every": {"": "every|each|per|most|every other|every second|any|once a|twice a|times a"},
        "number": {1: "a|an|one", 20: "twenty", 30: "thirty"} | dict(enumerate(_NUMBERS, 2)),
        "vague number": {"": "few|a few|a couple|a couple of|couple of|several"},
        "half": {"": "half a|half an|a half|half"},
        "ago": {"": "ago"},
        "in": {"": "in"},
        "from now": {"": "from now"},
        "for": {"": "for|for over|for about|for almost|for nearly"},
        "since": {"": "since"},
        "lead": {"": "on|at|during|over", "article": "the"},
        "bound": {"": "until|till|by|to", "from": "from"},
        "of": {"": "of"},
        "be": {"": "is|am|are|m|re|he s|she s|it s|who s"},
        "old": {"": "old|of age", "start": "pregnant|sober"},
        "aged": {"": "aged"},
        "and": {"": "and|but|so|who|now|already"},
        "recently": {
            "": "recently|lately|the other day|the other week|the other night|not long ago"
                "|a while ago"
        },
        "soon": {"": "soon|shortly|before long|in the near future"},
        "other": {
            "": "one day|some day|these days|those days|one of these days|all day|every day"
                "|day by day|day after day|day in day out|day to day|from day one|first day"
                "|good morning|good night|good evening|good afternoon|no tomorrow|better tomorrow"
                "|as soon as|too soon|how soon|soon after|shortly after|shortly before"
                "|today s youth|today s world|today s society|today s kids|today s children"
                "|today s young people|today s generation|today s standards|yesterday s news"
                "|here today gone tomorrow|until tomorrow never|all year|all week|all night"
                "|man friday|girl friday|black friday|cyber monday|bloody sunday|fat tuesday"
                "|ruby tuesday|super tuesday|ash wednesday|palm sunday|friday the|sunday best"
                "|sunday roast|monday blues|next to|next door|next of kin|last name|last minute"
                "|at last|won t"
        },
    },
    common=frozenset(
        "the and of to for with from has have had he she his her they their that my you your it "
        "not who is was in i i'm its will at are on s her him does did been by a an "
        "this next last".split()
    ),
    past=Verbs(
        words=frozenset(PAST) | frozenset("was were did didn had hadn wasn weren used".split()),
        like=r"\w{2,}ed",
    ),
    future=Verbs(
        words=frozenset("will ll shall gonna".split()) | {"won t"},
        helpers=frozenset("is are am m re isn aren".split()) | _IS,
        participles_like=r"(?!morning|evening|during|nothing|something|anything)\w{2,}ing",
        between=frozenset("t not also still just now only really probably definitely".split()),
    ),
    perfect=Verbs(
        helpers=frozenset("has have ve hasn haven".split()) | _IS,
        participles=frozenset(PAST) | {"been"},
        participles_like=r"\w{2,}ed",
        reach=3,
    ),
    ended=frozenset("was were did didn had hadn used until will".split()),
    present=frozenset(
        "need gets get getting is are am has have does do wants want plans plan needs hopes "
        "wanted planned hoped decided "
        "agreed promised intended scheduled booked supposed arranged invited asked postponed "
        "rescheduled delayed due would should could might may must can if usually always often "
        "sometimes never every".split()
    ),
    reports=frozenset(
        "said says told tells thinks thought claims claimed mentioned heard wrote writes announced "
        "promised asked asks reported reports believes believed".split()
    ),
    recurring=frozenset(
        "birthday birthdays anniversary born every each annual annually always usually holiday "
        "celebrate celebrates yearly".split()
    ),
    before_name=frozenset("named called dog cat horse pet is to with of and by friend".split()),
    copulas=frozenset("is are".split()),
    off=frozenset({"off"}),
    sunday_first=True,
    capitals="KkMH",
    scheduled=frozenset(
        "starts begins ends leaves arrives turns gets expires runs opens closes moves marries "
        "retires returns flies comes goes".split()
    ),
    people=frozenset(
        "he she i they you m re son sons daughter daughters boy girl brother sister mother father "
        "mum mom dad grandmother grandfather grandma grandpa husband wife partner child kid baby "
        "cousin nephew niece aunt uncle friend twins boss girlfriend boyfriend fiancee".split()
    ),
)  # fmt: skip
