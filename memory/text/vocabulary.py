"""Lists of words: negations, fillers, numbers, words that change a statement, and synonyms."""

from __future__ import annotations

from memory.text.languages import GRAMMARS, with_all_languages

NOT = "not"

NEGATIONS = with_all_languages(
    "not no never none nobody nothing neither nor nowhere without cannot nope "
    "ne pas jamais sans aucun aucune nunca jamás ningún ninguna não sem sin nessuno senza "
    "niet geen nooit zonder inte aldrig utan ikke aldri uten uden nigdy не нет без",
    lambda grammar: grammar.negations,
)
"""Words for "not" in many languages."""
NEGATING_HAN = frozenset("不没沒未无無非别別勿")

TURNING = with_all_languages(
    "was were had once formerly previously barely hardly scarcely almost nearly only might may "
    "maybe perhaps probably possibly presumably apparently reportedly allegedly could would "
    "should "
    "must if unless whether or except excluding besides unlike instead until till yet rarely "
    "seldom sometimes occasionally partly partially half former ex vice deputy fake false future "
    "hope want wish plan intend consider will going stop quit cease refuse fail avoid lack deny "
    "decline pretend claim try attempt endeavor forget cancel doubt dream imagine envision wonder "
    "expect promise desire regard "
    "suppose hesitate threaten seem appear",
    lambda grammar: grammar.turning,
)
"""Words that change the whole statement, such as "maybe", "former" and "hope".

The dictionary form of a verb, such as "hope", stands for all forms of the verb.
"""

FILLERS = frozenset(
    "a an the and but that this these those there then so which who whom whose also just very "
    "really quite too truly absolutely definitely totally extremely completely actually certainly "
    "simply literally genuinely deeply honestly highly incredibly super rather pretty indeed "
    "again "
    "is are am be being it its itself own such "
    "well oh yes".split()
)
"""Words that can usually be left out; the exceptions are in `SHADES` and `EMPHASES`."""

SHADES = frozenset(
    "just very quite too extremely incredibly highly super rather pretty again such own well "
    "then so totally completely".split()
)
"""The words of `FILLERS` that do have a meaning, such as "very" in "a very tall tree"."""

EMPHASES = frozenset(
    "really truly absolutely definitely actually certainly simply literally genuinely deeply "
    "honestly indeed".split()
)
"""The words of `FILLERS` that matter after a negation: "not really" is weaker than "not"."""

GOVERNING = {
    word: word
    for word in "of in on at into onto within for with by about as to from than over through "
    "across".split()
}  # fmt: skip

NARROWING = frozenset(
    # quantity
    "all every each everyone everybody everything everywhere both most many few fewer fewest "
    "any anyone anybody anything either neither exactly precisely always majority minority "
    "enough only alone sole whoever whatever hundred percent per "
    "mostly mainly largely chiefly predominantly somewhat virtually practically "
    # polarity that is no negation
    "hate detest loathe despise dislike fear ban prevent forbid prohibit reject against avoid "
    "refuse lack fail deny decline doubt cancel rarely seldom hardly barely "
    "scarcely nearly almost less least miss forget nor "
    # comparison, rank, and what is not so yet
    "than more same better best worse worst favorite favourite first second third fourth fifth "
    "sixth last next other another ultimate main primary unique such before instance "
    "example".split()
)
"""English words such as "all", which can make a longer text state less than a shorter text.

"All big cats" says less than "all cats".
"""

QUALITIES = frozenset(
    "black white grey gray red green blue yellow orange brown pink purple "
    "small little tiny big large huge tall young".split()
)
"""English adjectives that leave a thing what it is. Many do not: a void contract is none."""

CONDITIONS = frozenset(
    "if unless whether case provided providing assuming supposing otherwise when whenever or else "
    "lest except excluding besides unlike instead until till".split()
)

DOUBTS = frozenset(
    "might may could would should must ought perhaps maybe probably possibly presumably apparently "
    "reportedly allegedly supposedly likely unlikely potentially think guess suppose "
    "presume assume imagine claim allege suggest seem appear wonder "
    "hope wish want expect plan intend consider hesitate try attempt promise threaten pretend "
    "dream need deem opinion according rumor".split()
)

