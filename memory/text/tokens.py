"""Split a text of any script into tokens (words, numbers, signs, punctuation), each with its kind.

Hiragana is split into endings and particles. A run of Han characters is one word in Japanese, and
one token per character in Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from memory.text.boundary import guarded
from memory.text.cleaning import normalise
from memory.text.languages import is_japanese, with_all_languages
from memory.text.signs import decoded, unified
from memory.text.vocabulary import (
    CONTRACTED,
    FILLERS,
    GOVERNING,
    IRREGULAR_PLURALS,
    MONTHS,
    NEGATING_HAN,
    NEGATIONS,
    NOT,
    NOT_INFLECTED,
    NUMBERS,
    ORDINALS,
    PAST,
    PRONOUNS,
    SAME_AS,
    SAME_IN_PAST,
    SCALES,
    SPELLINGS,
    TURNING,
    UNITS,
    WEEKDAYS,
)


class Kind:
    """Kinds of tokens, by what they contribute to a statement.

    CONTENT: a word with a meaning of its own, such as a noun or a verb. SCALE: a number word such
    as "thousand". TURNING: a word that changes the whole statement, such as "might". GOVERNING: a
    preposition. PARTICLE: a Japanese particle. PERSON: a pronoun. FILLER: a word that may be left
    out. STOP: punctuation.

    >>> [token.key for token in tokens("Mia might row to Rome.") if token.kind is Kind.CONTENT]
    ['mia', 'row', 'rome']
    """

    CONTENT = "content"
    NUMBER = "number"
    SCALE = "scale"
    NOT = "not"
    TURNING = "turning"
    PERSON = "person"
    GOVERNING = "governing"
    PARTICLE = "particle"
    FILLER = "filler"
    STOP = "stop"


class Token(NamedTuple):
    """A word, number or sign of a text; `key` is its dictionary form, or "" for a sign.

    >>> [(token.key, token.past) for token in tokens("Mia rowed cats.")]
    [('mia', False), ('row', True), ('cat', False), ('', False)]
    """

    key: str
    """The form for comparison, equal for all forms and synonyms of a word; "" for punctuation."""
    kind: str
    surface: str
    past: bool = False
    participle: bool = False
    """Whether an English word may be a past participle."""


STATED = frozenset({Kind.CONTENT, Kind.NUMBER, Kind.SCALE, Kind.NOT, Kind.TURNING})
"""Kinds of tokens that have a meaning of their own."""


def is_name(token: Token) -> bool:
    """Return whether a token looks like a name.

    >>> [is_name(token) for token in tokens("Mia rows.")]
    [True, False, False]
    """
    return token.kind is Kind.CONTENT and token.surface[:1].isupper()


_LETTER = r"[^\W\d_\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff々]"
_NUMBER = r"(?:(?:(?<![\w.])|(?<=[\u3041-\u30ff]))[-−])?\d+(?:[.,:/-]\d+)*"
_STOP_SIGNS = r"[,;:.!?()\[\]\"“”、。！？\n—–]"
_ASCII_PIECES = re.compile(
    r"[a-zA-Z]{2,}(?:'[a-zA-Z]+)?|(?:[a-zA-Z]\.){2,}|[a-zA-Z](?:'[a-zA-Z]+)?"  # words, U.S., I'm
    rf"|{_NUMBER}|[$%&+^]|{_STOP_SIGNS}"
).findall
_PIECES = re.compile(
    rf"(?:{_LETTER}\.){{2,}}|{_LETTER}+(?:['’]{_LETTER}+)?|{_NUMBER}"
    r"|[\u3400-\u9fff\uf900-\ufaff々]+|[\u3041-\u309f]+|[\u30a1-\u30fa\u30fc]+"  # Han, kana
    rf"|[$€£¥%°§&+^\u2600-\u27bf\U0001f300-\U0001faff]|{_STOP_SIGNS}"
).findall
_APPENDED = re.compile(r"'(?:s|ll|d|ve|re|m)?$")


def tokens(text: str) -> list[Token]:
    """Return the words and numbers of a text, with their dictionary forms, in order.

    >>> [token.key for token in tokens("Mia has two cats.")]
    ['mia', 'have', '2', 'cat', '']
    """
    if len(text) > _LONG:  # one call of a pattern holds all threads
        cut = text.rfind(" ", _LONG // 2, _LONG) + 1 or _LONG
        return tokens(text[:cut]) + tokens(text[cut:])
    plain = unified(text)
    if plain.isascii():
        return [_alphabetic(piece) for piece in _ASCII_PIECES(plain)]
    japanese = is_japanese(plain)
    return [token for piece in _PIECES(plain) for token in _read_piece(piece, japanese)]


_LONG = 10_000


@lru_cache(maxsize=32_768)
def _alphabetic(piece: str) -> Token:
    if piece[0].isalpha():
        return word_token(piece)
    if piece[-1].isdigit():
        plain = re.sub(r",(?=\d{3}(?!\d))", "", piece).replace("−", "-")  # 1,000 is 1000
        return Token(plain, Kind.NUMBER, piece)
    if piece in _SIGNS:
        return Token(UNITS.get(piece, piece), Kind.CONTENT, piece)
    return _STOP if piece in _STOPS else Token(piece, Kind.CONTENT, piece)


_SIGNS = frozenset("$€£¥%°§&+^")
_STOPS = frozenset(',;:.!?()[]"“”、。！？\n—–')
_STOP = Token("", Kind.STOP, "")


# --- words ------------------------------------------------------------------------------------


def word_token(word: str) -> Token:
    """Make a token from one word of a script that puts spaces between words.

    >>> word_token("cats").key
    'cat'
    """
    if word.isupper() and len(word) > 1 and "." not in word:
        unit = None if word in _NOT_IN_CAPITALS else UNITS.get(word.lower())
        return Token(unit or (word if len(word) <= _SHORT else word.lower()), Kind.CONTENT, word)
    if code := word if word in _WITH_CASE else decoded(word):
        return Token(code, Kind.CONTENT, code)
    low = word.lower().replace(".", "").replace("’", "'")
    if low in NEGATIONS or low.endswith("n't") or CONTRACTED.get(low) == NOT:
        return Token(NOT, Kind.NOT, word)
    if word[0].isupper() and low in ("may", "march"):
        return Token(low, Kind.CONTENT, word)
    low = _APPENDED.sub("", low) or low
    if low in PRONOUNS and "." in word[:-1]:
        return Token(low.upper(), Kind.CONTENT, word)  # the U.S. are not us
    participle = low in SAME_IN_PAST or plain_form(low).past
    low = CONTRACTED.get(low, low)
    if low in _CLOSED:
        return Token(*_CLOSED[low], word, participle=participle)
    plain = plain_form(low)
    kind = Kind.TURNING if low in TURNING or plain.word in TURNING else Kind.CONTENT
    if low in _ONE_FORM:
        return Token(_ONE_FORM[low], kind, word, participle=participle)
    return Token(SAME_AS.get(plain.word, plain.word), kind, word, plain.past, participle)


_SHORT = 3  # IT is not it
_NOT_IN_CAPITALS = frozenset({"MM", "MG", "ML"})
_WITH_CASE = frozenset("BCDEFGHJKLMNOPQRSTUVWXYZ") | {
    unit.capitalize() for unit in UNITS if len(unit) == 2
}
"""Letters and units whose case has a meaning, as in "vitamin K" or "Mb"."""


# later entries win where a word is in two
_CLOSED: Mapping[str, tuple[str, str]] = {
    **{word: (word, Kind.SCALE) for word in SCALES},
    **{word: (str(value), Kind.NUMBER) for word, value in NUMBERS.items()},
    **{word: (word, Kind.FILLER) for word in FILLERS},
    **{word: (key, Kind.GOVERNING) for word, key in GOVERNING.items()},
    **{word: (person, Kind.PERSON) for word, person in PRONOUNS.items()},
}
_ONE_FORM = (
    SAME_AS | {word: f"{value}." for word, value in ORDINALS.items()} | UNITS | WEEKDAYS | MONTHS
)


# --- plain forms of English words -----------------------------------------------------------------

_VOWEL = re.compile("[aeiouy]")
_DOUBLED = re.compile(r"([bdfgklmnprtvz])\1$")
_KEEP_DOUBLE = ("all", "ell", "ill", "oll", "ull", "add", "zz", "ff")
_TWO_VOWELS = re.compile(r"(?<!q)[aeiou][aeiou][^aeiou]$")
_ONE_SYLLABLE = re.compile(r"^[^aeiou]*[aiou][bdfgklmnprt]$")
_LOST_E = re.compile(
    r"(?:[cuv]|[^z]z|[aeiounr]s|[rd]g|[aeiou]g|(?:ch|rr)ang|[^aeiouylr]l"  # dance, argue, rinse
    r"|[^e]at|creat|vit|cit|nit|[uo]t|plet|pet|[iuoa]r|[bfm]in|u[md]|i[bdz]|ap|ast)$"  # create
)
_KEEPS_ITS_END = re.compile(r"(?:it(?<![vcn]it)|er|en|on|el|al|op|cus)$")


class PlainForm(NamedTuple):
    """A word in its dictionary form, and whether it was a past tense or past participle."""

    word: str
    past: bool = False


@lru_cache(maxsize=32_768)
def plain_form(word: str) -> PlainForm:
    """Return the dictionary form of an English word in lower case: "slice" for "slicing".

    Only endings of number, person and tense are removed. A stemmer would make "import" and
    "important" equal.
    """
    if word in PAST:
        return PlainForm(PAST[word], past=True)
    if word in IRREGULAR_PLURALS:
        return PlainForm(IRREGULAR_PLURALS[word])
    if len(word) < 4 or word in NOT_INFLECTED or not word.isascii():
        return PlainForm(SPELLINGS.get(word, word))
    plain, past = word, False
    if word.endswith("ing") and _VOWEL.search(word[:-3]):
        plain = _restored(word[:-3])
    elif word.endswith("ied"):
        plain, past = word[:-3] + "y", True
    elif word.endswith("ed") and not word.endswith("eed") and _VOWEL.search(word[:-2]):
        plain, past = _restored(word[:-2]), True
    elif word.endswith("ies") and len(word) > 4:
        plain = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        plain = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        plain = word[:-1]
    return PlainForm(SPELLINGS.get(plain, plain), past)


def _restored(stem: str) -> str:
    if _DOUBLED.search(stem):
        return stem if stem.endswith(_KEEP_DOUBLE) else stem[:-1]
    if _ONE_SYLLABLE.search(stem):
        return stem + "e"
    if _KEEPS_ITS_END.search(stem) or (
        _TWO_VOWELS.search(stem) and stem[-1] not in "csvz" and stem != "creat"
    ):
        return stem
    return stem + "e" if _LOST_E.search(stem) else stem


# --- other scripts ----------------------------------------------------------------------------

_HAN_DIGITS = {digit: n for n, digit in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1_000}
_HAN_MYRIADS = {"万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8}
_HAN_NUMERALS = "〇零一二三四五六七八九十百千万萬億亿两"
_COUNTERS = (
    "人名位口頭头匹只隻条條本枚張张台輛辆个個冊册杯羽回次歳才岁月年日号時时分秒点円元块週周階层軒家"
    "件足着皿艘校州番種种倍組组対双つヶか"
)
_HAN_NUMBER = f"(?<![{_HAN_NUMERALS}])[{_HAN_NUMERALS}]++(?=[{_COUNTERS}])"
_STARTS_WITH_NUMBER = re.compile(_HAN_NUMBER).match
_HAN_PIECE = re.compile(f"(?P<number>{_HAN_NUMBER})|.")
_HAN_ZH_FILLERS = frozenset("的了着地得在正是")


_DONE = {"した": "た", "してた": "した", "だた": "た", "た": "た", "いた": "た", "あった": "た"}


@lru_cache(maxsize=32_768)
def _read_piece(piece: str, japanese: bool) -> tuple[Token, ...]:
    first = piece[0]
    if "\u3400" <= first <= "\u9fff" or "\uf900" <= first <= "\ufaff" or first == "々":
        return tuple(_han_run(piece) if japanese else _han_characters(piece))
    if japanese and "\u3041" <= first <= "\u309f":
        return kana_tokens(piece)
    if japanese and "\u30a1" <= first <= "\u30fc":
        return (Token(_kana_spelling(piece), Kind.CONTENT, piece),)
    return (_alphabetic(piece),)


def _kana_spelling(text: str) -> str:
    for pair in "ヴァバ ヴィビ ヴェベ ヴォボ ウィウイ ウェウエ ウォウオ ティチ".split():
        text = text.replace(pair[:2], pair[2:])
    return text.rstrip("ー") or text


def _han_run(run: str) -> Iterator[Token]:
    """Yield the tokens of Han characters in Japanese: "三人家族" becomes "3" and "人家族"."""
    if number := _STARTS_WITH_NUMBER(run):
        yield Token(han_value(number.group()), Kind.NUMBER, number.group())
        run = run[number.end() :]
    if run:
        yield Token(run, Kind.CONTENT, run)


def _han_characters(run: str) -> Iterator[Token]:
    """Yield the tokens of Han characters in Chinese: "十二人" becomes "12" and "人"."""
    for found in _HAN_PIECE.finditer(run):
        piece = found[0]
        if found["number"]:
            yield Token(han_value(piece), Kind.NUMBER, piece)
        elif piece in NEGATING_HAN:
            yield Token(NOT, Kind.NOT, piece)
        else:
            kind = Kind.FILLER if piece in _HAN_ZH_FILLERS else Kind.CONTENT
            yield Token(piece, kind, piece)


def han_value(digits: str) -> str:
    """Return the value of a number in Han numerals as decimal digits: "21" for 二十一.

    >>> han_value("二十一")
    '21'
    """
    if all(digit in _HAN_DIGITS for digit in digits):
        return "".join(str(_HAN_DIGITS[digit]) for digit in digits).lstrip("0") or "0"
    total, part, digit = 0, 0, 0
    for char in digits:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
        elif char in _HAN_SCALES:
            part, digit = part + (digit or 1) * _HAN_SCALES[char], 0
        else:
            total, part, digit = total + (part + digit or 1) * _HAN_MYRIADS[char], 0, 0
    return str(total + part + digit)


# --- kana -------------------------------------------------------------------------------------

_POLITE = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"ませんでした|ないでした", "なかった"),
        (r"(?:て|で)(?:い|お)?(?:る|ます|ります)(?=$|[よねわのかとが])", "て"),
        (r"(?:て|で)(?:い|お)?(?:まし|り?まし)?た", "てた"),
        (r"ません", "ない"),
        (r"でした|だった", "だた"),
        (r"でしょう|だろう", "だろ"),
        (r"んでした|んです|のです|んだ", ""),
        (r"です(?=$|[よねが])|(?<=[きか])だ(?=$|[よねが])", ""),
        (r"(?<=[いきしちにひみりぎじび])ました|(?<=[えけせてねへめれげぜべ])ました", "た"),
        (r"ました", "た"),
        (r"ます(?=$|[よねがとの])", "る"),
    )
]
_PARTICLE = re.compile(
    "^(?:さん|ちゃん|くん|さま|たち)?(?P<role>からは|からの|からも|までに|までの|までは|には|にも|では|でも|での|とは|とも|との|へと|への|へは|"
    "より|から|まで|など|だけ|しか|ほど|は|が|も|を|に|へ|で|と|の|や)"
)
_LONG_ROLES = ("から", "まで", "より", "など", "だけ", "しか", "ほど")
_ROLE = {"が": "は", "へ": "に"}
_NEGATED = re.compile(
    "なかった|ない|なく|ずに|(?<!とりあえ)(?<=[かがさたなばらわえけげせぜてでねべめれきぎしちにびみり])ず$"
)
"""Finds negated verb endings. The last alternative finds 止まらず but not まず ("first")."""
_WISHED = re.compile("た(?:い|く|かった)(?:$|[とのでがわよね])")
_EMPTY = frozenset(
    "いる ある する して さん ちゃん くん さま だ て い る です という いて あて "
    "っている なる お ご".split()
)


def kana_tokens(run: str) -> tuple[Token, ...]:
    """Return the tokens of a run of hiragana; () for a run without meaning, such as いる.

    The tokens for a negation and a wish come first, then the particle at the beginning of the run,
    then the run without this particle: "にいきたい" becomes "たい" (a wish), "に", "いきたい".
    """
    plain = run
    for pattern, short in _POLITE:
        plain = pattern.sub(short, plain)
    found: list[Token] = []
    if _NEGATED.search(plain):
        found.append(Token(NOT, Kind.NOT, run))
        plain = _NEGATED.sub("な", plain)
    if _WISHED.search(plain):
        found.append(Token("たい", Kind.TURNING, run))
    particle = _PARTICLE.match(plain)
    if particle is not None:
        found.append(Token(_role(particle["role"]), Kind.PARTICLE, particle["role"]))
        plain = plain[particle.end() :]
    if plain in _DONE:
        found.append(Token(_DONE[plain], Kind.TURNING, run))
    elif plain and (plain not in _EMPTY or (particle and particle["role"] == "を")):
        found.append(Token(plain, Kind.CONTENT, run))
    return tuple(found)


def _role(particle: str) -> str:
    if particle == "までに":
        return particle
    also = "も" if particle.endswith("も") and len(particle) > 1 else ""
    is_long = particle.startswith(_LONG_ROLES)
    return (particle[:2] if is_long else _ROLE.get(particle[0], particle[0])) + also


# --- the tokens by which search finds a text ------------------------------------------------------

_TELLING = frozenset({Kind.CONTENT, Kind.NUMBER, Kind.TURNING})
_WORDS = re.compile(r"[^\W\d_]+").findall
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff々]+")


def _plain_words(text: str, _user: str | None = None) -> list[str]:
    return _WORDS(text.lower())


@guarded(_plain_words)
def search_terms(text: str) -> list[str]:
    """Return the terms under which keyword search finds a text, each as often as it occurs.

    The ledger stores them, so a change of this function needs a migration that computes them again.

    >>> search_terms("Mia's cats sleep, and a cat eats.")
    ['mia', 'cat', 'sleep', 'cat', 'eat']
    """
    found = [token.key.lower() for token in tokens(text) if token.kind in _TELLING]
    if text.isascii():
        return found
    found = [term for term in found if not _HAN.search(term)]
    for run in _HAN.findall(normalise(text)):
        found += [*run, *map("".join, pairwise(run))]
    return found


_REPORTING = frozenset(
    "say mention state note tell share reveal explain add express describe talk discuss report "
    "claim emphasize acknowledge recently currently remember".split()
)


@guarded(lambda text, user=None: tuple(dict.fromkeys(_plain_words(text, user))))
def telling_words(text: str, user: str | None = None) -> tuple[str, ...]:
    """Return the words that distinguish a text from others, in dictionary form and text order.

    The words of the user's name and reporting verbs such as "say" are left out, because most of the
    user's memories have them.

    >>> telling_words("Mia says that she has two cats.", "Mia")
    ('have', '2', 'cat')
    """
    known = _REPORTING | {token.key for name in _WORDS(user or "") for token in tokens(name)}
    words = (token.key for token in tokens(text) if token.kind in _TELLING)
    return tuple(dict.fromkeys(word for word in words if word not in known))


_SELF_ENGLISH = frozenset("i me my mine myself".split())
_SELF = with_all_languages(
    # French, Spanish
    "je j moi mon ma mes mien mienne "
    "yo mi mí mis mío mía míos mías conmigo soy estoy tengo vivo hago voy puedo quiero",
    lambda grammar: grammar.first_person,
)
_SELF_JAPANESE = re.compile("私|わたし|わたくし|あたし|僕|ぼく|ボク|俺|おれ|オレ").search


@guarded(lambda question, _user: tuple(filter(None, [question])))
def wordings(question: str, user: str | None) -> tuple[str, ...]:
    """Return the queries for a question: one, or two if it says "I" and the user is known.

    The second begins with the name, as in "Mia What do I eat?", because memories name the user.

    >>> wordings("What do I eat?", "Mia"), wordings("What does Ben eat?", "Mia")
    (('What do I eat?', 'Mia What do I eat?'), ('What does Ben eat?',))
    """
    asks_of_self = user is not None and tells_of_self(question)
    return (question, f"{user} {question}") if asks_of_self else (question,)


@guarded(lambda _text, *, in_english=True: False)  # noqa: ARG005
def tells_of_self(text: str, *, in_english: bool = True) -> bool:
    """Return whether a text has a word such as "I" or "my", in five languages.

    `in_english`: whether English words count.

    >>> tells_of_self("What do I eat?"), tells_of_self("What does Mia eat?")
    (True, False)
    """
    known = _SELF | _SELF_ENGLISH if in_english else _SELF
    return bool(_SELF_JAPANESE(text)) or not known.isdisjoint(_WORDS(text.lower()))
