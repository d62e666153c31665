"""Whether an English clause stands alone: whatever it points at is named in it."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-z][\w'-]*|\d[\w.,:%]*|[,;.:!?]")
_PEOPLE = frozenset(
    "friend friends sister sisters brother brothers mom mum mother dad father parents grandma "
    "grandpa grandmother grandfather aunt uncle cousin cousins niece nephew son sons daughter "
    "daughters kid kids child children baby husband wife partner girlfriend boyfriend fiance "
    "fiancee boss teacher coach colleague colleagues neighbor neighbour neighbors roommate mentor "
    "student students team teammates family fam dog dogs puppy pup puppies cat cats kitten "
    "kittens pet pets man men woman women girl girls boy boys guy guys person people folks buddy "
    "buddies pal pals group band crew siblings sibling artist author singer doctor nurse vet "
    "rabbit hamster parrot horse horses bird birds turtle turtles fish animal animals".split()
)
_SEVERAL = frozenset(
    "people folks family fam team group band crew children men women fish parents police".split()
)
_DETERMINERS = frozenset(
    "a an the my our another any some every each no his her its their your which what one two "
    "three four five six seven eight nine ten many several few most all both new".split()
)
_NOT_A_NAME = frozenset("I I'm I've I'd I'll My We We're We've Our".split())
_THINGS = frozenset("it its".split())
_THOSE = frozenset("they them their theirs themselves they're they've they'll they'd".split())
_WHO = frozenset(
    "he him his himself he's he'd he'll she her hers herself she's she'd she'll".split()
)
_EXPLETIVE = re.compile(
    r"\b(?:[Ii]t)(?:'s| is| was| takes| took| can be| feels| felt)(?: \w+){0,3}? (?:to|that|for|"
    r"when|how)\b"
    r"|\bfinds? it (?:\w+ ){1,3}to\b|\bmakes? it (?:\w+ ){1,3}to\b|\bit (?:rains?|snows?|rained|"
    r"snowed)\b",
)
_POINTING_PRONOUN = re.compile(
    r"\b(?:this|(?<!\w )that|(?<=\b(?:of|in|to|at|on|do|so|is) )that|(?<=\b(?:for|did|and|but|saw|"
    r"see) )that|(?<=\b(?:with|made|make|love|like|from|than|that|does) )that|(?<=\b(?:about|"
    r"after|loved|liked) )that|these|those)\b(?= (?:is|are|was|were|has|have|had|will|would|can|"
    r"could|really|just|one|ones|too|again|way|kind|sort|type|with|for|to|in|on|at|and|but|so|as|"
    r"because|from|when|since|before|after|much|stuff|thing|things|place|game|moment|idea|project|"
    r"event|trip|group|team|class|experience|book|movie|show|song|city|area|point|topic|field|"
    r"year's|feeling)\b"
    r"|'s|'ll|[,.;!?]|$)",
    re.IGNORECASE,
)
_POINTED_AT = re.compile(
    r"(?<=\b(?:to|of|in|at|on) )that (?!is\b|was\b|I\b|we\b)\w+|(?<=\b(?:from|with|love|have) "
    r")that \w+|\b(?:this|these|those) (?!(?:week|weekend|month|year|morning|afternoon|evening|"
    r"summer|winter|spring"
    r"|fall|autumn|days|past|coming|last|\w+day|who)\b)\w+",
    re.IGNORECASE,
)
_POINTING = re.compile(r"\b(?:here|there)(?:'s)?\b", re.IGNORECASE)
_EXISTS = re.compile(
    r"\bthere(?:'s| is| are| was| were| will be| has been| have been)\b", re.IGNORECASE
)
_PLACE_BEFORE = re.compile(
    r"\b(?:to|in|at|near|visit(?:ed|ing)?|from|into|onto|on) (?:the |a |an |my |our )?[\w'-]+",
    re.IGNORECASE,
)
_ONE = re.compile(
    r"\b(?:(?:this|that|the|a|an|another|new|each|every|which|my|our|first|last|next|other|only) "
    r")?ones?\b(?=$|[,.;!?']| (?:last|with|that|too|so|yet|already|for|in|at|on|from|today|"
    r"yesterday|soon|when|because|and|but|or|is|was|are|were|has|which|by|to|myself|before|after|"
    r"again|where|who|i|we|as)\b)",
    re.IGNORECASE,
)
_ONE_OF = re.compile(
    r"\b(?:one of|no one|one day|one another|day one|one on one|one-)", re.IGNORECASE
)
_ELSEWHERE = re.compile(
    r"\b(?:one of (?:my|our|their) own|something similar|a similar (?:experience|thing|situation|"
    r"way|feeling)|that the hard way|like our last|the (?:same|other|others|former|latter|whole "
    r"(?:team|thing|group))|such (?:a|an) (?:\w+ )?(?:game|thing|way|place)|the way i (?:feel|"
    r"felt)|do so|doing so|did so|did too|do too|am too"
    r"|as well as (?:me|you)|like (?:it|that|this|those|these|them)|of (?:it|them|that|those|"
    r"these)"
    r"|either way|likewise|neither|so (?:do|am|did|have) i)\b",
    re.IGNORECASE,
)
_DEFINITE = re.compile(
    r"\bthe (?:(?:whole|new|other|first|last|next|big|final|entire|main|actual) )?(?P<noun>game|"
    r"games|project|projects|event|events|class|group|program|photo"
    r"|pic|picture|trip|challenge|challenges|tournament|competition|show|story|stories|book|movie|"
    r"song"
    r"|place|idea|offer|link|process|result|results|thing|things|details|atmosphere|vibe"
    r"|feeling|experience|moment|moments|guy|girl|man|woman|person|others|rest"
    r"|plan|part|parts|situation|problem|issue|item|items|piece|pieces|design|colors|recipe|dish"
    r"|advice|tips|suggestion|question|meeting|performance)(?=$|[,.;!?]| (?:and|was|were|is|are|"
    r"has|had|went|so|but|yet|well|together|again|with|because"
    r"|really|just|too|as|also|yesterday|last|today|on|from|i|we)\b)",
    re.IGNORECASE,
)


def stands_alone(clause: str) -> bool:
    """Whether everything that it refers to is in it, the speaker aside."""
    return not (
        unresolved(clause)
        or _POINTING_PRONOUN.search(clause)
        or _ELSEWHERE.search(clause)
        or _POINTED_AT.search(clause)
        or _unplaced(clause)
        or _one_alone(clause)
        or _unknown_definite(clause)
    )


def unresolved(clause: str) -> set[str]:
    """Pronouns of things and people before which nothing stands that they could mean."""
    words = _WORD.findall(_EXPLETIVE.sub("", clause))
    missing, thing, several, somebody = set(), False, False, False
    for place, word in enumerate(words):
        low = word.lower().replace("’", "'")
        plain = low.split("'")[0]
        if plain in _THINGS and word != "IT" and not thing:
            missing.add("it")
        elif (plain in _THOSE or low in _THOSE) and not several:
            missing.add("they")
        elif (plain in _WHO or low in _WHO) and not somebody:
            missing.add("he")
        follows_determiner = any(
            w.lower() in _DETERMINERS for w in words[max(0, place - 3) : place]
        )
        name = word[0].isupper() and place > 0 and word not in _NOT_A_NAME
        noun = plain not in _THINGS | _THOSE | _WHO and (follows_determiner or name)
        thing = thing or (noun and word[0].isalpha() and place < len(words) - 1)
        several = several or plain in _SEVERAL or (plain.endswith("s") and len(plain) > 3)
        somebody = somebody or plain in _PEOPLE or name
    return missing


def _unplaced(clause: str) -> bool:
    """Whether "here" or "there" has no place before it."""
    for match in _POINTING.finditer(_EXISTS.sub("", clause)):
        if match.group().lower().startswith("here"):
            return True
        if not _PLACE_BEFORE.search(_EXISTS.sub("", clause)[: match.start()]):
            return True
    return False


def _one_alone(clause: str) -> bool:
    return _ONE.search(_ONE_OF.sub("", clause)) is not None


def _unknown_definite(clause: str) -> bool:
    """Whether it speaks of "the game" as if somebody had told which."""
    for match in _DEFINITE.finditer(clause):
        if not re.search(rf"\b{match['noun'].rstrip('s')}", clause[: match.start()], re.IGNORECASE):
            return True
    return False
