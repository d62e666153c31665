"""A text as what it states: content words in order, each with what governs it.

Rewordings that change nothing are undone first, so that two texts can be laid beside each other:
the passive (the ball is thrown by Mia), a clause that only names a quality (a dog which is black),
"made of", "a few", "next to", an amount told as "a raise of 5 %".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from memory.text.japanese import japanese_tokens
from memory.text.numbers import with_numbers_joined
from memory.text.romance import ROMANCE, plainly
from memory.text.synonyms import SAME_AS
from memory.text.tokens import Kind, Token, has_kana, tokens
from memory.text.vocabulary import (
    EMPHASES,
    ENGLISH_ONLY,
    GERMAN,
    GERMAN_ARTICLES,
    GERMAN_GOVERNING,
    GERMAN_TURNING,
    GIVING,
    NOT,
    RELATIONAL,
    SHADES,
)

Stated = str
"""What is stated, its key, marked where it is told as past: "make" is not "made"."""


class Word(NamedTuple):
    """One thing stated.

    `role`: what governs it (a preposition before it, a Japanese particle after it). `joined`:
    whether it follows the word before it with nothing between. `clause`: which clause it is in.
    `past`: whether its form tells a past.
    """

    key: str
    surface: str
    role: str
    joined: bool
    clause: int
    is_number: bool
    past: bool

    @property
    def stated(self) -> Stated:
        """What it states, marked where it is past."""
        return _as_past(self.key) if self.past else self.key


def _as_past(key: str) -> Stated:
    return f"{key} (past)"


class Parse(NamedTuple):
    """What a text states, ready to be compared.

    `tokens`: all of it, small words too, with rewordings undone. `keys`, `surfaces` and `pasts`:
    what most comparisons need of `words`, as columns. `shades`: fillers that state something all
    the same, each with the word before it. `passive`: whether a passive was undone, after which
    the phrases behind it may stand elsewhere.
    """

    tokens: Sequence[Token]
    keys: Sequence[str]
    surfaces: Sequence[str]
    pasts: Sequence[bool]
    negations: int
    turning: Set[tuple[str, bool]]
    persons: Sequence[str]
    shades: Sequence[tuple[str, str]]
    asks: bool
    japanese: bool
    passive: bool

    @property
    def words(self) -> list[Word]:
        """Each thing stated with what governs it: read anew each time, since few pairs need it."""
        return (_after_particles if self.japanese else _after_prepositions)(self.tokens)

    @property
    def stated(self) -> Sequence[Stated]:
        """What each word states, marked where it is past."""
        if True not in self.pasts:
            return self.keys
        told = zip(self.keys, self.pasts, strict=True)
        return [_as_past(key) if past else key for key, past in told]

    @property
    def spaceless(self) -> bool:
        """Whether its words are single characters, as Chinese is read."""
        return not self.japanese and any(
            len(key) == 1 and "\u3400" <= key <= "\u9fff" for key in self.keys
        )


@lru_cache(maxsize=16_384)
def parse(text: str) -> Parse:
    """What a text states."""
    return _parsed(text, None)


@lru_cache(maxsize=16_384)
def parse_by_dictionary(text: str) -> Parse:
    """The same, Japanese by a dictionary where one is installed."""
    found = japanese_tokens(text) if has_kana(text) else None
    return parse(text) if found is None else _parsed(text, found)


def _parsed(text: str, by_dictionary: list[Token] | None) -> Parse:
    found = tokens(text) if by_dictionary is None else by_dictionary
    kinds = set(map(_KIND, found))
    if Kind.NUMBER in kinds or Kind.SCALE in kinds:
        found = with_numbers_joined(found)
    keys = set(map(_KEY, found))
    japanese = Kind.PARTICLE in kinds or by_dictionary is not None
    if not japanese:
        found = _reworded(found, keys, owns="'" in text or "’" in text)
        _tell_adverbs(found)
    stated = [token for token in found if token[1] in _STATED]
    stated_keys = [token[0] for token in stated]
    return Parse(
        found,
        stated_keys,
        [token[2] for token in stated],
        [token[3] for token in stated],
        stated_keys.count(NOT) if Kind.NOT in kinds else 0,
        {(token[0], token[3]) for token in stated if token[1] is _TURNS},
        [token[0] for token in found if token[1] is Kind.PERSON] if Kind.PERSON in kinds else (),
        () if keys.isdisjoint(_ALL_SHADES) else _shades(found),
        text.endswith(("?", "？")),
        japanese,
        bool(found) and found[0] is _PASSIVE,
    )


def _shades(found: Sequence[Token]) -> list[tuple[str, str]]:
    """Each filler that states something with the word stated before it; "" where there is none."""
    told: list[tuple[str, str]] = []
    before, denied = "", False
    for key, kind, _, _, _ in found:
        if kind in _STATED and kind is not Kind.ADVERB:
            before, denied = key, denied or key == NOT
        elif kind is Kind.STOP or key == "but":
            denied = False
        elif kind is Kind.FILLER and (key in SHADES or (denied and key in EMPHASES)):
            told.append((key, before))
    return told


_ALL_SHADES = SHADES | EMPHASES
_KEY, _KIND = itemgetter(0), itemgetter(1)
_TURNS = Kind.TURNING
_STATED = frozenset({Kind.CONTENT, Kind.NUMBER, Kind.SCALE, Kind.NOT, Kind.TURNING, Kind.ADVERB})
_NEW_CLAUSE = frozenset(
    "and but or while when where because who whom whose which that so if und aber".split()
)


def _after_prepositions(found: Sequence[Token]) -> list[Word]:
    words: list[Word] = []
    role, follows, clause = "", False, 0
    for key, kind, surface, past, _ in found:
        if kind in _STATED:
            if kind is Kind.ADVERB:
                role, follows = "", True
            words.append(Word(key, surface, role, follows, clause, kind is Kind.NUMBER, past))
            role, follows = "", True
            continue
        follows = False
        if kind is Kind.GOVERNING:
            role = key
        elif kind is Kind.STOP or key in _NEW_CLAUSE:
            role, clause = "", clause + 1
    return words


def _tell_adverbs(found: list[Token]) -> None:
    """What governs nothing belongs to the verb: to kick a bucket over is not to kick the bucket."""
    governing = Kind.GOVERNING
    for place, token in enumerate(found):
        if token[1] is governing:
            behind = found[place + 1] if place + 1 < len(found) else _END
            if behind[1] is Kind.STOP or behind[0] == "and":
                found[place] = token._replace(key=token.surface.casefold(), kind=Kind.ADVERB)


_END = Token("", Kind.STOP, "")


def _after_particles(found: Sequence[Token]) -> list[Word]:
    words: list[Word] = []
    clause = 0
    for key, kind, surface, past, _ in found:
        if kind in _STATED:
            last = words[-1] if words else None
            follows = last is not None and last.clause == clause and not last.role
            words.append(Word(key, surface, "", follows, clause, kind is Kind.NUMBER, past))
        elif kind is Kind.PARTICLE and words:
            words[-1] = words[-1]._replace(role=key)
        elif kind is Kind.STOP:
            clause += 1
    return words


# --- rewordings ---------------------------------------------------------------------------------


def _had(found: list[Token]) -> list[Token]:
    """The mother of Mia is Mia's mother; the address of Mia's router is its address."""
    place = 1
    while place < len(found) - 1:
        if found[place].key == "of" and found[place - 1].key in _RELATIONAL:
            end = _end_of_owner(found, place + 1)
            start = place - 1
            while start and found[start - 1].kind is Kind.CONTENT:
                start -= 1
            if end > place + 1:
                owner = found[place + 1 : end]
                chain = any(token.key == "have" for token in owner)
                have = [] if chain else [Token("have", Kind.CONTENT, "of")]
                found[start:end] = [*owner, *have, *found[start:place]]
                place = end
        place += 1
    return found


def _end_of_owner(found: Sequence[Token], start: int) -> int:
    """Where the owner that starts here ends: a name, or what somebody with a name has."""
    end = start
    while end < len(found) and _is_name(found[end]):
        end += 1
    if start < end < len(found) and found[end].key == "have":
        end += 1
        while end < len(found) and found[end].kind is Kind.CONTENT:
            end += 1
    return end


def _works_as(found: list[Token]) -> list[Token]:
    """Who works at a shop as a cook is a cook at the shop."""
    work = next((n for n, t in enumerate(found) if t.key == "work" and not t.past), None)
    role = next((n for n, t in enumerate(found) if t.key == "as"), None)
    if work is None or role is None or not work + 2 < role < len(found) - 1:
        return found
    place, job = found[work + 1 : role], found[role + 1 :]
    end = next((n for n, t in enumerate(job) if t.kind is Kind.STOP), len(job))
    plain = all(token.kind in (Kind.CONTENT, Kind.FILLER) for token in (*place[1:], *job[:end]))
    if place[0].key != "in" or not plain:
        return found
    return [*found[:work], *job[:end], *place, *job[end:]]


def _given_to(found: list[Token]) -> list[Token]:
    """Who gave Leo a book gave a book to Leo."""
    for place in range(len(found) - 3):
        if found[place].key in _GIVING and _is_name(found[place + 1]):
            start = place + 2
            if found[start].kind is not Kind.FILLER and found[start].kind is not Kind.NUMBER:
                continue
            end = start + 1
            while end < len(found) and found[end].kind in _STATED:
                end += 1
            to = Token("to", Kind.GOVERNING, "to")
            found[place + 1 : end] = [*found[start:end], to, found[place + 1]]
            return found
    return found


def _is_name(token: Token) -> bool:
    return token.kind is Kind.CONTENT and token.surface[:1].isupper()


_RELATIONAL = frozenset(SAME_AS.get(word, word) for word in RELATIONAL)
_GIVING = frozenset(SAME_AS.get(word, word) for word in GIVING)
_KIN = frozenset("mother father parent brother sister son daughter".split())
_GREAT_KIN = frozenset(
    "grandmother grandfather grandparent grandson granddaughter grandchild aunt uncle nephew "
    "niece".split()
)


def _in_law(found: list[Token]) -> list[Token]:
    """A mother-in-law is no mother."""
    place = 1
    while place < len(found) - 1:
        kin = found[place - 1]
        if kin.key in _KIN and found[place].key == "in" and found[place + 1].key == "law":
            told = f"{kin.surface}-in-law"
            found[place - 1 : place + 2] = [Token(f"{kin.key} in law", Kind.CONTENT, told)]
        place += 1
    return found


def _little(found: list[Token]) -> list[Token]:
    """A little garden is a small one; a little brother is a younger one."""
    for place in range(len(found) - 1):
        behind = found[place + 1]
        if found[place].key == "little" and behind.kind is Kind.CONTENT and behind.key not in _KIN:
            found[place] = found[place]._replace(key="small")
    return found


def _great_kin(found: list[Token]) -> list[Token]:
    """A great-grandmother is no grandmother."""
    for place in range(len(found) - 1):
        kin = found[place + 1]
        if found[place].key == "great" and kin.key in _GREAT_KIN:
            found[place + 1] = kin._replace(key=f"great {kin.key}")
    return found


def _been_to(found: list[Token]) -> list[Token]:
    """Who has been to Peru is back."""
    for place in range(len(found) - 1):
        if found[place].key == "been" and found[place + 1].key == "to":
            found[place] = found[place]._replace(kind=Kind.CONTENT)
    return found


_BE = frozenset({"is", "are", "be", "been", "being", "am"})
_WAS = frozenset({"was", "were"})
_WHICH = frozenset({"which", "that", "who"})


def _reworded(found: list[Token], keys: set[str], *, owns: bool) -> list[Token]:
    if not keys.isdisjoint(GERMAN) and keys.isdisjoint(ENGLISH_ONLY):
        return _active_german([_german(token) for token in found])
    if owns and any(token[2][-2:] in _GENITIVE for token in found):
        found = _owners(found)
        keys.add("have")
    there = keys & _TRIGGERS
    if there:
        for triggers, undo in _REWORDINGS:
            if not there.isdisjoint(triggers):
                found = undo(found)
    return found


_GENITIVE = frozenset({"'s", "’s", "s'", "s’"})


def _owners(found: Sequence[Token]) -> list[Token]:
    """Mia's office is one that Mia has."""
    told: list[Token] = []
    for token in found:
        told.append(token)
        if token.kind is Kind.CONTENT and token.surface[-2:] in _GENITIVE:
            told.append(Token("have", Kind.CONTENT, token.surface[-2:]))
    return told


