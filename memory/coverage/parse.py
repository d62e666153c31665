"""Parse a text into what it states: content words in order, each with its preposition.

Different English wordings of one meaning get one form first, for comparison word by word: the
active voice, the owner and the quality before what they belong to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from memory.text import (
    AUXILIARIES,
    BE,
    EMPHASES,
    ENGLISH,
    JAPANESE,
    NOT,
    RELATIONAL,
    SAME_AS,
    SHADES,
    STATED,
    WAS,
    WHICH,
    Kind,
    Token,
    is_name,
    language_of,
    tokens,
    with_numbers_joined,
)


class Word(NamedTuple):
    """A word that has a meaning of its own, such as a noun, a verb, a number or a negation."""

    stated: str
    """The form for comparison: `key`, with " (past)" or " (ing)" added if the word has this form.

    All forms and synonyms of a word have the same `key`.
    """
    key: str
    surface: str
    role: str
    """The key of the preposition before the word, or of the Japanese particle after it; else ""."""
    joined: bool
    """Whether the word directly follows another `Word`, without a comma, article or preposition."""
    clause: int
    """The number of the clause that contains the word, from 0."""
    is_number: bool
    past: bool


class Parse(NamedTuple):
    """The statement of a text, in a form that can be compared with another text."""

    tokens: Sequence[Token]
    words: Sequence[Word]
    stated: Sequence[str]
    counts: Counter[str]
    negations: int
    turning: Set[tuple[str, bool]]
    """Words that change the whole statement, such as "might", as (key, is a past form)."""
    persons: Sequence[str]
    """The keys of the pronouns, in the order of the text."""
    shades: Sequence[tuple[str, str]]
    """Small words that matter, such as "very", as pairs (key, key of the word before it).

    The word before it is the last noun, verb or other word with a meaning of its own; "" if none.
    """
    asks: bool
    language: str
    """ENGLISH, JAPANESE, OTHER or a key of `GRAMMARS`; only English is reworded."""
    passive: bool
    """Whether a passive in the text was rewritten in the active voice.

    For "The ball was thrown by Mia", `words` has the order of "Mia threw the ball".
    """


_TITLE = re.compile(r"(?<!he )(?<!\ba )\b(?:(Prof)(?:\.|essor)|D(?:r\.|o[ck]tor)) (?=[A-ZÀ-Þ])")
"""Finds "Dr." and "Doctor" before a name, which are one word."""


@lru_cache(maxsize=16_384)
def parse(text: str, language: str = "") -> Parse:
    """Return what a text states; Japanese is cut at each change of script.

    `language`: as in `Parse`; by default it is recognised.
    """
    found = tokens(_TITLE.sub(lambda title: f"{title[1] or 'Dr'} ", text))
    kinds = {token.kind for token in found}
    if Kind.NUMBER in kinds or Kind.SCALE in kinds:
        found = with_numbers_joined(found)
    keys = {token.key for token in found}
    language = language or (JAPANESE if Kind.PARTICLE in kinds else language_of(text))
    if language == ENGLISH:
        if "'" in text or "’" in text:
            found = [part for token in found for part in _with_have(token)]
            keys.add("have")
        for triggers, in_one_form in _REWORDINGS:
            if not triggers.isdisjoint(keys):
                found = in_one_form(found)
    words = _words(found)
    stated = [word.stated for word in words]
    return Parse(
        tokens=found,
        words=words,
        stated=stated,
        counts=Counter(stated),
        negations=sum([word.key == NOT for word in words]),
        turning={(token.key, token.past) for token in found if token.kind is Kind.TURNING},
        persons=[token.key for token in found if token.kind is Kind.PERSON],
        shades=[] if keys.isdisjoint(_SHADING) else _shades(found),
        asks=text.endswith(("?", "？")),
        language=language,
        passive=bool(found) and found[0] is PASSIVE,
    )


_SHADING = SHADES | EMPHASES


def _shades(found: Sequence[Token]) -> list[tuple[str, str]]:
    shades: list[tuple[str, str]] = []
    before, denied = "", False
    for key, kind, *_ in found:
        if kind in STATED:
            before, denied = key, denied or key == NOT
        elif kind is Kind.STOP or key == "but":
            denied = False
        elif kind is Kind.FILLER and (key in SHADES or (denied and key in EMPHASES)):
            shades.append((key, before))
    return shades


_NEW_CLAUSE = frozenset("and but who whom whose which that so".split())


def _words(found: Sequence[Token]) -> list[Word]:
    words: list[Word] = []
    role, joined, clause = "", False, 0
    for n, (key, kind, surface, past, _) in enumerate(found, start=1):
        if kind in STATED:
            is_ing = surface.endswith("ing") and not key.endswith("ing")  # not just "runs"
            stated = f"{key} (past)" if past else f"{key} (ing)" if is_ing else key
            words.append(
                Word(stated, key, surface, role, joined, clause, kind is Kind.NUMBER, past)
            )
            role, joined = "", True
        elif kind is Kind.GOVERNING and (
            n == len(found) or found[n].kind is Kind.STOP or found[n].key == "and"
        ):
            adverb = surface.casefold()
            words.append(Word(adverb, adverb, surface, "", True, clause, False, past))
            role, joined = "", True
        else:
            joined = False
            if kind is Kind.GOVERNING:
                role = key
            elif kind is Kind.PARTICLE and words:
                words[-1] = words[-1]._replace(role=key)
            elif kind is Kind.STOP or key in _NEW_CLAUSE:
                role, clause = "", clause + 1
    return words


# --- one form for wordings of one meaning ---------------------------------------------------------


def _with_have(token: Token) -> list[Token]:
    if token.kind is not Kind.CONTENT or token.surface[-2:] not in ("'s", "’s", "s'", "s’"):
        return [token]
    return [token, Token("have", Kind.CONTENT, token.surface[-2:])]


def _end(tokens: Sequence[Token], start: int, fits: Callable[[Token], bool]) -> int:
    return next((n for n in range(start, len(tokens)) if not fits(tokens[n])), len(tokens))


def _is_content(token: Token) -> bool:
    return token.kind is Kind.CONTENT


_ALL = [*"all every everything everyone everybody anything anyone anybody".split(), NOT]
_GREAT_KIN = (
    "grandmother grandfather grandparent grandson granddaughter grandchild aunt uncle nephew "
    "niece".split()
)
_NEAR = (SAME_AS["near"], Kind.CONTENT), ("", Kind.FILLER)
_USED_TO = ("used to", Kind.TURNING), ("", Kind.FILLER)
_PAIRS: Mapping[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {
    ("a", "few"): (("", ""), ("several", "")),  # few friends are not several
    ("lot", "of"): ((SAME_AS["many"], ""), ("", Kind.FILLER)),
    ("next", "to"): _NEAR,
    ("close", "to"): _NEAR,
    ("used", "to"): _USED_TO,
    ("use", "to"): _USED_TO,
    ("been", "to"): (("", Kind.CONTENT), ("", "")),  # who has been to Peru is back
    ("in", "law"): (("in law", Kind.TURNING), ("", Kind.FILLER)),  # no mother: a mother-in-law
    **{(word, "but"): (("", ""), ("except", Kind.TURNING)) for word in _ALL},
    **{("great", kin): (("", ""), (f"great {kin}", "")) for kin in _GREAT_KIN},
}
"""Pairs of adjacent words that mean something else together, such as "a few".

