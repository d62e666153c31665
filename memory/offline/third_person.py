"""English words about oneself, retold in the third person.

The name stands for "I" and "me", and again where a pronoun could mean somebody else. "She" and
"he" stand only for a speaker who said which; for everybody else it is "their" and "themself".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.text import plain_form


@dataclass(frozen=True)
class Speaker:
    """A speaker's name, pronoun ("she", "he" or "they") and the people whom "we" includes."""

    name: str
    pronoun: str = "they"
    company: str = "others"

    @property
    def their(self) -> str:
        return {"she": "her", "he": "his"}.get(self.pronoun, "their")

    @property
    def themself(self) -> str:
        return {"she": "herself", "he": "himself"}.get(self.pronoun, "themself")


_FEMALE = r"(?:mom|mum|mother|mommy|grandma|grandmother|woman|girl|wife|sister|aunt|actress)"
_MALE = r"(?:dad|father|daddy|grandpa|grandfather|man|guy|boy|husband|brother|uncle|actor|waiter)"
_SELF = r"\b(?:I['’]?m|I am|I was|being|becoming|become|as) (?:an?|the) (?:[\w-]+ ){0,2}?"
_FEMALE_SELF = re.compile(rf"{_SELF}{_FEMALE}\b", re.IGNORECASE)
_MALE_SELF = re.compile(rf"{_SELF}{_MALE}\b", re.IGNORECASE)


def pronoun_of(text: str) -> str:
    """Return the pronoun that a speaker's words give them: "she" for "I'm a mom", else "they"."""
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
"""Stands for the speaker in company until the rest has been retold."""
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
OTHERS = re.compile(
    r"\b(?:they|them|their|people|friends?|kids?|children|family|parents|siblings|teammates"
    r"|colleagues|buddies|pals|folks|guys|students|neighbou?rs|brothers|sisters|others)\b",
    re.IGNORECASE,
)
_TO_VERB = re.compile(
    rf"(?P<before>(?: (?:\w+ly|{'|'.join(sorted(_ADVERBS))}),?)* )(?P<verb>[\w']+)"
)
_NEXT_VERB = re.compile(
    r"(?P<join>,? (?:and|or|but)(?: (?:\w+ly|also|then|even|sometimes|often|always|usually|"
    r"just))* )(?P<verb>[a-z']+)(?= (?:a|an|the|my|our|some|any|to|in|on|at|with|for|up|out|along|"
    r"about|from|into|down|off|over|through|every|each|hard|regularly|more|lots|them|it|me|"
    r"everything|[a-z]+ing|[a-z]+ly|[a-z]+s)\b)"
)
_OTHER_VERB_FORM = re.compile(
    r"\b(?:to|can|will|would|could|should|that|which|who|when|where|if|because|how|what)\b"
    r"|'(?:ll|d)\b"
)
"""After one of these, a further verb is not one of the same subject in the present tense."""
_STOP = re.compile(rf"{_FIRST.pattern}|[.;]")


def third_person(text: str, speaker: Speaker) -> str:
    """Retell the first person as the third. `text` has straight apostrophes."""
    retold = _Retelling(_TOGETHER.sub(_company_first, text), speaker).run()
    retold = retold.replace(f"{_COMPANY} {speaker.name}'s", f"{_COMPANY} {speaker.their}")
    retold = retold.replace(_COMPANY, f"{speaker.name} and")
    return retold[:1].upper() + retold[1:]


def ends_in_company(text: str) -> bool:
    """Whether " and I" after it would add the speaker to somebody: "when my sister"."""
    whole = f"{text} and I"
    return any(match.end() == len(whole) for match in _TOGETHER.finditer(whole))


def _company_first(match: re.Match[str]) -> str:
    """Put the speaker first: "my sister and I" is retold as "Mia and their sister"."""
    who = match["who"] or match["other"]
    return f"{_COMPANY} {who[0].lower() + who[1:] if who.startswith(('My ', 'Our ')) else who}"


