"""Coverage: whether one text states everything that another states, and what it lacks.

Text A covers text B if A states each number, name, negation and content word of B. A different word
order or preposition must not change who does what: in English, a phrase may move to the other end
of a sentence, and no other change of order is accepted. The extra words of A must only add to B:
"a black cat" covers "a cat", "a toy cat" does not. In doubt, neither text covers the other.
Only English is read so far; in other languages, every word counts, in its order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Protocol

from memory.coverage.parse import Parse, Word, parse
from memory.text import (
    BE,
    CAUSAL_NOUNS,
    CONDITIONS,
    DOUBTS,
    ENGLISH,
    IRREGULAR_PLURALS,
    JAPANESE,
    MONTH_SET,
    NARROWING,
    NO_ADVERBS,
    NOT,
    NUMBERS,
    POSITIVE_EST,
    QUALITIES,
    REPORTS,
    STATED,
    TEMPORAL,
    UNITS,
    WEEKDAYS,
    Kind,
    Period,
    Token,
    compatible,
    guarded,
    identity,
    is_code,
    language_of,
    literal_start,
    literal_value,
    may_be_english,
    plain_form,
    quotations,
    tokens,
)


@dataclass(frozen=True)
class Comparison:
    """The differences between two texts, in words for a person to read.

    `only_a`: what only the first text states. `only_b`: what only the second states. A conflict,
    such as a negation in one text, is in both fields, so that neither text covers the other.
    """

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def a_covers_b(self) -> bool:
        return not self.only_b

    @property
    def b_covers_a(self) -> bool:
        return not self.only_a


LONGEST = 4_000
"""Limit in characters for comparing two texts; a longer text covers only an equal text."""


CANNOT_TELL = ("what cannot be compared",)
_ORDER = "word order"


@guarded(lambda _a, _b: Comparison(CANNOT_TELL, CANNOT_TELL))
def compare(a: str, b: str) -> Comparison:
    """Return what `a` states and `b` does not, and what `b` states and `a` does not.

    >>> found = compare("Mia has a cat.", "Mia has a black cat.")
    >>> found.a_covers_b, found.b_covers_a
    (False, True)
    """
    if len(a) > LONGEST or len(b) > LONGEST:
        return _compare_documents(a, b)
    left, right = parse(a), parse(b)
    if left.language == ENGLISH != right.language and may_be_english(b):
        right = parse(b, ENGLISH)
    elif right.language == ENGLISH != left.language and may_be_english(a):
        left = parse(a, ENGLISH)
    if not left.language == right.language == ENGLISH:
        return _compare_in_order(a, b, left, right)
    return _compare_english(
        _Side(a, left, left.counts - right.counts), _Side(b, right, right.counts - left.counts)
    )


@dataclass(frozen=True)
class _Side:
    """One of two compared texts.

    `extra` counts the words that this text has more often than the other text. It maps the form
    of a word for comparison, `Word.stated`, to the number of extra occurrences.
    """

    text: str
    parse: Parse
    extra: Counter[str]

    @cached_property
    def added(self) -> list[bool]:
        """For each word of this text, in order, whether the other text lacks the word.

        If this text has a word more often than the other text, only the extra occurrences count as
        lacking. These are the last ones.
        """
        remaining = dict(self.extra)
        is_extra = []
        for stated in reversed(self.parse.stated):
            is_extra.append(remaining.get(stated, 0) > 0)
            remaining[stated] = remaining.get(stated, 0) - 1
        return is_extra[::-1]


def _compare_english(a: _Side, b: _Side) -> Comparison:
    left, right = a.parse, b.parse
    only_a, only_b = (
        [w.surface for w in side.parse.words if w.stated in side.extra and w.key != NOT]
        for side in (a, b)
    )
    conflict = [
        *([NOT] if left.negations != right.negations else ()),
        *sorted({key for key, _ in left.turning ^ right.turning}),
        *(["?"] if left.asks != right.asks else ()),
        *_written_otherwise(a.text, b.text),
    ]
    for side, other in ((left, right), (right, left)):  # as in "her boat Really"
        conflict += {
            token.key
            for before, token in pairwise(side.tokens)
            if token.kind is Kind.FILLER
            and before.kind is not Kind.STOP
            and token.surface.istitle()
        } - {token.key for token in other.tokens}
    if left.persons != right.persons:
        conflict += _beyond(Counter(left.persons), Counter(right.persons)) or [_ORDER]
    # a sign without a letter or a digit is never a mere addition
    conflict += [key for key in (*a.extra, *b.extra) if not any(map(str.isalnum, key))]
    if not (a.extra and b.extra):
        conflict += _moved(a, b)
        shades = Counter(left.shades), Counter(right.shades)
        only_a += [shade for shade, _ in shades[0] - shades[1]]
        only_b += [shade for shade, _ in shades[1] - shades[0]]
        if not conflict and bool(only_a) != bool(only_b):
            longer, shorter = (a, b) if only_a else (b, a)
            conflict = _changed_by_additions(longer, shorter, only_a or only_b)
        elif not conflict and not only_a:
            conflict = _punctuated_otherwise(left, right)
    return _comparison(only_a, only_b, conflict)


def _comparison(only_a: list[str], only_b: list[str], both: list[str]) -> Comparison:
    return Comparison(tuple(dict.fromkeys(only_a + both)), tuple(dict.fromkeys(only_b + both)))


def _compare_in_order(a: str, b: str, left: Parse, right: Parse) -> Comparison:
    """Compare two texts of which at least one is not English: every word counts, in its order."""
    first, second = _in_order(left, a), _in_order(right, b)
    conflict = _written_otherwise(a, b)
    if first == second and left.asks == right.asks:
        return _comparison([], [], conflict)
    ours, theirs = Counter(first) - Counter(second), Counter(second) - Counter(first)
    only_a, only_b = list(filter(str.strip, ours)), list(filter(str.strip, theirs))
    both = conflict or ([] if only_a and only_b else only_a or only_b or [_ORDER])
    return _comparison(only_a, only_b, both)


def _compare_documents(a: str, b: str) -> Comparison:
    first, second = identity(a), identity(b)
    if first == second:
        return Comparison((), ())
    words = first.split(), second.split()
    only_a, only_b = (
        [word[:40] for word in dict.fromkeys(own) if word not in other][:3]
        for own, other in ((words[0], set(words[1])), (words[1], set(words[0])))
    )
    return Comparison((*only_a, _DOCUMENT), (*only_b, _DOCUMENT))


_DOCUMENT = f"more than {LONGEST:,} characters"


@guarded(lambda _a, _b: False)
def covers(a: str, b: str) -> bool:
    """Return whether `a` states everything that `b` states; False in case of doubt.

    >>> covers("Mia has a black cat.", "Mia has a cat.")
    True
    >>> covers("Mia has no cat.", "Mia has a cat.")
    False
    """
    return compare(a, b).a_covers_b


class Told(Protocol):
    """A text with the moment from which its words count, and the periods that they mean."""

    @property
    def content(self) -> str: ...
    @property
    def said(self) -> datetime | None: ...
    @property
    def timestamp(self) -> datetime: ...
    @property
    def periods(self) -> tuple[Period, ...]: ...


@guarded(lambda _a, _b: Comparison(CANNOT_TELL, CANNOT_TELL))
def compare_memories(a: Told, b: Told) -> Comparison:
    """Return what each of two memories states and the other does not, times included.

    Time expressions that may mean the same time count as equal words: "yesterday" and "on 5
    January". If one memory has more of them, the two are only compared if they were said on the
    same day, since what happened "on 5 January" may have happened on another day too.

    >>> old, new = (store.new_memory(text) for text in ("Mia has a cat.", "Mia has a black cat."))
    >>> compare_memories(old, new).b_covers_a
    True
    """
    if not a.periods and not b.periods:
        return compare(a.content, b.content)
    if len(a.periods) == len(b.periods):
        if compatible(a.periods, b.periods):
            return compare(a.content, _in_words_of(a, b))
    elif (a.said and a.said.date()) == (b.said and b.said.date()):
        return compare(a.content, b.content)
    named = (tuple(period.words for period in one.periods) for one in (a, b))
    return Comparison(*(words or ("another time",) for words in named))


@guarded(lambda _a, _b: False)
def states(a: Told, b: Told) -> bool:
    """Return whether `a` states everything that `b` states; False in case of doubt.

    >>> from datetime import UTC, datetime
    >>> days = datetime(2026, 1, 6, tzinfo=UTC), datetime(2026, 3, 6, tzinfo=UTC)
    >>> states(*(Memory(content="Mia sees a dentist tomorrow.", timestamp=day) for day in days))
    False
    """
    return compare_memories(a, b).a_covers_b


@guarded(lambda _a, _b: True)
def only_times_differ(a: Told, b: Told) -> bool:
    """Return whether two memories have the same words, which mean different times.

    >>> said = datetime(2026, 1, 20, tzinfo=UTC), datetime(2026, 3, 20, tzinfo=UTC)
    >>> old, new = (Memory(content="Mia sees the dentist tomorrow.", timestamp=at) for at in said)
    >>> only_times_differ(old, new)  # so they are two appointments
    True
    """
    return (
        bool(a.periods)
        and not compatible(a.periods, b.periods)
        and (identity(a.content) == identity(b.content))
    )


def _in_words_of(a: Told, b: Told) -> str:
    """Return the text of `b` with the time expressions of `a`, which mean the same."""
    text = b.content
    for mine, other in reversed(list(zip(a.periods, b.periods, strict=True))):
        words = a.content[mine.start : mine.end]
        text = f"{text[: other.start]}{words}{text[other.end :]}"
    return text


def _in_order(parsed: Parse, text: str) -> list[str]:
    """Return every word of a text that is not English, in a form for comparison, in its order.

    Numbers, dates, units and Japanese words have one form. Any other word stays as it is written,
    without the capital of the first word.
    """
    folds = text.islower() or text.isupper()
    found: list[str] = []
    for token in parsed.tokens:
        if parsed.language == JAPANESE or token.kind in (Kind.NUMBER, Kind.SCALE, Kind.STOP):
            found.append("" if token.kind is Kind.FILLER else token.key or ",")
        elif token.key in _DATES_AND_UNITS or is_code(token.surface):
            found.append(token.key)
        else:
            found.append(token.surface.lower() if folds or not found else token.surface)
    while found and found[-1] == ",":
        found.pop()
    return list(filter(None, found))


_DATES_AND_UNITS = MONTH_SET | frozenset(WEEKDAYS.values()) | frozenset(UNITS.values())


# --- order, numbers and prepositions of the shared words ------------------------------------------


def _moved(left: _Side, right: _Side) -> list[str]:
    """Return how the shared words of two English texts differ in order, number or preposition.

    Each item is "word order" or a pair such as "cat / cats" or "in March / by March". Prepositions
    are compared only if no word is singular in one text and plural in the other.
    """
    first, second = _common(left), _common(right)
    if [word.stated for word in first] != [word.stated for word in second]:
        same = not left.extra and not right.extra and _phrase_moved(left.parse, first, second)
        return [] if same else [_ORDER]
    pairs = list(zip(first, second, strict=True))
    apart = any(a.clause != b.clause for a, b in pairs)  # "Mia called and Leo paid"
    if apart and first[-1].clause == second[-1].clause:
        return [_ORDER]
    surfaces = [(a.surface, b.surface) for a, b in pairs]
    numbers = [f"{a} / {b}" for a, b in surfaces if _differ_in_number(a, b)]
    return numbers or [
        f"{a.role} {a.surface}".strip() + " / " + f"{b.role} {b.surface}".strip()
        for a, b in pairs
        if a.role != b.role and not ({a.role, b.role} <= _LOOSE and _is_time(a.key))
    ]


_LOOSE = frozenset({"", "in", "on", "at"})


def _common(side: _Side) -> Sequence[Word]:
    """Drop the words that only this text has; return the others, with adjusted prepositions.

    The preposition of a dropped word goes to the next word: without "big", "in big Paris" becomes
    "in Paris".
    """
    if not side.extra:
        return side.parse.words
    kept: list[Word] = []
    role = ""
    for word, is_added in zip(side.parse.words, side.added, strict=True):
        inherited = role if word.joined and not word.role else word.role
        role = inherited if is_added else ""
        if not is_added:
            kept.append(word if inherited == word.role else word._replace(role=inherited))
    return kept


def _differ_in_number(a: str, b: str) -> bool:
    short, long = sorted((a.casefold(), b.casefold()), key=len)
    if short == long or a.casefold() in UNITS:
        return False
    same = IRREGULAR_PLURALS.get(short, short) == IRREGULAR_PLURALS.get(long, long)
    return same or long in (f"{short}s", f"{short}es", f"{short[:-1]}ies")


# --- phrases that moved ---------------------------------------------------------------------------

_OPENING = frozenset({"near", "under", "behind", "during", "since", "after", "before"})
_NO_PHRASE = frozenset({"", "of", "than", "as"})
_BINDING = (
    REPORTS | DOUBTS | CONDITIONS | CAUSAL_NOUNS | frozenset("that who which because".split())
)


def _phrase_moved(parsed: Parse, first: Sequence[Word], second: Sequence[Word]) -> bool:
    """Return whether one phrase only moved from one end of a plain sentence to the other.

    It may belong to another word there if the text denies, reports, has a second clause or an
    infinitive: "in June she agreed to marry". The
    two sides of "is" may change places if one has an owner: "Mia's favourite is tea".
    """
    keys = {token.key for token in parsed.tokens if token.surface != "May"}
    infinitive = any(
        to.surface == "to" and after.kind is Kind.CONTENT and after.surface.islower()
        for to, after in pairwise(parsed.tokens)
    )
    if parsed.negations or infinitive or not keys.isdisjoint(_BINDING):
        return False
    ours, theirs = (
        [(w.stated, "" if w.role in _LOOSE and _is_time(w.key) else w.role) for w in words]
        for words in (first, second)
    )
    cut = next((n for n in range(1, len(ours)) if ours[n:] + ours[:n] == theirs), 0)
    ends = (first[:cut], first[cut:]) if cut else ()
    return any(
        _is_phrase(phrase) and not rest[0].role and rest[0].clause == rest[-1].clause
        for phrase, rest in zip(ends, reversed(ends), strict=True)
    ) or (cut > 0 and not parsed.turning and _equates(parsed.tokens, ends))


def _equates(tokens: Sequence[Token], sides: Sequence[Sequence[Word]]) -> bool:
    """Return whether a sentence only says that its two sides are one: "Mia's pet is Bo"."""
    verbs = [token for token in tokens if token.kind in STATED or token.key in BE]
    between = [token.surface for token in verbs[len(sides[0]) : -len(sides[1])]]
    words = [word for side in sides for word in side]
    owned = any(word.key == "have" and word.surface in ("'s", "’s") for word in words)
    return owned and between == ["is"] and not any(word.role for word in words)


def _is_phrase(words: Sequence[Word]) -> bool:
    first = words[0]
    opens = first.role not in _NO_PHRASE or _is_time(first.key) or first.key in _OPENING
    return opens and all(
        word.role not in _NO_PHRASE or word.joined or _is_time(word.key) for word in words[1:]
    )


def _is_time(key: str) -> bool:
    """Return whether the key of a word denotes a day, a month, a year or an hour of a day."""
    return key in TEMPORAL or key.startswith(("at ", "day ")) or (key.isdigit() and len(key) == 4)


# --- additions ------------------------------------------------------------------------------------

_MOST = 2
"""Limit in words for an addition; more of them may be another statement."""
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?").findall
_REACHING = re.compile(
    r":|\b(?:as|so) (?:long|far|soon|much|many) as\b|\btoo\s+\w"
    r"|\b(?:stop|quit|ceas)\w*\s+(?:\w+ing|to)\b"
    r"|\b(?:is|are|was|were|been|be|become|becomes|became)\s+(?:\w+\s+){0,2}?(?:extinct|endangered"
    r"|species|subspecies|breed|breeds|genus|domesticated|invented|widespread|native|endemic"
    r"|abundant|numerous|common|rare|scarce|indigenous)\b"
    r"|\b(?:rank(?:s|ed|ing|ings)?|respectively|sorted|former|latter|in turn|by (?:age|size|height"
    r"|weight|length|date|name|price|value|priority|importance)|(?:allergic to|intolerant of"
    r"|immune to|averse to|(?:afraid|scared|frightened|fond|wary|tired|sick) of|interested in"
    r"|(?:good|bad) at|keen on|experts? (?:on|in)))\b",
    re.IGNORECASE,
).search
"""Finds words that reach over the whole text, so that no other word only adds to it."""
_JOINING = re.compile(
    r"[,;&]|['’]s\b|s['’](?!\w)|\b(?:and|or|nor|that|which|whom?|whose|where)\b", re.IGNORECASE
).findall
_DEFINITE = re.compile(r"\s*(?:the|these|those)\b", re.IGNORECASE).match
_PICTURED = re.compile(r"\b(?:is|are|was|were|am)\s+(?:\w+ly\s+)?\w+ing\b", re.IGNORECASE).search
_DENIED = DOUBTS | CONDITIONS | REPORTS | NARROWING


def _changed_by_additions(longer: _Side, shorter: _Side, extra: list[str]) -> list[str]:
    """Return the extra words of `longer` that change what `shorter` states; [] if none does.

    `extra`: all words that only `longer` has. Some texts, such as questions, do not allow a check
    of single words; then `extra` is returned.
    """
    text, words, added = longer.text, longer.parse.words, longer.added
    positions = [n for n, is_added in enumerate(added) if is_added]
    if (
        len(positions) > _MOST
        or longer.parse.asks
        or longer.parse.negations
        or _REACHING(text)
        or len(_JOINING(text)) != len(_JOINING(shorter.text))
        or any(map(_narrows, _WORDS(text)))
        or (_DEFINITE(shorter.text) and not _DEFINITE(text))
    ):
        return extra
    happened = any(word.past for word in words) or _PICTURED(text) is not None
    return [words[n].surface for n in positions if not _only_adds(words, n, added, happened)]


def _narrows(word: str) -> bool:
    low = word if word == "May" else word.casefold()
    is_superlative = low.endswith("est") and len(low) > 4 and low not in POSITIVE_EST
    return is_superlative or low in _DENIED or plain_form(low).word in _DENIED


def _only_adds(words: Sequence[Word], position: int, added: Sequence[bool], happened: bool) -> bool:
    word = words[position]
    if word.key == "have" or (word.is_number and word.key != "1") or (word.role and not position):
        return False
    surface = word.surface
    if surface.endswith("ly") and surface.islower() and surface not in NO_ADVERBS:
        return not word.role  # an adverb of manner: "slowly", but not "Kimberly"
    if surface.casefold() not in QUALITIES and word.key not in ("1", "some"):
        return False
    rest = [n for n in range(position + 1, len(words)) if not added[n]]
    if not rest or not all(words[n].joined for n in range(position + 1, rest[0] + 1)):
        return False
    head = words[rest[0]]
    is_compound = word.joined and position > 0 and not added[position - 1]
    is_name = head.surface[:1].isupper() and word.surface[:1].isupper()
    is_plural = plain_form(head.surface).word != head.surface
    of_a_kind = is_plural and not happened and word.key != "some"
    return not (is_compound or is_name or of_a_kind or head.is_number)


# --- values, quotations, capitals, commas ---------------------------------------------------------


def _written_otherwise(a: str, b: str) -> list[str]:
    """Return the words and values that the two texts write differently; [] if there are none.

    Compared are literal values, quotations, words with a hyphen, and words with a capital.
    """
    if literal_start(a) or literal_start(b):
        return _other_value(a, b)
    if quoted := _beyond(quotations(a), quotations(b)):
        return quoted
    hyphenated = (
        Counter(word for word in map(str.casefold, _WITH_HYPHEN(text)) if not _IN_NUMBERS(word))
        for text in (a, b)
    )
    return _beyond(*hyphenated) + _capitals(a, b) + _capitals(b, a)


def _other_value(a: str, b: str) -> list[str]:
    value, other = literal_value(a), literal_value(b)
    if value != other and min(len(value.split()), len(other.split())) <= _LONGEST_VALUE:
        return list(filter(None, (value, other)))
    if not language_of(a) == language_of(b) == ENGLISH:
        return [] if a.strip() == b.strip() else [a, b]
    chunks = (Counter(text.rstrip(".!").split()) for text in (a, b))
    return [
        word
        for word in _beyond(*chunks)
        if any(token.kind not in _SMALL and token.key != "have" for token in tokens(word))
    ]


_LONGEST_VALUE = 8  # words; more of them are no value
_SMALL = frozenset({Kind.FILLER, Kind.GOVERNING, Kind.STOP})


def _beyond(first: Counter[str], second: Counter[str]) -> list[str]:
    """Return what only one of two counters has, or has more often."""
    return [*(first - second), *(second - first)]


_WITH_HYPHEN = re.compile(r"(?<![^\W_])[^\W_]++(?:[-‐][^\W_]++)+").findall
_NUMBER = rf"(?:\d+|{'|'.join(NUMBERS)})"
_IN_NUMBERS = re.compile(rf"{_NUMBER}(?:[-‐]{_NUMBER})*").fullmatch
"""Matches words such as "twenty-one"; the hyphen in other words says what belongs together."""


_INNER_CAPITAL = re.compile(r"(?<![.!?:\n]\s)(?<!^)(?<![^\W_])(?<![\"“„‘(])[^\W\d_a-zß-ÿ]\w*")
_LETTERED = re.compile(r"[^\W\d_]\w*").findall


def _capitals(text: str, other: str) -> list[str]:
    """Return the words that only `text` writes with a capital, though no sentence begins there."""
    if any(one.isupper() or one.islower() for one in (text, other)):
        return []
    words = set(_LETTERED(other))
    found = _INNER_CAPITAL.findall(text)
    return [
        w for w in found if w != w.lower() and w not in words and w.lower() in words and w != "I"
    ]


_ARTICLES = {"an": "a"} | {word: word for word in "a the this that these those".split()}


def _punctuated_otherwise(left: Parse, right: Parse) -> list[str]:
    """Return how two English texts with the same words differ in articles or commas.

    An article that opens a text does not count: "A man sings", "The man sings".
    """
    behind = (parsed.tokens[1 + parsed.passive :] for parsed in (left, right))
    articles = _beyond(
        *(Counter(_ARTICLES[t.key] for t in found if t.key in _ARTICLES) for found in behind)
    )
    if articles or left.stated != right.stated:
        return articles
    return [] if _commas(left) == _commas(right) else [","]


def _commas(parsed: Parse) -> Sequence[int]:
    """Return how many words stand before each comma, except those after an opening phrase.

    Nothing is stated before the comma of "Actually, ...". Other punctuation counts as a comma.
    Before "and", "or" and "but" it makes no difference.
    """
    found, count = [], 0
    for token, behind in zip(parsed.tokens, parsed.tokens[1:], strict=False):
        if token.kind in STATED:
            count += 1
        elif token.kind is Kind.STOP and behind.key not in _CONJUNCTIONS and not _YEAR(behind.key):
            found.append(count)
    if found and parsed.words and parsed.words[0].role:
        found = found[1:]
    return [before for before in found if 0 < before < count]


_CONJUNCTIONS = frozenset({"and", "or", "but"})
_YEAR = re.compile(r"\d{4}").fullmatch
