"""A small thesaurus of everyday English, strict on purpose.

Words stand in one group only if they can replace each other in every everyday sense. Shades (like
and love), kinds (dog and poodle), and words that differ in some sense (finish and end, job and
work) do not. Each group has an example and a look-alike in the tests.
"""

from __future__ import annotations

_GROUPS = """
kid child|trip journey voyage|concert gig|film movie|photo photograph|sofa couch|car automobile|
doctor physician|mistake error|apartment flat|garbage trash rubbish|bicycle bike|
plane airplane aeroplane|phone telephone|fridge refrigerator|tv television telly|
advert advertisement|puppy pup|bunny rabbit|baby infant|teenager teen|friend pal buddy|
mother mom mommy|father dad daddy|grandmother grandma granny|grandfather grandpa granddad|
woman lady|man guy|colleague coworker|lawyer attorney|illness sickness|medicine medication|
dinner supper|prize award|forest woods|clothes clothing|sweater pullover|curtains drapes|
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
hardly barely scarcely|maybe perhaps|almost nearly|stop cease|many numerous|near nearby beside|
although though|however nevertheless nonetheless|moreover furthermore additionally|
therefore thus hence consequently
"""

GROUPS = tuple(tuple(group.split()) for group in _GROUPS.replace("\n", "").split("|"))
"""Groups of synonyms in plain form; the first stands for its group."""

SAME_AS = {word: group[0] for group in GROUPS for word in group}
"""The word that stands for its group, by a word's plain form."""

SAME_IN_JAPANESE = {
    word: group.split()[0]
    for group in (
        "男性 男", "女性 女", "述 言 語", "スケートボード スケボー", "スマートフォン スマホ",
        "車 自動車", "電車 列車", "飛行機 航空機", "薬 医薬品", "会社 企業", "値段 価格",
        "昨年 去年", "今日 本日", "オートバイ バイク", "パソコン コンピューター",
        "走 駆", "海岸 海辺",
    )
    for word in group.split()
}  # fmt: skip
"""The word that stands for its group, by a Japanese word."""