class _Retelling:
    """A text, retold up to `end`."""

    def __init__(self, text: str, speaker: Speaker) -> None:
        self.text = text
        self.speaker = speaker
        self.parts: list[str] = []
        self.end = 0
        self.named = False
        self.plural = False
        self.predicate_at: int | None = None
        """Where the words behind the last subject and its verb begin."""

    def run(self) -> str:
        for match in _FIRST.finditer(self.text):
            if match.start() < self.end:
                continue
            self.parts.append(self.text[self.end : match.start()])
            self.end = match.end()
            word = match["word"].lower()
            self.parts.append(self._subject(match, word) if word in _VERBS else self._other(word))
            self.named = True
        return "".join([*self.parts, self.text[self.end :]])

    def _subject(self, match: re.Match[str], word: str) -> str:
        who = self._together("they") if word.startswith("we") else self._single_subject(match)
        self.predicate_at = self.end
        if word == "i":
            return who + self._conjugated_predicate()
        verb = _VERBS[word]
        if word == "i'd" and _is_participle_next(self.text, match.end()):
            verb = "had"
        return f"{who} {verb}".strip()

    def _single_subject(self, match: re.Match[str]) -> str:
        """Return the name; the pronoun for a later subject of the same sentence."""
        if self.predicate_at is None or self.speaker.pronoun == "they":
            return self.speaker.name
        is_new_sentence = ". " in self.text[self.predicate_at : match.start()]
        return self.speaker.name if is_new_sentence else self.speaker.pronoun

    def _together(self, pronoun: str) -> str:
        """Return "Mia and others", or the pronoun where company was named before."""
        before = "".join(self.parts)
        known = self.plural or _COMPANY in before or (self.named and OTHERS.search(before))
        self.plural = True
        if known and not before.endswith(". "):
            return pronoun
        return f"{self.speaker.name} and {self.speaker.company}"

    def _other(self, word: str) -> str:
        name = self.speaker.name
        if word == "us":
            return self._together("them")
        if word in ("my", "our") and self.named:
            return self.speaker.their if word == "my" else "their"
        fixed = {"myself": self.speaker.themself, "ourselves": "themselves", "me": name}
        return fixed.get(word, f"{name}'s")

    def _conjugated_predicate(self) -> str:
        """Return the words from "I" to the end of its clause, with its verbs for one person."""
        match = _TO_VERB.match(self.text, self.end)
        if match is None:
            return ""
        self.end = self.predicate_at = match.end()
        verb = _conjugated(match["verb"])
        if verb in _AUXILIARIES:
            return match["before"] + verb
        stop = _STOP.search(self.text, self.end)
        rest = self.text[self.end : stop.start() if stop else None]
        self.end += len(rest)
        return match["before"] + verb + _NEXT_VERB.sub(_later_verb, rest)


def _later_verb(match: re.Match[str]) -> str:
    """Conjugate a further verb of the same subject: "and go" becomes "and goes"."""
    before = match.string[: match.start()]
    if match["verb"] not in _COMMON_VERBS or _OTHER_VERB_FORM.search(before):
        return match[0]
    return match["join"] + _conjugated(match["verb"])


def _is_participle_next(text: str, start: int) -> bool:
    match = _TO_VERB.match(text, start)
    return match is not None and (
        plain_form(match["verb"].lower()).past or match["verb"] in ("been", "better", "had")
    )


def _conjugated(verb: str) -> str:
    """Return the verb as it follows a name; one in the past stays as it is."""
    plain = verb.lower()
    if plain in _IRREGULAR:
        return _IRREGULAR[plain]
    stem = re.sub(r"^(?:re|out|over|mis|un|under)(?=\w{3})", "", plain)
    past = plain.endswith("ed") or plain_form(plain).past or plain_form(stem).past
    if past or plain in _UNCHANGED or not plain.isalpha():
        return verb
    if re.search(r"(?:s|sh|ch|x|z|o)$", plain):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", plain) else verb + "s"