_AUXILIARIES = frozenset({"have", "do"})
_DETERMINERS = frozenset("a an the this that these those its such own".split())


def _without_auxiliaries(found: list[Token]) -> list[Token]:
    """Has adopted is adopted, does not is not; but to have a doctor is not to be one."""
    for place, token in enumerate(found):
        if token.key in _AUXILIARIES and _helps(found, place):
            found[place] = token._replace(kind=Kind.FILLER)
    return found


def _helps(found: Sequence[Token], place: int) -> bool:
    """Whether a participle follows "have", or a negation "do"."""
    after = place + 1
    while after < len(found) and _may_stand_between(found[after]):
        after += 1
    if found[place].key != "have":
        return after > place + 1 and any(t.kind is Kind.NOT for t in found[place + 1 : after])
    return after < len(found) and (found[after].participle or found[after].key == "been")


def _may_stand_between(token: Token) -> bool:
    if token.kind is Kind.FILLER:
        return token.key not in _DETERMINERS and token.key != "been"
    return token.kind is Kind.NOT or token.surface.endswith("ly")


def _several(found: list[Token]) -> list[Token]:
    """A few friends are several; few friends are not."""
    for place in range(1, len(found)):
        if found[place].key == "few" and found[place - 1].key == "a":
            found[place] = found[place]._replace(key="several")
    return found


