"""What one text states that another does not. Pure; cosine cannot see it.

A text covers another where it states each of the other's numbers, names, negations and content
words, as often, in an order that does not change who does what, each governed as it was, and where
what it adds only adds: "a tabby cat" covers "a cat", "a cat allergy" does not. Whatever is not
known to be safe counts as a difference, which sends a pair to the judge and never loses one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from memory.text.parse import Parse, Stated, Word, parse
from memory.text.vocabulary import IRREGULAR_PLURALS, NOT, TEMPORAL, UNITS

_ORDER = "word order"


@dataclass(frozen=True)
class Comparison:
    """What each of two texts states that the other does not, as words a person can read.

    `conflict` is what stands against the other on both sides, and so in `only_a` and `only_b`: a
    negation or a "used to" that one of them has, the order of the words that both have, another
    word that governs one ("for Mia" / "with Mia"), an addition that changes what it is added to.
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


_SAME = Comparison((), ())


def compare(a: str, b: str) -> Comparison:
    """What `a` states beyond `b`, and `b` beyond `a`."""
    left, right = parse(a), parse(b)
    conflict = _turned_around(left, right)
    if left.keys == right.keys and left.pasts == right.pasts:
        if left.roles != right.roles or left.surfaces != right.surfaces:
            conflict += _governed(left.words, right.words)
        return Comparison(conflict, conflict, conflict) if conflict else _SAME
    more_left, more_right = _more(left.stated, right.stated)
    only_a, only_b = _worded(left, more_left), _worded(right, more_right)
    if not (more_left and more_right):
        conflict += _moved(left, right, more_left, more_right)
    if not conflict and bool(more_left) != bool(more_right):
        longer, more = (left, more_left) if more_left else (right, more_right)
        conflict = _changed_by_additions(longer, more)
        only_a, only_b = _untold(only_a, conflict), _untold(only_b, conflict)
    return Comparison(_once(only_a, conflict), _once(only_b, conflict), conflict)


def _untold(words: tuple[str, ...], phrases: tuple[str, ...]) -> tuple[str, ...]:
    """The words that are in none of the phrases."""
    told = {word for phrase in phrases for word in phrase.split()}
    return tuple(word for word in words if word not in told)


def covers(a: str, b: str) -> bool:
    """Whether everything that `b` states is stated by `a`."""
    return compare(a, b).a_covers_b


def negations(text: str) -> int:
    """How many times it says no."""
    return parse(text).negations


def denied(text: str) -> frozenset[tuple[str, str]]:
    """What it says no to: the two words after each negation, plain; "" where the clause ends."""
    words = [word for word in parse(text).words if word.key != NOT or not word.joined]
    found = set()
    for place, word in enumerate(words):
        if word.key == NOT:
            clause = [w.key for w in words[place + 1 : place + 3] if w.clause == word.clause]
            first, second, *_ = [*clause, "", ""]
            found.add((first, second))
    return frozenset(found)


def names(text: str) -> list[str]:
    """Words written with a capital, plain, in order, each once; the first may be a common word."""
    parsed = parse(text)
    written = zip(parsed.keys, parsed.surfaces, strict=True)
    return list(dict.fromkeys(key for key, surface in written if surface[:1].isupper()))


def amounts(text: str) -> frozenset[tuple[str, str]]:
    """Each number with the word right after it, plain: (2, cat). Years and times stand alone."""
    words = parse(text).words
    return frozenset(
        (number.key, counted.key)
        for number, counted in pairwise(words)
        if number.is_number and counted.joined and not _is_time(number.key)
    )


def persons(text: str) -> frozenset[str]:
    """Whom its pronouns mean: I, you, he, she, we, they."""
    return frozenset(parse(text).persons)