REPORTS = frozenset("say tell believe ask hear report suspect know".split())

CAUSAL_NOUNS = frozenset(
    "account sake view light hope fear reason cause behalf case order purpose".split()
)
"""Nouns that state a cause or purpose after a preposition: on account of the noise."""

RELATIONAL = frozenset(
    "mother father parent brother sister sibling son daughter child wife husband uncle aunt cousin "
    "niece nephew grandmother grandfather friend boss colleague neighbor teacher doctor owner name "
    "address birthday".split()
)

POSITIVE_EST = frozenset(
    "west rest test guest forest interest request protest honest modest harvest nest chest contest "
    "pest vest invest arrest digest dishonest zest manifest conquest east breast priest feast "
    "beast yeast roast toast coast guest northwest southwest".split()
)

NO_ADVERBS = frozenset(
    "family friendly lovely lonely early daily weekly monthly yearly hourly nightly quarterly only "
    "ugly silly holy elderly likely unlikely lively costly deadly cowardly orderly fatherly "
    "motherly brotherly sisterly worldly curly hilly chilly oily woolly jolly jelly belly bully "
    "ally rally assembly butterfly reply supply apply rely fly july italy multiply imply comply "
    "anomaly monopoly melancholy lily tally folly dolly trolley gully unfriendly scholarly "
    "hardly barely scarcely nearly simply merely mostly partly possibly probably supposedly "
    "reportedly allegedly apparently usually normally typically generally evidently seemingly "
    "jokingly ironically theoretically technically officially".split()
)
"""Words that end in -ly but are not adverbs of manner: moving them may change a statement."""

PRONOUNS = {
    word: person
    for person, words in {
        "I": "i me my mine myself",
        "you": "you your yours yourself",
        "he": "he him his himself",
        "she": "she her hers herself",
        "we": "we us our ours ourselves",
        "they": "they them their theirs themselves",
    }.items()
    for word in words.split()
}

ORDINALS = {
    word: str(value)
    for value, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
        "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth "
        "twentieth".split(),
        start=1,
    )
} | {"thirtieth": "30"}

NUMBERS = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "dozen": 12}

MONTHS = {
    name: full
    for full, names in {
        "january": "january jan", "february": "february feb", "march": "march",
        "april": "april apr", "june": "june jun", "july": "july jul", "august": "august aug",
        "september": "september sep sept", "october": "october oct", "november": "november nov",
        "december": "december dec",
    }.items()
    for name in names.split()
}  # fmt: skip
MONTH_NAMES = tuple(
    "january february march april may june july august september october november december".split()
)
MONTH_SET = frozenset(MONTH_NAMES)

WEEKDAYS = {
    name: full
    for full, names in {
        "monday": "monday mon", "tuesday": "tuesday tue tues", "wednesday": "wednesday wed",
        "thursday": "thursday thu thur thurs", "friday": "friday fri", "saturday": "saturday",
        "sunday": "sunday",
    }.items()
    for name in names.split()
}  # fmt: skip

for _grammar in GRAMMARS.values():
    NUMBERS |= _grammar.numbers
    MONTHS |= _grammar.months
    WEEKDAYS |= _grammar.weekdays

TEMPORAL = MONTH_SET | frozenset(WEEKDAYS.values()) | frozenset(
    "today yesterday tomorrow tonight now morning evening afternoon night noon midnight weekend "
    "week month year day summer winter spring autumn last next every each am pm lately "
    "daily weekly monthly yearly early late".split()
)  # fmt: skip