_ALL = frozenset("all every everything everyone everybody anything anyone anybody".split()) | {NOT}


def _except(found: list[Token]) -> list[Token]:
    """Everything but fish is not everything, but fish."""
    for place in range(1, len(found)):
        before = found[place - 1]
        if found[place].key == "but" and (before.key in _ALL or before.surface.lower() in _ALL):
            found[place] = found[place]._replace(key="except", kind=Kind.TURNING)
    return found


def _many(found: list[Token]) -> list[Token]:
    """A lot of friends, and lots of them, are many."""
    for place in range(len(found) - 1):
        if found[place].key == "lot" and found[place + 1].key == "of":
            found[place] = found[place]._replace(key=SAME_AS["many"])
            found[place + 1] = found[place + 1]._replace(kind=Kind.FILLER)
    return found


def _german(token: Token) -> Token:
    """Articles tell the case, and so who does what; prepositions govern."""
    if token.kind is not Kind.CONTENT and token.kind is not Kind.FILLER:
        return token if token.kind is not Kind.GOVERNING else token._replace(key="in")
    low = token.surface.lower()
    if low in GERMAN_TURNING:
        return token._replace(key=low, kind=Kind.TURNING)
    if low in GERMAN_ARTICLES:
        case = GERMAN_ARTICLES[low]
        return token._replace(key=case, kind=Kind.GOVERNING if case else Kind.FILLER)
    if low in GERMAN_GOVERNING:
        return token._replace(key=GERMAN_GOVERNING[low], kind=Kind.GOVERNING)
    return token


