"""Find what English sentences state about their speaker, and retell it in the third person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import takewhile

from memory.text.dating import with_dates
from memory.text.languages import literal_start
from memory.text.tokens import plain_form
from memory.text.vocabulary import PAST, REPORTS
from memory.text.worth import (
    content_words,
    has_dangling_pronoun,
    is_worth_keeping,
    stands_alone,
)

# --- clauses --------------------------------------------------------------------------------------

_INFORMAL = [
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"[`’‘]", "'"), (r"[“”]", '"'), (r"\bgonna\b", "going to"), (r"\bwanna\b", "want to"),
        (r"\bgotta\b", "have to"), (r"(?<!\w)'cause\b|\bcuz\b|\bcoz\b", "because"),
        (r"\bkinda\b", "kind of"),
        (r"(?<=\w)'s (?=(?:my|our|definitely|mostly|one of|always|a)\b)", " is "),
        (r"(?<=\w)'s (?=(?:allowed|helped|taught|given|become|been)\b)", " has "),
        (r"(?<!\w )\b(?:btw|by the way),? ?", ""), (r"\bi\b(?=[ ']|$)", "I"),
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
_OWN = re.compile(r"(?:I|[Ww]e|[Mm]y|[Oo]ur)\b")
_SPLICED = re.compile(r"^(?:I|[Ww]e)\b(?! (?:and|,))")
_BREAK = re.compile(
    r", (?=(?:I|we|my)\b)|(?P<joined>,? (?:but|and|so)) (?=(?:I|"
    r"we)\b(?! (?:and|both)\b))|(?P<owned>, (?:but|and|so) )(?=(?:my|our)\b)|"
    r"(?<=\w)-+ (?=[A-Za-z])|(?<!\s)\s++[-–—]++\s++|(?:(?<!\s)\s++)?+"
    r"(?:[–—]|--++|;|\.\.\.++)\s*+|, (?=(?:check|take a look|here's|"
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
    (re.compile(pattern), subject)
    for pattern, subject in (
        (
            r"^(?:[Jj]ust )?(?=(?i:went|got|took|started|joined|made|bought|met|visited|"
            r"played|moved|finished|signed|had|won|found|learned|read|watched|did|ran|ate|cooked|"
            r"attended|adopted|organi[sz]ed|saw|wrote|built|painted|baked|volunteered|hosted|"
            r"hiked|picked|completed|graduated|created|grew|planted|drove|flew|spent|enrolled|"
            r"quit|passed|lost|broke|sold|launched|performed|booked|"
            r"[a-z]+ed(?= (?:up )?(?:my|our)\b)) "
            r"(?!(?:some|a|lots of|loads of) (?:bit|lot|while|work|time|effort|trial))"
            r"(?:a|an|the|my|our|this|some|to|in|on|up|at|for|with|two|three|lots|tons|out|into|"
            r"from|back)\b)",
            "I ",
        ),
        (r"^[Bb]een (?=\w+ing\b)", "I've been "),
        (
            r"^[Gg]oing to (?!be\b)(?=\w+)(?!.*\b(?:is|are|was|were|has|have|helps?|makes?|"
            r"gives?)\b)",
            "I'm going to ",
        ),
        (
            r"^(?=(?:Thinking (?:of|about)|Planning|Working on|Learning|Reading|Studying|Training|"
            r"Looking into|Researching|Practicing|Saving)\b(?!.*\b(?:is|are|was|were|can|will|has|"
            r"have|helps?|makes?|gives?|brings?|takes?|feels?|sounds?|\w+s (?:me|us))\b))",
            "I'm ",
        ),
    )
]
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
_FEWEST_LETTERS, _LONGEST_LABEL = 3, 3
_MOST_LOST = 1
"""How many content words may be cut off a sentence."""
LONGEST = 320
_LONGEST_SENTENCE = 2_000  # characters; nobody says a longer sentence in a chat


def plain_spelling(text: str) -> str:
    for pattern, plain in _INFORMAL:
        text = pattern.sub(plain, text)
    return text.strip()


def clauses(sentence: str, listeners: Sequence[str]) -> Iterator[str]:
    """Yield the main clauses of a sentence, without questions and very short or long clauses.

    Greetings, closing remarks and the names in `listeners` are cut off.
    """
    plain = plain_spelling(sentence)
    if "?" in plain or len(plain) > _LONGEST_SENTENCE:
        return
    for part in _parts(plain):
        bare = without_greeting(part, listeners)
        bare = _THIS.sub(_without_pointing, _with_subject(_without_afterthought(bare)))
        if len(bare.split()) >= _FEWEST_WORDS and len(bare) <= LONGEST:
            yield bare


def without_greeting(part: str, listeners: Sequence[str]) -> str:
    """Return a part of a sentence without greetings and without the names in `listeners`.

    >>> without_greeting("Hey Tom, I moved!", ["Tom"])
    'I moved'
    """
    bare = _OPENER.sub("", part.strip(" ,.:" if literal_start(part) else " ,.!:"))
    bare = _OPENER.sub("", _VOCATIVE.sub("", bare))
    for name in listeners:
        bare = re.sub(rf",? {re.escape(name)}$|^{re.escape(name)},? ", "", bare)
    return bare


def _parts(sentence: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for match in [*_BREAK.finditer(sentence), None]:
        part = sentence[start : match.start() if match else len(sentence)]
        if match and not _begins_clause(match, part):
            continue
        if parts and _is_addition(part):
            parts[-1] += f" - {part}"
        elif part.strip():
            parts.append(part)
        start = match.end() if match else start
    return parts


def _begins_clause(match: re.Match[str], before: str) -> bool:
    if match["joined"]:
        return not ends_in_company(before)
    if match["owned"] or not _OWN.match(match.string, match.end()):
        return True
    bare = _OPENER.sub("", before.strip())
    is_label = match.group() == ", " or 0 < len(bare.split()) <= _LONGEST_LABEL  # "Tom - I ..."
    return not is_label or _SPLICED.match(bare) is not None


def _is_addition(part: str) -> bool:
    first = part.strip().partition(" ")[0].lower()
    return (first.endswith("ing") or "," in part) and not re.search(
        r"\b(?:is|are|was|were|has|have|had|it's|that's|I|we|they|you|can't|let's|check|take|"
        r"here's)\b",
        part,
    )


def _without_afterthought(clause: str) -> str:
    shorter = _AFTERTHOUGHT.sub("", clause).strip(" ,.-")
    lost = content_words(clause) - content_words(shorter)
    is_told = len(lost) > _MOST_LOST and stands_alone(clause)
    return clause.strip(" ,.-") if is_told or len(shorter.split()) < _FEWEST_WORDS else shorter


def _with_subject(clause: str) -> str:
    for pattern, subject in _IMPLIED:
        if match := pattern.match(clause):
            rest = clause[match.end() :]
            return subject + rest[:1].lower() + rest[1:]
    return clause


def _without_pointing(match: re.Match[str]) -> str:
    noun = match["noun"]
    if match["this"] in ("these", "those"):
        return f"{match['verb']} {noun}"
    return f"{match['verb']} {'an' if noun[0].lower() in 'aeio' else 'a'} {noun}"


# --- statements -----------------------------------------------------------------------------------

ADDRESSED = re.compile(
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
_PLACE = (
    r"(?:(?:on|in|at|around|since|during|for|by) (?:the |my |our |a |an )?[\w'-]+(?: [\w'-]+)?,? )"
)
_CIRCUMSTANCE = (
    r"(?:(?:even |especially )?(?:(?:when|while|whenever|after|before|besides|since|because|"
    r"though|although|even though) [^,.]{2,60}|(?:as an?|with|without|apart from|in|on|at|for|"
    r"during|despite|instead of|at first|outside|off|beyond|aside)(?: [^\s,.]+){1,5}), (?:and )?)"
)
_SUBJECT = re.compile(
    rf"^(?:(?:{_TIME}|{_PLACE}|{_CIRCUMSTANCE})?(?:I|we)(?:'(?:m|ve|ll|d|re))? "
    rf"|(?:{_TIME}|{_CIRCUMSTANCE})?"
    r"(?:(?:one|two|three|four|some|most|all|both) of )?(?:my|our) (?=\w))",
    re.IGNORECASE,
)
_OWN_SUBJECT = re.compile(rf"^(?:{_TIME}|{_PLACE}|{_CIRCUMSTANCE})?(?:I|we)\b", re.IGNORECASE)
_PARTICULAR = re.compile(r"\d+|(?:(?<=[a-z,] )|(?<=[(\"]))[A-Z]\w+")
_FOREIGN = re.compile(
    r"(?<!\band )(?<!\bbut )(?<!\bso )(?<!\bbecause )(?<!\bsince )(?<!\bwhen )(?<!\bwhile )"
    r"(?<!\bthat )(?<!\bif )\b(?:I|[Ww]e)\b"
)
_WITH_SPEAKER = re.compile(
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
_OWNED = ("My ", "my ", "Our ", "our ")
COMPANY = re.compile(
    r"\b(?:my|our) (?:\w+ )?(?P<who>husband|wife|partner|family|fam|kids|children|friends|son|"
    r"daughter|team|band|girlfriend|boyfriend|brother|sister|dogs?|mom|mum|dad|parents|siblings|"
    r"colleagues|coworkers|buddies|pals|teammates|fianc[eé]e?|cousins?|grandma|grandpa|roommate|"
    r"class|group|crew|club|students)\b",
    re.IGNORECASE,
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
    rf"|^{_CIRCUMSTANCE}?\w+ing\b(?>[^,]*? (?:is|are|has been) )[^,]*\bfor me\b",
    re.IGNORECASE,
)
_CONTINUATION = re.compile(
    r"^(?:(?:I|We|She|He|My|Our|His|Her|Their)\b|(?:It|They)(?:'s|'re| is| are| was| were| has| "
    r"have) (?:an?|my|our|called|named|in|at|from|located|about|set|due|made) (?!lot|bit|great|"
    r"good|huge))"
)


def english_statements(
    sentences: Sequence[str], name: str, at: datetime, listeners: Sequence[str]
) -> list[tuple[str, str]]:
    """Return each statement in the third person, paired with the sentence that it is taken from.

    `name`: the speaker's name. `at`: when the sentences were said. `listeners`: names of the people
    whom the speaker addresses; "Tom" is left out of "Tom, I moved". A clause such as "It has a
    garden" is appended to the preceding statement, which is then paired with the later sentence.
    """
    found: list[tuple[str, str]] = []
    last: str | None = None
    company = "others"
    for sentence in sentences:
        bare = without_greeting(plain_spelling(sentence), listeners)
        said = [*takewhile(speaks_as_one, clauses(sentence, listeners))]
        told = [*_told(said, last)]
        is_whole = _has_particulars_of(bare, [text for text, _ in told])
        last = None
        for clause, (text, continues) in zip(said, told, strict=True):
            if text and is_whole:
                if continues:
                    found.pop()
                found.append((retold_english(text, name, at, company), sentence))
                last = text
            for named in COMPANY.finditer(clause):
                company = f"their {named['who'].lower()}"
    return found


def _told(said: Sequence[str], last: str | None) -> Iterator[tuple[str, bool]]:
    """Yield for each clause what it states, or "", and whether it continues what is told last."""
    for clause in said:
        if _declares(clause) and stands_alone(clause) and is_worth_keeping(clause):
            last = clause
            yield last, False
        elif last is not None and _continues(last, clause):
            last = f"{last}. {clause}"
            yield last, True
        else:
            yield "", False


def _has_particulars_of(sentence: str, told: Sequence[str]) -> bool:
    """Return whether what is told has all names and numbers of the sentence.

    If it has not, the sentence is kept as it was said, so that nothing is lost.
    """
    return set(_PARTICULAR.findall(" ".join(told))).issuperset(_PARTICULAR.findall(sentence))


def retold_english(text: str, name: str, at: datetime, company: str = "others") -> str:
    """Return a text rewritten in the third person, with dates for words such as "yesterday".

    `name`: the speaker's name. `at`: when the text was said. `company`: words for the
    people whom "we" includes besides the speaker, such as "their team".
    """
    retold = with_dates(third_person(plain_spelling(text), name, company), at)
    ending = ". " if literal_start(text) else "!. ,;"  # a "!" may belong to a password
    return retold.strip().rstrip(ending) + (
        "" if retold.endswith("!") and "!" not in ending else "."
    )


def _declares(clause: str) -> bool:
    if ADDRESSED.search(clause) or _INVERTED.search(clause):
        return False
    if _WITH_SPEAKER.match(clause) or _MINE.match(clause):
        return True
    if not _SUBJECT.match(clause):
        return False
    past = any(plain_form(word.lower()).past for word in clause.split()[2:])
    return past or not clause.startswith(_OWNED) or _OWNED_VERB.match(clause) is not None


def speaks_as_one(clause: str) -> bool:
    """Return whether each "I" and "we" in a clause must be its speaker, in English.

    "I" and "we" are words of other languages, too: "I miei gatti", "We wonen hier".

    >>> speaks_as_one("My sister and I sail"), speaks_as_one("My sister goes, I hate sailing")
    (True, False)
    """
    start = _WITH_SPEAKER.match(clause) or _OWN_SUBJECT.match(clause)
    if start is None:
        return _FOREIGN.search(clause) is None
    own = {start.end() - 1, start.end() - 2}  # of "I" and of "we"
    others = [one.start() for one in _FOREIGN.finditer(clause) if one.start() not in own]
    before = clause[: others[-1]].lower().split() if others else []
    is_report = any(plain_form(word).word in REPORTS for word in before)
    return not is_report and _is_english(clause[start.end() :])


def _is_english(predicate: str) -> bool:
    verb = _TO_VERB.match(predicate)
    if verb is None or verb["before"].strip() or verb["verb"].endswith(("ed", "ing")):
        return True
    words = predicate.lower().split()
    return (
        len(words) == 1
        or verb["verb"].lower() in _KNOWN_VERBS
        or any(len(word) >= _FEWEST_LETTERS and not content_words(word) for word in words)
    )


def _continues(last: str, clause: str) -> bool:
    both = f"{last}. {clause}"
    if (
        not _CONTINUATION.match(clause)
        or ADDRESSED.search(clause)
        or _INVERTED.search(clause)
        or len(both) > LONGEST
        or not has_dangling_pronoun(clause)
        or not stands_alone(both)
    ):
        return False
    plain = re.sub(r"^(?:She|He|They|It)\b", "Clara", clause)
    return is_worth_keeping(plain) and len(content_words(clause)) > 1


# --- in the third person --------------------------------------------------------------------------

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
_KNOWN_VERBS = _COMMON_VERBS | _UNCHANGED | PAST.keys()
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

    "I" and "me" become the name, "my" becomes "Mia's", or "their" after the name.
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
