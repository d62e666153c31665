"""English sentences cut into clauses that can be looked at one by one.

Without greetings, names of listeners and afterthoughts; with the subject that chat leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.offline.third_person import ends_in_company
from memory.text import plain_form

_INFORMAL = [
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"[`’‘]", "'"), (r"[“”]", '"'), (r"\bgonna\b", "going to"), (r"\bwanna\b", "want to"),
        (r"\bgotta\b", "have to"), (r"(?<!\w)'cause\b|\bcuz\b|\bcoz\b", "because"),
        (r"\bkinda\b", "kind of"),
        (r"(?<=\w)'s (?=(?:my|our|definitely|mostly|one of|always|a)\b)", " is "),
        (r"(?<=\w)'s (?=(?:allowed|helped|taught|given|become|been)\b)", " has "),
        (r"\b(?:btw|by the way),? ?", ""), (r"\bi\b(?=[ ']|$)", "I"),
        (r"\s+", " "),
    )
]  # fmt: skip
_OPENER = re.compile(
    r"^(?:(?:yeah|yep|yup|yes|no|nope|oh|ah|aw+|wow|whoa|woah|well|so|and|but|also|actually|haha|"
    r"lol|hey|hi|hello|thanks(?: a (?:lot|bunch|ton)| so much)?"
    r"|thank you(?: so much| very much)?|sure(?: thing)?|ok|okay|definitely|absolutely|totally|"
    r"honestly|anyways?|of course|for sure|guess what"
    r"|right|cool|awesome|great|nice|true|exactly|plus|luckily|thankfully|unfortunately|in fact|"
    r"indeed|man|ugh|hmm+|um|gotcha|got it|agreed"
    r"|for example|for instance|to be honest|you know|fun fact|on another note|just(?= (?:last|"
    r"yesterday|this)\b)|for me|(?:some )?(?:\w+ )?news(?=[:,])|speaking of [^,]{2,30}(?=,)|funny "
    r"thing|you won't believe (?:it|this)|in other news|since (?:we|I|our|the)(?: last)? (?:spoke|"
    r"talked|chatted|chat|talk|met)(?: last)?|it's been (?:a while|ages|too long|so long)|good "
    r"(?:idea|point|question)|no (?:problem|worries)|that said|after all|in addition|besides that|"
    r"as for me|not at all|funny enough|I mean|speaking of which|on top of that|as well|"
    r"fortunately|sadly)\b[\s,!.:;-]*)+",
    re.IGNORECASE,
)
_VOCATIVE = re.compile(r"^[A-Z]\w+[,!] (?=\w)")
_SPLICED = re.compile(r"^(?:I|[Ww]e|[Mm]y|[Oo]ur)\b(?! (?:and|,))")
_DEPENDS = re.compile(
    r"\b(?:if|when|while|as|since|although|though|because|whenever|after|before)\b[^,]*$"
)
_BREAK = re.compile(
    r"(?P<splice>, )(?=(?:I|we|my)\b)|: (?=(?:I|we|my)\b)|(?P<joined>,? (?:but|and|so)) (?=(?:I|"
    r"we)\b(?! (?:and|both)\b))|, (?:but|and|so) (?=(?:my|our)\b)|\s+[-–—]+\s+|\s*[–—]\s*|"
    r"(?<=\w)-+ (?=[A-Za-z])|\s*--+\s*|\s*;\s*|\s*\.\.\.+\s*|, (?=(?:check|take a look|here's|"
    r"look at|can't wait|and can't wait|you know|right|huh|thanks|bye|how about|what about|any|"
    r"you|you're|speaking of)\b)"
)
_AFTERTHOUGHT = re.compile(
    r"(?:,| -)? (?:(?:and|but|so|because|plus|as) (?:it|that|this)|which)(?:'s| is| was| has| "
    r"really| made| makes| turned| means| felt| feels| keeps| helps| brings| gives| "
    r"pushed)\b[^,;]*$"
    r"|, (?:it|that|this|they)(?:'s|'ve|'re| is| are| was| has| were| really| made| makes| turned|"
    r" looks?| felt| brings)\b.*$"
    r"|,? (?:and|so) (?:I'm|I am|I was|I feel|I felt|I think|we're|I can't wait|I hope|I love it|"
    r"I loved it|I guess)\b.*$"
    r"|,? (?:and|but) (?:had|having) (?:so much|a lot of|such|a) (?:fun|blast|great|good|\w+ "
    r"time).*$"
    r"|,? (?:to be honest|for example|for instance|too|as well|I guess|I think|by the way|though|"
    r"haha|lol|or something|personally|speaking of|I believe|of course|for sure|you know|in fact|"
    r"thanks|right now|at the moment|currently|(?:just )?like (?:me|us|mine|ours)|these days)$",
    re.IGNORECASE,
)
_IMPLIED = [
    (
        re.compile(
            r"^(?:[Jj]ust )?(?P<verb>[A-Za-z]+) (?!(?:some|a|lots of|loads of) (?:bit|lot|while|"
            r"work|time|effort|trial))(?=(?:a|an|the|my|our|this|some|to|in|on|up|at|for|with|two|"
            r"three|lots|tons|out|into|from|back)\b)"
        ),
        "I {}",
    ),
    (re.compile(r"^[Bb]een (?=\w+ing\b)"), "I've been "),
    (
        re.compile(
            r"^[Gg]oing to (?!be\b)(?=\w+)(?!.*\b(?:is|are|was|were|has|have|helps?|makes?|"
            r"gives?)\b)"
        ),
        "I'm going to ",
    ),
    (
        re.compile(
            r"^(?=(?:Thinking (?:of|about)|Planning|Working on|Learning|Reading|Studying|Training|"
            r"Looking into|Researching|Practicing|Saving)\b(?!.*\b(?:is|are|was|were|can|will|has|"
            r"have|helps?|makes?|gives?|brings?|takes?|feels?|sounds?|\w+s (?:me|us))\b))"
        ),
        "I'm ",
    ),
]
_DROPPED_VERBS = frozenset(
    "went got took started joined made bought met visited played moved finished signed had won "
    "found learned read watched did ran ate cooked attended adopted organized organised saw wrote "
    "built painted baked volunteered hosted hiked picked completed graduated created grew planted "
    "drove flew spent enrolled quit passed lost broke sold launched performed booked".split()
)
_THIS = re.compile(
    r"\b(?P<verb>made|met|saw|tried|discovered|attended|hosting|hosted|planning|organizing|making|"
    r"doing|buy|get|wearing|ordered|cooked|grew|adopting|decorated|got|bought|found|joined|"
    r"painted|playing|reading|watching|watch|created|wrote|built|adopted|baked|took|across|on|"
    r"from|called|have|had|read|watched|started|using|drew|learning) (?P<this>this|that|these|"
    r"those) (?P<noun>(?!(?:other|same|whole|particular|after|before|when|for|in|on|at|with|to|"
    r"and|but|because|last|while|by|from|as|so|past|week|weekend|month|year|morning|evening|"
    r"summer|winter|spring|fall|autumn|is|was|were|are|has|I|we|kind|sort|way)\b|\w+day\b)[\w-]+ "
    r"[\w-]+)"
)
_FEWEST_WORDS = 3
LONGEST = 320
"""Characters of a statement."""
_LONGEST_SENTENCE = 2_000
"""What is longer is no sentence that somebody said."""


def plain_spelling(text: str) -> str:
    """With straight quotes and whole words: "wanna" is "want to"."""
    for pattern, plain in _INFORMAL:
        text = pattern.sub(plain, text)
    return text.strip()


def clauses(sentence: str, listeners: tuple[str, ...]) -> Iterator[str]:
    """Its main parts without openers, names of listeners and afterthoughts."""
    plain = plain_spelling(sentence)
    if "?" in plain or len(plain) > _LONGEST_SENTENCE:
        return
    for part in _parts(plain):
        bare = _OPENER.sub("", part.strip(" ,.!:"))
        bare = _OPENER.sub("", _VOCATIVE.sub("", bare))
        for name in listeners:
            bare = re.sub(rf",? {re.escape(name)}$|^{re.escape(name)},? ", "", bare)
        bare = _pointed_out(_implied(_without_afterthoughts(bare)))
        if len(bare.split()) >= _FEWEST_WORDS and len(bare) <= LONGEST:
            yield bare


def _parts(sentence: str) -> list[str]:
    """Cut where a new clause begins; a mere addition stays with what it adds to."""
    parts: list[str] = []
    place = 0
    for match in [*_BREAK.finditer(sentence), None]:
        part = sentence[place : match.start() if match else len(sentence)]
        if match and not _parts_at(match, part):
            continue
        if parts and _is_addition(part):
            parts[-1] += f" - {part}"
        elif part.strip():
            parts.append(part)
        place = match.end() if match else place
    return parts


def _parts_at(match: re.Match[str], before: str) -> bool:
    """Whether a new clause begins here: not in "my sister and I", nor after "last week, I"."""
    if match["joined"]:
        return not ends_in_company(before)
    if match["splice"]:
        bare = _OPENER.sub("", before.strip())
        return _SPLICED.match(bare) is not None and not _DEPENDS.search(bare)
    return True


def _is_addition(part: str) -> bool:
    """A list, or what somebody does ("running, reading")."""
    first = part.strip().split(" ", 1)[0].lower() if part.strip() else ""
    return (first.endswith("ing") or "," in part) and not re.search(
        r"\b(?:is|are|was|were|has|have|had|it's|that's|I|we|they|you|can't|let's|check|take|"
        r"here's)\b",
        part,
    )


def _without_afterthoughts(clause: str) -> str:
    """Without what only judges: "and it was great", "to be honest"."""
    while True:
        shorter = _AFTERTHOUGHT.sub("", clause).strip(" ,.-")
        if shorter == clause or len(shorter.split()) < _FEWEST_WORDS:
            return clause.strip(" ,.-")
        clause = shorter


def _implied(clause: str) -> str:
    """With the subject that chat leaves out: "Went to Rome" is "I went to Rome"."""
    for pattern, subject in _IMPLIED:
        match = pattern.match(clause)
        if match is None:
            continue
        if "{}" not in subject:
            return subject + clause[match.end() :][:1].lower() + clause[match.end() + 1 :]
        if match["verb"].lower() in _DROPPED_VERBS or _is_past_of_mine(clause, match):
            return (
                subject.format(clause[match.start("verb") :].lower()[:1])
                + clause[match.start("verb") + 1 :]
            )
    return clause


def _is_past_of_mine(clause: str, match: re.Match[str]) -> bool:
    """Whether it is told as in "Twisted my knee"."""
    mine = re.match(r"(?:up )?(?:my|our)\b", clause[match.end() :]) is not None
    return mine and plain_form(match["verb"].lower()).past


def _pointed_out(clause: str) -> str:
    """ "I made this blue bowl" is told as "a blue bowl"."""

    def named(match: re.Match[str]) -> str:
        noun = match["noun"]
        if match["this"] in ("these", "those"):
            return f"{match['verb']} {noun}"
        return f"{match['verb']} {'an' if noun[0].lower() in 'aeio' else 'a'} {noun}"

    return _THIS.sub(named, clause)
