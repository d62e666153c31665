"""Relative time words of languages without tables: they only show that the day counts."""

from __future__ import annotations

import re

LATIN_OTHERS = {
    "it": (
        frozenset("il lo gli un una di non è per con ha sono nel della del che gli".split()),
        frozenset(
            "ieri oggi domani dopodomani stasera stamattina stanotte stamani scorso scorsa scorsi "
            "prossimo prossima fa lunedì martedì mercoledì giovedì venerdì sabato domenica".split()
        ),
    ),
    "pt": (
        frozenset(
            "o os um uma de que não é para com em na no foi ela ele do da sua seu tem".split()
        ),
        frozenset(
            "ontem hoje amanhã anteontem passada passado próxima próximo atrás terça segunda "
            "quarta quinta sexta sábado domingo".split()
        ),
    ),
    "nl": (
        frozenset(
            "de het een en van is niet op met voor naar heeft hij zij ze mijn haar zijn "
            "gaat".split()
        ),
        frozenset(
            "gisteren vandaag morgen eergisteren overmorgen vanavond vanochtend vanmiddag vannacht "
            "gisteravond vorige volgende afgelopen komende geleden maandag dinsdag woensdag "
            "donderdag vrijdag zaterdag zondag".split()
        ),
    ),
}
"""For Italian, Portuguese and Dutch: words by which it is recognised, and its relative words."""

CHINESE = re.compile(
    "[昨今明后後前][天晚早日年]|[上下这這本][个個]?(?:周|週|星期|礼拜|禮拜|月)|去年|来年|来月|来週|先週|先月|今週|今月"
    "|(?:星期|礼拜|禮拜|周|週)[一二三四五六日天]|[天周週年月时時]前|刚才|剛才"
)
KOREAN = re.compile(
    "어제|오늘|내일|모레|그제|그저께|지난|다음 ?주|다음 ?달|이번 ?주|이번 ?달"
    "|작년|올해|내년|어젯밤|오늘밤|[일주달년] ?전"
    "|[월화수목금토일]요일"
)
