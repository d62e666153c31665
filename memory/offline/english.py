"""What English sentences declare of their speaker, in clauses that stand alone and are worth it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.offline.clauses import LONGEST, clauses, plain_spelling
from memory.offline.relative_days import with_dates
from memory.offline.standing import stands_alone, unresolved
from memory.offline.third_person import Speaker, third_person
from memory.offline.worth import content_words, is_worth_keeping
from memory.text import plain_form

_ADDRESSED = re.compile(
    r"\b(?:you|your|yours|yourself|ya|y'all|u|ur|you're|you've|you'll|you'd)\b", re.IGNORECASE
)
_TIME = (
    r"(?:(?:even |just |only |starting )?(?:yesterday|today|tonight|tomorrow|recently|lately|now|"
    r"currently|nowadays|these days|sometimes|usually|often|occasionally|finally|once|back then|"
    r"one day|someday|originally|previously|eventually|personally|growing up|ever since|last "
    r"[\w.]+|next \w+|(?:every|each) (?:(?:few|other|two|three|single) )?(?:time|day|night|"
    r"morning|evening|afternoon|weekend|week|month|year|summer|winter|spring|fall|autumn|days|"
    r"weeks|months|years|\w+day)|the other (?:day|week|night)|this (?:\w+ )?(?:week|weekend|month|"
    r"year|morning|evening|summer|winter|spring|fall|autumn|\w+day)|(?:a few|a couple of|several|"
    r"some|\w+) (?:day|week|month|year)s? (?:ago|back))(?:,? | - ))"
)
_PLACE = r"(?:(?:on|in|at|around|since|during|for|by) (?:the |my |our |a |an )?[\w' -]{2,30}?,? )"
_CIRCUMSTANCE = (
    r"(?:(?:even |especially )?(?:when|while|whenever|after|before|as|besides|with|without|apart "
    r"from|to|like|in|on|at|for|during|since|because|though|although|even though|despite|instead "
    r"of|at first|outside|off|beyond|aside) [^,.]{2,60}, (?:and )?)"
)
_SUBJECT = re.compile(
    rf"^(?:(?:{_TIME}|{_PLACE}|{_CIRCUMSTANCE})?(?:I|we)(?:'(?:m|ve|ll|d|re))? "
    rf"|(?:{_TIME}|{_CIRCUMSTANCE})?"
    r"(?:(?:one|two|three|four|some|most|all|both) of )?(?:my|our) (?=\w))",
    re.IGNORECASE,
)
_TOGETHER = re.compile(
    r"^(?:(?:[Mm]y|[Oo]ur) (?:[\w-]+ ){1,2}|[A-Z][a-z]+,? )and I |^(?:Me|I|Myself) and (?:my|our|"
    r"[A-Z])"
)
_INVERTED = re.compile(
    r"\b(?:do|does|did|am|was|have|had|can|could|will|would|should|shall|may|might|must|ain't|"
    r"nor) (?:I|we)\b"
    r"|\bI'?m me\b|\b(?:I|we|my|our) (?:I|we)\b|\b(?:look|see) (?:what|how|at)\b|\bwhat an?\b|\bno "
    r"matter\b"
)
_OWNED_VERB = re.compile(
    r"^.*?(?:\b(?:is|are|was|were|has|have|had|will|can|isn't|aren't|doesn't|don't|didn't|"
    r"wasn't)\b|'s \w"
    r"|\b\w{2,}(?:ed|s)\b (?:a|an|the|my|our|his|her|their|to|in|on|at|with|for|by|up|me|us|as|it|"
    r"\w+ing|[a-z]+)\b)",
)
_NAMED = re.compile(
    r"^(?!(?:That|This|It|There|What|Here|These|Those|How|Why|Who|Both|Everyone|Everything|"
    r"Nothing|Something|Anything|Someone|Even|Every|Each|All|Some|Such|One|Games?|People|Life|"
    r"Nature)\b|\w+ing\b)(?:The (?!\d)[\w-]+|[A-Z][\w']+)(?: [A-Z][\w']+| (?:and|of|in|at) [\w']+|"
    r" [a-z]+)?(?: [a-z]+)? (?:is|was|are|were|has|had|will|can|lives|works|\w{3,}(?:ed|es|s))\b "
)
_FACTUAL = re.compile(r"\d|(?<=[a-z,] )[A-Z][a-z]")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|me|we|us|our|mine|myself|We|My|Our)\b")
_OWN_PEOPLE = (
    r"(?:my|our) (?:\w+ )?(?P<who>husband|wife|partner|family|fam|kids|children|friends|son|"
    r"daughter|team|band|girlfriend|boyfriend|brother|sister|dogs?|mom|mum|dad|parents|siblings|"
    r"colleagues|coworkers|buddies|pals|teammates|fianc[eé]e?|cousins?|grandma|grandpa|roommate|"
    r"class|group|crew|club|students)\b"
)
_NAMED_NOW = re.compile(rf"\b{_OWN_PEOPLE}", re.IGNORECASE)
_NAMED_BEFORE = re.compile(
    rf"\b(?:with|took|take|taking|brought|bring|invited|joined|me and) {_OWN_PEOPLE}", re.IGNORECASE
)
_NOBODY = (
    r"(?!(?:it|that|this|these|those|they|he|she|there|w\w+|here|every\w*|nothing|their|his|her|"
    r"you\w*)\b)"
)
_MINE = re.compile(
    rf"^{_NOBODY}[a-z][\w'&-]*(?: [\w'&-]+){{0,6}}? (?:is|are|was|has been) "
    r"(?:(?:definitely|also|still|always|mostly|really|one of|an?|the|huge|big|part of) )*(?:my "
    r"(?:\w+ ){0,2}?(?:favou?rites?|faves?|thing|passions?|hobby|hobbies|go-to|weakness|comfort|"
    r"life|routine|job|dream|goal|team|escape)\b"
    r"|(?:my|our) favou?rite \w+|on my (?:\w+ )*list\b)"
    rf"|^{_NOBODY}[a-z][\w-]+(?: [\w-]+){{0,3}} (?:(?:really|always|also) )?"
    r"(?:ha(?:s|ve) )?(?:help(?:s|ed)?|allow(?:s|ed)|lets?|taught|teaches) me "
    rf"|^{_CIRCUMSTANCE}?\w+ing\b[^,]* (?:is|are|has been) [^,]*\bfor me\b",
    re.IGNORECASE,
)
"""What somebody's favourite is, or what helps them."""
_RECENT = 200
"""How far back, in characters, somebody's company is looked for."""


