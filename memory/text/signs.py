"""Encode signs and codes as words, so that each is compared as a whole.

Signs are symbols (≤, →, 👍) and operators. Codes are tokens with a digit, a symbol or a capital
inside them (A+, C#, v1.2.0). Expressions with several spellings (½ and 1/2, 14.30 Uhr and 14:30)
get a standard spelling.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memory.text.cleaning import nfkc
from memory.text.languages import grammar_of, with_all_languages

_CJK = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff"
_UNUSUAL = re.compile(
    r"[^A-Za-z \n,.!?;'-]|[a-z][A-Z]|\.[A-Za-z]|(?<![A-Za-z])-|-(?![a-z])"
    r"| [IVX]+(?=\s*(?:$|[.,;:!?]))"
).search


@lru_cache(maxsize=8_192)
def is_code(surface: str) -> bool:
    """Return whether `surface`, a token as the text spells it, is a sign or a code.

    "→" and "👍" are signs. "C#", "v1.2.0" and "iPhone" are codes. Plain words and plain numbers,
    such as "Mia" and "2024", are neither.
    """
    return unified(surface).strip() == encoded(surface)


# --- one word for each ----------------------------------------------------------------------------

_MARK = "Zqx"
_NIBBLES = "abcdefghijklmnop"


_TO_HEX = str.maketrans(_NIBBLES, "0123456789abcdef")
_FROM_HEX = str.maketrans("0123456789abcdef", _NIBBLES)


def encoded(code: str) -> str:
    """Convert a sign or a code into one word of ASCII letters: "A+" into "Zqxebcl"."""
    return _MARK + code.encode().hex().translate(_FROM_HEX)


def decoded(word: str) -> str:
    """Convert a word from `encoded` back: "Zqxebcl" into "A+"; return "" for any other word."""
    letters = word.removeprefix(_MARK)
    if letters == word or len(letters) % 2 or not set(letters) <= set(_NIBBLES):
        return ""
    return bytes.fromhex(letters.translate(_TO_HEX)).decode(errors="replace")


def unified(text: str) -> str:
    """Return the text with its signs and codes encoded as words, and its numbers in one spelling.

    Words in a text that is all in capitals become lower case.

    >>> unified("MIA ROWS"), unified("C++").isalpha()
    ('mia rows', True)
    """
    if text.isascii() and not _UNUSUAL(text):
        return text.lower() if text.isupper() else text
    text = _one_form(_compatible(text))
    shouted = text.isupper()
    if not text.isascii():
        text = _SYMBOL.sub(lambda found: f" {encoded(found.group().translate(_NO_VARIANT))} ", text)
    text = _SMILEY.sub(lambda found: encoded(found.group().replace("-", "")), text)
    text = _BOX.sub(lambda found: encoded(found.group().lower()), text)
    text = _OPERATOR.sub(
        lambda found: f" {encoded(_ONE_SIGN.get(found.group(), found.group()))} ", text
    )
    return _CHUNK.sub(lambda found: _chunk(found.group(), shouted), text)


# --- one form -------------------------------------------------------------------------------------

_FRACTION = re.compile("(?<=[0-9])[¼-¾⅐-⅞]|[¼-¾⅐-⅞]")
_RAISED = re.compile("[⁰¹²³⁴-⁹]")


def _compatible(text: str) -> str:
    """Return the text in NFKC, but "10^2" for "10²" and "1 1/2" for "1½"."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda raised: f"^{raised.group()}", text)
    text = _FRACTION.sub(lambda part: f" {part.group()}", text)
    return nfkc(text).replace("\u2044", "/").replace("\u2212", "-")


