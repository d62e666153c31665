"""Rewrite English in the first person as the third person.

"I" and "me" become the speaker's name. "My" becomes "Mia's", or "their" after the name.
"""

from __future__ import annotations

import re

from memory.text import plain_form

_TOGETHER = re.compile(
    r"(?:^|(?<=[,.-] )|(?<=\b(?:when|that|with) )|(?<=\b(?:where|while|after|since|today) )|"
    r"(?<=day )"
    r"|(?<=\bbecause )|(?<=\b(?:before|lately) )|(?<=\brecently )|(?<=\b(?:week|year|then) )"
    r"|(?<=month )|(?<=night )|(?<=\bfor )|(?<=\b(?:as|of|so|if) )|(?<=weekend )|(?<=\bbetween "
    r"))(?:(?P<who>(?:[Mm]y|[Oo]ur) (?:[\w-]+ )?[\w-]+|[A-Z][a-z]+)(?:,? and) (?:I|me|myself)\b"
    r"|(?:[Mm]e|I|[Mm]yself) and (?P<other>(?:my|our) (?:[\w-]+ )?[\w-]+|[A-Z][a-z]+)\b)(?!['’])",
)
_COMPANY = "\x01 and"
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
    "no somehow instead again maybe perhaps seldom hardly barely longer nearly later since".split()
)
_UNCHANGED = frozenset(
    "can could will would should may might must had did was were used put read cut let set hit "
    "hurt quit shut bet cost split spread burst can't couldn't won't wouldn't didn't hadn't "
    "shouldn't mustn't wasn't weren't saw found left felt lay lit wound bore fell ground".split()
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
_STOP = re.compile(rf"{_FIRST.pattern}|[.;]")


def third_person(text: str, name: str, company: str = "others") -> str:
    """Rewrite the first person as the third: "I love my dog" becomes "Mia loves their dog".

    `text` must have straight apostrophes. `company`: words for the people whom "we" includes
    besides the speaker.
    """
    retold = _Retelling(_TOGETHER.sub(_company_first, text), name, company).run()
    retold = retold.replace(f"{_COMPANY} {name}'s", f"{name} and their").replace(
        _COMPANY, f"{name} and"
    )
    return retold[:1].upper() + retold[1:]


def ends_in_company(text: str) -> bool:
    """Return whether " and I" would extend a subject, as it does after "when my sister"."""
    whole = f"{text} and I"
    return any(match.end() == len(whole) for match in _TOGETHER.finditer(whole))


def _company_first(match: re.Match[str]) -> str:
    who = match["who"] or match["other"]
    return f"{_COMPANY} {who[0].lower() + who[1:] if who.startswith(('My ', 'Our ')) else who}"


class _Retelling:
    def __init__(self, text: str, name: str, company: str) -> None:
        self.text = text
        self.name = name
        self.company = company
        self.parts: list[str] = []
        self.end = 0
        self.named = False
        self.plural = False

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
        who = self._together("they") if word.startswith("we") else self.name
        if word == "i":
            return who + self._conjugated_predicate()
        if word == "i'd" and _is_participle_next(self.text, match.end()):
            return f"{who} had"
        return f"{who} {_VERBS[word]}".strip()

    def _together(self, pronoun: str) -> str:
        before = "".join(self.parts)
        known = self.plural or _COMPANY in before or (self.named and OTHERS.search(before))
        self.plural = True
        if known and not before.endswith(". "):
            return pronoun
        return f"{self.name} and {self.company}"

    def _other(self, word: str) -> str:
        if word == "us":
            return self._together("them")
        if word in ("my", "our") and self.named:
            return "their"
        return {"myself": "themself", "ourselves": "themselves", "me": self.name}.get(
            word, f"{self.name}'s"
        )

    def _conjugated_predicate(self) -> str:
        match = _TO_VERB.match(self.text, self.end)
        if match is None:
            return ""
        self.end = match.end()
        stop = _STOP.search(self.text, self.end)
        rest = self.text[self.end : stop.start() if stop else None]
        self.end += len(rest)
        return match["before"] + _conjugated(match["verb"]) + _NEXT_VERB.sub(_later_verb, rest)


def _later_verb(match: re.Match[str]) -> str:
    if match["verb"] not in _COMMON_VERBS or _OTHER_VERB_FORM.search(match.string[: match.start()]):
        return match[0]
    return match["join"] + _conjugated(match["verb"])


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
    past = plain.endswith("ed") or plain_form(plain).past or plain_form(stem).past
    if past or plain in _UNCHANGED or not plain.isalpha():
        return verb
    if re.search(r"(?:s|sh|ch|x|z|o)$", plain):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", plain) else verb + "s"