UNITS = {
    name: unit
    for unit, names in {
        "kilometre": "km kms kilometer kilometers kilometre kilometres",
        "metre": "meter meters metre metres",
        "centimetre": "cm centimeter centimeters centimetre centimetres",
        "millimetre": "mm millimeter millimeters millimetre millimetres",
        "mile": "mi mile miles", "foot": "ft foot feet", "inch": "inch inches",
        "kilogram": "kg kgs kilo kilos kilogram kilograms kilogramme",
        "gram": "gram grams gramme", "milligram": "mg milligram milligrams",
        "pound": "lb lbs pound pounds £ gbp", "ounce": "oz ounce ounces",
        "litre": "liter liters litre litres", "millilitre": "ml milliliter millilitre millilitres",
        "hour": "hr hrs hour hours", "minute": "min mins minute minutes",
        "second": "sec secs seconds", "percent": "% pct percent percents",
        "dollar": "$ usd buck bucks dollar dollars", "euro": "€ eur euro euros",
        "yen": "¥ jpy yen", "degree": "° degree degrees",
        "gigabyte": "gb gigabyte gigabytes", "megabyte": "mb megabyte megabytes",
        "year": "yr yrs year years", "week": "wk wks week weeks",
    }.items()
    for name in names.split()
}  # fmt: skip

PAST = {
    form: base
    for base, forms in (
        entry.split(":")
        for entry in (
            "arise:arose,arisen|awake:awoke,awoken|bear:bore,borne|beat:beaten|become:became|"
            "begin:began,begun|bend:bent|bind:bound|bite:bit,bitten|bleed:bled|blow:blew,blown|"
            "break:broke,broken|breed:bred|bring:brought|build:built|burn:burnt|buy:bought|"
            "catch:caught|choose:chose,chosen|cling:clung|come:came|creep:crept|deal:dealt|"
            "dig:dug|do:did,done|draw:drew,drawn|drink:drank,drunk|drive:drove,driven|"
            "eat:ate,eaten|"
            "fall:fell,fallen|feed:fed|feel:felt|fight:fought|find:found|flee:fled|fly:flew,flown|"
            "forbid:forbade,forbidden|forgive:forgave,forgiven|freeze:froze,frozen|get:got,gotten|"
            "give:gave,given|go:went,gone|grind:ground|grow:grew,grown|hang:hung|hear:heard|"
            "hide:hid,hidden|hold:held|keep:kept|kneel:knelt|know:knew,known|lay:laid|lead:led|"
            "learn:learnt|leave:left|lend:lent|lie:lain|light:lit|lose:lost|make:made|mean:meant|"
            "meet:met|mistake:mistook,mistaken|overcome:overcame|pay:paid|ride:rode,ridden|"
            "ring:rang,rung|rise:rose,risen|run:ran|say:said|see:saw,seen|seek:sought|sell:sold|"
            "send:sent|sew:sewn|shake:shook,shaken|shine:shone|shoot:shot|show:shown|"
            "shrink:shrank|"
            "sing:sang,sung|sink:sank,sunk|sit:sat|sleep:slept|slide:slid|speak:spoke,spoken|"
            "spend:spent|spin:spun|stand:stood|steal:stole,stolen|stick:stuck|sting:stung|"
            "strike:struck,stricken|swear:swore,sworn|sweep:swept|swim:swam,swum|swing:swung|"
            "take:took,taken|teach:taught|tear:tore,torn|tell:told|think:thought|"
            "throw:threw,thrown|"
            "understand:understood|undertake:undertook,undertaken|wake:woke,woken|wear:wore,worn|"
            "weave:wove,woven|weep:wept|win:won|wind:wound|withdraw:withdrew,withdrawn|"
            "write:wrote,written"
        ).split("|")
    )
    for form in forms.split(",")
}

SAME_IN_PAST = frozenset(
    "bet burst cost cut hit hurt let put read set shut split spread thrust upset".split()
)