@dataclass(frozen=True)
class Told:
    """A statement about the speaker, and the sentence it was taken from."""

    text: str
    source: str


@dataclass(frozen=True)
class Setting:
    """Who speaks, when, to whom, and what they said just before."""

    speaker: Speaker
    at: datetime
    listeners: tuple[str, ...] = ()
    before: str = ""


def english_statements(sentences: Sequence[str], setting: Setting) -> list[Told]:
    """What the sentences declare, in order; what only adds to the one before is told with it."""
    found: list[Told] = []
    last: str | None = None
    heard: str | None = None
    for sentence in sentences:
        kept = None
        for clause in clauses(sentence, setting.listeners):
            if _declares(clause) and stands_alone(clause) and is_worth_keeping(clause):
                kept = last = clause
                found.append(Told(_told(clause, setting, heard), sentence))
            elif last is not None and _continues(last, clause):
                kept = last = f"{last}. {clause}"
                found[-1] = Told(_told(last, setting, heard), sentence)
            heard = _named_last(_NAMED_NOW, clause) or heard
        last = kept
    return found


def retold_english(text: str, speaker: Speaker, at: datetime) -> str:
    """The speaker's words about themselves, told of them by name."""
    return _final_stop(with_dates(third_person(plain_spelling(text), speaker), at))


def _told(clause: str, setting: Setting, heard: str | None) -> str:
    speaker = setting.speaker
    company = _company(setting.before, heard, speaker)
    return retold_english(clause, Speaker(speaker.name, speaker.pronoun, company), setting.at)


def _company(before: str, heard: str | None, speaker: Speaker) -> str:
    """Whom the speaker last named in this turn, or as being with them in an earlier one."""
    named = heard or _named_last(_NAMED_BEFORE, before[-_RECENT:])
    their = {"she": "her", "he": "his"}.get(speaker.pronoun, "their")
    return f"{their} {named.lower()}" if named else "others"


def _named_last(pattern: re.Pattern[str], text: str) -> str | None:
    named = list(pattern.finditer(text))
    return named[-1]["who"] if named else None


def _declares(clause: str) -> bool:
    """Whether it states something of the speaker, or of somebody by name."""
    if _ADDRESSED.search(clause) or _INVERTED.search(clause):
        return False
    if _TOGETHER.match(clause) or _MINE.match(clause):
        return True
    if _SUBJECT.match(clause):
        owned = re.match(r"^(?:[Mm]y|[Oo]ur) ", clause)
        return owned is None or _has_verb(clause)
    named = _NAMED.match(clause) is not None and _FACTUAL.search(clause) is not None
    return named and _FIRST_PERSON.search(clause) is None


def _has_verb(clause: str) -> bool:
    past = any(plain_form(word.lower()).past for word in clause.split()[2:])
    return past or _OWNED_VERB.match(clause) is not None


_CONTINUATION = re.compile(
    r"^(?:(?:I|We|She|He|My|Our|His|Her|Their)\b|(?:It|They)(?:'s|'re| is| are| was| were| has| "
    r"have) (?:an?|my|our|called|named|in|at|from|located|about|set|due|made) (?!lot|bit|great|"
    r"good|huge))"
)
_LEAST_ANTECEDENT = re.compile(
    r"\b(?:a|an|my|our|the|his|her|two|three|some)\b [\w-]+", re.IGNORECASE
)


def _continues(last: str, clause: str) -> bool:
    """Whether it stands once the clause before it is told with it."""
    if not _CONTINUATION.match(clause) or _ADDRESSED.search(clause) or _INVERTED.search(clause):
        return False
    both = f"{last}. {clause}"
    if len(both) > LONGEST or not _LEAST_ANTECEDENT.search(last) or not unresolved(clause):
        return False
    plain = re.sub(r"^(?:She|He|They|It)\b", "Clara", clause)
    return stands_alone(both) and is_worth_keeping(plain) and len(content_words(clause)) > 1


def _final_stop(text: str) -> str:
    bare = text.strip().rstrip("!. ,;")
    return f"{bare}."
