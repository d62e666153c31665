"""Check a merged text without a model: accept it, refuse it, or leave it to a model or a person.

The sources of a merged text are the texts from which it was merged. The text is refused if it adds
a hard fact (number, date, amount, name, code) to its sources, or lacks a hard fact of the newest
source. In doubt, a text counts as stating a fact. The reasons for a refusal are worded so that a
model can correct its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from memory.coverage.covers import LONGEST, compare, covers, differing
from memory.coverage.parse import parse, parse_by_dictionary
from memory.text import (
    CURRENCIES,
    MONTH_SET,
    WEEKDAYS,
    Kind,
    grammar_of,
    identity,
    is_code,
    sentences,
    shortened,
)

_LONGER = 1.5  # longest merged text, by the length of all its sources together
_MOST_SENTENCES = 40  # a source with more sentences is not compared by sentence
_MOST_SHOWN, _SHOWN = 40, 80  # items that a reason lists, and the characters shown of each
_INVENTS = "states what no memory states:"


class Belief(StrEnum):
    """Whether a merged text is accepted (BELIEVED), refused (REFUSED) or undecided (DOUBTFUL)."""

    BELIEVED = "believed"
    DOUBTFUL = "doubtful"
    """The text can neither be accepted nor refused, so a model or a person must read it."""
    REFUSED = "refused"


@dataclass(frozen=True)
class Verification:
    """The result of checking a merged text, with its reason."""

    belief: Belief
    reason: str = ""
    """Why the text is refused, or, if it is accepted, which values of its sources are outdated.

    Empty if there is nothing to report.
    """


def verify(text: str, sources: Sequence[str]) -> Verification:
    """Check a merged text against the texts from which it was merged.

    `sources`: those texts, oldest first. The result is BELIEVED if the text equals a source that
    covers all other sources. It is REFUSED if the text states a number, date, amount or name that
    no source states, or lacks one of the newest source. It is also REFUSED if the text is empty,
    much too long, or shares no word with a source. Otherwise it is DOUBTFUL, and a model or a
    person must read the text. If a text is longer than `LONGEST` characters, only an equal text
    covers another, and only numerals and names count as facts.
    """
    if not text.strip():
        return Verification(Belief.REFUSED, "the merged text is empty")
    if _ignores_a_source(text, sources):
        return Verification(Belief.REFUSED, "the merged text has no word of one of its sources")
    if len(text) > _LONGER * sum(map(len, sources)):
        return Verification(Belief.REFUSED, "the merged text is longer than its sources together")
    merged, *stated = hard_facts([text, *sources])
    if invented := merged.beyond(stated):
        reason = f"the merged text {_INVENTS} {_listing(invented)}"
        return Verification(Belief.REFUSED, reason)
    if dropped := stated[-1].beyond([merged]):
        reason = f"the merged text drops what the newest memory states: {_listing(dropped)}"
        return Verification(Belief.REFUSED, reason)
    same = [source for source in sources if identity(source) == identity(text)]
    if same and all(covers(same[-1], source) for source in sources):
        return Verification(Belief.BELIEVED)
    return Verification(Belief.DOUBTFUL)


def _ignores_a_source(text: str, sources: Sequence[str]) -> bool:
    """Return whether at least one of the sources shares no word with the merged text `text`.

    A model may write such a text if it obeys an instruction in a memory instead of merging.
    """
    if _has_document([text, *sources]):
        own, *others = (frozenset(_PLAIN_WORD(words.casefold())) for words in (text, *sources))
    else:
        parses = map(parse_by_dictionary, (text, *sources))
        own, *others = (frozenset(word.key for word in parsed.words) for parsed in parses)
    return any(theirs and theirs.isdisjoint(own) for theirs in others)


def _has_document(texts: Iterable[str]) -> bool:
    """Return whether at least one text has more than `LONGEST` characters.

    Such a text is not compared word by word.
    """
    return any(len(text) > LONGEST for text in texts)


_PLAIN_WORD = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]|[^\W_\u3041-\u30ff\u3400-\u9fff]+").findall
"""Finds words, or single characters of a script that has no spaces."""


def _listing(words: Sequence[str]) -> str:
    """Join words with commas, for the reason of a refusal; shorten long words and long lists.

    At most `_MOST_SHOWN` words are listed, and then the number of the others: ", and 12 more". A
    model reads the reason, and a model that is given hundreds of words corrects none.
    """
    more = f", and {len(words) - _MOST_SHOWN:,} more" if len(words) > _MOST_SHOWN else ""
    return ", ".join(shortened(word, _SHOWN) for word in words[:_MOST_SHOWN]) + more


# --- where no model reads it ----------------------------------------------------------------------


def verify_by_words(text: str, sources: Sequence[str]) -> Verification:
    """Check a merged text by its words alone, because no model will read it.

    `sources`: the texts from which it was merged, oldest first. The result is BELIEVED if the text
    covers every source and adds no word, and otherwise REFUSED; it is never DOUBTFUL. An older
    source need not be covered if a newer source states the same with other numbers or dates.
    `reason` then names the outdated values.
    """
    found = verify(text, sources)
    if found.belief is not Belief.DOUBTFUL:
        return found
    gone: list[str] = []
    lost: list[str] = []
    for position, source in enumerate(sources):
        if not _states(text, source):
            later = (_given_otherwise(source, newer) for newer in sources[position + 1 :])
            values = next((outdated for outdated in later if outdated is not None), None)
            lost += compare(text, source).only_b if values is None else ()
            gone += values or ()
    listed = ("does not state:", lost), (_INVENTS, _new_words(text, sources))
    if faults := [f"{what} {', '.join(dict.fromkeys(words))}" for what, words in listed if words]:
        return Verification(Belief.REFUSED, f"the merged text {', and '.join(faults)}")
    outdated = ", ".join(dict.fromkeys(gone))
    reason = f"a newer memory gives another value for {outdated}" if outdated else ""
    return Verification(Belief.BELIEVED, reason)


def _states(text: str, source: str) -> bool:
    """Return whether a merged text states everything that one of its sources states.

    This is so if the text covers the source as a whole. It is also so if the text covers or repeats
    every sentence of the source, and the source has at most `_MOST_SENTENCES` sentences.
    """
    if covers(text, source):
        return True
    own, repeated = sentences(source), set(sentences(text))
    left = [sentence for sentence in own if sentence not in repeated]
    if len(own) > _MOST_SENTENCES or (left and _has_document([text])):
        return False
    return all(covers(text, sentence) for sentence in left)


def _given_otherwise(older: str, newer: str) -> list[str] | None:
    """Return the numbers, months and weekdays of `older` for which `newer` has a different value.

    They are quoted from `older`. Returns [] if `newer` states everything that `older` states.
    Returns None if `newer` lacks anything else of `older`, or if one of the texts has more than
    `LONGEST` characters.
    """
    if _has_document([older, newer]):
        return None
    difference = compare(newer, older)
    fresh = [(_value_type(words), words) for words in difference.only_a]
    corrected = older
    for words in difference.only_b:
        value_type = _value_type(words)
        others = [other for kind, other in fresh if kind == value_type and value_type]
        if not others:
            return None
        fresh.remove((value_type, others[0]))
        parts = re.split(rf"(?<!\w){re.escape(words)}(?!\w)", corrected)
        corrected = others[0].join(parts)
    return list(difference.only_b) if covers(newer, corrected) else None


def _value_type(words: str) -> str:
    """Return the type that all words of a phrase have: "number", "month" or "weekday".

    Returns "" if the phrase has words of a different type, or of several types.
    """
    types = {
        "number" if token.kind == Kind.NUMBER else _DATES.get(token.key, "")
        for token in parse(words).tokens
    }
    return types.pop() if len(types) == 1 else ""


_DATES = dict.fromkeys(MONTH_SET, "month") | dict.fromkeys(WEEKDAYS.values(), "weekday")


def _new_words(text: str, sources: Sequence[str]) -> list[str]:
    if _has_document([text, *sources]):
        repeated = {sentence for source in sources for sentence in sentences(source)}
        new = [sentence for sentence in sentences(text) if sentence not in repeated]
        return [shortened(sentence, _SHOWN) for sentence in new[:_MOST_SHOWN]]
    known = {stated for source in sources for stated in parse_by_dictionary(source).stated}
    return [word.surface for word in parse_by_dictionary(text).words if word.stated not in known]


# --- hard facts -----------------------------------------------------------------------------------

_NAMED = MONTH_SET | frozenset(WEEKDAYS.values()) | CURRENCIES
_MOMENT = re.compile(r"^(?:at |day )|(?::00|\.)$")
_UMLAUT = re.compile("[äöüßÄÖÜ]")
_DIGITS = re.compile(r"\d+")
_NOT_ALNUM = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class HardFacts:
    """The hard facts of one text: its numbers, dates, amounts, names and codes."""

    stated: Mapping[str, str]
    """Each fact in the words of the text, by the key under which facts are compared."""
    digits: frozenset[str]
    """Every sequence of digits in the text."""
    squeezed: str | frozenset[str]
    """The letters and digits of the text in lower case, without spaces.

    For a text of more than `LONGEST` characters, the set of its words in that form.
    """

    def beyond(self, others: Sequence[HardFacts]) -> list[str]:
        """Return the facts of this text that none of the `others` states, as this text words them.

        In doubt, another text counts as stating a fact.
        """
        return [
            words
            for key, words in self.stated.items()
            if not any(other.may_state(key, words) for other in others)
        ]

    def may_state(self, key: str, words: str) -> bool:
        """Return whether this text may state a fact of another text, even if in another form.

        `key`, `words`: the fact, an item of the other text's `stated`. For example, "11M" may state
        "11 million", and "American" may state "Americans". A sign or a code must match exactly.
        """
        if key in self.stated or is_code(key):
            return key in self.stated
        if numerals := _DIGITS.findall(words):
            return self.digits.issuperset(numerals)
        return _squeezed(words).removesuffix("s") in self.squeezed


def conflicting_values(old: str, new: str) -> tuple[str, str] | None:
    """Return the values in which two texts conflict, or None if they do not conflict.

    The first item has the values of `old`, the second those of `new`, each quoted from the text and
    joined with commas. Two texts conflict if each states a hard fact (such as a number or a name)
    that the other lacks, or if they have different numerals in the same position. A value that only
    one text has is not a conflict.
    """
    ours, theirs = hard_facts([old, new])
    before, after = ours.beyond([theirs]), theirs.beyond([ours])
    if not (before and after):
        pairs = [pair for pair in differing(old, new) if all(map(_DIGITS.search, pair))]
        before, after = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    return (", ".join(before), ", ".join(after)) if before else None


def hard_facts(texts: Sequence[str]) -> list[HardFacts]:
    """Return the hard facts of each text, in the order of the texts.

    A word that is a name in one of the texts counts as a name in all of them. If one text is longer
    than `LONGEST` characters, only the numerals and names of all texts are returned.
    """
    names = _names_in([text for text in texts if not _capitalises_nouns(text)])
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


def _capitalises_nouns(text: str) -> bool:
    """Return whether a capital in the text may show a noun instead of a name, as in German."""
    grammar = grammar_of(text)
    return (grammar is not None and grammar.CAPITAL_NOUNS) or _UMLAUT.search(text) is not None


def _facts_of_document(text: str, names: frozenset[str]) -> HardFacts:
    digits = frozenset(_DIGITS.findall(text))
    words = frozenset(map(_without_genitive, _LETTERS.findall(text)))
    stated = {numeral: numeral for numeral in sorted(digits)}
    stated |= {name.casefold(): name for name in sorted(words & names)}
    return HardFacts(stated, digits, frozenset(_squeezed(word).removesuffix("s") for word in words))


def _stated(text: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and the words of each hard fact, such as a number, a date or a name.

    `names`: the words that count as names. The word "one" does not count as a number, because it is
    often an article.
    """
    for token in parse(text).tokens:
        if token.kind == Kind.NUMBER:
            key = _MOMENT.sub("", token.key)
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
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;。\n\"“”‘(-]\s*)([^\W\d_][\w'’]*)")
_without_genitive = partial(re.compile(r"['’]s?$").sub, "")
"""Return a name without its genitive ending: Mia for "Mia's"."""
_TITLES = frozenset("mr mrs ms dr prof sir mister".split())
_TITLE_CASE = 0.7  # a text with a larger share of capitalised words is taken for a title


def _names_in(texts: Sequence[str]) -> frozenset[str]:
    """Return the words that are a name in at least one text and are in lower case in no text."""
    named = frozenset[str]().union(*map(_named, texts))
    small = {word for text in texts for word in _LETTERS.findall(text) if word.islower()}
    return frozenset(name for name in named if name.casefold() not in small)


def _named(text: str) -> frozenset[str]:
    """Return the capitalised words that do not begin a sentence.

    Returns no words if the text looks like a title, in which most words are capitalised.
    """
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
