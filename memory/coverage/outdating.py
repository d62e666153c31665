"""Which memories may be outdated by a newer one: the suspects.

Two memories are suspects if they state the same but for the value of an attribute that has one
value ("lives in Porto" / "lives in Lisbon"), or if the newer one says that what the older one
states has changed ("no longer", "moved to", "cancelled"). A suspicion only changes the order in
which memories are shown. In doubt there is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from memory.coverage.covers import LONGEST, Told
from memory.coverage.differences import common_start
from memory.coverage.parse import parse
from memory.text import guarded, identity, sentences

_MOST_SENTENCES = 12
_MOST_OF_VALUE = 8
"""The most words that a value has."""

_STEM = 5
"""How many letters of a word are compared to see that two texts are about the same."""
_WORD = re.compile(r"[$€£#@]?\w+(?:[.,:/@'’-]+\w+)*%?")
_CLAUSE_END = re.compile(r"\s[—–-]\s|;|\s\(|\n")
_LABEL = re.compile(
    r"^(?:\W*(?:update|note|correction|reminder|fyi|as of (?:today|now)|actually|oh|by the way|"
    r"from now on|so|to be (?:absolutely )?clear|for the record|slight change of plans)\b"
    r"[\s:,-]*)+",
    re.IGNORECASE,
)
_PRESENT = frozenset("now currently nowadays today still already presently actually just".split())

_NOT_STATED = re.compile(
    r"\?|\b(?:used to|formerly|previously|once|back then|ago|before|wants?|wanted|hop(?:e|es|ing)|"
    r"plans?|(?<!in )planning|might|(?<!\d )may(?! \d)|could|would|should|considers?|"
    r"considering|thinks?|thinking|wonders?|dreams?|dreaming|asks?|asked|heard|says|said|told|claims?|rumou?rs?|if|unless|"
    r"whether|according|maybe|perhaps|probably|example|pretends?|someday|going to|almost|"
    r"nearly|in (?:19|20)\d\d|until|as a (?:child|kid|boy|girl|student)|"
    r"last (?:year|month|week))\b",
    re.IGNORECASE,
)
"""Words of questions, plans, hearsay and the past: a text with one is never a suspect."""

_ATTRIBUTES = (
    "password|passcode|passphrase|pin|code|login|username|handle|nickname|alias|token|id|ip|ssid|"
    "network|e-?mail|mail|phone|number|address|url|website|domain|hostname|host|port|server|path|"
    "branch|version|account|plate|channel|status|state|price|cost|budget|fee|rent|salary|wage|"
    "rate|discount|balance|quota|limit|threshold|floor|ceiling|timeout|deadline|interval|size|"
    "weight|height|age|temperature|dose|dosage|owner|boss|manager|supervisor|employer|job|title|"
    "role|position|rank|name|surname|location|venue|room|seat|desk|office|birthday|anniversary|"
    "appointment|interview|meeting|flight|departure|shift|schedule|start|due|date|time|capital|"
    "ceo|president|favou?rite|record|mileage|level|grade|plan|subscription|default|priority|"
    "region|currency|quantity|payment|"
    "passwort|kennwort|adresse|telefonnummer|handynummer|nummer|preis|miete|gewicht|alter|termin|"
    "chef|chefin|besitzer|kennzeichen|gehalt|"
    "contraseña|clave|dirección|teléfono|número|precio|sueldo|jefe|jefa|"
    "passe|adresse|téléphone|numéro|prix|loyer|salaire"
)
_LINKS = r"is|are|=|lautet|ist|est|es|was set to|is set to|stands at|of|at|for|on|to|in|a|an|the"
_OF_ATTRIBUTE = re.compile(
    rf"\b(?:{_ATTRIBUTES})(?:(?:\s+[^\s]+){{0,4}}?\s+(?:{_LINKS})(?:\s+(?:{_LINKS}))*)$"
)
_CODE_OF = re.compile(rf"\b(?:{_ATTRIBUTES}|\w+ of)$")
_SINGLE_VERB = re.compile(
    r"\b(?:lives? (?:in|at|on|with)|living in|resides? (?:in|at)|stay(?:s|ing) (?:in|at|with)|"
    r"works? (?:at|for)|working (?:at|for)|weighs?|married to|engaged to|"
    r"dating|based in|located (?:in|at|on)|situated in|stud(?:y|ies) at|earns?|costs?|"
    r"prefers?|takes place (?:at|on|in)|starts? (?:at|on)|ends? (?:at|on)|opens? at|closes? at|"
    r"scheduled (?:for|on|at)|due (?:on|at|in|by)?|expires? (?:on|in|at)?|listens on|"
    r"reports to|belongs to|runs on|set to|is on|is in|is at|"
    r"drives(?: an?)?|is|are|"
    r"wohnt (?:in|bei)|lebt in|arbeitet (?:bei|als|für)|wiegt|heißt|vive en|trabaja (?:en|de|como)|"
    r"pesa|habite(?: à)?|travaille (?:à|chez|comme)|pèse)$"
)
_CARRIERS = frozenset("is are".split())
_SECOND_VERB = frozenset("is are was has have costs cost weighs lives works".split())
"""With one of these words, the difference is not the value alone."""
_OWN = re.compile(r"\b\w+['’]s? (?:\w+ )?(\w+) is(?: on| in| at)?$")
_PLURAL = frozenset(
    "hobby friend cat dog pet sister brother son daughter child kid cousin uncle aunt colleague "
    "language skill interest passion problem fear dream idea goal song book film movie game team "
    "plant horse car bike".split()
)
"""Things of which somebody may have several."""
_UNIT = re.compile(
    r"^(?:years?|months?|kilos?|kg|pounds?|lbs?|cm|metres?|meters?|feet|euros?|dollars?|percent|%|"
    r"milligrams?|mg|ms|seconds?|minutes?|hours?|days?|gb|mb|degrees?|kilo|jahre|kilos|años|ans|"
    r"units?|old|am|pm|uhr|o'clock|$)"
)
_NUMBER = re.compile(r"^[$€£#]?\d[\d.,:/]*(?:%|am|pm|k|m)?$", re.IGNORECASE)

_CHANGE = re.compile(
    r"\b(?:no longer|not [^.]{0,40}any ?more|isn't [^.]{0,40}any ?more|doesn't [^.]{0,40}any ?more|"
    r"any ?more|instead(?: of)?|moved|relocated|switched|changed|renamed|cancel+ed|revoked|"
    r"withdrawn|rejected|denied|overrid(?:e|ing|den)|on hold|postponed|rescheduled|delayed|"
    r"brought forward|pushed back|correction|corrected|updated?|is now|are now|now|quit|left|sold|"
    r"broke up|separated|divorced|resigned|retired|gave up|given up|stopped|replaced|resolved|"
    r"expired|closed|failed|resumed|blocked|unblocked|invalidated|terminated|reverted|restored|lifted|reopened|actual|"
    r"discontinued|dropped|deprecated|do not|don't|nicht mehr|abgesagt|verlegt|umgezogen|ya no|"
    r"ne [^.]{1,20} plus)\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:correction|corrected|invalidated|no longer|instead of|not|wrong|the value was)\b",
    re.IGNORECASE,
)
_MOVES = (
    (
        re.compile(r"\b(?:lives?|living|based|resides?|stays?|staying) (?:in|at|on|with)\b"),
        re.compile(
            r"\b(?:moved|relocated|moves) (?:\w+ ){0,2}to\b"
            r"|\bhas (?:got )?(?:her|his|their) own place\b"
        ),
    ),
    (
        re.compile(r"\b(?:works?|working|employed) (?:at|for|as|in)\b"),
        re.compile(r"\b(?:new job|now works?|started (?:working|a job)|joined|was hired|got hired|"
                   r"quit (?:her|his|their|the) job|was promoted|retired)\b"),
    ),
)  # fmt: skip
_STATUS = frozenset(
    "on under in off cancelled canceled approved rejected blocked delayed complete completed done "
    "open closed active inactive pending paused resolved live archived deprecated available "
    "unavailable broken fixed over finished postponed confirmed denied up down".split()
)
"""The words with which the value of "the project is ..." begins, if it is a status."""
_SMALL = frozenset(
    "a an the of in on at to for from with by and or but is are was were be been has have had do "
    "does did it its this that these those he she they his her their him them we our i my me you "
    "your as so not no".split()
)


_FIRST_ARTICLE = re.compile(r"^(?:the|a|an|my|our)\s+", re.IGNORECASE)
_SUBJECT = re.compile(r"^(?:The|My|Our) \w|^[A-Z][a-z]+(?:['’]s)?(?<!ed) (?:[a-z]|[A-Z][a-z])")
_FUTURE = re.compile(r"\bwill (?:now )?be\b", re.IGNORECASE)


_MOVED = _STATUS.union("moved moves relocated place job works started joined hired quit".split())
"""Words of `_MOVES` and of statuses, with which one shared word is enough."""


class _Statement(NamedTuple):
    """A sentence, up to its first dash or semicolon: its words, and what it says of itself."""

    words: tuple[str, ...]
    text: str
    content: frozenset[str]
    changes: bool
    stated: bool
    past: bool
    subject: str
    """The stem of the first word, if the sentence begins with a name or an article; else ""."""


@guarded(lambda _a, _b: False)
def may_outdate(newer: Told, older: Told) -> bool:
    """Return whether what `older` states may no longer hold because of what `newer` states.

    >>> from datetime import UTC, datetime
    >>> days = datetime(2026, 1, 6, tzinfo=UTC), datetime(2026, 3, 6, tzinfo=UTC)
    >>> porto = Memory(content="Mia lives in Porto.", timestamp=days[0])
    >>> may_outdate(Memory(content="Mia lives in Lisbon.", timestamp=days[1]), porto)
    True
    """
    if newer.said is None or older.said is None or newer.timestamp <= older.timestamp:
        return False
    if not _may_be_about_the_same(newer.content, older.content):
        return False
    if identity(newer.content) == identity(older.content):
        return False
    found = _quotes(newer.content, older.content) or _is_update(newer.content, older.content)
    found = found or any(
        _is_other_value(one, other) or _is_change(one, other)
        for one in _statements(newer.content)
        for other in _statements(older.content)
    )
    return found and not _of_other_days(newer, older)


@lru_cache(maxsize=16_384)
def _plain_words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text[:LONGEST].casefold())) - _SMALL


def _may_be_about_the_same(newer: str, older: str) -> bool:
    """Return whether two texts share enough words to be read; most pairs do not."""
    shared = _plain_words(newer) & _plain_words(older)
    return len(shared) >= 2 or (bool(shared) and not _MOVED.isdisjoint(_plain_words(newer)))


def _quotes(newer: str, older: str) -> bool:
    """Return whether a correction quotes all that it corrects."""
    quoted = _LABEL.sub("", older.strip()).rstrip(".!").casefold()
    found = newer.casefold().find(quoted) if len(quoted) < len(newer) <= LONGEST else -1
    return found > 0 and _CORRECTION.search(newer[:found]) is not None


_CALLED_UPDATE = re.compile(r"^\W*(?:update|correction)\b\s*:", re.IGNORECASE)


def _is_update(newer: str, older: str) -> bool:
    """Return whether a text calls itself an update of a thing that `older` begins with.

    Both must begin with the same two words, no verb among them, and share another word.
    """
    if not _CALLED_UPDATE.match(newer) or "?" in newer or max(len(newer), len(older)) > LONGEST:
        return False
    words, others = (_WORD.findall(_LABEL.sub("", text.strip())) for text in (newer, older))
    thing = words[:2]
    if len(thing) < 2 or thing != others[:2] or not _SMALL.isdisjoint(map(str.casefold, thing)):
        return False
    if thing[1].islower() and thing[1].endswith(("s", "ed")):
        return False
    rest, other_rest = (_plain_stems(" ".join(found[2:])) for found in (words, others))
    return not rest.isdisjoint(other_rest)


def _of_other_days(newer: Told, older: Told) -> bool:
    """Return whether the same relative word, such as "tomorrow", means two days."""
    known = {period.words.casefold(): period for period in older.periods if period.relative}
    return any(
        not period.compatible(known[words])
        for period in newer.periods
        if (words := period.words.casefold()) in known
    )


@lru_cache(maxsize=16_384)
def _statements(text: str) -> tuple[_Statement, ...]:
    found = sentences(text)[:_MOST_SENTENCES] if len(text) <= LONGEST else ()
    return tuple(filter(None, map(_statement, found)))


def _statement(sentence: str) -> _Statement | None:
    said = _CLAUSE_END.split(_LABEL.sub("", sentence.strip()), maxsplit=1)[0]
    clause = _FIRST_ARTICLE.sub("", _FUTURE.sub("is", said)).replace(" status is ", " is ")
    words = tuple(
        lower for word in _WORD.findall(clause) if (lower := word.casefold()) not in _PRESENT
    )
    if len(words) < 2:
        return None
    return _Statement(
        words,
        " ".join(words),
        frozenset(map(_stem, words)) - _SMALL,
        changes=bool(_CHANGE.search(sentence)),
        stated=not _NOT_STATED.search(sentence),
        past=any(word.past for word in parse(clause).words),
        subject=_stem(words[0]) if _SUBJECT.match(said) else "",
    )


def _stem(word: str) -> str:
    word = re.sub(r"['’]s$", "", word)
    return word.rstrip("s")[:_STEM] if len(word) > 3 else word


def _is_other_value(newer: _Statement, older: _Statement) -> bool:
    """Return whether two statements differ only in the value of an attribute that has one."""
    if not (newer.stated and older.stated):
        return False
    a, b = older.words, newer.words
    start = common_start(a, b)
    end = min(common_start(a[::-1], b[::-1]), len(a) - start, len(b) - start)
    values = a[start : len(a) - end], b[start : len(b) - end]
    if start < 2 and not (start == 1 and end >= 2):
        return False
    if not all(0 < len(value) <= _MOST_OF_VALUE for value in values):
        return False
    frame, after = " ".join(a[:start]), a[len(a) - end :] if end else ()
    if frame.endswith((" is", " are")) and all(value[0] in _STATUS for value in values):
        return True
    if newer.past or older.past:
        return False
    found = _SINGLE_VERB.search(frame)
    if not _SECOND_VERB.isdisjoint((*values[0], *values[1])):
        return False
    if frame.endswith(("prefer", "prefers")):
        return end > 1  # the same kind of thing: "payment terms"
    own = _OWN.search(frame)
    owned = own is not None and own[1] not in _PLURAL and not own[1].endswith("s")
    is_where = frame.endswith((" is on", " is in", " is at"))
    names_one = found is not None and found.group() not in _CARRIERS and (owned or not is_where)
    if all(_NUMBER.match(value[0]) for value in values):
        other_unit = len({value[1:] for value in values}) > 1
        return _is_measure(frame, values, after) or (names_one and other_unit)
    if not names_one and end > 3 and end > start:
        return False  # the difference may be who or what the sentence is about
    return names_one or owned or bool(_OF_ATTRIBUTE.search(frame))


def _is_measure(frame: str, values: tuple[Sequence[str], ...], after: Sequence[str]) -> bool:
    """Return whether numbers are amounts of one thing, not counts of several things."""
    rests = {" ".join(value[1:]) for value in values}
    unit = next(iter(after), "") if rests == {""} else next(iter(rests))
    if len(rests) > 1 or not _UNIT.match(unit):
        return False
    verb = _SINGLE_VERB.search(frame)
    code = unit == "" and all(len(value) == 1 for value in values)
    named = verb is not None and (verb.group() not in _CARRIERS or "old" in (*after, unit) or code)
    return bool(named or _OF_ATTRIBUTE.search(frame) or _CODE_OF.search(frame))


def _is_change(newer: _Statement, older: _Statement) -> bool:
    """Return whether the newer statement says that what the older one states has changed."""
    if not (newer.stated and newer.changes and older.stated) or older.words == newer.words:
        return False
    same_subject = _stem(newer.words[0]) == _stem(older.words[0])
    if older.subject and older.subject not in newer.content:
        return False
    if same_subject and any(
        before.search(older.text) and after.search(newer.text) for before, after in _MOVES
    ):
        return True
    shared = newer.content & older.content
    if same_subject:
        shared -= {_stem(older.words[0])}
    own = len(older.content) - same_subject
    if len(shared) < 2:
        return same_subject and own <= 2 and len(shared) * 2 >= max(own, 1)
    return len(shared) * 2 >= own or newer.content <= older.content


_OF_THE_PAST = re.compile(
    r"\b(?:used to|formerly|previous(?:ly)?|former|before|back then|in the past|at the time|"
    r"originally|earlier|until when|no longer|how long did|"
    r"(?:where|what|who|which|how)(?: \w+){0,4} (?:did|was|were|had)|"
    r"früher\w*|damals|zuvor|vorher\w*|ehemalig\w*|"
    r"antes|anterior\w*|avant|auparavant|autrefois|précédent\w*|anciennement)\b"
    r"|以前|昔|かつて|前は|前の",
    re.IGNORECASE,
)


@guarded(lambda _question: False)
def asks_about_past(question: str) -> bool:
    """Return whether a question is about what was so, and may be so no longer.

    >>> asks_about_past("Where did Mia live before?"), asks_about_past("Where does Mia live?")
    (True, False)
    """
    return _OF_THE_PAST.search(question[:LONGEST]) is not None


@guarded(lambda _newer, older: tuple(filter(None, [older])))
def still_stated(newer: str, older: str) -> tuple[str, ...]:
    """Return the parts of `older` that `newer` neither repeats nor contradicts.

    The parts are sentences, and what "and", "but", ";" or ", where" joins in a sentence. A part
    without a verb of its own is left if `newer` is about another part; a part that refers back
    ("there") is none of its own.

    >>> still_stated("Mia has stopped playing golf.", "Mia plays golf and speaks Greek.")
    ('speaks Greek',)
    """
    whole = older.strip().rstrip(".!")
    split = sentences(whole)
    parts = [part for one in split for part in _JOINED.split(one.rstrip(".!。！")) if part]
    parts = [part for part in parts if not _BACK.search(part)]
    about = _plain_stems(newer)
    subject = _plain_stems(whole.split()[0])
    left = [part for part in parts if not (_plain_stems(part) - subject) & about]
    named = len(left) < len(parts) or any(
        before.search(older.casefold()) and after.search(newer.casefold())
        for before, after in _MOVES
    )
    own_verbs = all(_VERB_FIRST(part) for part in parts[1:])
    if len(parts) < 2 or not (named or own_verbs or len(split) > 1):
        return ()
    return tuple(left if len(left) < len(parts) or len(split) < 2 else left[1:])


_JOINED = re.compile(
    r"(?<!\s),?\s++(?:and|but|und|aber|et|mais|y|pero)\s++|;\s*+|,\s++(?:where|which|whose)\s++"
)
_BACK = re.compile(r"\b(?:there|it|them|this|that|then)\b")
_VERB_FIRST = re.compile(r"(?:(?:only|also|never|still) )?(?:[a-z]+s|[a-z]+ed|has|is|can)\b").match


def _plain_stems(text: str) -> frozenset[str]:
    return frozenset(map(_stem, re.findall(r"\w+", text.casefold()))) - _SMALL
