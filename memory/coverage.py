"""What one text states that another does not. Pure; cosine cannot see it.

A first version: numbers, negation, content words after light normalisation, their order, in
any script. It errs on the side of "differs", which sends a pair to the judge and never loses one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

_NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70"}
_NEGATIONS = frozenset(
    "not no never none nobody nothing neither nor nowhere without cannot "
    "nicht kein keine keinen keiner nie niemals ohne pas jamais sans nunca não sin не нет без "
    "不 没 沒 未 无 無 非 别".split()
)
_TURNING = frozenset(
    "was were had used once formerly barely hardly scarcely almost nearly only might may maybe "
    "perhaps probably possibly could would should if unless hope hopes hoped want wants wanted "
    "wish wishes plan plans planned planning intend intends consider considers considering will "
    "going stop stops stopped quit quits refuse refuses refused".split()
)
_FILLERS = frozenset(
    "a an the of in on at for with and by as that this these those it its his her their he she "
    "they i my you your we our me him them us is are be been being has have do does "
    "also just very really quite so too then which who whom into about there".split()
)
_JAPANESE_FILLERS = frozenset(
    "の は が を に へ で と も や から です ます でした ました だ だった した する している "
    "います いる ある あります っている っています ている ています "
    "んでいる んでいます さんは さんの さん".split()
)
_JAPANESE_NEGATION = re.compile("ない|なかった|ません|なく|ずに")
_TOKEN = re.compile(
    r"(?P<number>(?<![\w.])[-−]?\d[\d.,:/-]*\d|(?<![\w.])[-−]?\d|\d)"
    r"|(?P<han>[\u3400-\u9fff\uf900-\ufaff々])"
    r"|(?P<hiragana>[\u3041-\u309f]+)"
    r"|(?P<katakana>[\u30a0-\u30ff]+)"
    r"|(?P<word>[^\W\d_\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+(?:['’][^\W\d_]+)?)"
    r"|(?P<sign>[$€£¥%°§&+^\u2600-\u27bf\U0001f300-\U0001faff])"
)
_NOT = "not"
_GENITIVE = re.compile(r"['’]s?$")
_CONTRACTED_NOT = re.compile(r"n['’]t$")


@dataclass(frozen=True)
class Comparison:
    """What each of two texts states that the other does not, as words a person can read.

    `conflict` is what stands against the other on both sides, and so in `only_a` and `only_b`: a
    negation or a "used to" that one of them has, the order of the words that both have.
    """

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    conflict: tuple[str, ...] = ()

    @property
    def a_covers_b(self) -> bool:
        return not self.only_b

    @property
    def b_covers_a(self) -> bool:
        return not self.only_a

    @property
    def summary(self) -> str:
        """`"October 15" / "October 16"`; empty where nothing differs."""
        a, b = " ".join(self.only_a), " ".join(self.only_b)
        if a == b:
            return a
        return f'"{a}" / "{b}"' if a and b else f'one adds "{a or b}"'


@dataclass(frozen=True)
class _Profile:
    statements: frozenset[str]
    numbers: Counter[str]
    """How often each number stands: "May 3 at 5" is not "May 5 at 5"."""
    asks: bool
    surface: dict[str, str]
    """How each statement is worded, in the order of first mention."""
    negations: int


def compare(a: str, b: str) -> Comparison:
    """What `a` states beyond `b`, and `b` beyond `a`."""
    left, right = _profile(a), _profile(b)
    conflict = _turned(left, right) + _swapped(left, right)
    only_a, only_b = _beyond(left, right), _beyond(right, left)
    return Comparison(_once(only_a, conflict), _once(only_b, conflict), conflict)


def covers(a: str, b: str) -> bool:
    """Whether everything that `b` states is stated by `a`."""
    return compare(a, b).a_covers_b


def beyond(a: str, b: str) -> tuple[str, ...]:
    """What `a` states and `b` does not, whatever the order things are told in."""
    return _beyond(_profile(a), _profile(b))


def negations(text: str) -> int:
    """How many times it says no."""
    return _profile(text).negations


def shared(a: str, b: str) -> tuple[int, int]:
    """How many statements two texts have in common, and how many the shorter one makes."""
    left, right = _profile(a).statements, _profile(b).statements
    return len(left & right), min(len(left), len(right))


def _beyond(left: _Profile, right: _Profile) -> tuple[str, ...]:
    missing = left.statements - right.statements - {_NOT}
    missing |= set(left.numbers - right.numbers)
    return tuple(word for key, word in left.surface.items() if key in missing)


def _once(*told: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for some in told for word in some))


def _turned(left: _Profile, right: _Profile) -> tuple[str, ...]:
    """What only one has and turns a statement around: not, had, might, hopes, a question mark."""
    negated = () if left.negations == right.negations else (_NOT,)
    turning = sorted((left.statements ^ right.statements) & _TURNING)
    return (*negated, *turning, *(() if left.asks == right.asks else ("?",)))


def _swapped(left: _Profile, right: _Profile) -> tuple[str, ...]:
    """Words that both texts have, in another order: who did what to whom.

    One phrase that moved ("In May Mia left" / "Mia left in May") changes nothing; so the shared
    words may be a rotation of each other between a common start and end. Two neighbours that
    changed places ("Mia is Tom's aunt" / "Tom is Mia's aunt") are no such phrase.
    """
    first = [key for key in left.surface if key in right.statements]
    second = [key for key in right.surface if key in left.statements]
    while first and second and first[0] == second[0]:
        del first[0], second[0]
    while first and second and first[-1] == second[-1]:
        del first[-1], second[-1]
    turns = (first[n:] + first[:n] for n in range(len(first)))
    moved = len(first) > 2 and second in turns
    return () if moved or first == second else ("word order",)


@lru_cache(maxsize=16_384)
def _profile(text: str) -> _Profile:
    plain = unicodedata.normalize("NFKC", text)
    surface: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    negations = 0
    for match in _TOKEN.finditer(plain):
        kind, token = str(match.lastgroup), match.group()
        for key in _keys(kind, token):
            negations += key == _NOT
            numbers[key] += kind == "number" or key.isdigit()
            surface.setdefault(key, token)
    asks = plain.rstrip().endswith(("?", "？"))
    return _Profile(frozenset(surface), +numbers, asks, surface, negations)


def _keys(kind: str, token: str) -> tuple[str, ...]:
    if kind == "number":
        return (re.sub(r",(?=\d{3})", "", token).replace("−", "-"),)
    if token in _NEGATIONS or (kind == "word" and token.isupper() and len(token) > 1):
        return (_NOT if token in _NEGATIONS else token.casefold(),)
    if kind == "hiragana":
        negated = (_NOT,) if _JAPANESE_NEGATION.search(token) else ()
        return negated if token in _JAPANESE_FILLERS else (*negated, token)
    if kind != "word":
        return (token,)
    return _word_keys(_GENITIVE.sub("", token.casefold()))


def _word_keys(word: str) -> tuple[str, ...]:
    if word in _NEGATIONS or _CONTRACTED_NOT.search(word):
        return (_NOT,)
    if word in _FILLERS:
        return ()
    if word in _TURNING:
        return (word,)
    return (_NUMBER_WORDS.get(word) or _stem(word),)


def _stem(word: str) -> str:
    """Plural and third person, no more: what a tense tells may matter."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
