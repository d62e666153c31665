"""A text's words as a merged text is held against its sources: each with what sort of fact it is.

Hard facts (numbers, dates, names, what says no, what says maybe) are told by rule. Of all other
words only the form is known, so whether one stands for another is left to a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import pairwise, zip_longest

from memory.text.endings import (
    FORMAL_NOUNS,
    SAME_IN_JAPANESE,
    conjugations,
    is_ending,
    modal_endings,
)
from memory.text.inflection import plain_form
from memory.text.naming import names_in, without_genitive
from memory.text.parse import Parse, Word, parse
from memory.text.synonyms import SAME_AS
from memory.text.vocabulary import GERMAN, MONTH_SET, NOT, WEEKDAYS


class Sort(StrEnum):
    """What sort of fact a word states."""

    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    DENIAL = "negation"
    MODALITY = "modality"
    WORD = "word"

    @property
    def is_hard(self) -> bool:
        """Whether it is a fact of its own, whatever the words around it."""
        return self is not Sort.WORD


@dataclass(frozen=True)
class Term:
    """One word that states something.

    `key` names it whatever its tense, `form` with it, `plain` as a dictionary does. `role` is the
    preposition before it or the particle after it, `phrase_role` that of the phrase it stands in.
    `joined`: nothing stands between it and the term before.
    """

    key: str
    form: str
    plain: str
    surface: str
    sort: Sort
    role: str
    phrase_role: str
    joined: bool
    clause: int


@dataclass(frozen=True)
class Wording:
    """A text as its terms, in order."""

    terms: tuple[Term, ...]
    persons: frozenset[str]
    squeezed: str
    """Its letters and digits alone, in lower case."""
    predicates: frozenset[tuple[str, str]]
    """What it says that something is, in lower case: (cat, tabby)."""
    stood_in: frozenset[tuple[str, str]]
    """Words between which a pronoun stands for something, in lower case: says it helps."""
    single: frozenset[str]
    """Words behind "a", in lower case: of which there is one."""
    language: str
    """`ja`, `zh` (read by the character), `de`, or empty: English, or a language like it."""

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(term.key for term in self.terms)

    @cached_property
    def forms(self) -> frozenset[str]:
        return frozenset(term.form for term in self.terms)

    @cached_property
    def words(self) -> frozenset[str]:
        """As it writes them, in lower case."""
        return frozenset(term.surface.casefold() for term in self.terms)

    @cached_property
    def plain_words(self) -> frozenset[str]:
        """As a dictionary does."""
        return frozenset(term.plain for term in self.terms)

    @cached_property
    def compounds(self) -> frozenset[str]:
        """Each two neighbours written as one word."""
        return frozenset(squeezed(a.surface + b.surface) for a, b in pairwise(self.terms))

    @cached_property
    def stems(self) -> Mapping[str, frozenset[str]]:
        """The stems of its words, each with the words that have it."""
        found: dict[str, set[str]] = {}
        for term in self.terms:
            for stem in stems(term.plain):
                found.setdefault(stem, set()).add(term.surface.casefold())
        return {stem: frozenset(words) for stem, words in found.items()}

    @cached_property
    def roles(self) -> Mapping[str, frozenset[str]]:
        """What stands under each role."""
        found: dict[str, set[str]] = {}
        for term in self.terms:
            found.setdefault(term.role, set()).add(term.key)
        return {role: frozenset(keys) for role, keys in found.items()}

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Where each key stands, in order."""
        found: dict[str, list[int]] = {}
        for place, term in enumerate(self.terms):
            found.setdefault(term.key, []).append(place)
        return found

    def places_of(self, term: Term) -> Sequence[int]:
        """Where it stands here; nowhere where it does not."""
        return self.places.get(term.key, ())


_MODAL = frozenset(
    "once formerly previously barely hardly scarcely almost nearly only might may maybe perhaps "
    "probably possibly presumably apparently reportedly allegedly could would should must will if "
    "unless whether except excluding instead rarely seldom sometimes occasionally partly "
    "partially half former ex vice deputy fake false future never "
    "vielleicht früher würde könnte sollte falls außer kaum selten nur beinahe wohl".split()
)
"""Words that make of a fact a maybe, a part or a past. Verbs that do (hopes to, plans to) are
words like any other: another word may say the same."""
_DATES = MONTH_SET | frozenset(WEEKDAYS.values())
_KANA = re.compile("[\u3041-\u30fa]")
_IS = re.compile(r"\b(\w+) (?:is|are|was|were|ist|sind|war) (?:(?:also|an?|the|eine?) )*(\w+)")
_STANDS_IN = re.compile(
    r"(?=\b(\w+) (?:it|her|him|them|they|he|she|this)(?: really| very| so| \w+ly)* (\w+))"
)
_ONLY_GERMAN = GERMAN - {"hat"}
_PERFECT = re.compile(r"\b(?:has|have|['’]ve)(?: (?:not|never|also|always|\w+ly))* (\w+)")
_PAST = "<"
_PERFECTLY = "+"
_SINGLE = re.compile(r"\ban? (\w+)(?: (\w+))?")
_QUOTES = re.compile("[\"“”„«»]|''|``")
_YEAR = re.compile("^(?:1[5-9]|20)[0-9]{2}$")
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
_SHORT_SCALE = re.compile(r"([$€£¥]\s?\d[\d.,]*)[\s-]?(k|mn?|bn?)\b", re.IGNORECASE)
_NOT_ALNUM = re.compile(r"[\W_]+")
_TITLES = frozenset("mr mrs ms dr sir mister herr frau 氏 様 君 殿".split())
_SAYING_NOTHING = _TITLES | FORMAL_NOUNS
_INDEFINITE = frozenset("one ein eine eins".split())
"""Written out, one is hardly ever a count."""


