"""Whether what a text has more only adds, or changes what it is added to. Pure.

"Mia has a tabby cat" states that she has a cat; "Mia has no tabby cat", "a cat toy", "every tabby
cat" do not. So an addition is believed only in a plain, positive statement, in a language whose
small words are known; everywhere else whatever is more makes another statement.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from memory.coverage.languages import GRAMMARS, japanese
from memory.coverage.order import Side, added, is_manner, is_ranked, is_time
from memory.coverage.parse import Word, parse
from memory.text import (
    CONDITIONS,
    DOUBTS,
    MEASURES,
    NARROWING,
    NO_IDIOMS,
    NOT,
    NUMBERS,
    POSITIVE_EST,
    PRIVATIVE,
    REPORTS,
    UNITS,
    Language,
    plain_form,
)

_SUPERLATIVE = re.compile("[a-z]{2,}est").fullmatch
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?").findall
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_HARMLESS = re.compile(
    r"\ba few\b|\b(?:last|next) (?:week|weekend|month|year|night|summer|winter|spring|autumn|fall"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:as|so) (?:long|far|soon|much|many) as\b", re.IGNORECASE)
_TOO_MUCH = re.compile(r"\btoo\s+\w", re.IGNORECASE)
_STOPPED = re.compile(r"\b(?:stop|quit|ceas)\w*\s+(?:\w+ing|to)\b", re.IGNORECASE)
_CLAUSE = re.compile(
    r"[,;]\s*(?:as (?!if|though|long|far|soon|much|many|well)|which |because |although |though "
    r"|since |(?:(?:and|but|so) )?(?:he|she|they|it|i|we|there|his|her|their|my|our) )",
    re.IGNORECASE,
)


def changed_by_additions(longer: Side, shorter: Side, told: tuple[str, ...]) -> tuple[str, ...]:
    """What the text has more and what it changes, as words; empty where it only adds.

    `told` is what it has more, in words: the answer where nothing may be added at all.
    """
    if longer.parse.language is Language.JAPANESE:
        return () if japanese.only_adds(longer.text, shorter.text) else told
    if longer.parse.asks or longer.parse.language is Language.OTHER:
        return told
    return told if _reaches_over(longer, shorter) else _changed(longer)


_DEFINITE = re.compile(
    r"\b(?:the|this|that|these|those|my|your|his|her|its|our|their|\w+['’]s)\s+$", re.IGNORECASE
)
_DENYING = re.compile(r"(?:not|never|no|cannot|n['’]t)$", re.IGNORECASE)


def only_narrows(longer: Side, shorter: Side) -> bool:
    """Whether the shorter says no to more: who has no car has no new car.

    The one word that denies stands before all that is added, in its clause; and what is added are
    words before a noun that is not one certain thing (the new car).
    """
    words, more = longer.parse.words, added(longer)
    denied = [n for n, word in enumerate(words) if word.key == NOT]
    if len(denied) != 1 or not _DENYING.search(words[denied[0]].surface) or True not in more:
        return False
    if longer.parse.persons != shorter.parse.persons or longer.parse.asks:
        return False
    if longer.parse.language is not Language.ENGLISH:
        return False
    reaching = NARROWING | DOUBTS | CONDITIONS | REPORTS
    if any(_is_one_of(word, reaching) or _is_narrowing(word) for word in _lower(longer.text)):
        return False
    if any(sign.search(longer.text) for sign in (_CONDITION, _TOO_MUCH, _STOPPED)):
        return False
    return all(
        _is_denied_quality(words, place, denied[0], longer.text)
        for place, is_added in enumerate(more)
        if is_added
    )


def _is_denied_quality(words: Sequence[Word], place: int, denied: int, text: str) -> bool:
    word = words[place]
    behind = words[place + 1] if place + 1 < len(words) else None
    if place < denied or word.clause != words[denied].clause or word.is_number:
        return False
    if behind is None or not behind.joined or behind.clause != word.clause:
        return False
    if word.surface[:1].isupper() or behind.surface[:1].isupper() or is_manner(word):
        return False
    end = text.find(word.surface, text.find(words[denied].surface))
    return _DEFINITE.search(text[max(0, end - _DETERMINER_LENGTH) : end]) is None


_DETERMINER_LENGTH = 50
"""Characters before a word in which its determiner is looked for."""


_PICTURED = re.compile(r"\b(?:is|are|was|were|am)\s+(?:\w+ly\s+)?\w+ing\b", re.IGNORECASE)


def _reaches_over(longer: Side, shorter: Side) -> bool:
    """Whether a word stands there under which an addition is none.

    A doubt or a condition reaches from anywhere; what narrows does not reach back from a clause
    that is added behind, nor into one.
    """
    whole, part = _sentences_that_differ(longer.text, shorter.text)
    if any(sign.search(whole) for sign in (_CONDITION, _TOO_MUCH, _STOPPED, _OF_A_KIND)):
        return True
    if is_ranked(whole) or _is_of_some(longer, shorter):
        return True
    words, common = Counter(_lower(whole)), Counter(_lower(part))
    if grammar := GRAMMARS.get(longer.parse.language):
        return bool(longer.parse.negations) or not grammar.reaching.isdisjoint(words)
    more = words - common
    if any(_is_one_of(word, DOUBTS | CONDITIONS | REPORTS) for word in more):
        return True
    if not PRIVATIVE.isdisjoint(more) or _joins_what_is_one(longer.text, shorter.text):
        return True
    if _is_told_further(longer, shorter):
        return False
    if longer.parse.negations or any(map(_is_narrowing, words & common)):
        return True
    if any(_is_one_of(word, DOUBTS | CONDITIONS) for word in words):
        return True
    return not _is_clause_behind(longer) and any(map(_is_narrowing, more))


def _is_of_some(longer: Side, shorter: Side) -> bool:
    """Whether one tells of some of a kind, or of another owner's, what the other tells of all.

    Small dogs are not dogs as such, unless they are seen or did something (small dogs are running,
    small dogs ran); her brother's dog is not her dog.
    """
    told = shorter.text.casefold()
    owned = [(own[1], noun) for own in _OWNER_OF_OWNER(longer.text) for noun in own[2].split()]
    owned += [(own[2], own[1]) for own in _OF_AN_OWNER(longer.text)]
    if any(f"{owner} {noun}".casefold() in told for owner, noun in owned):
        return True
    objects, others = (set(_OF_ANY(side.text.casefold())) for side in (longer, shorter))
    if others and objects - others:
        return True
    happened = any(word.past for word in longer.parse.words) or _PICTURED.search(longer.text)
    if happened and not _DEFINITE_START(shorter.text):
        return False
    if _RESTRICTED(longer.text) and not _RESTRICTED(shorter.text):
        return True
    words = longer.parse.words
    if len(words) < _SUBJECT_AND_VERB or not added(longer)[0] or words[0].is_number:
        return False
    opens = longer.text.lower().removeprefix("a ").startswith(words[0].surface.lower())
    plural = words[1].surface.islower() and plain_form(words[1].surface).word != words[1].surface
    return opens and words[1].joined and plural


_SUBJECT_AND_VERB = 3
_OWNER_OF_OWNER = re.compile(
    r"\b(my|your|his|her|its|our|their|\w+['’]s)\s+(?:[\w-]+\s+){0,2}?[\w-]+(?:['’]s|s['’])"
    r"((?:\s+[\w-]+){1,3})",
    re.IGNORECASE,
).finditer
_OF_AN_OWNER = re.compile(
    r"\b([\w-]+) of (my|your|his|her|its|our|their)\b", re.IGNORECASE
).finditer
_OF_ANY = re.compile(
    r"\b(?:allergic to|intolerant of|immune to|averse to|afraid of|scared of|frightened of|fond of"
    r"|wary of|tired of|sick of|interested in|good at|bad at|keen on|experts? (?:on|in)) (\w+)"
).findall
"""What follows predicates that hold of all of a kind, or of some of it only."""
_DEFINITE_START = re.compile(
    r"\s*(?:the|these|those|my|your|his|her|its|our|their)\b", re.IGNORECASE
).match
_RESTRICTED = re.compile(
    r"(?!this|his|its)[A-Z]?[a-z]+s (?:that|which|who|with|without|of|from|in|on|at|near)\b",
    re.IGNORECASE,
).match
"""A subject of which the rest tells which of the kind: dogs that bark."""
_OF_A_KIND = re.compile(
    r"\b(?:is|are|was|were|been|be|become|becomes|became)\s+(?:\w+\s+){0,2}?(?:extinct|endangered"
    r"|species|subspecies|breed|breeds|genus|domesticated|invented|widespread|native|endemic"
    r"|abundant|numerous|common|rare|scarce|indigenous)\b",
    re.IGNORECASE,
)
"""Predicates of a kind as a whole: what is extinct in Java may live elsewhere."""


def _joins_what_is_one(longer: str, shorter: str) -> bool:
    """Whether an "and" that only one text has joins a quantity, a name or a list that is closed.

    3 hours and 18 minutes are not 3 hours, Marks and Spencer is not Marks, and whoever is one of
    two members is not the only one. People who were met, asked or married are counted singly.
    """
    if any(len(joint(longer)) > len(joint(shorter)) for joint in _JOINTS):
        return True
    return any(_members(longer, found) > _members(shorter, found) for found in _CLOSED_LISTS)


def _members(text: str, closed_lists: Callable[[str], list[str]]) -> int:
    """How many members the closed lists of a text have beyond one each."""
    return sum(len(_JOINER(found)) for found in closed_lists(text))


_JOINER = re.compile(",| and | & ").findall


_UNIT = "|".join(
    sorted({*map(re.escape, UNITS), "days?", "months?", "stones?", "cents?", "pence", "g"})
)
_COUNTED = r"(?:(?<![\d.,])\d[\d.,]*+|an?|half|" + "|".join(NUMBERS) + ")"
_PART = rf"{_COUNTED}\s*(?:{_UNIT})\b|(?:an? )?(?:half|quarter|third)\b"
_NAME_WORD = r"[A-Z][\w'’.-]*"
_PEOPLE = (
    r"(?<!met )(?<!meet )(?<!meets )(?<!know )(?<!knows )(?<!knew )(?<!with )(?<!invited )"
    r"(?<!visited )(?<!visits )(?<!called )(?<!calls )(?<!asked )(?<!helped )(?<!thanked )"
    r"(?<!taught )(?<!teaches )(?<!raised )(?<!hugged )"
)
_JOINTS = tuple(
    re.compile(pattern).findall
    for pattern in (
        rf"(?i:\b{_COUNTED}\s*(?:{_UNIT})\b\.?,?\s+(?:and\s+)?(?={_PART}))",
        rf"(?i:\b(?:{'|'.join(sorted(MEASURES))})s? of (?:the|this|that|these|those|my|your|his|her"
        rf"|its|our|their|\w+['’]s)\b)",
        rf"(?:(?<=\w )|(?<=[\"“‘]))\b{_PEOPLE}{_NAME_WORD}(?: {_NAME_WORD}){{0,4}},?"
        rf" (?:and|&|'n'|or) (?=(?:the |a |of )?[A-Z])",
    )
)
_CLOSED_LISTS: tuple[Callable[[str], list[str]], ...] = tuple(
    re.compile(pattern).findall
    for pattern in (
        r"(?i:\b(?:consist\w*|compris\w+|composed|made up|constitute\w*)\b)[^.;]{0,200}",
        r"(?i:\b(?:\w+['’]s|my|our|his|her|their|its|your) (?:\w+ ){1,3}(?:are|were)|\bthe \w+s of "
        r"(?:\w+ ){1,4}?(?:are|were)|\bthe (?:\w+ )?(?:members|parts|colou?rs|ingredients"
        r"|components|languages|options|winners|owners|founders|finalists|choices|names|steps"
        r"|guests|authors|causes|reasons|sides|days) (?:are|were)) (?!\w+ing\b)"
        r"[^.;]{0,200}",
    )
)


def _is_told_further(longer: Side, shorter: Side) -> bool:
    """Whether one says what the other says, with a clause behind: "..., as Mia told us"."""
    said = shorter.parse
    ends = [tail.start() for tail in _CLAUSE.finditer(longer.text)]
    ends.sort(key=lambda end: abs(end - len(shorter.text)))
    heads = (parse(longer.text[:end]) for end in ends[:_HEADS])
    return any(
        head.stated == said.stated and head.persons == said.persons and head.shades == said.shades
        for head in heads
    )


_HEADS = 4
"""Places where a text may be cut to say what another says: those nearest its length."""


def _sentences_that_differ(longer: str, shorter: str) -> tuple[str, str]:
    """Both texts without the sentences that they share."""
    whole, part = (_SENTENCE_END.split(_HARMLESS.sub("", text)) for text in (longer, shorter))
    in_whole, in_part = set(whole), set(part)
    return (
        " ".join(sentence for sentence in whole if sentence not in in_part),
        " ".join(sentence for sentence in part if sentence not in in_whole),
    )


def _lower(text: str) -> list[str]:
    """Its words in lower case; the month is no modal verb."""
    return [word if word == "May" else word.casefold() for word in _WORDS(text)]


def _is_narrowing(word: str) -> bool:
    if _is_one_of(word, NARROWING):
        return True
    return _SUPERLATIVE(word) is not None and word not in POSITIVE_EST


def _is_one_of(word: str, words: frozenset[str]) -> bool:
    return word in words or plain_form(word).word in words


def _is_clause_behind(side: Side) -> bool:
    """Whether all that is added is a clause, or clauses, at the end."""
    words, more = side.parse.words, added(side)
    first = more.index(True) if True in more else len(more)
    if not (0 < first < len(more) and all(more[first:])):
        return False
    return words[first].clause != words[first - 1].clause


def _changed(side: Side) -> tuple[str, ...]:
    """Additions that change what they are added to, each with the word that it changes.

    A noun after a noun makes another thing of it (a cat toy), a word beside a number another
    amount, a name beside a name another person; before the subject stands another subject.
    """
    words, more = side.parse.words, added(side)
    first = more.index(False) if False in more else 0
    changing = [n for n in range(len(words)) if more[n] and _changes(words, n, more, first)]
    return tuple(dict.fromkeys(_pair(words, place) for place in changing))


def _pair(words: Sequence[Word], place: int) -> str:
    return " ".join(word.surface for word in words[max(0, place - 1) : place + 2])


def _changes(words: Sequence[Word], place: int, more: Sequence[bool], first: int) -> bool:
    """Whether the addition in this place changes one; `first`: the first place that adds none."""
    word = words[place]
    before = words[place - 1] if place and not more[place - 1] else None
    after = words[place + 1] if place + 1 < len(words) and not more[place + 1] else None
    if before is not None and word.joined and not _adverb(word):
        return True
    if after is not None and after.joined:
        counts = place == 0 and word.is_number  # two dogs, which German writes with capitals
        named = word.surface[:1].isupper() and after.surface[:1].isupper()
        return after.is_number or (named and not counts)
    return place < first and not word.role and not is_time(word.key)


_ADVERBS = frozenset(
    "together there here home back away soon twice outside inside upstairs "
    "downstairs abroad ago already bereits".split()
) | {f"{preposition} no {noun}" for (preposition, noun), denies in NO_IDIOMS.items() if not denies}


def _adverb(word: Word) -> bool:
    return is_manner(word) or word.key in _ADVERBS or is_time(word.key)
