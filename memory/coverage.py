"""What one text states that another does not. Pure; cosine cannot see it.

A first version: numbers, negation, names in order, content words after light normalisation, in
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
    "nicht kein keine keinen keiner nie niemals ohne".split()
)
_FILLERS = frozenset(
    "a an the of in on at for with and by as that this these those it its his her their he she "
    "they i my you your we our me him them us is are am be been being has have had do does did "
    "also just very really quite so too then which who whom into about there".split()
)
_JAPANESE_FILLERS = frozenset(
    "の は が を に へ で と も や から です ます でした ました だ だった した する している "
    "います いる ある あります さんは さんの さん".split()
)
_JAPANESE_NEGATION = re.compile("ない|なかった|ません|なく|ずに")
_TOKEN = re.compile(
    r"(?P<number>\d[\d.,:/-]*\d|\d)"
    r"|(?P<han>[\u3400-\u9fff\uf900-\ufaff々])"
    r"|(?P<hiragana>[\u3041-\u309f]+)"
    r"|(?P<katakana>[\u30a0-\u30ff]+)"
    r"|(?P<word>[^\W\d_\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+(?:['’][^\W\d_]+)?)"
    r"|(?P<sign>[$€£¥%°§&+^])"
)
_GENITIVE = re.compile(r"['’]s?$")
_CONTRACTED_NOT = re.compile(r"n['’]t$")


@dataclass(frozen=True)
class Comparison:
    """What each of two texts states that the other does not, as words a person can read."""

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def a_covers_b(self) -> bool:
        return not self.only_b

    @property
    def b_covers_a(self) -> bool:
        return not self.only_a

    @property
    def summary(self) -> str:
        """`"October 15" / "October 16"`; empty where nothing differs."""
        if not self.only_a and not self.only_b:
            return ""
        return f'"{" ".join(self.only_a)}" / "{" ".join(self.only_b)}"'


@dataclass(frozen=True)
class _Profile:
    statements: Counter[str]
    surface: dict[str, str]
    names: tuple[str, ...]


def compare(a: str, b: str) -> Comparison:
    """What `a` states beyond `b`, and `b` beyond `a`."""
    left, right = _profile(a), _profile(b)
    only_a = _beyond(left, right)
    only_b = _beyond(right, left)
    if not (only_a and only_b):
        swapped = _swapped(left, right)
        only_a, only_b = only_a + swapped, only_b + swapped
    return Comparison(only_a, only_b)


def covers(a: str, b: str) -> bool:
    """Whether everything that `b` states is stated by `a`."""
    return compare(a, b).a_covers_b


def beyond(a: str, b: str) -> tuple[str, ...]:
    """What `a` states and `b` does not, whatever the order things are told in."""
    return _beyond(_profile(a), _profile(b))


def _beyond(left: _Profile, right: _Profile) -> tuple[str, ...]:
    return tuple(left.surface[key] for key in left.statements - right.statements)


def _swapped(left: _Profile, right: _Profile) -> tuple[str, ...]:
    """Names and numbers that both texts state, where their order differs: who did it to whom."""
    shared = set(left.names) & set(right.names)
    first = [name for name in left.names if name in shared]
    second = [name for name in right.names if name in shared]
    return () if first == second else ("order of " + ", ".join(dict.fromkeys(first)),)


@lru_cache(maxsize=16_384)
def _profile(text: str) -> _Profile:
    plain = unicodedata.normalize("NFKC", text)
    statements: Counter[str] = Counter()
    surface: dict[str, str] = {}
    names: list[str] = []
    for match in _TOKEN.finditer(plain):
        kind, token = str(match.lastgroup), match.group()
        for key in _keys(kind, token):
            statements[key] += 1
            surface.setdefault(key, token)
            if kind in ("number", "katakana", "han") or token[:1].isupper() or key == "not":
                names.append(key)
    return _Profile(_as_set(statements), surface, tuple(names))


def _as_set(statements: Counter[str]) -> Counter[str]:
    """A word said twice states no more; a second "not" turns the first around."""
    return Counter({key: n if key == "not" else 1 for key, n in statements.items()})


def _keys(kind: str, token: str) -> tuple[str, ...]:
    if kind == "number":
        return (re.sub(r",(?=\d{3})", "", token),)
    if kind == "hiragana":
        negated = ("not",) if _JAPANESE_NEGATION.search(token) else ()
        return negated if token in _JAPANESE_FILLERS else (*negated, token)
    if kind != "word":
        return (token,)
    return _word_keys(_GENITIVE.sub("", token.casefold()))


def _word_keys(word: str) -> tuple[str, ...]:
    if word in _NEGATIONS or _CONTRACTED_NOT.search(word):
        return ("not",)
    if word in _FILLERS:
        return ()
    return (_NUMBER_WORDS.get(word) or _stem(word),)


def _stem(word: str) -> str:
    """Plural and third person, no more: what a tense tells may matter."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
