"""Decide whether an English clause is worth a memory: it must make sense alone and stay true.

A fact that the rules cannot rewrite is kept as it was said. What stands before a fact in a chat is
taken off: a mention, "fyi", "just so you know".
"""

from __future__ import annotations

import re

from memory.text.languages import ENGLISH, has_cjk, language_of, may_be_english
from memory.text.tokens import plain_form, tells_of_self
from memory.text.vocabulary import MONTHS, NEGATIONS, TEMPORAL

# --- standing alone -------------------------------------------------------------------------------

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
_DETERMINERS = frozenset(
    "a an the my our another any some every each no his her its their your which what one two "
    "three four five six seven eight nine ten many several few most all both new".split()
)
_NOT_A_NAME = frozenset("I I'm I've I'd I'll My We We're We've Our".split())
_THINGS = frozenset("it its".split())
_THOSE = frozenset("they them their theirs themselves".split())
_WHO = frozenset("he him his himself she her hers herself".split())
_POINTED_AT = re.compile(
    r"(?<=\b(?:to|of|in|at|on) )that (?!is\b|was\b|I\b|we\b)\w+|(?<=\b(?:from|with|love|have) "
    r")that \w+|\b(?:this|these|those) (?!(?:week|weekend|month|year|morning|afternoon|evening|"
    r"summer|winter|spring"
    r"|fall|autumn|days|past|coming|last|\w+day|who)\b)\w+",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"\bhere\b|\bthere\b(?!'s| is\b| are\b| was\b| were\b| will be\b| has been\b| have been\b)",
    re.IGNORECASE,
)
_ONE = re.compile(
    r"\b(?:(?:this|that|the|a|an|another|new|each|every|which|my|our|first|last|next|other|only) "
    r")?ones?\b(?=$|[,.;!?']| (?:last|with|that|too|so|yet|already|for|in|at|on|from|today|"
    r"yesterday|soon|when|because|and|but|or|is|was|are|were|has|which|by|to|myself|before|after|"
    r"again|where|who|i|we|as)\b)",
    re.IGNORECASE,
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


def stands_alone(clause: str) -> bool:
    """Return whether the clause names everything that it refers to, except the speaker."""
    outside = (_ELSEWHERE, _POINTED_AT, _HERE, _ONE)
    return not has_dangling_pronoun(clause) and not any(found.search(clause) for found in outside)


def has_dangling_pronoun(clause: str) -> bool:
    """Return whether a pronoun (it, they, she) refers to something not named before it."""
    words = _WORD.findall(clause)
    thing = several = somebody = False
    for position, word in enumerate(words):
        plain = word.lower().partition("'")[0]
        if (
            (plain in _THINGS and word != "IT" and not thing)
            or (plain in _THOSE and not several)
            or (plain in _WHO and not somebody)
        ):
            return True
        name = word[0].isupper() and position > 0 and word not in _NOT_A_NAME
        before = {earlier.lower() for earlier in words[max(0, position - 3) : position]}
        noun = plain not in _THINGS | _THOSE | _WHO and (name or bool(before & _DETERMINERS))
        thing = thing or (noun and word[0].isalpha() and position < len(words) - 1)
        several = several or (plain.endswith("s") and len(plain) > 3)
        somebody = somebody or plain in _PEOPLE or name
    return False


# --- worth keeping --------------------------------------------------------------------------------


_ADVERBS = (
    r"(?:,? (?:"
    "totally|really|completely|also|just|so|very|super|always|still|definitely|truly|absolutely|"
    "too|all|extremely|pretty|quite|even|actually|100%|now|kind of|sort of|a bit|a little|"
    "incredibly|already|only|not|never|currently|honestly|often|sometimes|usually|both|beyond|that"
    r"))*"
)
_FIRST_SUBJECT = re.compile(r"\b(?:I|[Ww]e)\b")
_AM = (
    r"(?:I|we)(?:'m|'re| am| are| was| were| feel| felt|'ve been| have been|'ll be| got| get|"
    r"(?:'ve| have) (?:always )?(?:felt|been))"
)
_THIN_VERBS = (
    "started (?:(?:a few|a couple of|\\w+) \\w+ (?:ago|back)|last \\w+)$|(?:(?:'ve|have) )?been "
    "\\w+ing (?:for|it|since|at it)|do -|(?:have|had|got|'ve got) so much|'ve been playing for|"
    "agreed?|see|guess|hoped?|know|knew|mean|bet|wish|wonder|suppose|understand|get it|got this|"
    "promised|ended up laughing|had (?:lots|a ton|tons|so much) (?:of )?fun|been \\w+ing ever "
    "since$|made sure|stumbled|went through|get to|gets? how|get how|won$|got the win|"
    "appreciated?|believe|feel|felt|think|thought|remember(?! when (?:my|our|I))|forgot|forget|"
    "reali[sz]ed?|look forward|couldn't(?! (?:eat|afford))|did something|had an? (?:\\w+ "
    ")?experience(?: that|$)|saw the (?:impact|difference)|(?:just )?(?:rock|need (?:way |more |"
    "better )+)|work well|make a|have each other|have (?:got )?the (?:power|right)|promise|doubt|"
    "(?:can )?imagine|heard?|stand|let|had fun|have to (?:go|say|admit|run|be)|got to (?:go|run|"
    "see|say|admit)|tried (?:my (?!hand)|it|to|so|that|the|very)|tried$|try my best|do my best|"
    "did my best|made it$|don't (?:know|think|want to spoil|mind|remember)|saw (?:how|that)|"
    "didn't (?:know|think|expect|reali[sz]e|mind|make it)|wouldn't|won't|needed (?:that|some|it)|"
    "(?:took|got|have|had|do have|don't have|made) (?:an?|some|this|the|few)(?: \\w+)? (?:pics?|"
    "photos?|screenshots?|pictures?|shots?|snaps?)|made (?:something|it)|(?:was |were "
    ")?remembering|(?:wanted|want) (?:something|more|a (?:change|break))|wanted (?!to (?:become|"
    "be a|learn|visit))|loved? (?:all )?(?:the|that|this|those|these|your) (?!sea|ocean|beach|"
    "outdoors|mountains|city|country|rain|snow|sun|way|idea)|caring|have had|"
    "(?:have|had|'ve had) a lot of things|missed (?:it|"
    "that)|want(?:ed)? (?:it|them|that)|do$|did$|have$|had to$|want(?:ed)? to (?:know|hear|feel|"
    "say|ask|tell|show|do more|keep|share|make (?:a|some|sure|it|the|an)|help (?:people|others|"
    "make))|got (?:a|some) (?:lot|bit|great (?:pic|shot|photo))|(?:need|have)(?:ed)? (?:some|a) "
    "(?:time|break|rest|chill|moment)|(?:have|had|'ve had|hit|'ve got|'ve|got|have got) (?:a |an |"
    "some |such a |such an )?(?:few )?(?:so |really |super |pretty )?(?:great |good |amazing |"
    "awesome |exciting |big |bad |personal |major |incredible |sore |bit of a |unforgettable |"
    "frustrating |bit of a |wonderful |fantastic |wild |crazy |lovely |fun |nice )?(?:blast|time|"
    "news|feeling|setback|snag|spot|issue|(?:rough|tough|hard|crazy|busy|long)(?: time| week| "
    "day)?|lot|day|week|weekend|month|milestone|your back|point)(?! (?:with|at|in|on|for|of|off|"
    "last|yesterday|when|because|\\w+ing))|'ve (?:come|grown|gone) (?:so|a|through)|have gone "
    "through|don't know|go through|went through a lot"
)
_MOODS = (
    "glad|sorry|happy|sad|proud|here|sure|excited|thrilled|stoked|pumped|grateful|thankful|"
    "lucky(?! to have (?:my|a|two|three))|amazed|blown|blessed(?! with (?:a|two|three|my))|ready|"
    "back(?! from)|down|in$|good|great|fine|ok|okay|busy(?! \\w+ing)|swamped|tired|nervous|"
    "worried|relieved|curious|hoping(?! to (?:get|become|start|move|visit|open|buy|adopt|learn))|"
    "hopeful|wondering|honou?red|impressed|inspired|motivated|determined|committed|dedicated|"
    "driven|starting to|getting there|looking forward|feeling|off|free|done|fulfilled|accepted|"
    "loved|liberated|empowered|like|bummed|upset|frustrated|stressed|overwhelmed|touched|moved by|"
    "surprised|shocked|psyched|hyped|eager|confident|delighted|pleased|having fun|having a|"
    "enjoying (?:it|them|myself)|doing (?:well|great|good|fine|ok|okay|my best|it)|all ears|all "
    "set|about to|focusing on (?:the|my|our|what)|doing (?:my|our) part|always (?:here|happy|"
    "excited|up|looking)|up for|open to(?! \\w+ing)|game for|with you|going to (?:keep|try|check|"
    "make sure|let|think|see|go now|give|do|be|get|find|start|go|take|look|miss|stick|push|"
    "continue|need|make)|hooked(?! on)|missing|keeping (?:my|our|up)|being (?:\\w+ )?careful|"
    "staying|embarrassed|getting (?:motivated|excited|into it|there)|counting on|lost|alone|"
    "trying to (?:stay|keep|be|take|find|think|see|get)|torn|stuck|scared|freaked|on it|making "
    "(?:a|progress)|giving|right|wrong|late|jealous|able(?! to \\w+ (?:an?|the|my|our|two|"
    "some)\\b)|kidding|speechless|much happier|happier|meeting|passionate about (?:helping|making|"
    "it|this|that|creating)|getting (?:better|used|closer)|individual|amazing|full of|thinking "
    "(?:that|of you)|keen to (?:hear|see|know)|thinking about (?!\\w+ing|a |an )\\w+|always "
    "thinking"
)
_THIN = re.compile(
    rf"(?:I|we)(?:'ve|'d)?{_ADVERBS} ?(?:{_THIN_VERBS})(?![\w-])|{_AM}{_ADVERBS} sorry\b"
    r"|we (?:\w+ ){0,2}(?:back|push|support|help|trust|have|pushing|supporting)(?: up)? (?:each "
    r"other|one another)",
    re.IGNORECASE,
).match
"""Matches the start of clauses that are not worth keeping, whatever follows."""
_VAGUE = re.compile(
    rf"{_AM}{_ADVERBS} (?:{_MOODS})(?![\w-])(?!.*\b(?:when|after|because|since) (?:my|our)\b)"
    r"|we(?:'re)? (?:all|are) (?!(?:made|went|got|moved|planning|going|getting|having|both)\b)",
    re.IGNORECASE,
).match
"""Matches the start of clauses that state a mood.

Such a clause is kept only if it has a name, a number, a quotation or a time such as "yesterday".
"""
_CHAT = re.compile(
    r"\bsince (?:we|I) (?:last )?(?:talked|spoke|chatted|met)\b|\b(?:last|our) (?:chat|talk|"
    r"conversation)\b"
    r"|\b(?:let me|let's|can't wait|check (?:it|them|this|that|out)|take a look|keep in touch|"
    r"good luck)\b"
    r"|^my [\w' ]{1,30} can\b|\b(?:somewhere (?:fun|nice|cool|new)|speaking of|when things get|"
    r"when times|no worries|no matter|for sure|just in case)\b"
    r"|^(?>.*?\b(?:haven't|hasn't|didn't|don't have|have no)\b).*\b(?:yet|lately|much|any|"
    r"anything|as any|coming up)\b",
    re.IGNORECASE,
)
_PRAISE = (
    "amazing|awesome|great|good|nice|cool|fun|incredible|wonderful|fantastic|beautiful|lovely|"
    "tough|hard|rewarding|inspiring|special|important|powerful|crazy|unreal|perfect|best|exciting|"
    "excited|happy|intense|unforgettable|interesting|enlightening|emotional|overwhelming|calming|"
    "relaxing|therapeutic|everything|worth it|worthwhile|fulfilling|satisfying|challenging|"
    "magical|priceless|breathtaking|gorgeous|stunning|delicious|tasty|yummy|adorable|cute|sweet|"
    "super|insane|epic|huge|key|vital|essential|crucial|well|better|okay|ok|fine|ridiculous|there "
    "for me|rocks?|strength|courage|scary|wild|fast|solid|legendary|supportive|a (?:[\\w-]+ "
    "){0,3}?(?:blast|success|experience|feeling|time|journey|reminder|boost|rush|pleasure|joy|hit|"
    "challenge|moment|way|surprise|relief|honou?r|privilege|treat|game.changer|dream|bad start|"
    "great start|good start)"
)
_COUNTS_FOR_LITTLE = re.compile(
    r"^(?:[Mm]y|[Oo]ur|[Ii]t|[Tt]hey|[A-Z][\w'-]+|[Tt]he)(?: [\w'&-]+){0,6}?(?:'s|'re|'s been|'ve "
    r"been| (?:is|are|was|were|has been|have been|looks?|looked|seems?|turned out|went|feels?|"
    r"felt|sounds?|tasted?|makes?|give[sn]?|got off to))(?: (?:so|really|very|super|pretty|such|"
    r"just|always|also|truly|absolutely|definitely|all|quite|a lot of|lots of|to be|the|still|"
    r"going|been|simply|too|kind of|me|it|us))* "
    rf"(?:{_PRAISE})\b[^0-9]*$"
)
_KEEPS = re.compile(
    r"\b(?:I|[Ww]e)(?:'ve| have|'m| am)?(?: (?:really|also|always|still|never|just|actually|"
    r"absolutely|into|a|big|huge|been|all|both|finally|"
    "even|recently))* (?:"
    "do|doing|did|enjoying|loving|love|like|hate|enjoy|prefer|adore|dislike|cherish|can't "
    "(?:stand|eat|drink)|don't (?:like|eat|drink|have|own|smoke|drive)|own|have|got|play|"
    "study|teach|collect|speak|work|live|keep|kept|studied|played|worked|lived|grew|moved|"
    "quit|adopted|married|fan of|into|allergic|vegan|vegetarian|joined|started|writing|"
    "learning|playing|reading|training|teaching|coaching|practi[cs]ing|volunteering|painting|"
    "running|dating|raising|studying|used to (?:love|play|work|live|be|have|own)"
    r")\b|\ballergic\b|\bmy (?:favou?rite|fave|name|birthday|job)\b|(?:'d|\bwould) love to\b|"
    r"\bwent \w+ing\b"
    r"|\bI(?:'m| am| was) an? |\bI never \w"
    r"|\b(?:got|was|am|'m) (?:married|engaged|promoted|hired|fired|divorced|accepted|born|drafted|"
    r"diagnosed|raised|elected|retired)\b|\bon my (?:\w+ )?list\b"
    r"|\b(?:helps?|allow(?:s|ed)|lets|taught|teach(?:es)?) me\b|\b(?:fave|favou?rite|hobby|"
    r"passion|go-to)\b"
)
_NAMES = re.compile(r"(?<=[\w,'\"-] )[\"']?[A-Z][\w'-]*[a-zA-Z0-9]|\d|(?<=[\w,] )\"")
_NOT_NAMES = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|My|We|We're|We've|Our|OK|TV)\b")
_DATED = re.compile(
    r"\b(?:yesterday|tomorrow|tonight|last night|ago|(?:last|next|this) (?:week|weekend|month|"
    r"year|summer|winter|spring|fall|autumn|\w+day))\b"
)
_EMPTY = frozenset(
    "i i'm i've i'd i'll my me mine myself we we're we've we'll us our ours ourselves a an the "
    "this that these those it its it's they them their he him his she her there here who which "
    "what when where why how while because since as if so than then though although and or but "
    "nor not no yes of in on at to from for with by about into over under out up down off through "
    "during after before between around like along without within across toward towards against "
    "until too also just really very still ever never always often sometimes usually lately "
    "recently now today again already even only quite pretty super totally definitely actually "
    "finally together way more most much many few some any all both each every other another own "
    "same such lot lots bit little whole am is are was were be been being have has had having do "
    "does did doing done can could will would should may might must get gets got getting gotten "
    "go goes going went gone come comes coming came make makes making made take takes taking took "
    "give gives giving gave keep keeps keeping kept try trying tried want wants wanted need needs "
    "needed know knows knew see sees seeing saw seen look looks looking looked think thinking "
    "thought feel feels feeling felt say said tell told let help helps helping helped show shows "
    "showing showed find finds finding found put use using used start starting started love loved "
    "loving liked enjoy enjoyed enjoying hope hoping wish thing things stuff something anything "
    "everything nothing someone anyone everyone people person place places time times moment "
    "moments day days life lives world part kind sort type types idea ideas point step steps "
    "difference impact progress change changes experience experiences feelings emotion emotions "
    "support happiness joy fun blast journey journeys challenge challenges opportunity "
    "opportunities chance effort efforts dedication passion passions passionate growth success "
    "future hopes strength courage inspiration motivation memory memories vibe vibes news update "
    "updates chat talk pic photo picture great amazing awesome good nice cool wonderful fantastic "
    "incredible best better beautiful lovely special important powerful crazy perfect exciting "
    "excited happy glad proud lucky grateful thankful inspiring inspired rewarding real right "
    "true sure new big small long hard tough different important positive huge able ready back "
    "others goal goals dream dreams skill skills mind heart fact matter reason reasons ways issue "
    "issues result results side end beginning forward ahead far close deep strong loads tons "
    "plenty bring brings bringing brought learn learned learning share shared sharing connect "
    "connecting connected connection connections bond focus focused stay staying stayed remind "
    "reminds reminded balance peace energy power meaning means mean confidence perspective "
    "interesting worked till last next win wins opponents battle reading read usual ton inspiring "
    "book books series movie movies song songs event route spot city dish recipe recipes cool "
    "second stories scare tasty yummy somewhere later recent tour rides ride yesterday tomorrow "
    "tonight week weekend month year years weeks months ago ages haven't hasn't didn't don't "
    "doesn't isn't wasn't self game games complicated challenging fulfilling wild intense "
    "adventure period short".split()
)
_TOKEN = re.compile(r"[a-z][a-z'-]+|\d+")