The keys of the two words are mapped to a new (key, kind) for the first word, and a new (key, kind)
for the second. An empty key or kind means that the old one stays.
"""


def _pairs_read_as_one(tokens: list[Token]) -> list[Token]:
    for n in range(len(tokens) - 1):
        changes = _PAIRS.get((tokens[n].key, tokens[n + 1].key), ())
        for position, (key, kind) in enumerate(changes, start=n):
            token = tokens[position]
            tokens[position] = token._replace(key=key or token.key, kind=kind or token.kind)
    return tokens


_DETERMINERS = frozenset("a an the this that these those its such own".split())


def _without_auxiliaries(tokens: list[Token]) -> list[Token]:
    """Mark auxiliary verbs as fillers: "has" in "has adopted", not in "has a doctor"."""
    for position, token in enumerate(tokens):
        if token.key in AUXILIARIES:
            after = _end(tokens, position + 1, _may_stand_between)
            helps = (
                after < len(tokens) and (tokens[after].participle or tokens[after].key == "been")
                if token.key == "have"
                else any(between.kind is Kind.NOT for between in tokens[position + 1 : after])
            )
            if helps:
                tokens[position] = token._replace(kind=Kind.FILLER)
    return tokens


def _may_stand_between(token: Token) -> bool:
    if token.kind is Kind.FILLER:
        return token.key not in _DETERMINERS and token.key != "been"
    return token.kind is Kind.NOT or token.surface.endswith("ly")


# --- the passive ----------------------------------------------------------------------------------


_FORMS_OF_BE = BE | WAS


def _in_active_voice(tokens: list[Token]) -> list[Token]:
    """Rewrite "The ball was thrown by Mia" as "Mia threw the ball".

    The rewritten list begins with the token `PASSIVE`. If no passive with "by" is found, `tokens`
    is returned unchanged.
    """
    for be in (n for n, token in enumerate(tokens) if token.key in _FORMS_OF_BE):
        verb = _end(tokens, be + 1, lambda after: after.kind is Kind.FILLER)
        if verb < len(tokens) and tokens[verb].participle:
            break
    else:
        return tokens
    by = _end(tokens, verb + 1, lambda token: token.key != "by")
    if by == len(tokens):  # was engaged is not is engaged; was hired is not hired
        return tokens
    passed = tokens[be].key in WAS
    progressive = any(token.key == "being" for token in tokens[be:verb])
    doing = [
        Token(
            tokens[verb].key,
            Kind.CONTENT,
            tokens[verb].surface + ("ing" if progressive else ""),
            passed and not progressive,
        )
    ]
    start = max((n + 1 for n in range(be) if tokens[n].kind is Kind.STOP), default=0)
    end = _end(tokens, by, lambda token: token.kind is not Kind.STOP)
    done, middle = tokens[start : be + (passed and progressive)], tokens[verb + 1 : by]
    if [token.kind for token in middle] == [Kind.GOVERNING]:  # the hat was put on by Mia
        doing, middle = doing + middle, []
    return [PASSIVE, *tokens[:start], *tokens[by + 1 : end], *doing, *done, *middle, *tokens[end:]]


PASSIVE = Token("", Kind.FILLER, "")


# --- noun phrases in one order: the owner, the material, the purpose, the quality first ----------


def _owner_first(tokens: list[Token]) -> list[Token]:
    """Rewrite "the mother of Mia" as "Mia's mother"."""
    position = 1
    while position < len(tokens) - 1:
        if tokens[position].key == "of" and tokens[position - 1].key in _RELATIONAL:
            end = _end_of_owner(tokens, position + 1)
            start = next(
                (n for n in range(position - 1, 0, -1) if not _is_content(tokens[n - 1])), 0
            )
            if end > position + 1:
                owner = tokens[position + 1 : end]
                chain = any(token.key == "have" for token in owner)
                have = [] if chain else [Token("have", Kind.CONTENT, "of")]
                tokens[start:end] = [*owner, *have, *tokens[start:position]]
                position = end
        position += 1
    return tokens


_RELATIONAL = frozenset(SAME_AS.get(word, word) for word in RELATIONAL)


def _end_of_owner(tokens: Sequence[Token], start: int) -> int:
    end = _end(tokens, start, is_name)
    if start < end < len(tokens) and tokens[end].key == "have":
        return _end(tokens, end + 1, _is_content)
    return end


def _qualities_first(tokens: list[Token]) -> list[Token]:
    position = 1
    while position < len(tokens) - 2:
        if tokens[position].key in WHICH and tokens[position + 1].key in BE:
            head = position - 1
            end = _end_of_qualities(tokens, position + 2)
            if head >= 0 and tokens[head].kind is Kind.CONTENT and end > position + 2:
                qualities = [t for t in tokens[position + 2 : end] if t.kind is Kind.CONTENT]
                after = end + (end < len(tokens) and tokens[end].kind is Kind.STOP)
                start = next((n for n in range(head, 0, -1) if not _is_content(tokens[n - 1])), 0)
                if not start or tokens[start - 1].key not in ("a", "an", "the"):
                    start = head
                tokens[start:after] = [*qualities, *tokens[start : head + 1]]
        position += 1
    return tokens


def _end_of_qualities(tokens: Sequence[Token], start: int) -> int:
    end = start
    while end < len(tokens) and (
        tokens[end].kind is Kind.CONTENT
        or (tokens[end].key in ("and", "very") and end + 1 < len(tokens))
    ):
        end += 1
    if end == len(tokens) or tokens[end].kind is Kind.STOP or tokens[end].key in BE:
        return end - (tokens[end - 1].key == "and")
    return start


_REWORDINGS: tuple[tuple[frozenset[str], Callable[[list[Token]], list[Token]]], ...] = (
    (frozenset(second for _, second in _PAIRS), _pairs_read_as_one),
    (AUXILIARIES, _without_auxiliaries),
    (WHICH, _qualities_first),
    (frozenset({"of"}), _owner_first),
    (BE | WAS, _in_active_voice),
)
