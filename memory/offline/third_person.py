"""English words about oneself, told of the speaker by name.

The name stands for "I" and "me", once more where a pronoun could be taken for somebody else; a
subject that only repeats the first is left out ("Mia studies and goes to bed late"). "She" and
"he" are said of somebody who said which; of everybody else only "their" and "themself".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.text import plain_form


@dataclass(frozen=True)
class Speaker:
    """Who speaks, and what is known of them; `pronoun` is "she", "he" or "they"."""

    name: str
    pronoun: str = "they"
    company: str = "others"
    """Whom "we" adds to the speaker."""


_CASES = {
    "she": ("she", "her", "herself"),
    "he": ("he", "his", "himself"),
    "they": ("they", "their", "themself"),
}
_FEMALE = r"(?:mom|mum|mother|mommy|grandma|grandmother|woman|girl|wife|sister|aunt|actress)"
_MALE = r"(?:dad|father|daddy|grandpa|grandfather|man|guy|boy|husband|brother|uncle|actor|waiter)"
_SELF = r"\b(?:I['’]?m|I am|I was|being|becoming|become|as) (?:an?|the) (?:[\w-]+ ){0,2}?"
_FEMALE_SELF = re.compile(rf"{_SELF}{_FEMALE}\b", re.IGNORECASE)
_MALE_SELF = re.compile(rf"{_SELF}{_MALE}\b", re.IGNORECASE)


def pronoun_of(text: str) -> str:
    """What somebody who says this is called: "she" for "I'm a mom", "they" where nothing tells."""
    female, male = _FEMALE_SELF.search(text), _MALE_SELF.search(text)
    if bool(female) == bool(male):
        return "they"
    return "she" if female else "he"


_TOGETHER = re.compile(
    r"(?:^|(?<=[,.-] )|(?<=\b(?:when|that|with) )|(?<=\b(?:where|while|after|since|today) )|"
    r"(?<=day )"
    r"|(?<=\bbecause )|(?<=\b(?:before|lately) )|(?<=\brecently )|(?<=\b(?:week|year|then) )"
    r"|(?<=month )|(?<=night )|(?<=\bfor )|(?<=\b(?:as|of|so|if) )|(?<=weekend )|(?<=\bbetween "
    r"))(?:(?P<who>(?:[Mm]y|[Oo]ur) (?:[\w-]+ )?[\w-]+|[A-Z][a-z]+)(?:,? and) (?:I|me|myself)\b"
    r"|(?:[Mm]e|I|[Mm]yself) and (?P<other>(?:my|our) (?:[\w-]+ )?[\w-]+|[A-Z][a-z]+)\b)(?!['’])",
)
_COMPANY = "\x01 and"
"""Stands for the speaker in company until the rest is told."""
_FIRST = re.compile(
    r"\b(?P<word>I'm not|I am|I'm|I was|I wasn't|I have|I've|I haven't|I don't|I do|I'll|I'd|I"
    r"|[Mm]yself|[Mm]ine|[Mm]y|[Mm]e|[Ww]e're|[Ww]e've|[Ww]e'll|[Ww]e'd|[Ww]e|[Oo]urselves|[Oo]urs"
    r"|[Oo]ur|[Uu]s)\b(?!-)"
)
_VERBS = {
    "i'm not": "is not", "i am": "is", "i'm": "is", "i was": "was", "i wasn't": "wasn't",
    "i have": "has", "i've": "has", "i haven't": "hasn't", "i don't": "doesn't", "i do": "does",
    "i'll": "will", "i'd": "would", "i": "",
    "we": "", "we're": "are", "we've": "have", "we'll": "will", "we'd": "would",
}  # fmt: skip
_ADVERBS = frozenset(
    "just also always never ever still often sometimes almost even only already then now soon "
    "once first both all each too not kind sort sorta kinda pretty much mostly rather quite "
    "somehow instead again maybe perhaps seldom hardly barely longer nearly later since".split()
)
_UNCHANGED = frozenset(
    "can could will would should may might must had did was were used put read cut let set hit "
    "hurt quit shut bet cost split spread burst can't couldn't won't wouldn't didn't hadn't "
    "shouldn't mustn't wasn't weren't saw found left felt lay lit wound bore fell ground".split()
)
_AUXILIARIES = frozenset(
    "can could will would should may might must did didn't used can't couldn't won't wouldn't "
    "shouldn't does has".split()
)
_COMMON_VERBS = frozenset(
    "haven't don't am go do have make take get play watch read write work live study teach cook "
    "bake run swim hike walk ride drive travel visit love like hate enjoy prefer want need eat "
    "drink sleep spend keep help try collect paint draw sing dance listen speak practice practise "
    "train volunteer bring buy sell grow use plan start stay meet see tell share learn feel think "
    "hope know look follow attend build create design coach camp fish garden knit sew ski surf "
    "climb bike jog exercise meditate relax roast wake come leave call wear carry care own wish "
    "stream record".split()
)
_IRREGULAR = {
    "have": "has", "haven't": "hasn't", "do": "does", "don't": "doesn't", "go": "goes", "be": "is",
    "am": "is", "need": "needs",
}  # fmt: skip
_COORDINATED = re.compile(r"(?:^|[\w'%)\"])(?:,? (?:and|but|or|then|and then|but then))\s*$")
_SUBORDINATE = re.compile(
    r"\b(?:when|while|because|since|that|which|who|whom|where|if|unless|although|though|as|after"
    r"|before|until|what|how|whenever|so|than|-)\b",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"\b(?:they|them|their|people|friends?|kids?|children|family|parents|siblings|teammates"
    r"|colleagues|buddies|pals|folks|guys|students|neighbou?rs|brothers|sisters|others)\b",
    re.IGNORECASE,
)


_THEY = re.compile(r"\b(?:they|them|their|people|students|folks)\b", re.IGNORECASE)
"""Whom "their" would be taken for."""


class _Retelling:
    """One text on its way from the first person to the third."""

    def __init__(self, text: str, speaker: Speaker) -> None:
        self.text = text
        self.speaker = speaker
        self.told: list[str] = []
        self.end = 0
        self.named = False
        self.plural = False
        self.they_at: int | None = 0
        """Up to where nobody stands whom "their" would be taken for; None where somebody does."""
        self.subject_at: int | None = None
        """Where what follows the last subject begins."""

    def run(self) -> str:
        for match in _FIRST.finditer(self.text):
            if match.start() < self.end:
                continue
            self.told.append(self.text[self.end : match.start()])
            self.end = match.end()
            word = match["word"].lower()
            self.told.append(self._subject(match, word) if word in _VERBS else self._other(word))
            self.named = True
        self.told.append(self.text[self.end :])
        return "".join(self.told)

    def _subject(self, match: re.Match[str], word: str) -> str:
        who = self._together("they") if word.startswith("we") else self._single_subject(match)
        verb = _VERBS[word]
        if word == "i'd" and _is_participle_next(self.text, match.end()):
            verb = "had"
        if word == "i":
            tail, self.end = _verb_for_one(self.text, match.end())
            if not who:
                tail = tail.lstrip()
        else:
            tail = f" {verb}" if verb and who else verb
        self.subject_at = self.end
        return who + tail

    def _single_subject(self, match: re.Match[str]) -> str:
        """The name; nothing where the subject only repeats the one before."""
        if not self.named or self.subject_at is None:
            return self.speaker.name
        between = self.text[self.subject_at : match.start()]
        repeats = _COORDINATED.search(between) and not _SUBORDINATE.search(between)
        if repeats and not self.plural and "." not in between:
            return ""
        if self.speaker.pronoun == "they" or ". " in between:
            return self.speaker.name
        return _CASES[self.speaker.pronoun][0]

    def _together(self, pronoun: str) -> str:
        known = self.plural or self._was_in_company("".join(self.told))
        self.plural = True
        if known and not "".join(self.told[-4:]).endswith(". "):
            return pronoun
        return f"{self.speaker.name} and {self.speaker.company}"

    def _was_in_company(self, before: str) -> bool:
        return _COMPANY in before or (self.named and _OTHERS.search(before) is not None)

    def _other(self, word: str) -> str:
        name, (_, their, themself) = self.speaker.name, _CASES[self.speaker.pronoun]
        if word in ("my", "our"):
            return self._owner(word, their)
        if word == "myself":
            return themself
        if word == "ourselves":
            return "themselves"
        if word == "us":
            return self._together("them")
        return name if word == "me" else f"{name}'s"

    def _owner(self, word: str, their: str) -> str:
        if not self.named:
            return f"{self.speaker.name}'s"
        if word == "our":
            return "their"
        unclear = their == "their" and not self.plural and self._names_them()
        return f"{self.speaker.name}'s" if unclear else their

    def _names_them(self) -> bool:
        """Whether others were named so far; each part of the text is read once."""
        if self.they_at is not None:
            found = _THEY.search(self.text, self.they_at, self.end)
            self.they_at = None if found else self.end
        return self.they_at is None


def ends_in_company(text: str) -> bool:
    """Whether " and I" after it would add the speaker to somebody: "when my sister"."""
    whole = f"{text} and I"
    return any(match.end() == len(whole) for match in _TOGETHER.finditer(whole))


def third_person(text: str, speaker: Speaker) -> str:
    """First person as third. `text` has straight apostrophes."""
    ordered = _TOGETHER.sub(_company_first, text)
    told = _tidied(_Retelling(ordered, speaker).run(), speaker)
    return told[:1].upper() + told[1:]


def _company_first(match: re.Match[str]) -> str:
    """ "my sister and I" as "we and my sister", which is told as "Mia and their sister"."""
    who = match["who"] or match["other"]
    return f"{_COMPANY} {who[0].lower() + who[1:] if who.startswith(('My ', 'Our ')) else who}"


def _tidied(text: str, speaker: Speaker) -> str:
    """What stands for the speaker in company; their own things after the name."""
    their = _CASES[speaker.pronoun][1]
    owned = text.replace(f"{_COMPANY} {speaker.name}'s", f"{_COMPANY} {their}")
    return owned.replace(_COMPANY, f"{speaker.name} and")


_TO_VERB = re.compile(
    rf"(?P<before>(?: (?:\w+ly|{'|'.join(sorted(_ADVERBS))}),?)* )(?P<verb>[\w']+)"
)
_NEXT_VERB = re.compile(
    r"(?P<join>,? (?:and|or|but)(?: (?:\w+ly|also|then|even|sometimes|often|always|usually|"
    r"just))* )(?P<verb>[a-z']+)(?= (?:a|an|the|my|our|some|any|to|in|on|at|with|for|up|out|along|"
    r"about|from|into|down|off|over|through|every|each|hard|regularly|more|lots|them|it|me|"
    r"everything|[a-z]+ing|[a-z]+ly|[a-z]+s)\b)"
)


def _verb_for_one(text: str, start: int) -> tuple[str, int]:
    """What follows a name up to its verb, the verb as for one person, and where that ends."""
    match = _TO_VERB.match(text, start)
    if match is None:
        return "", start
    verb = _conjugated(match["verb"])
    told = match["before"] + verb
    if verb in _AUXILIARIES:
        return told, match.end()
    later, end = _with_later_verbs(text, match.end())
    return (told + later, end) if later else (told, match.end())


def _with_later_verbs(text: str, start: int) -> tuple[str, int]:
    """The same sentence's further verbs of the same subject ("and go"), up to the last of them."""
    stop = _FIRST.search(text, start)
    end = min(
        stop.start() if stop else len(text), *(text.find(c, start) % (len(text) + 1) for c in ".;")
    )
    told, place = "", start
    for match in _NEXT_VERB.finditer(text, start, end):
        between = text[start : match.start()]
        if match["verb"] in _COMMON_VERBS and not re.search(
            r"\b(?:to|can|will|would|could|should|that|which|who|when|where|if|because|how|what)\b"
            r"|'(?:ll|d)\b",
            between,
        ):
            told += text[place : match.start()] + match["join"] + _conjugated(match["verb"])
            place = match.end()
    return told, place


def _is_participle_next(text: str, start: int) -> bool:
    match = _TO_VERB.match(text, start)
    return match is not None and (
        plain_form(match["verb"].lower()).past or match["verb"] in ("been", "better", "had")
    )


def _conjugated(verb: str) -> str:
    plain = verb.lower()
    if plain in _IRREGULAR:
        return _IRREGULAR[plain]
    stem = re.sub(r"^(?:re|out|over|mis|un|under)(?=\w{3})", "", plain)
    if plain_form(stem).past:
        return verb
    if plain in _UNCHANGED or not plain.isalpha() or plain_form(plain).past or plain.endswith("ed"):
        return verb
    if re.search(r"(?:s|sh|ch|x|z|o)$", plain):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", plain) else verb + "s"