def is_worth_keeping(clause: str) -> bool:
    """Return whether the clause states something lasting, which is worth a memory."""
    if _is_thin(clause):
        return False
    particular = _is_particular(clause) or _KEEPS.search(clause) is not None
    return len(content_words(clause)) >= (1 if particular else 2)


def content_words(clause: str) -> set[str]:
    """Return the words and numbers of the clause, in lower case, that say something particular.

    Function words, praise ("great") and vague words ("thing", "experience") are left out.
    """
    return set(_TOKEN.findall(clause.lower())) - _EMPTY


def _is_thin(clause: str) -> bool:
    if _CHAT.search(clause) or (
        _COUNTS_FOR_LITTLE.match(clause) and not re.search(r"\bfor me\b", clause)
    ):
        return True
    subject = _FIRST_SUBJECT.search(clause)
    if subject is None:
        return False
    is_vague = _VAGUE(clause, subject.start()) and not _is_particular(clause)
    return bool(_THIN(clause, subject.start()) or is_vague)


def _is_particular(clause: str) -> bool:
    named = _NAMES.search(_NOT_NAMES.sub("", clause))
    return named is not None or _DATED.search(clause) is not None


# --- kept as it was said --------------------------------------------------------------------------

_MENTION = re.compile(r"^(?:(?:<[@#]!?\w+>|@[\w.-]+)[,:]?\s+)+")
_LEAD = re.compile(
    r"^(?:(?:fyi|btw|by the way|just so you know|so you know|for the record|update|quick update|"
    r"quick note|no wait|wait|sorry|idk if I told you|not sure if I told you|did I mention|"
    r"did I tell you|hey \w+|ok \w+(?=,))\b[,:;]?\s+(?:but |that )?)+(?=\S+ \S)",
    re.IGNORECASE,
)
_SPELLINGS = [
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"(?<![\w'])im (?!going to sleep)", "I'm "), (r"(?<![\w'])ive ", "I've "),
        (r"\b(do|does|did|is|was|have|has|ca|wo)nt\b", r"\1n't"),
        (r"[,.!]? (?:btw|lol|haha|fyi|tbh)(?=[.!]*$)", ""),
    )
]  # fmt: skip
_CORRECTS = re.compile(
    r"^(?:actually|correction|no,|no wait|wait,|sorry,|I mean|i meant|rather)\b", re.IGNORECASE
)
_FACTUAL = re.compile(
    r"\d(?!%)|(?<=[\w,'] )[\"“'@]?(?!I\b|I['’]|OK\b|TV\b)[A-Z][\w@-]*[a-z]|(?<![\w.])[\w.]++@\w"
    r"|\b(?:allergic|vegan|vegetarian|pregnant|diabetic)\b"
)
_LITERAL = re.compile(
    r"\d++(?!%)|(?<!\w)[@#]\w|[a-z][A-Z]|\w_\w|\b(?:allergic|vegan|vegetarian|pregnant|diabetic)\b"
)
_ABOUT_YOU = re.compile(r"\b(?:you|your|u|ya|thanks|thank|congrats|wow|good luck)\b", re.IGNORECASE)
_BEGINS_WITH_SELF = re.compile(r"^(?:I|I['’]m|I['’]ve|my|we|our)\b", re.IGNORECASE)
_JOINT = re.compile(r", (?:and |but |so )?")
_SELF = re.compile(r"\b(?:I|I'm|I've|i|my|mine|me|our|we)\b")
_TALK = re.compile(
    r"\b(?:you|your|u|ya|thanks|thank|congrats|wow|hope|good luck|let me|let's|can't wait|what|how|"
    r"agree|appreciate|that picture|this is)\b|^wh(?!en|ile)",
    re.IGNORECASE,
)
_VOCATIVE = re.compile(r"^(?:\w+ ){0,2}\w+, [A-Z]\w+[,!]|^[A-Z]\w+,|, [A-Z]\w+[.!]*$")
_SHORTEST, _LONGEST, _FEWEST, _FEWEST_TELLING = 2, 40, 3, 2
"""How many words a sentence that is kept as it was said has, at least and at most."""