def _active_german(found: list[Token]) -> list[Token]:
    """Die Lampe wurde von Mia repariert: Mia hat die Lampe repariert.

    Where no more is told, and the thing done to has the form of both cases.
    """
    end = next((n for n, token in enumerate(found) if token.kind is Kind.STOP), len(found))
    keys = [token.key for token in found[:end]]
    if "wurde" not in keys or "of" not in keys or end < 5:
        return found
    became, by, last = keys.index("wurde"), keys.index("of"), found[end - 1]
    done, doer = found[:became], found[by + 1 : end - 1]
    named = len(doer) == 1 and _is_name(doer[0]) and found[by].surface.lower() == "von"
    plain = by == became + 1 and all(t.kind in (Kind.CONTENT, Kind.FILLER) for t in done)
    participle = last.surface.startswith("ge") or last.surface.endswith(("iert", "t", "en"))
    if not (named and plain and participle and last.surface.islower()) or _is_der(done):
        return found
    have = Token("hat", Kind.CONTENT, found[became].surface)
    return [*doer, have, *done, last, *found[end:]]


def _is_der(done: Sequence[Token]) -> bool:
    """Whether it starts with "der" or "ein", which whom it is done to does not."""
    return bool(done) and done[0].surface.lower() in ("der", "ein")


_BESIDE = frozenset({"next", "close"})


def _beside(found: list[Token]) -> list[Token]:
    """Next to and close to are near."""
    for place in range(len(found) - 2, -1, -1):
        if found[place].key in _BESIDE and found[place + 1].key == "to":
            surface = f"{found[place].surface} to"
            found[place : place + 2] = [Token(SAME_AS["near"], Kind.CONTENT, surface)]
    return found


