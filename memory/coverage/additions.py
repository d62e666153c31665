"""Find out whether the extra words of a longer text only add to its statement, or change it.

"Mia has a tabby cat" also states that she has a cat. "Mia has no tabby cat", "a cat toy" and "every
tabby cat" do not. Extra words are accepted only in a plain, positive statement in a known language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from memory.coverage.order import Side, is_manner, is_ranked, is_time
from memory.coverage.parse import Word, parse
from memory.text import (
    CONDITIONS,
    DOUBTS,
    MEASURES,
    NARROWING,
    NUMBERS,
    POSITIVE_EST,
    PRIVATIVE,
    REPORTS,
    UNITS,
    plain_form,
    sentences,
)

_SUPERLATIVE = re.compile("[a-z]{2,}est").fullmatch
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?").findall
_HARMLESS = re.compile(
    r"\ba few\b|\b(?:last|next) (?:week|weekend|month|year|night|summer|winter|spring|autumn|fall"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.IGNORECASE,
)
_REACHING = re.compile(
    r"\b(?:as|so) (?:long|far|soon|much|many) as\b|\btoo\s+\w"
    r"|\b(?:stop|quit|ceas)\w*\s+(?:\w+ing|to)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[,;]\s*(?:as (?!if|though|long|far|soon|much|many|well)|which |because |although |though "
    r"|since |(?:(?:and|but|so) )?(?:he|she|they|it|i|we|there|his|her|their|my|our) )",
    re.IGNORECASE,
)


def changed_by_additions(longer: Side, shorter: Side, extra: tuple[str, ...]) -> tuple[str, ...]:
    """Return the extra words of `longer` that change what `shorter` states; () if none does.

    Each changing word is returned as a phrase with the words beside it, such as "cat toy". `extra`:
    all words that only `longer` has. Some texts, such as questions, do not allow a check of single
    words; then `extra` is returned.
    """
    if longer.parse.asks or _forbids_additions(longer, shorter):
        return extra
    words, added = longer.parse.words, longer.added
    first = added.index(False) if False in added else 0
    changing = [n for n in range(len(words)) if added[n] and _changes(words, n, added, first)]
    phrases = (words[max(0, position - 1) : position + 2] for position in changing)
    return tuple(dict.fromkeys(" ".join(word.surface for word in phrase) for phrase in phrases))


_PICTURED = re.compile(r"\b(?:is|are|was|were|am)\s+(?:\w+ly\s+)?\w+ing\b", re.IGNORECASE)


def _forbids_additions(longer: Side, shorter: Side) -> bool:
    """Return whether `longer` is worded so that no extra word can be accepted.

    This is so if it has a word such as "all", "if" or "not". Exception: with "all" or "not", an
    extra clause at the end is accepted: "Leo has no car, as he likes trains".
    """
    whole, part = _sentences_that_differ(longer.text, shorter.text)
    if (
        _REACHING.search(whole)
        or _OF_A_KIND.search(whole)
        or is_ranked(whole)
        or ":" in whole
        or _is_about_other_things(longer, shorter)
    ):
        return True
    words, common = Counter(_lower(whole)), Counter(_lower(part))
    extra = words - common
    if (
        any(_is_one_of(word, DOUBTS | CONDITIONS | REPORTS) for word in extra)
        or not PRIVATIVE.isdisjoint(extra)
        or _joins_inseparable_parts(longer.text, shorter.text)
    ):
        return True
    return not _has_clause_added(longer, shorter) and (
        longer.parse.negations > 0
        or any(map(_is_narrowing, words & common))
        or any(_is_one_of(word, DOUBTS | CONDITIONS) for word in words)
        or (not _ends_in_extra_clause(longer) and any(map(_is_narrowing, extra)))
    )


def _is_about_other_things(longer: Side, shorter: Side) -> bool:
    short_text = shorter.text.casefold()
    owned = [(own[1], noun) for own in _OWNER_OF_OWNER(longer.text) for noun in own[2].split()]
    owned += [(own[2], own[1]) for own in _OF_AN_OWNER(longer.text)]
    if any(f"{owner} {noun}".casefold() in short_text for owner, noun in owned):
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
    if len(words) < 3 or not longer.added[0] or words[0].is_number:
        return False
    opens = longer.text.lower().removeprefix("a ").startswith(words[0].surface.lower())
    plural = words[1].surface.islower() and plain_form(words[1].surface).word != words[1].surface
    return opens and words[1].joined and plural


_OWNER_OF_OWNER = re.compile(
    r"\b(my|your|his|her|its|our|their|\w+['’]s)\s+(?:[\w-]+\s+){0,2}?[\w-]+(?:['’]s|s['’])"
    r"((?:\s+[\w-]+){1,3})",
    re.IGNORECASE,
).finditer
_OF_AN_OWNER = re.compile(
    r"(?<![\w-])-*+([\w-]++) of (my|your|his|her|its|our|their)\b", re.IGNORECASE
).finditer
_OF_ANY = re.compile(
    r"\b(?:allergic to|intolerant of|immune to|averse to|afraid of|scared of|frightened of|fond of"
    r"|wary of|tired of|sick of|interested in|good at|bad at|keen on|experts? (?:on|in)) (\w+)"
).findall
_DEFINITE_START = re.compile(
    r"\s*(?:the|these|those|my|your|his|her|its|our|their)\b", re.IGNORECASE
).match
_RESTRICTED = re.compile(
    r"(?!this|his|its)[A-Z]?[a-z]+s (?:that|which|who|with|without|of|from|in|on|at|near)\b",
    re.IGNORECASE,
).match
_OF_A_KIND = re.compile(
    r"\b(?:is|are|was|were|been|be|become|becomes|became)\s+(?:\w+\s+){0,2}?(?:extinct|endangered"
    r"|species|subspecies|breed|breeds|genus|domesticated|invented|widespread|native|endemic"
    r"|abundant|numerous|common|rare|scarce|indigenous)\b",
    re.IGNORECASE,
)


def _joins_inseparable_parts(longer: str, shorter: str) -> bool:
    """Return whether an "and" of `longer` joins parts that make sense only together.

    Examples are "3 hours and 18 minutes", "Marks and Spencer" and "the members are A and B".
    """
    return any(len(joint(longer)) > len(joint(shorter)) for joint in _JOINTS) or any(
        len(_JOINER(" ; ".join(found(longer)))) > len(_JOINER(" ; ".join(found(shorter))))
        for found in _CLOSED_LISTS
    )


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


def _has_clause_added(longer: Side, shorter: Side) -> bool:
    other = shorter.parse
    ends = [tail.start() for tail in _CLAUSE.finditer(longer.text)]
    ends.sort(key=lambda end: abs(end - len(shorter.text)))
    heads = (parse(longer.text[:end]) for end in ends[:4])
    return any(
        (head.stated, head.persons, head.shades) == (other.stated, other.persons, other.shades)
        for head in heads
    )


def _sentences_that_differ(longer: str, shorter: str) -> tuple[str, str]:
    whole, part = (sentences(_HARMLESS.sub("", text)) for text in (longer, shorter))
    in_whole, in_part = set(whole), set(part)
    return (
        " ".join(sentence for sentence in whole if sentence not in in_part),
        " ".join(sentence for sentence in part if sentence not in in_whole),
    )


def _lower(text: str) -> list[str]:
    return [word if word == "May" else word.casefold() for word in _WORDS(text)]


def _is_narrowing(word: str) -> bool:
    is_superlative = _SUPERLATIVE(word) is not None and word not in POSITIVE_EST
    return is_superlative or _is_one_of(word, NARROWING)


def _is_one_of(word: str, words: frozenset[str]) -> bool:
    return word in words or plain_form(word).word in words


def _ends_in_extra_clause(side: Side) -> bool:
    words, added = side.parse.words, side.added
    first = added.index(True) if True in added else 0
    return first > 0 and all(added[first:]) and words[first].clause != words[first - 1].clause


def _changes(words: Sequence[Word], position: int, added: Sequence[bool], first: int) -> bool:
    word = words[position]
    before = words[position - 1] if position and not added[position - 1] else None
    after = words[position + 1] if position + 1 < len(words) and not added[position + 1] else None
    is_adverb = is_manner(word) or word.key in _ADVERBS or is_time(word.key)
    if before is not None and word.joined and not is_adverb:
        return True
    if after is not None and after.joined:
        return after.is_number or (word.surface[:1].isupper() and after.surface[:1].isupper())
    return position < first and not word.role and not is_time(word.key)


_ADVERBS = frozenset(
    "together there here home back away soon twice outside inside upstairs downstairs abroad ago "
    "already".split()
)