def replaced(older: str, newer: str) -> frozenset[str]:
    """What the older text says, plain, where the newer says something else in the same place.

    Only short stretches count, of texts that mostly say the same: a number for a number, a name
    for a name, a few words for a few.
    """
    before, after = parse(older).words, parse(newer).words
    matcher = SequenceMatcher(
        None, [w.stated for w in before], [w.stated for w in after], autojunk=False
    )
    if matcher.ratio() < _MOSTLY:
        return frozenset()
    return frozenset(
        word.key
        for change, a, b, c, d in matcher.get_opcodes()
        if change == "replace" and max(b - a, d - c) <= _FEW_WORDS
        for word in before[a:b]
        if not word.is_number or any(other.is_number for other in after[c:d])
    )


_FEW_WORDS = 3
_MOSTLY = 0.5


def missing(text: str, stated_in: str) -> dict[str, str]:
    """What `stated_in` states and `text` does not: plain form -> how it is worded."""
    here = set(parse(text).stated)
    return {
        word.key: word.surface
        for word in parse(stated_in).words
        if word.stated not in here and word.key != NOT
    }


def shared(a: str, b: str) -> tuple[int, int]:
    """How many statements two texts have in common, and how many the shorter one makes."""
    left, right = set(parse(a).stated), set(parse(b).stated)
    return len(left & right), min(len(left), len(right))


_More = dict[Stated, int]


def _more(left: Sequence[Stated], right: Sequence[Stated]) -> tuple[_More, _More]:
    """What stands more often in one than in the other, and how much more."""
    balance: dict[Stated, int] = {}
    for stated in left:
        balance[stated] = balance.get(stated, 0) + 1
    for stated in right:
        balance[stated] = balance.get(stated, 0) - 1
    more_left = {stated: n for stated, n in balance.items() if n > 0}
    return more_left, {stated: -n for stated, n in balance.items() if n < 0}


def _worded(text: Parse, more: _More) -> tuple[str, ...]:
    """How the text words what it has more of; negation is told by the conflict."""
    if not more:
        return ()
    return _once(
        tuple(
            surface
            for stated, surface in zip(text.stated, text.surfaces, strict=True)
            if stated in more and stated[0] != NOT
        )
    )


def _once(*told: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for some in told for word in some))


# --- what turns a statement around ----------------------------------------------------------------


def _turned_around(left: Parse, right: Parse) -> tuple[str, ...]:
    """What only one has and turns a statement around: not, had, might, hopes, a question mark."""
    if (
        left.turning == right.turning
        and left.negations == right.negations
        and left.asks == right.asks
        and left.persons == right.persons
    ):
        return ()
    negated = () if left.negations == right.negations else (NOT,)
    turning = sorted({key for key, _ in left.turning ^ right.turning})
    asked = () if left.asks == right.asks else ("?",)
    return (*negated, *turning, *asked, *_other_persons(left.persons, right.persons))