def _used_to(found: list[Token]) -> list[Token]:
    """What somebody used to do is over; what is used for something is not."""
    for place in range(len(found) - 1):
        if _is_used(found[place]) and found[place + 1].key == "to":
            found[place] = found[place]._replace(key="used to", kind=Kind.TURNING)
    return found


def _is_used(token: Token) -> bool:
    return token.key == "used" or (token.key == "use" and token.past)


def _made_of(found: list[Token]) -> list[Token]:
    """A wall made of stone is a stone wall; a raise of 5 % is a 5 % raise."""
    place = 1
    while place < len(found) - 1:
        made = found[place - 1].key == "make" and found[place - 1].past
        if found[place].key == "of" and made and place > 1:
            found[place - 2 : place + 2] = [found[place + 1], found[place - 2]]
        elif found[place].key == "of" and found[place + 1].kind is Kind.NUMBER:
            end = place + 2 + (found[place + 2].key == "percent" if place + 2 < len(found) else 0)
            if found[place - 1].kind is Kind.CONTENT:
                found[place - 1 : end] = [*found[place + 1 : end], found[place - 1]]
        place += 1
    return found


_MADE = frozenset({"make", "use", "design"})


def _meant_for(found: list[Token]) -> list[Token]:
    """A rope for climbing, or used for it, is a climbing rope; a coat for Leo is no Leo coat."""
    for place in range(2, len(found) - 1):
        if found[place].key == "for":
            made = found[place - 1].key in _MADE and found[place - 1].past
            thing = place - 1 - made
            end = place + 1
            while end < len(found) and found[end].kind is Kind.CONTENT and not _is_name(found[end]):
                end += 1
            if end > place + 1 and _is_thing(found, thing) and not _goes_on(found, end):
                start = _start_of_noun(found, thing)
                found[start:end] = [*found[place + 1 : end], *found[start : thing + 1]]
                return found
    return found


def _is_thing(found: Sequence[Token], place: int) -> bool:
    """Whether it is a noun by itself: a pen, but no pen that somebody bought."""
    token = found[place]
    article = place > 0 and found[_start_of_noun(found, place) - 1].key in ("a", "an")
    return token.kind is Kind.CONTENT and not _is_name(token) and not token.past and article


def _goes_on(found: Sequence[Token], end: int) -> bool:
    """Whether a noun phrase that ends here has more of it behind: a name, a number, a person."""
    return end < len(found) and found[end].kind in (Kind.CONTENT, Kind.NUMBER, Kind.PERSON)


def _qualities_first(found: list[Token]) -> list[Token]:
    """A dog which is black, or a dog, which is black, is a black dog."""
    place = 1
    while place < len(found) - 2:
        if found[place].key in _WHICH and found[place + 1].key in _BE:
            head = place - 1 - (found[place - 1].kind is Kind.STOP)
            end = _end_of_qualities(found, place + 2)
            if head >= 0 and found[head].kind is Kind.CONTENT and end > place + 2:
                qualities = [t for t in found[place + 2 : end] if t.kind is Kind.CONTENT]
                after = end + (end < len(found) and found[end].kind is Kind.STOP)
                start = _start_of_noun(found, head)
                found[start:after] = [*qualities, *found[start : head + 1]]
        place += 1
    return found


def _start_of_noun(found: Sequence[Token], head: int) -> int:
    """Where a noun of several words starts (a pork chop), as its article shows; else the head."""
    start = head
    while start and found[start - 1].kind is Kind.CONTENT:
        start -= 1
    return start if start and found[start - 1].key in _ARTICLES else head


_ARTICLES = frozenset({"a", "an", "the"})


def _end_of_qualities(found: Sequence[Token], start: int) -> int:
    """Where the qualities that start here end; `start` itself where they are none."""
    end = start
    while end < len(found) and (
        found[end].kind is Kind.CONTENT
        or (found[end].key in ("and", "very") and end + 1 < len(found))
    ):
        end += 1
    if end == len(found) or found[end].kind is Kind.STOP or found[end].key in _BE:
        return end - (found[end - 1].key == "and")
    return start