IRREGULAR_PLURALS = {
    "children": "child", "men": "man", "women": "woman", "feet": "foot", "teeth": "tooth",
    "mice": "mouse", "geese": "goose", "wives": "wife", "knives": "knife", "lives": "live",
    "leaves": "leave", "shelves": "shelf", "wolves": "wolf", "halves": "half",
}  # fmt: skip
NOT_INFLECTED = frozenset(
    "morning evening nothing something anything everything during wedding ceiling sibling hundred "
    "sacred naked wicked species series news always perhaps sometimes besides towards afterwards "
    "mathematics physics economics politics athletics texas paris james thomas charles "
    "christmas canvas atlas ms mrs his this thus plus bus gas yes less pass".split()
)
SPELLINGS = {
    "has": "have",
    "grey": "gray", "centre": "center", "theatre": "theater", "colour": "color",
    "favourite": "favorite", "favour": "favor", "neighbour": "neighbor", "humour": "humor",
    "honour": "honor", "labour": "labor", "flavour": "flavor", "harbour": "harbor",
    "behaviour": "behavior", "organise": "organize", "realise": "realize", "defence": "defense",
    "recognise": "recognize", "apologise": "apologize", "licence": "license", "tyre": "tire",
    "programme": "program", "jewellery": "jewelry", "pyjamas": "pajamas", "cheque": "check",
    "travelling": "traveling", "travelled": "traveled", "ok": "okay", "mum": "mom",
    "catalogue": "catalog", "dialogue": "dialog", "aeroplane": "airplane", "plough": "plow",
}  # fmt: skip
CONTRACTED = {
    "gonna": "going", "wanna": "want", "gotta": "must", "lemme": "let", "kinda": "kind",
    "havent": NOT, "dont": NOT, "doesnt": NOT, "didnt": NOT, "isnt": NOT, "wasnt": NOT,
    "cant": NOT, "wont": NOT, "arent": NOT, "werent": NOT, "hasnt": NOT, "hadnt": NOT,
    "couldnt": NOT, "wouldnt": NOT, "shouldnt": NOT, "aint": NOT,
}  # fmt: skip

BE = frozenset({"is", "are", "be", "been", "being", "am"})
WAS = frozenset({"was", "were"})
AUXILIARIES = frozenset({"have", "do"})
WHICH = frozenset({"which", "that", "who"})

# --- a small thesaurus of everyday English, strict on purpose -------------------------------------

_GROUPS = """
kid child|trip journey|concert gig|film movie|photo photograph|sofa couch|car automobile|
doctor physician|mistake error|apartment flat|garbage trash rubbish|bicycle bike|
plane airplane aeroplane|fridge refrigerator|tv television telly|
advert advertisement|puppy pup|bunny rabbit|baby infant|teenager teen|friend pal buddy|
mother mom mommy|father dad daddy|grandmother grandma granny|grandfather grandpa granddad|
colleague coworker|lawyer attorney|illness sickness|medicine medication|
dinner supper|prize award|forest woods|sweater pullover|curtains drapes|
achievement accomplishment|danger peril|courage bravery|joy happiness|permission consent|
result outcome|duty obligation|income earnings|pain ache|crowd throng|somebody someone|
everybody everyone|anybody anyone|help assist|begin start|buy purchase|repair mend fix|
choose select|allow permit|understand comprehend|remember recollect|jump leap|hurry rush hasten|
sleep slumber|shout yell|cry weep|smile grin|destroy demolish|delete erase|happen occur|
marry wed|participate partake|persuade convince|force compel|forbid prohibit|scare frighten|
surprise astonish|annoy irritate|forgive pardon|notify inform|agree concur|expand enlarge|
lend loan|recently lately|often frequently|grateful thankful|happy glad|big large|
huge enormous gigantic immense|tiny minuscule|fast quick rapid|quickly rapidly swiftly|
clever intelligent|sick ill unwell|famous renowned|rich wealthy affluent|delicious tasty yummy|
entire whole|wrong incorrect|brave courageous|polite courteous|rude impolite|shy timid|
stubborn obstinate|careful cautious|messy untidy|vague unclear|expensive costly pricey|
cheap inexpensive|silly foolish|annually yearly|outdoors outside|soon shortly|immediately instantly|
suddenly abruptly|sometimes occasionally|rarely seldom|formerly previously|
hardly barely scarcely|maybe perhaps|almost nearly|stop cease|many numerous|near nearby|
although though|however nevertheless nonetheless|moreover furthermore additionally|
therefore thus hence consequently
"""

GROUPS = tuple(tuple(group.split()) for group in _GROUPS.replace("\n", "").split("|"))
"""Groups of synonyms in dictionary form.

Two words are in one group only if they can replace each other in every everyday sense. These
cannot: like and love (degree), finish and end (one sense), dog and poodle (generality).
"""

SAME_AS = {word: group[0] for group in GROUPS for word in group}