def _other_persons(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    """He in one where the other has she; that one of them says "his" once more is nothing."""
    only_left, only_right = set(left) - set(right), set(right) - set(left)
    if only_left and only_right:
        return tuple(sorted(only_left | only_right))
    first, second = tuple(dict.fromkeys(left)), tuple(dict.fromkeys(right))
    return first if first != second and set(first) == set(second) else ()


# --- order, and what governs each word ------------------------------------------------------------


def _moved(left: Parse, right: Parse, more_left: _More, more_right: _More) -> tuple[str, ...]:
    """Whether the words that both have stand in another order, or under another word's rule."""
    first, second = _common(left, more_left), _common(right, more_right)
    if [(w[0], w[6]) for w in first] == [(w[0], w[6]) for w in second]:
        return _governed(first, second)
    if left.japanese and right.japanese:
        return () if _phrases(first) == _phrases(second) else (_ORDER,)
    if sorted(_ruled(first)) != sorted(_ruled(second)):
        return (_ORDER,)
    return () if _same_order(first, second) else (_ORDER,)


def _common(text: Parse, more: _More) -> Sequence[Word]:
    """The words of a text without those that it has more of, the last of equals left out.

    What governed a word that is left out governs the next (on a small stage, on a stage), unless
    it was a time, which is a phrase by itself (In May Mia left).
    """
    if not more:
        return text.words
    kept: list[Word] = []
    role = ""
    for word, is_added in zip(text.words, _added(text, more), strict=True):
        inherited = role if word.joined and not word.role else word.role
        role = inherited if is_added and not _is_time(word.key) else ""
        if not is_added:
            kept.append(word if inherited == word.role else word._replace(role=inherited))
    return kept


def _added(text: Parse, more: _More) -> list[bool]:
    """Which of the words are those that the text has more of: the last of equals."""
    left_out = dict(more)
    stated = text.stated
    added = [False] * len(stated)
    for place in range(len(added) - 1, -1, -1):
        if left_out.get(stated[place]):
            left_out[stated[place]] -= 1
            added[place] = True
    return added


_LOOSE = frozenset({"", "in", "of"})
"""On Monday is Monday, all of the cats are all the cats."""


def _is_loose(a: Word, b: Word) -> bool:
    if a.role not in _LOOSE or b.role not in _LOOSE:
        return False
    return _is_time(a.key) or {a.role, b.role} == {"", "of"}


def _governed(left: Sequence[Word], right: Sequence[Word]) -> tuple[str, ...]:
    """The words, standing in the same place, that something else governs: from Mia, to Mia.

    And those of which one has one and the other several: a cat, cats.
    """
    pairs = list(zip(left, right, strict=True))
    several = [(a, b) for a, b in pairs if a[1] != b[1] and _one_and_several(a[1], b[1])]
    if several:
        return tuple(f"{a.surface} / {b.surface}" for a, b in several)
    differ = [(a, b) for a, b in pairs if a[2] != b[2]]
    if not differ:
        return ()
    if all(_is_loose(a, b) for a, b in differ):
        return ()
    return tuple(f"{_told(a)} / {_told(b)}" for a, b in differ)


def _one_and_several(a: str, b: str) -> bool:
    """Whether two forms of a word differ in number."""
    a, b = a.casefold(), b.casefold()
    if a == b or a in UNITS:
        return False
    short, long = (a, b) if len(a) < len(b) else (b, a)
    if IRREGULAR_PLURALS.get(a, a) == IRREGULAR_PLURALS.get(b, b):
        return True
    return long in (f"{short}s", f"{short}es", f"{short[:-1]}ies")


def _told(word: Word) -> str:
    return f"{word.role} {word.surface}".strip()


def _ruled(words: Sequence[Word]) -> list[tuple[Stated, str]]:
    return [(word.stated, "" if word.role in _LOOSE else word.role) for word in words]


_Phrase = tuple[tuple[Stated, str], ...]


def _phrases(words: Sequence[Word]) -> list[Counter[_Phrase]]:
    """Japanese, clause by clause, as phrases up to their particle: their order is free.

    A clause ends where a stop follows a word without particle, its verb.
    """
    clauses: list[Counter[_Phrase]] = [Counter()]
    phrase: list[tuple[Stated, str]] = []
    clause = 0
    for word in words:
        if word.clause != clause and phrase:
            clauses[-1][tuple(phrase)] += 1
            clauses.append(Counter())
            phrase = []
        clause = word.clause
        phrase.append((word.stated, word.role))
        if word.role not in ("", "の", "と", "や"):
            clauses[-1][tuple(phrase)] += 1
            phrase = []
    clauses[-1][tuple(phrase)] += 1
    return clauses


def _same_order(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Whether nothing but a phrase moved: "In May Mia left" / "Mia left in May".

    So between a common start and end, and times at either end, the words may be a rotation of
    each other. Two neighbours that changed places ("Mia is Tom's aunt" / "Tom is Mia's aunt") are
    no such phrase.
    """
    if _is_rotation(left, right) or _adverb_moved(left, right):
        return True
    times, core = _without_times(left)
    other_times, other_core = _without_times(right)
    return times == other_times and bool(times) and _is_rotation(core, other_core)


def _adverb_moved(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Quickly running is running quickly; "only" is no such adverb."""
    differ = [(a, b) for a, b in zip(left, right, strict=True) if a.stated != b.stated]
    (first, _), (_, last) = differ[0], differ[-1]
    return (
        len(differ) == 2
        and first.stated == last.stated
        and _is_manner(first) != _is_manner(differ[1][0])
    )


def _is_manner(word: Word) -> bool:
    return word.surface.endswith("ly") and len(word.surface) > 5


def _is_rotation(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Whether one phrase moved: from end to end of the text, or else inside of one clause."""
    start, end = 0, len(left)
    while start < end and left[start].stated == right[start].stated:
        start += 1
    while end > start and left[end - 1].stated == right[end - 1].stated:
        end -= 1
    first, second = left[start:end], right[start:end]
    if len(first) <= 2:
        return not first
    inside = end - start < len(left)
    if inside and not (_in_one_clause(first) and _in_one_clause(second)):
        return False
    stated, others = [word.stated for word in first], [word.stated for word in second]
    return any(stated[n:] + stated[:n] == others for n in range(1, len(stated)))


def _in_one_clause(words: Sequence[Word]) -> bool:
    return words[0].clause == words[-1].clause


def _without_times(words: Sequence[Word]) -> tuple[Counter[str], Sequence[Word]]:
    """The words of time at both ends, and what stands between."""
    start, end = 0, len(words)
    while start < end and _is_time(words[start].key):
        start += 1
    while end > start and _is_time(words[end - 1].key):
        end -= 1
    return Counter(word.key for word in (*words[:start], *words[end:])), words[start:end]


def _is_time(key: str) -> bool:
    return key in TEMPORAL or key.startswith(("at ", "day ")) or (key.isdigit() and len(key) == 4)


# --- additions ------------------------------------------------------------------------------------


def _changed_by_additions(longer: Parse, more: _More) -> tuple[str, ...]:
    """Additions that change what they are added to, each with the word that it changes.

    A noun after a noun makes another thing of it (a cat toy), a word beside a number another
    amount, a name beside a name another person; before the subject stands another subject.
    """
    words, added = longer.words, _added(longer, more)
    if longer.spaceless:
        return _not_whole_clauses(words, added)
    return _once(
        *(
            (_pair(words, place),)
            for place in range(len(added))
            if added[place] and _changes(words, place, added, longer.japanese)
        )
    )


def _pair(words: Sequence[Word], place: int) -> str:
    return " ".join(word.surface for word in words[max(0, place - 1) : place + 2])


def _changes(words: Sequence[Word], place: int, added: Sequence[bool], japanese: bool) -> bool:
    word = words[place]
    if japanese:
        return place > 0 and word.joined and "\u3041" <= word.key[0] <= "\u309f"
    before = words[place - 1] if place and not added[place - 1] else None
    after = words[place + 1] if place + 1 < len(words) and not added[place + 1] else None
    if before is not None and word.joined and not _adverb(word):
        return True
    if after is not None and after.joined:
        return after.is_number or (word.surface[:1].isupper() and after.surface[:1].isupper())
    first = next((n for n, is_added in enumerate(added) if not is_added), 0)
    return place < first and not word.role and not _is_time(word.key)


_ADVERBS = frozenset(
    "too together there here home back away soon well twice alone outside inside upstairs "
    "downstairs abroad ago".split()
)


def _adverb(word: Word) -> bool:
    return word.surface.endswith("ly") or word.key in _ADVERBS or _is_time(word.key)


def _not_whole_clauses(words: Sequence[Word], added: Sequence[bool]) -> tuple[str, ...]:
    """Without spaces a character more may be another word: only whole clauses are additions."""
    for place, word in enumerate(words):
        ends = place and added[place] != added[place - 1]
        if ends and word.clause == words[place - 1].clause:
            return (_pair(words, place),)
    return ()