def _active(found: list[Token]) -> list[Token]:
    """The ball is thrown by Mia: Mia throws the ball, in the tense that "be" tells."""
    if not any(token.participle for token in found):
        return found
    for place in range(len(found) - 1):
        be = found[place]
        if be.key not in _BE and be.key not in _WAS:
            continue
        verb = place + 1
        while verb < len(found) and found[verb].kind is Kind.FILLER:
            verb += 1
        if verb < len(found) and found[verb].participle:
            return _in_active_voice(found, place, verb)
    return found


def _in_active_voice(found: list[Token], be: int, verb: int) -> list[Token]:
    passed = found[be].key in _WAS
    progressive = any(token.key == "being" for token in found[be:verb])
    by = next((n for n in range(verb + 1, len(found)) if found[n].key == "by"), None)
    if by is None:  # was engaged is not is engaged; was hired is not hired
        return found
    past = passed and not progressive
    doing = Token(found[verb].key, Kind.CONTENT, found[verb].surface, past)
    dropped = found[:be] if not (passed and progressive) else found[: be + 1]
    start = max((n + 1 for n in range(be) if found[n].kind is Kind.STOP), default=0)
    end = next((n for n in range(by, len(found)) if found[n].kind is Kind.STOP), len(found))
    head, done, middle = found[:start], dropped[start:], found[verb + 1 : by]
    if [token.kind for token in middle] == [Kind.GOVERNING]:  # the hat was put on by Mia
        doing_so, middle = [doing, *middle], []
    else:
        doing_so = [doing]
    return [_PASSIVE, *head, *found[by + 1 : end], *doing_so, *done, *middle, *found[end:]]


_PASSIVE = Token("", Kind.FILLER, "")
"""Stands first where a passive was undone."""


def _cleft(found: list[Token]) -> list[Token]:
    """It was Mia who left: Mia left. It was in Rome that Mia met Leo: Mia met Leo in Rome.

    Whom Mia saw stands behind the verb: "It was Leo that Mia saw" does not say that Leo saw her.
    """
    if found[0].key != "it" or len(found) < 5 or found[1].key not in _BE | _WAS:
        return found
    joint = next((n for n, t in enumerate(found[:9]) if n > 2 and t.key in _WHICH), None)
    end = next((n for n, t in enumerate(found) if t.kind is Kind.STOP), len(found))
    if joint is None or joint + 1 >= end:
        return found
    topic, rest = found[2:joint], found[joint + 1 : end]
    if any(t.kind not in _PLAIN for t in topic) or not any(t.kind is Kind.CONTENT for t in topic):
        return found
    if topic[0].kind is Kind.GOVERNING:
        told = [*rest, *topic]
    elif len(rest) > 1 and _is_name(rest[0]) and rest[1].kind is Kind.CONTENT:
        told = [*rest[:2], *topic, *rest[2:]]
    elif _is_finite(rest[0]):
        told = [*topic, *rest]
    else:
        return found
    return [*told, *found[end:]]


_PLAIN = frozenset({Kind.CONTENT, Kind.FILLER, Kind.GOVERNING})


def _is_finite(token: Token) -> bool:
    """Whether it is a verb, as its form shows: left, sings, is."""
    if token.key in _BE | _WAS | _AUXILIARIES:
        return True
    return token.kind is Kind.CONTENT and (token.past or token.surface.endswith("s"))


_REWORDINGS: tuple[tuple[frozenset[str], Callable[[list[Token]], list[Token]]], ...] = (
    (ROMANCE, plainly),
    (frozenset({"it"}), _cleft),
    (_AUXILIARIES, _without_auxiliaries),
    (frozenset({"been"}), _been_to),
    (frozenset({"law"}), _in_law),
    (frozenset({"little"}), _little),
    (frozenset({"great"}), _great_kin),
    (frozenset({"which", "that", "who"}), _qualities_first),
    (frozenset({"of"}), _made_of),
    (frozenset({"for"}), _meant_for),
    (frozenset({"of"}), _had),
    (_GIVING, _given_to),
    (frozenset({"work"}), _works_as),
    (_BE | _WAS, _active),
    (frozenset({"few"}), _several),
    (frozenset({"but"}), _except),
    (frozenset({"lot"}), _many),
    (_BESIDE, _beside),
    (frozenset({"use", "used"}), _used_to),
)
"""What undoes each rewording, and the words without which there is nothing to undo."""
_TRIGGERS = frozenset[str]().union(*(triggers for triggers, _ in _REWORDINGS))