def wordings(texts: Sequence[str]) -> list[Wording]:
    """The words of texts that tell of the same: a name in one of them is one in all."""
    texts = [_plainly_written(text) for text in texts]
    parses = [parse(text) for text in texts]
    languages = [_language(text, read) for text, read in zip(texts, parses, strict=True)]
    names = names_in([t for t, language in zip(texts, languages, strict=True) if language != "de"])
    return [
        Wording(
            (*_terms(text, read, language, names), *_modality(text)),
            frozenset(read.persons),
            squeezed(text),
            _predicates(text),
            frozenset(_STANDS_IN.findall(text.casefold())),
            _single(text),
            language,
        )
        for text, read, language in zip(texts, parses, languages, strict=True)
    ]


def _plainly_written(text: str) -> str:
    """Without quotation marks, and with $250-M and $250m as $250 million."""
    text = _QUOTES.sub(" ", text)
    return _SHORT_SCALE.sub(lambda found: f"{found[1]} {_SCALES[found[2].casefold()]}", text)


def _terms(text: str, read: Parse, language: str, names: frozenset[str]) -> Iterator[Term]:
    marks = conjugations(text) if language == "ja" else _perfects(text)
    phrase_role = ""
    for word, following in zip_longest(read.words, read.words[1:]):
        phrase_role = word.role or (phrase_role if word.joined else "")
        says_nothing = word.key in _SAYING_NOTHING or _is_article(word, following)
        if says_nothing or (language == "ja" and is_ending(word.key, word.joined)):
            continue
        yield Term(
            *_keys(word, marks), plain_form(word.surface.casefold()).word, word.surface,
            _sort(word, following, names), word.role, phrase_role, word.joined, word.clause,
        )  # fmt: skip


def _modality(text: str) -> Iterator[Term]:
    """What only endings tell, as terms behind the others."""
    for key, ending in modal_endings(text):
        yield Term(key, key, key, ending, Sort.MODALITY, "", "", False, -1)


def _keys(word: Word, marks: Mapping[str, str]) -> tuple[str, str]:
    """What it states whatever its tense, and with it; feeling is what one feels."""
    plain = plain_form(word.surface.casefold())
    key = SAME_AS.get(plain.word, plain.word) if plain.progressive else word.key
    key = SAME_IN_JAPANESE.get(key, key)
    mark = marks.get(word.surface.casefold(), "")
    if mark == _PERFECTLY and not word.past:
        mark = ""
    return key, f"{key}{_PAST if word.past else ''}{mark}"


def _perfects(text: str) -> dict[str, str]:
    """Participles behind "has": has worked still holds, worked does not."""
    return dict.fromkeys(_PERFECT.findall(text.casefold()), _PERFECTLY)


def _predicates(text: str) -> frozenset[tuple[str, str]]:
    found = _IS.findall(text.casefold())
    return frozenset(pair for pair in found if not pair[1].endswith(("ing", "ed")))


def _single(text: str) -> frozenset[str]:
    return frozenset(word for pair in _SINGLE.findall(text.casefold()) for word in pair)


def squeezed(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return _NOT_ALNUM.sub("", text).casefold()


def _language(text: str, read: Parse) -> str:
    if read.japanese or _KANA.search(text):
        return "ja"
    if read.spaceless:
        return "zh"
    return "" if _ONLY_GERMAN.isdisjoint(text.casefold().split()) else "de"


def _sort(word: Word, following: Word | None, names: frozenset[str]) -> Sort:
    if word.key == NOT:
        return Sort.DENIAL
    if word.is_number:
        return Sort.DATE if _is_year(word, following) else Sort.NUMBER
    if word.key in _DATES:
        return Sort.DATE
    if word.key in _MODAL:
        return Sort.MODALITY
    return Sort.NAME if without_genitive(word.surface) in names else Sort.WORD


def _is_year(word: Word, following: Word | None) -> bool:
    """Four digits that count nothing."""
    counts = following is not None and following.joined and not following.is_number
    return bool(_YEAR.match(word.key)) and not counts


def _is_article(word: Word, following: Word | None) -> bool:
    """One dog is a dog; one of two is not."""
    return word.surface.casefold() in _INDEFINITE and bool(following and following.joined)


_SUFFIXES = tuple(
    "ing ed ly ment ments ion ions ation ful fully ness ity al ally ous ously ive en ate ism ance "
    "ence y e s es er".split()
)


_SHORT_STEMS = ("ful", "fully", "ing", "ly", "en")


@lru_cache(maxsize=8_192)
def stems(word: str) -> frozenset[str]:
    """What forms of one English word have in common: passion and passionate, wood and wooden."""
    cut = {word.removesuffix(end) for end in _SUFFIXES if word.endswith(end)}
    short = {word.removesuffix(end) for end in _SHORT_STEMS if word.endswith(end)}
    return frozenset([word, *(c for c in cut if len(c) >= 4), *(c for c in short if len(c) >= 3)])


def denials(told: Wording) -> set[tuple[str, ...]]:
    """What it says no to: the two words after each negation, in Japanese the two before it."""
    found = set()
    for place, term in enumerate(told.terms):
        if term.sort is Sort.DENIAL:
            start = max(0, place - 2) if told.language == "ja" else place + 1
            near = told.terms[start : start + 2]
            found.add(tuple(one.key for one in near if one.clause == term.clause))
    return found
