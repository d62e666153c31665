"""Time words of each language, and the arithmetic of the calendar.

To add a language with spaces between its words, write a module with one `TimeWords` and enter it in
`LATIN`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memory.text.cleaning import has_cjk, is_japanese
from memory.text.times.english import ENGLISH
from memory.text.times.french import FRENCH
from memory.text.times.german import GERMAN
from memory.text.times.japanese import japanese_row
from memory.text.times.spanish import SPANISH
from memory.text.times.words import TimeWords, WordRow, latin_row

LATIN: Mapping[str, TimeWords] = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH}

LATIN_OTHERS = {
    "it": (
        frozenset("il lo gli un una di non è per con ha sono nel della del che gli".split()),
        frozenset(
            "ieri oggi domani dopodomani stasera stamattina stanotte stamani scorso scorsa scorsi "
            "prossimo prossima prossimi prossime quest quest'anno "
            "questo questa fra tra fa lunedì martedì mercoledì giovedì venerdì sabato "
            "domenica".split()
        ),
    ),
    "pt": (
        frozenset(
            "o os um uma de que não é para com em na no foi ela ele do da sua seu tem".split()
        ),
        frozenset(
            "ontem hoje amanhã anteontem daqui este esta neste nesta há passada "
            "passado próxima próximo atrás terça segunda "
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
            "gisteravond deze dit over vorige volgende afgelopen komende geleden maandag dinsdag "
            "woensdag "
            "donderdag vrijdag zaterdag zondag".split()
        ),
    ),
}
"""For Italian, Portuguese and Dutch: words by which it is recognised, and its relative words."""

_CHINESE = re.compile(
    "[昨今明后後前][天晚早日年]|[上下这這本][个個]?(?:周|週|星期|礼拜|禮拜|月)|去年|来年|来月|来週|先週|先月|今週|今月"
    "|(?:星期|礼拜|禮拜|周|週)[一二三四五六日天]|[天周週年月时時]前|刚才|剛才"
)
_KOREAN = re.compile(
    "어제|오늘|내일|모레|그제|그저께|지난|다음 ?주|다음 ?달|이번 ?주|이번 ?달"
    "|작년|올해|내년|어젯밤|오늘밤|[일주달년] ?전"
    "|[월화수목금토일]요일"
)


def row_of(text: str, language: str | None) -> WordRow | tuple[int, int] | None:
    """Read a text with the table of its language; return None if it has no word of time.

    Return the place of a relative time word if the language has no table.
    """
    if language:
        known = language != "ja"
        return latin_row(text, text.lower(), LATIN[language]) if known else japanese_row(text)
    if not text.isascii() and (has_cjk(text) or _HANGUL(text)):
        code = code_of(text)
        return japanese_row(text) if code == "ja" else _first(_OTHERS.get(code), text)
    lowered = text.lower()
    words = _WORDS(lowered)
    is_un_an = "un" in words and "an" in words  # alone, "an" would be a trigger of English texts
    if _NEEDED.isdisjoint(words) and not is_un_an and not _HAS_NUMBER(text):
        return None
    code = _language(words)
    if code in LATIN:
        return latin_row(text, lowered, LATIN[code])
    relative = LATIN_OTHERS[code][1].intersection(words)
    pattern = rf"\b(?:{'|'.join(relative)})\b"
    return _first(re.compile(pattern, re.IGNORECASE) if relative else None, text)


def code_of(text: str) -> str:
    """Return the code of the text's language, such as "en"; "en" if nothing shows another."""
    if has_cjk(text):
        return "ja" if is_japanese(text) else "zh"
    return "ko" if _HANGUL(text) else _language(_WORDS(text.lower()))


def _first(pattern: re.Pattern[str] | None, text: str) -> tuple[int, int] | None:
    found = pattern.search(text) if pattern else None
    return found.span() if found else None


_OTHERS = {"zh": _CHINESE, "ko": _KOREAN}
_WORDS = re.compile(r"[^\W\d_]+").findall
_HAS_NUMBER = re.compile(r"\d").search
_HANGUL = re.compile("[\uac00-\ud7a3]").search
_NEEDED = frozenset().union(
    *(table.needed for table in LATIN.values()), *(words for _, words in LATIN_OTHERS.values())
)


def _language(words: Sequence[str]) -> str:
    """Return the code of the language of which most words are known; English if none is.

    A time word that no other language has counts three times.
    """
    weights = dict.fromkeys(("en", *LATIN, *LATIN_OTHERS), 0)
    for word in set(words):
        for code, weight in _EVIDENCE.get(word, ()):
            weights[code] += weight
    return max(weights, key=weights.__getitem__)


def _evidence() -> dict[str, list[tuple[str, int]]]:
    """Return for each word the languages that have it, each with the word's weight."""
    times = {code: table.triggers for code, table in LATIN.items()}
    times |= {code: relative for code, (_, relative) in LATIN_OTHERS.items()}
    known = {code: table.common | table.triggers for code, table in LATIN.items()}
    known |= {code: frequent | relative for code, (frequent, relative) in LATIN_OTHERS.items()}
    evidence: dict[str, list[tuple[str, int]]] = {}
    for word in frozenset().union(*known.values()):
        codes = [code for code in known if word in known[code]]
        own = len(codes) == 1 and word in times[codes[0]]
        evidence[word] = [(code, 3 if own else 1) for code in codes]
    return evidence


_EVIDENCE = _evidence()