def is_question(text: str) -> bool:
    """Return whether the text ends with a question mark.

    >>> is_question("Does Mia row?")
    True
    """
    return text.rstrip().endswith(("?", "？"))


def is_talk(sentence: str) -> bool:
    """Return whether a sentence asks, exclaims, or talks to the listener.

    >>> is_talk("Thank you."), is_talk("He was called Rex.")
    (True, False)
    """
    ends = sentence.rstrip().endswith(("!", "！"))
    return is_question(sentence) or ends or _TALK.search(sentence) is not None


def without_mention(sentence: str) -> str:
    """Return a sentence without the mentions at its beginning."""
    return _MENTION.sub("", sentence.strip())


def without_lead(sentence: str) -> str:
    """Return a sentence without what stands before its fact, in the usual spelling.

    >>> without_lead("<@99> fyi im 34 btw")
    "I'm 34"
    """
    bare = _LEAD.sub("", without_mention(sentence))
    for pattern, plain in _SPELLINGS:
        bare = pattern.sub(plain, bare)
    return bare


def is_kept_as_said(sentence: str, bare: str) -> bool:
    """Return whether a sentence that the rules cannot rewrite may state a fact of its speaker.

    `bare`: the sentence without greetings. A question is never kept, and neither is an exclamation
    without "I", a number or a handle. In English, small talk is left out too; of other languages
    the rules know too little.

    >>> [is_kept_as_said(said, said) for said in ("Kann kein Gluten essen", "Wer kann kochen?")]
    [True, False]
    """
    words = len(sentence) // 2 if has_cjk(sentence) else len(sentence.split())
    if is_question(sentence) or words > _LONGEST or "\ufffd" in sentence:  # bytes of no text
        return False
    is_english = language_of(sentence) == ENGLISH or may_be_english(sentence)
    if not is_english and tells_of_self(sentence, in_english=False):
        return True
    if words < _SHORTEST:
        return False
    if _CORRECTS.match(sentence) and _FACTUAL.search(sentence):
        return True
    to_you = _ABOUT_YOU.search(sentence) and not _BEGINS_WITH_SELF.match(sentence)
    if _LITERAL.search(sentence) and not to_you:
        return True
    if sentence.rstrip().endswith(("!", "！")) and not _SELF.search(sentence):
        return False
    if not is_english:
        return words >= _FEWEST
    return not _TALK.search(sentence) and _tells(sentence) and _is_whole(bare)


def _tells(sentence: str) -> bool:
    """Return whether an English sentence may tell of its speaker, even if it has no subject."""
    tells = _BEGINS_WITH_SELF.match(sentence) or _SELF.search(sentence)
    if tells or _FACTUAL.search(_VOCATIVE.sub("", sentence)):
        return True
    words = {word for word in _WORD.findall(sentence.lower()) if word[0].isalpha()}
    known = NEGATIONS | TEMPORAL | _PEOPLE | MONTHS.keys()
    stems = {word.partition("'")[0] for word in words}
    may_be_foreign = len(words) >= _FEWEST and stems.isdisjoint(_EMPTY)
    plain = words | {plain_form(word).word for word in words}
    return may_be_foreign or any(word in known or word.endswith("n't") for word in plain)


def _is_whole(bare: str) -> bool:
    return any(
        len(content_words(part)) >= _FEWEST_TELLING
        and stands_alone(part)
        and (part == bare or _BEGINS_WITH_SELF.match(part))
        and (is_worth_keeping(part) if _FIRST_SUBJECT.match(part) else not _is_thin(part))
        for part in (bare, *_JOINT.split(bare))
    )
