"""Check a merged text without a model: accept it, refuse it, or leave it to a model or a person.

The sources of a merged text are the texts from which it was made. Hard facts are numbers, dates,
amounts, names and codes. A merged text is refused if it adds a hard fact, or lacks a hard fact of
the newest source. The reason for a refusal tells the model that wrote the text what to correct.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache, partial

from memory.coverage.covers import LONGEST, compare, covers
from memory.coverage.differences import differing
from memory.coverage.parse import parse
from memory.coverage.times import MOST_TIMES, times_of
from memory.text import (
    CURRENCIES,
    GRAMMARS,
    IRREGULAR_PLURALS,
    MONTH_SET,
    NOT,
    WEEKDAYS,
    Kind,
    Token,
    grammar_of,
    guarded,
    identity,
    is_code,
    literal_start,
    plain_form,
    sentences,
    shortened,
    tokens,
    with_numbers_joined,
)

_LONGER = 1.5  # longest merged text, by the length of all its sources together
_MOST_SENTENCES = 40  # a source with more sentences is not compared by sentence
_MOST_SHOWN, _SHOWN = 40, 80  # items that a reason lists, and the characters shown of each
_INVENTS = "states what no memory states:"


class Belief(StrEnum):
    """The program's opinion about a merged text; a model must read a doubtful one.

    >>> same, reworded = "Mia has a cat.", "Mia owns a cat."
    >>> [verify(text, [same]).belief.name for text in (same, reworded, "Mia has two cats.")]
    ['BELIEVED', 'DOUBTFUL', 'REFUSED']
    """

    BELIEVED = "believed"
    DOUBTFUL = "doubtful"
    """Neither accepted nor refused: a model or a person must read the text."""
    REFUSED = "refused"


@dataclass(frozen=True)
class Verification:
    belief: Belief
    reason: str = ""
    """Why the text is refused, or which values in its sources are outdated; "" if neither."""


@guarded(lambda _text, _sources, _said=(): Verification(Belief.DOUBTFUL))
def verify(text: str, sources: Sequence[str], said: Sequence[datetime | None] = ()) -> Verification:
    """Check a merged text against its `sources`, oldest first.

    BELIEVED if it equals a source that covers all others. REFUSED if it is empty, is much longer
    than all sources together, has no word in common with one of them, adds a hard fact, lacks a
    hard fact, a negation or a condition of the newest source, says as an older source who did
    what, has a relative word that means another day than in its source, or if a text has more than
    `MOST_TIMES` times. Otherwise DOUBTFUL.

    `said`: for each source the moment from which its relative words count; empty if unknown. A date
    that follows from a source's words counts as stated by it.

    >>> from datetime import datetime
    >>> days = datetime(2026, 1, 20), datetime(2026, 2, 3)
    >>> sources = "Mia saw the dentist yesterday.", "Mia likes the dentist."
    >>> verify("Mia saw the dentist yesterday, whom she likes.", sources, days).reason[-26:]
    'write "on 19 January 2026"'
    """
    if not text.strip():
        return Verification(Belief.REFUSED, "the merged text is empty")
    if _ignores_a_source(text, sources):
        return Verification(Belief.REFUSED, "the merged text has no word of one of its sources")
    times = times_of(text, sources, said)
    if times is None:
        return Verification(Belief.REFUSED, f"a text has more than {MOST_TIMES} dates")
    if moved := times.moved():
        return Verification(Belief.REFUSED, moved)
    retold = [times.retold(position, widely=True) for position in range(len(sources))]
    follows = [one for one in retold if one not in sources]
    if len(text) > _LONGER * max(sum(map(len, sources)), sum(map(len, retold))):
        return Verification(Belief.REFUSED, "the merged text is longer than its sources together")
    merged, newest, *stated = hard_facts([text, times.retold(-1), *sources, *follows])
    if invented := merged.beyond(stated):
        return Verification(Belief.REFUSED, f"the merged text {_INVENTS} {_listing(invented)}")
    if dropped := newest.beyond([merged]):
        return Verification(
            Belief.REFUSED,
            f"the merged text drops what the newest memory states: {_listing(dropped)}",
        )
    if not _has_document([text, *sources]) and (lacking := unlike_newest(text, sources)):
        return Verification(
            Belief.REFUSED,
            f"the merged text does not say as the newest memory: {_listing(lacking)}",
        )
    same = [source for source in sources if identity(source) == identity(text)]
    covered = same and all(covers(same[-1], source) for source in sources)
    if covered and not any(map(times.lost, range(len(sources)))):
        return Verification(Belief.BELIEVED)
    return Verification(Belief.DOUBTFUL)


def _ignores_a_source(text: str, sources: Sequence[str]) -> bool:
    if _has_document([text, *sources]):
        own, *others = (frozenset(_PLAIN_WORD(words.casefold())) for words in (text, *sources))
    else:
        parses = map(parse, (text, *sources))
        own, *others = (frozenset(word.key for word in parsed.words) for parsed in parses)
    return any(theirs and theirs.isdisjoint(own) for theirs in others)


def _has_document(texts: Iterable[str]) -> bool:
    return any(len(text) > LONGEST for text in texts)


_PLAIN_WORD = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]|[^\W_\u3041-\u30ff\u3400-\u9fff]+").findall


def _listing(words: Sequence[str]) -> str:
    more = f", and {len(words) - _MOST_SHOWN:,} more" if len(words) > _MOST_SHOWN else ""
    return ", ".join(shortened(word, _SHOWN) for word in words[:_MOST_SHOWN]) + more


# --- where no model reads it ----------------------------------------------------------------------


def _not_checked(
    _text: str, _sources: Sequence[str], _said: Sequence[datetime | None] = ()
) -> Verification:
    return Verification(Belief.REFUSED, "the merged text cannot be checked by its words")


@guarded(_not_checked)
def verify_by_words(
    text: str, sources: Sequence[str], said: Sequence[datetime | None] = ()
) -> Verification:
    """Check a merged text by its words alone, because no model will read it.

    `sources`: oldest first. `said`: as for `verify`. BELIEVED if the text covers every source, or
    has all its words, and adds no word, otherwise REFUSED. Exception: the text need not cover a
    source if a newer source states the same with other numbers; `reason` then names the outdated
    values.

    >>> sources = "Mia has two cats.", "Mia has a dog."
    >>> verify_by_words("Mia has two cats and a dog.", sources).belief.name
    'BELIEVED'
    >>> verify_by_words("Mia has a cat and a dog.", sources).reason
    'the merged text does not state: two, cat'
    """
    found = verify(text, sources, said)
    if found.belief is not Belief.DOUBTFUL:
        return found
    times = times_of(text, sources, said)
    assert times is not None  # else the text was refused
    retold = [times.retold(position) for position in range(len(sources))]
    untimed = [words for position in range(len(sources)) for words in times.lost(position)]
    unstated = (compare(text, source).only_b for source in retold if not _states(text, source))
    lost = untimed + [word for words in unstated for word in words]
    listed = ("does not state:", lost), (_INVENTS, _new_words(text, [*sources, *retold]))
    faults = [f"{what} {', '.join(dict.fromkeys(words))}" for what, words in listed if words]
    if not faults:
        return Verification(Belief.BELIEVED)
    if untimed or _has_document([text, *retold]) or not has_words_of(text, retold):
        return Verification(Belief.REFUSED, f"the merged text {', and '.join(faults)}")
    values = (value.removeprefix("day ") for value in outdated_values(text, retold))
    outdated = ", ".join(dict.fromkeys(values))
    return Verification(
        Belief.BELIEVED, f"a newer memory gives another value for {outdated}" if outdated else ""
    )


def _states(text: str, source: str) -> bool:
    if covers(text, source):
        return True
    own, repeated = sentences(source), set(sentences(text))
    left = [sentence for sentence in own if sentence not in repeated]
    if len(own) > _MOST_SENTENCES or (left and _has_document([text])):
        return False
    return all(covers(text, sentence) for sentence in left)


def _new_words(text: str, sources: Sequence[str]) -> list[str]:
    if _has_document([text, *sources]):
        repeated = {sentence for source in sources for sentence in sentences(source)}
        new = [sentence for sentence in sentences(text) if sentence not in repeated]
        return [shortened(sentence, _SHOWN) for sentence in new[:_MOST_SHOWN]]
    known = {stated for source in sources for stated in parse(source).stated}
    return [word.surface for word in parse(text).words if word.stated not in known]


# --- word by word, in order -----------------------------------------------------------------------

_KeyedWord = tuple[str, str]
"""The key of a word, and "s" if it is in the plural; a number has the key "" and its value."""
_LEFT_OUT = frozenset({Kind.FILLER, Kind.STOP})


@lru_cache(maxsize=1_024)
def _read_tokens(text: str) -> Sequence[Token]:
    return with_numbers_joined(tokens(text))


@lru_cache(maxsize=1_024)
def _told(text: str) -> tuple[_KeyedWord, ...]:
    read = _read_tokens(text)
    return tuple(
        ("", token.key)
        if token.kind is Kind.NUMBER
        else (f"{token.key} (past)" if token.past else token.key, _plural(token.surface))
        for token, behind in zip(read, [*read[1:], None], strict=False)
        if token.kind not in _LEFT_OUT or (behind and behind.key in ("few", "little"))
    )


def _plural(surface: str) -> str:
    low = surface.casefold()
    regular = low.endswith("s") and low != plain_form(low).word
    return "s" if regular or low in IRREGULAR_PLURALS else ""


def _keys(text: str, kinds: Sequence[str]) -> Counter[str]:
    return Counter(token.key for token in _read_tokens(text) if token.kind in kinds)


_TURNING = (Kind.NOT, Kind.TURNING)
"""The kinds of negations and of words that change a whole statement, such as "might"."""
_SMALL = (Kind.GOVERNING, Kind.PARTICLE, Kind.PERSON)
"""The kinds of words of an older source that the merged text may leave out: "of", "she"."""


def has_words_of(text: str, sources: Sequence[str]) -> bool:
    """Return whether a merged text has all words of its sources, oldest first, and no others.

    The words of each source must be in their order, unless the text has just the words of the
    newest source. Its negations must be those of the newest source. It may lack small words of an
    older source, and numbers for which the newest has others. A literal value needs a reader.
    """
    if any(map(literal_start, sources)) or not set(_told(text)) <= set().union(
        *map(_told, sources)
    ):
        return False
    own, *theirs = (
        [key or value for key, value in _told(one) if key != "have"] for one in (text, *sources)
    )
    turning = _keys(text, _TURNING)
    if not _in_their_order(theirs[-1], own) or _keys(sources[-1], _TURNING) != turning:
        return False
    exempt = own == theirs[-1]
    if outdated_values(text, sources):
        if _values(text) != _values(sources[-1]):
            return False
        own, *theirs = ([key for key, _ in _told(one)] for one in (text, *sources))
        exempt = False
    small = {"have"}.union(*(_keys(one, _SMALL) for one in (text, *sources)))
    own, *theirs = ([word for word in one if word not in small] for one in (own, *theirs))
    return (
        (exempt or all(_in_their_order(words, own) for words in theirs))
        and all(Counter(words) <= Counter(own) for words in theirs)
        and all(_keys(source, _TURNING) <= turning for source in sources)
    )


def outdated_values(text: str, sources: Sequence[str]) -> list[str]:
    """Return the numbers of the sources that the merged text does not state."""
    own = _values(text)
    return [value for source in sources for value in _values(source) if value not in own]


def _values(text: str) -> list[str]:
    return [value for key, value in _told(text) if not key]


def _in_their_order(words: Sequence[object], text: Sequence[object]) -> bool:
    rest = iter(text)
    return all(word in rest for word in words)


_CONDITIONS = frozenset({"if", "unless", "falls"})


def unlike_newest(text: str, sources: Sequence[str]) -> list[str]:
    """Return the negations and conditions of the newest source that a merged text lacks.

    "word order" is returned if the newest source says otherwise who did what, with the same words
    as an older source, and the text has the words in the order of that older source.
    """
    own, newest = _told(text), _told(sources[-1])
    missing = Counter(newest) - Counter(own)
    lacking = [word for word, _ in missing if word == NOT or word in _CONDITIONS]
    older = (_told(source) for source in sources[:-1] if "," not in source)
    turned = not _in_their_order(newest, own) and any(
        Counter(words) == Counter(newest) and _in_their_order(words, own) for words in older
    )
    return [*lacking, *(["word order"] if turned else ())]


# --- hard facts -----------------------------------------------------------------------------------

_NAMED = MONTH_SET | frozenset(WEEKDAYS.values()) | CURRENCIES
_MOMENT = re.compile(r"^day |(?::00|\.)$")
_HOUR = re.compile(r"at (\d+)(:\d+)").match
_NOUN_LETTERS = "".join(grammar.letters for grammar in GRAMMARS.values() if grammar.capital_nouns)
_POINTING = frozenset(("the", "these", "those"))
_BOTH = frozenset(("人", particle) for particle in ("は", "も", "とも", "で"))
"""What follows 二 in 二人は, which is "both", but not in 子供が二人いる. The key of が is は."""
_DIGITS = re.compile(r"\d+")
_NOT_ALNUM = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class HardFacts:
    """The numbers, dates, amounts, names and codes of one text.

    `stated` maps each hard fact, in a form for comparison, to its words in the text. `digits`: the
    numerals of the text. `squeezed`: the text in lower case, reduced to its letters and digits.

    If any of the texts that are compared has more than `LONGEST` characters, `squeezed` is a set
    instead. It then has each word of this text, in lower case and without a final "s".
    """

    stated: Mapping[str, str]
    digits: frozenset[str]
    squeezed: str | frozenset[str]

    def beyond(self, others: Sequence[HardFacts]) -> list[str]:
        """Return, in this text's words, the facts that this text states and none of `others` does.

        In doubt, a fact counts as stated by another text: see `may_state`.
        """
        return [
            words
            for key, words in self.stated.items()
            if not any(other.may_state(key, words) for other in others)
        ]

    def may_state(self, key: str, words: str) -> bool:
        """Return whether this text may state a hard fact of another text, even in another form.

        `key`: the hard fact in the form for comparison. `words`: the hard fact in the words of the
        other text. For example, a text with "11M" may state "11 million". A code must match
        exactly.
        """
        if key in self.stated or is_code(key):
            return key in self.stated
        if key == "2" and ("both" in self.squeezed or "two" in self.squeezed):
            return True
        if numerals := _DIGITS.findall(words):
            return self.digits.issuperset(numerals)
        return _squeezed(words).removesuffix("s") in self.squeezed


def _whole_texts(old: str, new: str) -> tuple[str, str] | None:
    return shortened(old, _SHOWN), shortened(new, _SHOWN)


@guarded(_whole_texts)
def conflicting_values(old: str, new: str) -> tuple[str, str] | None:
    """Return how two texts conflict: (values of `old`, values of `new`); None if they do not.

    Two texts conflict if each has a hard fact that the other lacks, or if they have different
    numerals in the same position.

    >>> conflicting_values("Mia has two cats.", "Mia has three cats.")
    ('two', 'three')
    >>> conflicting_values("Mia has two cats.", "Mia has a dog.")
    """
    ours, theirs = hard_facts([old, new])
    before, after = ours.beyond([theirs]), theirs.beyond([ours])
    if not (before and after):
        pairs = [pair for pair in differing(old, new) if all(map(_DIGITS.search, pair))]
        before, after = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    return (", ".join(before), ", ".join(after)) if before else None


def hard_facts(texts: Sequence[str]) -> list[HardFacts]:
    """Return the hard facts of each text: its numbers, dates, amounts, names and codes.

    A word that is a name in one of the texts counts as a name in all of them.

    If any of the texts has more than `LONGEST` characters, only the numerals and names of each
    text are returned.

    >>> pets, boat = hard_facts(["Mia has two cats.", "Mia has a boat."])
    >>> pets.beyond([boat])
    ['two']
    """
    grammars = map(grammar_of, texts)
    names = _names_in(
        [
            text
            for text, grammar in zip(texts, grammars, strict=True)
            if not (grammar and grammar.capital_nouns) and set(text).isdisjoint(_NOUN_LETTERS)
        ]
    )
    if max(map(len, texts), default=0) > LONGEST:
        return [_facts_of_document(text, names) for text in texts]
    return [
        HardFacts(
            dict(_stated(text, names)),
            frozenset(_DIGITS.findall(text)),
            _squeezed(text),
        )
        for text in texts
    ]


def _facts_of_document(text: str, names: frozenset[str]) -> HardFacts:
    digits = frozenset(_DIGITS.findall(text))
    words = frozenset(map(_without_genitive, _LETTERS.findall(text)))
    stated = {numeral: numeral for numeral in sorted(digits)}
    stated |= {name.casefold(): name for name in sorted(words & names)}
    return HardFacts(stated, digits, frozenset(_squeezed(word).removesuffix("s") for word in words))


def _stated(text: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    before = ""
    read = parse(text).tokens
    for position, token in enumerate(read, start=1):
        points_back = token.surface == "two" and before in _POINTING  # "the two" counts nothing
        if token.surface == "二":
            points_back = tuple(one.key for one in read[position : position + 2]) in _BOTH
        before = token.key
        if points_back:
            continue
        if token.kind == Kind.NUMBER:
            hour = _HOUR(token.key)
            key = f"{int(hour[1]) % 12 or 12}{hour[2]}" if hour else token.key
            key = _MOMENT.sub("", key)
            if key != "1" or token.surface[:1].isdigit():
                yield key, token.surface
        elif (token.key == token.surface and is_code(token.key)) or token.key in _NAMED:
            yield token.key, token.surface
        elif token.kind == Kind.CONTENT and (name := _without_genitive(token.surface)) in names:
            yield name.casefold(), name


def _squeezed(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()


# --- names ----------------------------------------------------------------------------------------

_LETTERS = re.compile(r"[^\W\d_][\w'’]*")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;。\"“”‘(-]\s*+|\n[^\S\n]*+)([^\W\d_][\w'’]*)")
_without_genitive = partial(re.compile(r"['’]s?$").sub, "")
_TITLES = frozenset("mr mrs ms dr prof sir mister".split())
_TITLE_CASE = 0.7  # a text with a larger share of capitalised words is taken for a title


def _names_in(texts: Sequence[str]) -> frozenset[str]:
    named = frozenset[str]().union(*map(_named, texts))
    small = {word for text in texts for word in _LETTERS.findall(text) if word.islower()}
    return frozenset(name for name in named if name.casefold() not in small)


def _named(text: str) -> frozenset[str]:
    words = _LETTERS.findall(text)
    long = [word for word in words if len(word) > 3]
    if len(long) > 2 and sum(word[0].isupper() for word in long) > _TITLE_CASE * len(long):
        return frozenset()
    initial = frozenset(_SENTENCE_START.findall(text))
    return frozenset(
        _without_genitive(word)
        for word in words
        if word[0].isupper()
        and not word.isupper()  # an abbreviation
        and word not in initial
        and word.casefold() not in _TITLES
    )