_DATE = re.compile(r"(?<![\w.])(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})(?![\w-]|\.\d)")
_O_CLOCK = re.compile(
    r"(?<![\w.:])(\d{1,2})(?:[.:](\d{2}))?"
    rf"\s*(?:{'|'.join(with_all_languages('', lambda grammar: grammar.o_clock))})\b"
)
_AFTERNOON = re.compile(r"午後\s*(1[01]|[1-9])\s*(?=時|:\d\d)")
_PHONE = re.compile(
    r"(?<![\w.,/+-])(?:\+\d{1,3}|\(?0\d{1,4}\)?|\(\d{3}\))"
    r"(?:[ /()-]{0,2}\d{2,}+){1,6}+(?![\w/-]|[.,:]\d)"
)
_NO_PHONE = re.compile(r"\d{1,2}[-/ ]\d{1,2}[-/ ]\d{2,4}$|\d+$").match
_FEWEST_DIGITS = 7
_GROUPED = re.compile(r"(?<![\w.,:/-])\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![\w.:/-]|,\d)")
_COMMA = re.compile(r"(?<![\w.,:/-])\d+,\d+(?![\w:/-]|[.,]\d)")
_ROMAN = {"I": 1, "V": 5, "X": 10}
_DIGIT = re.compile(r"\d").search
_NUMERAL = re.compile(r" [IVX]+(?=\s*(?:$|[.,;:!?)]))").search
_NUMBERED_NOUNS = with_all_languages(
    "type phase stage grade class part chapter volume level tier act war klasse fase tipo parte "
    "partie tome",
    lambda grammar: grammar.numbered,
)
_NUMBERED = re.compile(
    rf"\b((?:{'|'.join(_NUMBERED_NOUNS)}) )(?=[IVX]+(?![\w'’-]))"
    r"(X{0,3}(?:IX|IV|V?I{0,3}))(?=\s*(?:$|[.,;:!?)]))",
    re.IGNORECASE,
)
_UNIT = (
    r"(?:[kMGTmcdµμn]?(?:Hz|Pa|Wh|[mglLWVJNbB])|s|h|min|sec|hrs?|kgs?|lbs?|oz|ft|mi|km/h|mph|kmh|"
    r"am|pm|AM|PM|st|nd|rd|th|USD|EUR|GBP|CHF|[%°€$£¥])"
)
_SHORT_SCALE = re.compile(r"([$€£¥]\s?\d[\d.,]*)[ -]?(k|mn?|bn?)\b", re.IGNORECASE)
_SCALES = {"k": "thousand", "m": "million", "b": "billion"}
_GLUED = re.compile(
    rf"(?<![\w.,:/#@-])([-+]?\d+(?:[.,:]\d+)*)({_UNIT})(?=$|[\s/.,;:!?)\]]|[{_CJK}])"
)


def _one_form(text: str) -> str:
    if _NUMERAL(text):
        text = _NUMBERED.sub(_arabic, text)
    if not _DIGIT(text):
        return text
    text = _DATE.sub(_iso, text)
    text = _O_CLOCK.sub(lambda found: f"{found[1]}:{found[2] or '00'}", text)
    text = _AFTERNOON.sub(lambda found: str(int(found[1]) + 12), text)
    text = _PHONE.sub(_telephone, text)
    grammar = grammar_of(text) if _GROUPED.search(text) or _COMMA.search(text) else None
    if grammar is not None and grammar.decimal_comma:
        text = _GROUPED.sub(lambda found: found.group().replace(".", "").replace(",", "."), text)
        text = _COMMA.sub(lambda found: found.group().replace(",", "."), text)
    text = _SHORT_SCALE.sub(lambda found: f"{found[1]} {_SCALES[found[2][0].lower()]}", text)
    return _GLUED.sub(lambda found: f"{found[1]} {found[2]}", text)


def _iso(found: re.Match[str]) -> str:
    day, month, year = int(found[1]), int(found[2]), found[3]
    return f"{year}-{month:02}-{day:02}" if month <= 12 and day <= 31 else found.group()


def _telephone(found: re.Match[str]) -> str:
    digits = re.sub(r"[^\d+]", "", found.group())
    if len(digits) < _FEWEST_DIGITS or _NO_PHONE(found.group()):
        return found.group()
    return encoded(digits)


def _arabic(found: re.Match[str]) -> str:
    numeral = [_ROMAN[letter] for letter in found[2].upper()]
    following = [*numeral[1:], 0]
    value = sum(-n if n < after else n for n, after in zip(numeral, following, strict=True))
    return f"{found[1]}{value}" if found[2].isupper() else found.group()


# --- signs ----------------------------------------------------------------------------------------

