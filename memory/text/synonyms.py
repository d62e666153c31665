"""Words that say the same: a small thesaurus of everyday English, tight on purpose.

Two words stand in one group only where a reader of one loses nothing that the other told. Shades
(like and love, warm and hot, some and many) and kinds (dog and poodle) are different words.
"""

from __future__ import annotations

_THINGS = """
kid child youngster|trip journey voyage|job work profession occupation|advice guidance|
party celebration|concert gig|people folk|workout exercise|match game|film movie|
picture photo photograph snapshot|sofa couch|car automobile|doctor physician|present gift|
mistake error|idea notion concept|goal aim objective target|area region|street road|shop store|
house home|flat apartment|garbage trash rubbish|holiday vacation|fall autumn|lift elevator|
sweets candy|cookie biscuit|bicycle bike|plane airplane aircraft|phone telephone|
fridge refrigerator|tv television telly|exam examination|lab laboratory|advert advertisement|
puppy pup|bunny rabbit|baby infant|teenager teen adolescent|friend pal buddy|mother mom mommy|
father dad daddy|grandmother grandma granny|grandfather grandpa granddad|woman lady|man guy|
boss supervisor|colleague coworker|lawyer attorney|teacher instructor|author writer|pain ache|
injury wound|illness sickness disease|medicine medication|money cash|dinner supper|beverage drink|
hobby pastime|contest competition|prize award|song tune|crowd throng|group bunch|pair couple|
forest woods|shore coast|clothes clothing apparel|pants trousers|sneakers trainers|
sweater jumper pullover|rug carpet|curtains drapes|faucet tap|stove cooker|aspiration ambition|
problem issue|trouble difficulty|achievement accomplishment|chance opportunity|danger peril|
symbol emblem|story tale|sorrow sadness grief|joy happiness|anger rage|fear fright|
courage bravery|strength power|permission consent|reason motive|method technique|result outcome|
conversation chat|memory recollection|passion enthusiasm|skill ability|neighborhood district|
border boundary|assignment task|event occasion|choice option|decision resolution|duty obligation|
want wish desire|plan intend|thought reflection|feeling emotion|location spot|route way|
customer client|expert specialist|staff personnel|company firm|business enterprise|
income earnings|discount rebate
"""

_DEEDS = """
help assist aid|begin start commence|finish complete conclude end|buy purchase|
speak talk converse|fix repair mend|choose select pick|need require|let allow permit|
answer reply respond|keep retain|show display|ask inquire|build construct|make create produce|
gather collect assemble|receive obtain get acquire|give provide|like enjoy|love adore|
hate detest loathe despise|understand comprehend|remember recall recollect|watch view|stare gaze|
say state mention note remark|argue quarrel|agree concur|suggest propose|recommend advise|
encourage motivate|praise commend|jump leap hop|walk stroll|hike trek|wander roam|
hurry rush hasten|depart leave|meet encounter|stay remain|rest relax unwind|sleep slumber|
eat consume|throw toss hurl|hit strike|push shove|pull tug|own possess|find locate|search seek|
hide conceal|protect guard|attack assault|save rescue|hire employ|rent lease|lend loan|close shut|
wash clean|organize arrange|expand enlarge|decrease reduce lessen|improve enhance|
change alter modify|replace substitute|delete erase|join connect|attach fasten|separate divide|
mix blend|combine merge|hold grip grasp|seize grab snatch|happen occur|shout yell scream|
cry weep sob|laugh giggle chuckle|smile grin|damage harm|destroy ruin demolish|break smash|
tear rip|rely depend|respect esteem|appreciate value cherish|live reside dwell|move relocate|
marry wed|teach instruct|train coach|participate partake|persuade convince|force compel|
forbid prohibit ban|accept embrace|use utilize|feel sense|believe think|consider regard|
imagine envision|notice observe|realize recognize|discover uncover|try attempt endeavor|
continue proceed|develop evolve|grow cultivate|celebrate commemorate|forgive pardon|blame accuse|
worry fret|scare frighten|surprise astonish|annoy irritate|comfort console|climb ascend|
cook prepare|chop cut|slice carve|smell sniff|carry transport|send dispatch|mail post|call ring|
notify inform|announce declare|reveal disclose|describe depict|emphasize stress|
reach attain achieve|succeed prosper|compete contend|draw sketch|postpone delay|tie bind
"""

_QUALITIES = """
recently lately|often frequently regularly|happy glad joyful cheerful|
grateful thankful appreciative|beautiful lovely gorgeous|big large|
huge enormous giant immense gigantic massive|small little|tiny minuscule|
fast quick rapid speedy swift|quickly rapidly swiftly speedily|angry mad furious|
scared afraid frightened fearful|sad unhappy sorrowful|smart clever intelligent bright|
hard difficult tough challenging demanding|easy simple effortless|
important significant crucial vital essential|sick ill unwell|famous renowned|
rich wealthy affluent|poor impoverished|tired exhausted weary|calm peaceful tranquil serene|
quiet silent|loud noisy|delicious tasty yummy|
wonderful marvelous fantastic terrific amazing incredible astonishing astounding awesome|
great excellent superb|good fine|nice pleasant|awful terrible horrible dreadful|
interesting fascinating intriguing|boring dull tedious|funny amusing humorous|
fun enjoyable entertaining|strange odd weird peculiar|entire whole|correct accurate right|
wrong incorrect|certain sure|brave courageous|friendly amiable|polite courteous|rude impolite|
honest truthful|lazy idle|shy timid bashful|stubborn obstinate|careful cautious|careless reckless|
nervous anxious worried|excited thrilled|surprised astonished amazed|pleased delighted|
lonely lonesome|usually normally typically generally|always constantly continually|
especially particularly|approximately roughly|soon shortly|immediately instantly|
finally eventually ultimately|suddenly abruptly|currently presently|outdoors outside|
indoors inside|near beside nearby|everybody everyone|somebody someone|anybody anyone|
enough sufficient|several some various|many numerous|additional further extra|
moreover furthermore additionally|however nevertheless nonetheless|
therefore thus hence consequently|because since|although though|while whereas|modern contemporary|
young youthful|elderly aged|dirty filthy|wet damp moist|dry arid|cold chilly|dark dim|wide broad|
hungry famished|safe secure|determined resolute|passionate ardent enthusiastic|keen eager|
helpful useful beneficial|rare uncommon scarce|different distinct|similar alike|same identical|
main primary principal|annual yearly annually|ugly hideous|special unique|strong powerful|
weak feeble|rewarding fulfilling gratifying|inspiring motivating uplifting|supportive encouraging|
memorable unforgettable|stunning breathtaking|cozy snug|comfortable comfy|creative imaginative|
curious inquisitive|generous giving|gentle mild|kind caring|loyal faithful|humble modest|
perfect flawless|sour tart|expensive costly pricey|cheap inexpensive|fancy elegant|tidy neat|
messy untidy|crazy insane|silly foolish|stupid dumb|possible feasible|obvious evident|
vague unclear|maybe perhaps possibly|almost nearly|sometimes occasionally|rarely seldom|
formerly previously|hardly barely scarcely|apparently reportedly|stop quit cease
"""


SAME_AS = {
    word: group.split()[0]
    for group in "|".join((_THINGS, _DEEDS, _QUALITIES)).split("|")
    for word in group.split()
}
"""A word's plain form -> the word that stands for its group."""
