"""Words that say the same: a small thesaurus of everyday English, tight on purpose.

Two words stand in one group only where a reader of one loses nothing that the other told. Shades
(like and love, warm and hot, some and many) and kinds (dog and poodle) are different words.
"""

from __future__ import annotations

_GROUPS = """
kid child|trip journey|recently lately|often frequently|happy glad joyful cheerful|
grateful thankful|lovely beautiful gorgeous|help assist aid|job work|big large|huge enormous giant
immense gigantic|small little|tiny minuscule|begin start commence|finish complete conclude|
buy purchase|film movie|picture photo photograph|sofa couch|car automobile|doctor physician|
angry mad furious|quick fast rapid speedy swift|quickly rapidly swiftly speedily|
scared afraid frightened|sad unhappy sorrowful|smart clever intelligent|hard difficult|
easy simple effortless|important significant|sick ill unwell|talk chat converse|speak|
fix repair mend|choose select pick|need require|let allow permit|answer reply respond|
keep retain|show display|end|ask inquire enquire|build construct|create produce|
gather collect assemble|receive obtain|give provide supply|like enjoy|adore cherish|
hate detest loathe despise|dislike|present gift|mistake error|idea notion|goal aim objective|
area region|street road|shop store|house home|flat apartment|
garbage trash rubbish|holiday vacation|fall autumn|lift elevator|sweets candy|
cookie biscuit|bicycle bike|plane airplane aircraft|boat|phone telephone|fridge refrigerator|
tv television telly|exam examination|lab laboratory|gym gymnasium|advert advertisement ad|
kitten|puppy pup|bunny rabbit|infant baby|teenager teen adolescent|buddy pal friend|
spouse|mother mom mommy|father dad daddy|grandmother grandma granny|grandfather grandpa granddad|
woman lady|man guy|boss supervisor|colleague coworker|attorney lawyer|teacher instructor|
author writer|writing|well-known famous renowned|rich wealthy affluent|poor impoverished|
tired exhausted weary|calm peaceful tranquil serene|quiet silent|loud noisy|
delicious tasty yummy|amazing incredible astonishing|wonderful marvelous fantastic terrific|
awesome|great excellent superb|nice pleasant|awful terrible horrible dreadful|
interesting fascinating|boring dull tedious|funny amusing humorous|strange odd weird peculiar|
entire whole|complete|correct accurate|right|wrong incorrect|certain sure|
brave courageous|kind|friendly amiable|polite courteous|rude impolite|honest truthful|
lazy idle|shy timid bashful|stubborn obstinate|careful cautious|careless reckless|
proud|anxious nervous worried|upset|excited thrilled|surprised astonished amazed|
pleased delighted|lonely lonesome|wish|think believe|understand comprehend|
remember recall recollect|forget|learn|discover|realize|notice|observe|
watch|look|glance|stare gaze|hear|listen|say state|tell|mention|explain clarify|describe|
discuss|argue quarrel|agree concur|disagree|suggest propose|recommend|advise counsel|
encourage motivate|support|thank|congratulate|praise commend|criticize|
jump leap hop|run|jog|walk stroll|hike trek|climb|swim|ride|drive|fly|travel|
wander roam|hurry rush hasten|arrive|depart|leave|enter|exit|return|visit|meet encounter|
stay remain|wait|sit|rest relax|sleep slumber|wake|cook|bake|fry|boil|slice|chop|
consume|drink|taste|smell|touch|throw toss hurl|catch|kick|hit strike|push shove|pull tug|
carry|bring|fetch|send|deliver|mail post|call ring|own possess|get|lose|find locate|
search seek|hide conceal|reveal|protect guard|defend|attack assault|save rescue|
hire employ|dismiss|earn|spend|cost|pay|sell|rent lease|borrow|lend loan|
close shut|open|lock|cover|fill|empty|wash|clean|tidy|organize arrange|sort|
grow|shrink|expand enlarge|increase|decrease reduce lessen|improve enhance|worsen|
change alter modify|replace substitute|add|remove|delete erase|join|attach fasten|
separate|divide|connect link|mix blend|combine|hold grip grasp|seize grab snatch|
happen occur|cause|result outcome|reason|purpose|method technique|
shout yell scream|whisper|cry weep sob|laugh giggle chuckle|smile grin|frown|
soon shortly|immediately instantly|finally eventually ultimately|usually normally typically
generally|always constantly|especially particularly|approximately roughly|nearby|
outdoors outside|indoors|near beside|everybody everyone|somebody someone|anybody anyone|
almost|enough sufficient|several some various|many numerous|additional further|
moreover furthermore additionally|however nevertheless nonetheless|therefore thus hence
consequently|because since|although though|while whereas|
ache pain|injury wound|illness sickness disease|medicine medication|
cash money|salary wage|meal|dinner supper|snack|beverage|soda pop|
hobby pastime|contest competition|prize award|party celebration|
song tune|crowd throng|group bunch|pair couple|
rock stone|forest woods|sea ocean|shore coast|hill|stream brook creek|path trail|
storm tempest|fog mist|
clothes clothing apparel|pants trousers|sneakers trainers|sweater jumper pullover|hat|cap|
rug carpet|drapes curtains|faucet tap|stove cooker|oven|cup|mug|
new|old|ancient|modern contemporary|young youthful|elderly aged|
dirty filthy|wet damp moist|dry arid|hot|warm|cold chilly|cool|
bright|dark dim|heavy|light|thick|thin|wide broad|narrow|deep|shallow|tall|short|
hungry famished|thirsty|full|
goal|aspiration ambition|challenge|problem issue|trouble difficulty|
attempt|effort|success achievement accomplishment|failure|
chance opportunity|risk danger peril|safe secure|
sign indication|symbol emblem|story tale narrative|book|magazine|newspaper|
performance show|stage|concert|gig|
determined resolute|passionate ardent|keen eager|
damage harm|destroy ruin demolish|break smash|tear rip|
rely depend|trust|respect esteem|admire|envy|
amazed|tranquility serenity|joy delight happiness|sorrow sadness grief|anger rage fury|
fear fright|courage bravery|strength power|weakness|wisdom|
beneficial helpful useful|harmful|vital essential crucial|necessary required|optional|
rare uncommon scarce|common|usual|unusual uncommon|
different distinct|similar alike|same identical|
main primary principal chief|secondary|extra|final|initial|
annual yearly|monthly|weekly|daily|hourly|
dwell reside live|inhabit|settle|move relocate|
marry wed|divorce|engaged betrothed|pregnant expecting|die|
study|graduate|teach instruct|train coach|practice rehearse|
attend|participate partake|host|organise|plan|schedule|
inspire|impress|persuade convince|force compel|order command|forbid prohibit ban|
permission consent|approve|reject|accept|offer|refuse|
gorgeous|ugly hideous|handsome|pretty|
unit|piece|part portion|whole|half|
"""


def _representatives(groups: str) -> dict[str, str]:
    """Each word's group by its first word; a word that two groups claim stays with the first."""
    found: dict[str, str] = {}
    for group in groups.replace("\n", " ").split("|"):
        words = [word for word in group.split() if word not in found]
        found.update(dict.fromkeys(words, words[0]) if len(words) > 1 else {})
    return found


SAME_AS = _representatives(_GROUPS)
"""A word's plain form -> the word that stands for its group."""
