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

from memory.text.inflection import plain_form
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
_FINITE = frozenset("is was has had does did will would can could may might must should".split())
_KANA = re.compile("[\u3041-\u30fa]")
_HIRAGANA = re.compile("^[\u3041-\u309f]+$")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;。\n\"“”‘(-]\s*)([^\W\d_][\w'’]*)")
_IS = re.compile(r"(\w+) (?:is|are|was|were|ist|sind|war) (?:(?:also|an?|the|eine?) )*(\w+)")
_STANDS_IN = re.compile(
    r"(?=\b(\w+) (?:it|her|him|them|they|he|she|this)(?: really| very| so| \w+ly)* (\w+))"
)
_ONLY_GERMAN = GERMAN - {"hat"}
_PERFECT = re.compile(r"\b(?:has|have|['’]ve)(?: (?:not|never|also|always|\w+ly))* (\w+)")
_HAN = "[\u3400-\u9fff々]+"
_VOICE = re.compile(f"({_HAN})[\u3041-\u309f]?([せれ])(?=[るたてまなず])")
_PAST = "<"
_PERFECTLY = "+"
_LAST_VERB = re.compile(f"({_HAN})(?![はがをにのとへ])([\u3041-\u309f]+)(?:[。!?！？]|$)")
_DONE = re.compile("た$|[んい]だ$")
_SINGLE = re.compile(r"\ban? (\w+)(?: (\w+))?")
_QUOTES = re.compile("[\"“”„«»]|''|``")
_YEAR = re.compile("^(?:1[5-9]|20)[0-9]{2}$")
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
_SHORT_SCALE = re.compile(r"([$€£¥]\s?\d[\d.,]*)[\s-]?(k|mn?|bn?)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][\w'’]*")
_GENITIVE = re.compile(r"['’]s?$")
_NOT_ALNUM = re.compile(r"[\W_]+")
_TITLES = frozenset("mr mrs ms dr sir mister herr frau 氏 様 君 殿".split())
_FORMAL_NOUNS = frozenset("間 事 物 者 旨 際 為 様子".split())
"""What Japanese makes phrases with, and which states nothing by itself."""
_INDEFINITE = frozenset("one ein eine eins".split())
"""Written out, one is hardly ever a count."""