_NO_VARIANT = dict.fromkeys((0xFE0E, 0xFE0F))
_EMOJI = "[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_SYMBOL = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}"
    f"|{_EMOJI}[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*(?:\u200d{_EMOJI}[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*)*"
    "|[±×÷¬√∞≈≠≤≥≡∈∉∅∪∩⊂⊃∀∃∂∆∑∏∫∝∴∵♯♭♀♂©®†‡•·¶µΩ\u2200-\u22ff\u2300-\u23ff\u25a0-\u25ff]"
)


_SMILEY = re.compile(
    r"(?<![^\s(])(?:[:;=8xX]['’]?-?[()DPpOo|\\/*\]\[$]+|<3|</3|\^_*\^|[:;]-?3|[xX]D+|-_-|[DO]:|\(:|\):|T_T"
    r"|o_O)(?=$|[\s.,!?])"
)
_BOX = re.compile(r"\[[ xX✓]?\]")
_OPERATOR = re.compile(
    r"<->|<=>|<-|<<|>>|->|=>|<=|>=|==|!=|\+/-|(?<![\w<])[<>=~]{1,16}+(?=\s*[-+$€£¥]?\d)|(?<=\s)[<>=~*^|/\\]+(?=\s)"
)
_ONE_SIGN = {"<=": "≤", ">=": "≥", "!=": "≠", "+/-": "±", "->": "→", "<-": "←", "==": "="}


# --- codes ----------------------------------------------------------------------------------------

_CHUNK = re.compile(rf"(?:[^\s,;(){{}}\[\]\"“”„«»—–{_CJK}、。！？]|(?<=\d),(?=\d))+")
_OPENING, _CLOSING = "'‘’`¿¡", "'‘’`.:!?…"
_AFTER_CODE = "'‘’`.:…"
_LETTERS = r"[^\W\d_]"
_PLAIN = re.compile(
    rf"{_LETTERS}+(?:['’-]{_LETTERS}+)*"
    rf"|(?:{_LETTERS}\.)+{_LETTERS}?|{_LETTERS}{{2,}}\.{_LETTERS}{{2,}}"
    r"|[$€£¥]?[-+]?[$€£¥]?\d+(?:[.,:/-]\d+)*(?:[%°€$£¥]|st|nd|rd|th|am|pm)?"
    rf"|\d+(?:-{_LETTERS}+)+|[$€£¥%°§&+^-]+"
).fullmatch
_NUMBER_SIGN = re.compile(r"#(\d+)").fullmatch
_MARKED_UP = re.compile(r"([*_`]{1,3})(\w.*?)\1").fullmatch
_GENITIVE = re.compile(r"['’]s$")
_SENTENCES = re.compile(rf"{_LETTERS}*[a-zß-ÿ]\.[A-ZÀ-Þ]{_LETTERS}+").fullmatch
_PARTS = re.compile("['’-]")


def _chunk(chunk: str, shouted: bool) -> str:
    bare = chunk.lstrip(_OPENING)
    core = bare.rstrip(_CLOSING)
    if not core or core.startswith(_MARK):
        return chunk
    before, after = chunk[: len(chunk) - len(bare)], bare[len(core) :]
    if marked_up := _MARKED_UP(core):
        core = marked_up[2]
    if number := _NUMBER_SIGN(core):
        return f"{before}{number[1]}{after}"
    if core.isascii() and core.isalpha() and (core.islower() or core[1:].islower()):
        return chunk.lower() if shouted else chunk
    if _PLAIN(core) and not _has_capital_inside(core):
        return f"{before}{core.lower() if shouted else core}{after}"
    if not core.isalpha():  # hunter2! is not hunter2
        core = bare.rstrip(_AFTER_CODE)
    return f"{before}{encoded(_GENITIVE.sub('', core))}{bare[len(core) :]}"


def _has_capital_inside(word: str) -> bool:
    """Return whether a word is a code because of a capital or a full stop inside the word.

    True for iPhone, Objective-C and node.js. False for O'Brien, Wi-Fi, NASA and U.S.
    """
    if "." in word:
        return not (
            _SENTENCES(word) or re.fullmatch(rf"(?:{_LETTERS}\.)+{_LETTERS}?", word)
        ) and any(map(str.isalpha, word))
    *first, last = _PARTS.split(word)
    if first and "-" in word and len(last) == 1 and last.isupper():
        return True
    return any(not (part.isupper() or part[1:] == part[1:].lower()) for part in (*first, last))