def wordings(texts: Sequence[str]) -> list[Wording]:
    """The words of texts that tell of the same: a name in one of them is one in all."""
    texts = [_plainly_written(text) for text in texts]
    parses = [parse(text) for text in texts]
    languages = [_language(text, read) for text, read in zip(texts, parses, strict=True)]
    named = frozenset[str]().union(
        *(_named(text) for text, language in zip(texts, languages, strict=True) if language != "de")
    )
    written_small = {word for text in texts for word in _WORD.findall(text) if word.islower()}
    names = frozenset(name for name in named if name.casefold() not in written_small)
    return [
        Wording(
            (*_terms(text, read, language, names), *_japanese_modality(text)),
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
    marks = _conjugations(text) if language == "ja" else _perfects(text)
    phrase_role = ""
    for word, following in zip_longest(read.words, read.words[1:]):
        phrase_role = word.role or (phrase_role if word.joined else "")
        says_nothing = word.key in _TITLES | _FORMAL_NOUNS or _is_article(word, following)
        if says_nothing or (language == "ja" and _is_ending(word)):
            continue
        yield Term(
            *_keys(word, marks), plain_form(word.surface.casefold()).word, word.surface,
            _sort(word, following, names), word.role, phrase_role, word.joined, word.clause,
        )  # fmt: skip


def _japanese_modality(text: str) -> Iterator[Term]:
    """What makes of a Japanese statement a wish, a guess or a duty, as terms behind the others."""
    for pattern, key in _JAPANESE_MODALITY:
        if found := pattern.search(text):
            yield Term(key, key, key, found[0], Sort.MODALITY, "", "", False, -1)


_JAPANESE_MODALITY = tuple(
    (re.compile(pattern), key)
    for key, pattern in (
        ("たい", "(?<=[いきしちにひみりぎじびえけせてねへめれげべ])(?:たい|たかった|たく)"),
        ("だろう", "だろう|でしょう|かもしれ|らしい"),
        ("べき", "べき|なければ|なくては|ないといけ"),
        ("つもり", "つもり|予定"),
    )
)


def _keys(word: Word, marks: Mapping[str, str]) -> tuple[str, str]:
    """What it states whatever its tense, and with it; feeling is what one feels."""
    plain = plain_form(word.surface.casefold())
    key = SAME_AS.get(plain.word, plain.word) if plain.progressive else word.key
    key = _SAME_IN_JAPANESE.get(key, key)
    mark = marks.get(word.surface.casefold(), "")
    if mark == _PERFECTLY and not word.past:
        mark = ""
    return key, f"{key}{_PAST if word.past else ''}{mark}"


_SAME_IN_JAPANESE = {
    word: group.split()[0]
    for group in (
        "男性 男", "女性 女", "子供 子ども こども", "述 言 語", "スケートボード スケボー",
        "スマートフォン スマホ", "車 自動車", "電車 列車", "飛行機 航空機", "薬 医薬品",
        "会社 企業", "値段 価格", "昨年 去年", "今日 本日", "オートバイ バイク", "パソコン コンピューター",
        "走 駆", "海岸 海辺", "休日 休み",
    )
    for word in group.split()
}  # fmt: skip
"""A Japanese word -> the word that stands for its group: a reader of one loses nothing."""


def _perfects(text: str) -> dict[str, str]:
    """Participles behind "has": has worked still holds, worked does not."""
    return dict.fromkeys(_PERFECT.findall(text.casefold()), _PERFECTLY)


def _conjugations(text: str) -> dict[str, str]:
    """Japanese verbs by their kanji: done to, made to, done; as far as their endings tell."""
    marks = dict(_VOICE.findall(text))
    for stem, ending in _LAST_VERB.findall(text):
        marks[stem] = marks.get(stem, "") + ("<" if _DONE.search(ending) else ">")
    return marks


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


def _named(text: str) -> frozenset[str]:
    """The words that a capital shows to be names, where not every word has one."""
    words = _WORD.findall(text)
    long = [word for word in words if len(word) > 3]
    if len(long) > 2 and sum(word[0].isupper() for word in long) > 0.7 * len(long):
        return frozenset()
    initial = frozenset(_SENTENCE_START.findall(text))
    return frozenset(
        _GENITIVE.sub("", word)
        for word, following in zip_longest(words, words[1:], fillvalue="")
        if word[0].isupper() and (word not in initial or _is_singular_verb(word, following))
    )


def _is_singular_verb(word: str, following: str) -> bool:
    """Whether a word without an article is followed by a verb for one: Mia has, Mia's."""
    verb = following in _FINITE or (following.endswith("s") and following.islower())
    return word.endswith(("'s", "’s")) or (verb and not word.endswith("s"))


def _sort(word: Word, following: Word | None, names: frozenset[str]) -> Sort:
    if word.key == NOT:
        return Sort.DENIAL
    if word.is_number:
        return Sort.DATE if _is_year(word, following) else Sort.NUMBER
    if word.key in _DATES:
        return Sort.DATE
    if word.key in _MODAL:
        return Sort.MODALITY
    return Sort.NAME if _GENITIVE.sub("", word.surface) in names else Sort.WORD


def _is_year(word: Word, following: Word | None) -> bool:
    """Four digits that count nothing."""
    counts = following is not None and following.joined and not following.is_number
    return bool(_YEAR.match(word.key)) and not counts


def _is_article(word: Word, following: Word | None) -> bool:
    """One dog is a dog; one of two is not."""
    return word.surface.casefold() in _INDEFINITE and bool(following and following.joined)


def _is_ending(word: Word) -> bool:
    return bool(_HIRAGANA.match(word.key)) and (word.joined or bool(_LIGHT.match(word.key)))


_LIGHT = re.compile(
    "^(?:(?:し|す|され|させ|い|あ)(?:て|た|る|ま|っ|れ|$).*|な(?:っ|る|り).*|ところ.*|こと.*|もの.*"
    "|ため.*|よう.*|うち.*|とい.*|とし.*|によ.*|につい.*|よると.*|です.*|だ.*|ます.*|まし.*"
    "|これ|それ|この|その|ここ|そこ|また|そして|ら?れ[てたる].*)$"
)
"""What Japanese says with words that state nothing by themselves."""


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
