"""Merged texts written for these tests: each with its sources, oldest first, and itself last.

English, German, Japanese, Chinese; most of two sources, some of three. The faithful ones keep to
the sources' words, the reworded ones say the same in others; the rest are wrong, most of them
subtly.
"""

from __future__ import annotations

FAITHFUL: list[tuple[str, ...]] = [
    (
        "Leo plays the cello in a quartet.",
        "Leo has played the cello since he was nine.",
        "Leo has played the cello since he was nine, in a quartet.",
    ),
    (
        "Leo plays the cello in a quartet.",
        "Leo's quartet rehearses on Tuesdays.",
        "Leo plays the cello in a quartet, which rehearses on Tuesdays.",
    ),
    (
        "Nora works at a bakery.",
        "Nora works at a bakery near the harbour and gets up at 4.",
        "Nora works at a bakery near the harbour and gets up at 4.",
    ),
    (
        "Nora said that she is allergic to nuts.",
        "Nora is allergic to nuts and carries an epinephrine pen.",
        "Nora is allergic to nuts and carries an epinephrine pen.",
    ),
    (
        "Omar adopted a greyhound.",
        "Omar adopted a greyhound called Juno in March.",
        "Omar adopted a greyhound called Juno in March.",
    ),
    (
        "The person is slicing an onion",
        "A man is slicing an onion in the kitchen",
        "A man is slicing an onion in the kitchen.",
    ),
    (
        "Ines bought a van for $30,000.",
        "Ines bought a used van for $30,000 in Lyon",
        "Ines bought a used van for $30,000 in Lyon.",
    ),
    ("Rent is 800 euros.", "Rent is 850 euros since May.", "Rent is 850 euros since May."),
    (
        "Tess lives in Ghent with her aunt.",
        "Tess lives in Bruges with her aunt.",
        "Tess lives in Bruges with her aunt.",
    ),
    (
        "Yusuf doesn't eat pork.",
        "Yusuf doesn't eat pork or shellfish.",
        "Yusuf doesn't eat pork or shellfish.",
    ),
    (
        "Ada is training for a marathon.",
        "Ada is training for the Berlin marathon with her sister.",
        "Ada is training for the Berlin marathon with her sister.",
    ),
    (
        "Ada's sister is a nurse.",
        "Ada's sister works nights at a clinic.",
        "Ada's sister is a nurse and works nights at a clinic.",
    ),
    (
        "The company paid $250-M for the mill.",
        "The company paid $250 million for the old mill.",
        "The company paid $250 million for the old mill.",
    ),
    (
        "He works for the WHO.",
        "He works for the World Health Organization in Geneva.",
        "He works for the World Health Organization in Geneva.",
    ),
    ("Mutts are clever.", "All mutts are clever, says Kim.", "All mutts are clever, says Kim."),
    (
        'Kim said "never again".',
        "Kim said ``never again'' after the race.",
        'Kim said "never again" after the race',
    ),
    (
        "Ben hopes to open a cafe.",
        "Ben hopes to open a cafe in Leeds next spring.",
        "Ben hopes to open a cafe in Leeds next spring.",
    ),
    (
        "Ben used to smoke.",
        "Ben used to smoke but quit in 2019.",
        "Ben used to smoke but quit in 2019.",
    ),
    (
        "Pia keeps bees.",
        "Pia keeps bees on her roof.",
        "Pia sells honey at the market.",
        "Pia keeps bees on her roof and sells honey at the market.",
    ),
    (
        "Raj rows.",
        "Raj rows on the Thames.",
        "Raj rows on the Thames every Sunday.",
        "Raj rows on the Thames every Sunday.",
    ),
    ("Eva pays 10 euros.", "Eva pays 11 euros.", "Eva pays 12 euros.", "Eva pays 12 euros."),
    (
        "Jana spielt Geige.",
        "Jana spielt Geige im Orchester der Schule.",
        "Jana spielt Geige im Orchester der Schule.",
    ),
    (
        "Ein Mann fährt Rad.",
        "Ein Mann fährt auf der Straße Rad.",
        "Ein Mann fährt auf der Straße Rad.",
    ),
    ("Jana hat 2 Katzen.", "Jana hat 3 Katzen.", "Jana hat 3 Katzen."),
    ("美咲は犬を飼っている。", "美咲は白い犬を飼っています。", "美咲は白い犬を飼っています。"),
    (
        "美咲は毎朝公園を走っている。",
        "美咲は毎朝、犬と公園を走っています。",
        "美咲は毎朝、犬と公園を走っている。",
    ),
    ("人が海で泳いでいます。", "男性が海で泳いでいる。", "男性が海で泳いでいます。"),
    ("健太は京都に住んでいる。", "健太は大阪に住んでいる。", "健太は大阪に住んでいる。"),
    (
        "健太は3月に京都へ行った。",
        "健太は3月に妹と京都へ行きました。",
        "健太は3月に妹と京都へ行った。",
    ),
    ("美咲は肉を食べない。", "美咲は肉を食べません。", "美咲は肉を食べない。"),
]
"""Everything stated, nothing else."""

REWORDED: list[tuple[str, ...]] = [
    (
        "Ben has a passion for jazz.",
        "Ben collects jazz records.",
        "Ben is passionate about jazz and collects records.",
    ),
    ("Mia has a cat called Pip.", "Mia has a cat.", "Mia has a cat named Pip."),
    (
        "Ana started a bakery in 2015.",
        "Ana bakes rye bread.",
        "Ana bakes rye bread and is starting a bakery in 2015.",
    ),
    (
        "Nora works at a bakery.",
        "Nora works at a bakery near the harbour.",
        "Nora works at a bakery near the station.",
    ),
    (
        "Nora works at a bakery.",
        "Nora works at a bakery near the harbour.",
        "Nora works at a bakery.",
    ),
    (
        "Ben hopes to open a cafe.",
        "Ben hopes to open a cafe in Leeds.",
        "Ben opened a cafe in Leeds.",
    ),
    (
        "Ada's sister is a nurse and her brother is a cook.",
        "Ada's sister is a nurse.",
        "Ada's sister is a cook and her brother is a nurse.",
    ),
    (
        "Kit visited Rome in May and Oslo in June.",
        "Kit visited Rome and Oslo.",
        "Kit visited Rome in June and Oslo in May.",
    ),
    ("Mia has a red car.", "Mia has a blue bike.", "Mia has a blue car and a red bike."),
    (
        "Mia has a cat called Pip.",
        "Mia has a dog called Rex.",
        "Mia has a cat called Rex and a dog called Pip.",
    ),
    (
        "Mia gave her son a bike.",
        "Mia gave her daughter a tent.",
        "Mia gave her son a tent and her daughter a bike.",
    ),
    ("The dog chased the cat.", "The black dog chased the cat.", "The cat chased the black dog."),
    (
        "The dog bit the postman.",
        "The dog bit the postman on Friday.",
        "The dog was bitten by the postman on Friday.",
    ),
    ("Mia left Rome.", "Mia left Rome in May.", "Mia left for Rome in May."),
    ("Mia moved from Rome to Porto.", "Mia moved to Porto.", "Mia moved from Porto to Rome."),
    ("Uma likes tea more than coffee.", "Uma likes tea.", "Uma likes coffee more than tea."),
    ("Ravi stays in if it rains.", "Ravi stays in.", "It rains if Ravi stays in."),
    (
        "Mia's brother has a friend in Rome.",
        "Mia's brother is a cook.",
        "Mia's friend is a cook and has a brother in Rome.",
    ),
    (
        "Most of her students passed.",
        "Her students passed in June.",
        "All her students passed in June.",
    ),
    (
        "Pia keeps bees.",
        "Pia keeps hens on her roof.",
        "Pia sells honey.",
        "Pia keeps bees and hens on her roof.",
    ),
    (
        "Tom lived in Kiel.",
        "Tom loves the harbour of Kiel.",
        "Tom lives in Kiel and loves the harbour.",
    ),
    (
        "Tom stayed home because his son was ill.",
        "Tom stayed home.",
        "Tom's son was ill because he stayed home.",
    ),
    (
        "Ein Hund jagt einen Ball.",
        "Ein brauner Hund jagt einen Ball.",
        "Ein brauner Hund jagt eine Katze.",
    ),
    (
        "Der Hund beißt den Mann.",
        "Der Hund beißt den Mann im Park.",
        "Der Mann beißt den Hund im Park.",
    ),
    ("美咲は白い犬を飼っている。", "美咲は犬を飼っています。", "美咲は黒い犬を飼っています。"),
    ("健太は妹と京都へ行った。", "健太は京都へ行った。", "健太は京都へ行った。"),
    ("犬が猫を追いかけている。", "犬が猫を追いかけています。", "猫が犬を追いかけています。"),
    ("赤い車と青い自転車がある。", "車と自転車がある。", "青い車と赤い自転車がある。"),
    ("赤い車がある。", "青い自転車がある。", "青い車と赤い自転車がある。"),
    ("健太は美咲に本をあげた。", "健太は美咲に本をあげました。", "美咲は健太に本をあげました。"),
]
"""Only a reader can tell: a word is missing, new, or stands elsewhere."""

WRONG_FACTS: list[tuple[str, ...]] = [
    (
        "Leo plays the cello in a quartet.",
        "Leo has played the cello since he was nine.",
        "Leo has played the viola since he was seven, in a quartet.",
    ),
    (
        "Omar adopted a greyhound.",
        "Omar adopted a greyhound called Juno in March.",
        "Omar adopted a greyhound called Juno in May.",
    ),
    ("Rent is 800 euros.", "Rent is 850 euros since May.", "Rent is 800 euros since May."),
    (
        "Yusuf doesn't eat pork.",
        "Yusuf eats shellfish.",
        "Yusuf eats pork and doesn't eat shellfish.",
    ),
    (
        "Yusuf doesn't eat pork.",
        "Yusuf doesn't eat pork or shellfish.",
        "Yusuf eats pork and shellfish.",
    ),
    (
        "Ben hopes to open a cafe.",
        "Ben hopes to open a cafe in Leeds.",
        "Ben will open a cafe in Leeds.",
    ),
    ("Jo lent Bela a tent.", "Jo lent Bela a blue tent.", "Bela lent Jo a blue tent."),
    ("Uma has 3 cats and 2 dogs.", "Uma has cats and dogs.", "Uma has 2 cats and 3 dogs."),
    ("Uma met her tutor.", "Uma met her new tutor.", "Uma met his new tutor."),
    ("Only Uma passed.", "Uma passed the exam.", "Uma passed the exam with Kai."),
    (
        "Lena may move to Oslo.",
        "Lena may move to Oslo in spring.",
        "Lena must move to Oslo in spring.",
    ),
    (
        "Pia keeps bees.",
        "Pia keeps bees on her roof.",
        "Pia sells honey for 8 euros.",
        "Pia keeps bees on her roof and sells honey for 9 euros.",
    ),
    (
        "Jana isst kein Fleisch.",
        "Jana isst kein Fleisch, aber Fisch.",
        "Jana isst Fleisch und Fisch.",
    ),
    (
        "Jana zahlt 700 Euro Miete.",
        "Jana zahlt 700 Euro Miete in Bonn.",
        "Jana zahlt 900 Euro Miete in Bonn.",
    ),
    ("健太は3月に京都へ行った。", "健太は京都へ行った。", "健太は5月に京都へ行った。"),
    ("美咲は肉を食べない。", "美咲は肉を食べません。", "美咲は肉を食べます。"),
    ("猫が2匹と犬が3匹いる。", "猫と犬がいる。", "猫が3匹と犬が2匹いる。"),
    ("健太は京都へ行きたい。", "健太は京都へ行きたいと思っている。", "健太は京都へ行った。"),
]
"""A hard fact is wrong."""

WRONG: list[tuple[str, ...]] = [
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena has worked as a nurse in Basel for six years.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena has worked as a nurse in Bern for sixteen years.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena has worked as a nurse in Bern for six months.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena worked as a nurse in Bern for six years.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena has worked as a nurse in Bern for nearly six years.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena has worked as a head nurse in Bern for six years.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena has never worked as a nurse in Bern.",
    ),
    (
        "Lena works as a nurse in Bern.",
        "Lena has worked as a nurse in Bern for six years.",
        "Lena no longer works as a nurse in Bern, after six years.",
    ),
    (
        "A man is playing a guitar.",
        "A man in a hat is playing a guitar on stage.",
        "A woman in a hat is playing a guitar on stage.",
    ),
    (
        "A man is playing a guitar.",
        "A man in a hat is playing a guitar on stage.",
        "A man in a hat is playing a guitar off stage.",
    ),
    (
        "A man is playing a guitar.",
        "A man in a hat is playing a guitar on stage.",
        "A man with a hat is playing a guitar on stage.",
    ),
    (
        "A man is playing a guitar.",
        "A man in a hat is playing a guitar on stage.",
        "A man in a hat is playing an electric guitar on stage.",
    ),
    (
        "A man is playing a guitar.",
        "A man in a hat is playing a guitar on stage.",
        "Two men in hats are playing a guitar on stage.",
    ),
    (
        "A man is playing a guitar.",
        "A man in a hat is playing a guitar on stage.",
        "Men in hats are playing guitars on stage.",
    ),
    (
        "A boy hands a girl a ball.",
        "A boy in red hands a girl a ball.",
        "A girl in red hands a boy a ball.",
    ),
    (
        "A boy hands a girl a ball.",
        "A boy in red hands a girl a ball.",
        "A boy hands a girl in red a ball.",
    ),
    (
        "A boy hands a girl a ball.",
        "A boy in red hands a girl a ball.",
        "A boy hands a girl a red ball.",
    ),
    (
        "Kai told Ann that Max was late.",
        "Kai told Ann on Monday that Max was late.",
        "Ann told Kai on Monday that Max was late.",
    ),
    (
        "Kai told Ann that Max was late.",
        "Kai told Ann on Monday that Max was late.",
        "Max told Ann on Monday that Kai was late.",
    ),
    (
        "Kai told Ann that Max was late.",
        "Kai told Ann on Monday that Max was late.",
        "Kai told Max on Monday that Ann was late.",
    ),
    (
        "Kai told Ann that Max was late.",
        "Kai told Ann on Monday that Max was late.",
        "Kai told Ann that Max was late on Monday.",
    ),
    (
        "Rosa's mother runs a hotel.",
        "Rosa's mother runs a hotel and her father a garage.",
        "Rosa's father runs a hotel and her mother a garage.",
    ),
    (
        "Rosa's mother runs a hotel.",
        "Rosa helps her father in the garage.",
        "Rosa's mother runs a garage and Rosa helps her father in the hotel.",
    ),
    (
        "Rosa's mother runs a hotel.",
        "Rosa helps in the garage.",
        "Rosa runs a hotel and her mother helps in the garage.",
    ),
    (
        "Tim prefers trains to planes.",
        "Tim prefers trains to planes for work trips.",
        "Tim prefers planes to trains for work trips.",
    ),
    (
        "Tim is older than Ula.",
        "Tim is older than Ula by 3 years.",
        "Ula is older than Tim by 3 years.",
    ),
    (
        "Tim is 3 years older than Ula.",
        "Tim is older than Ula.",
        "Tim is 3 years younger than Ula.",
    ),
    (
        "Shares rose 5 percent to 20 dollars.",
        "Shares of Acme rose 5 percent to 20 dollars.",
        "Shares of Acme rose 20 percent to 5 dollars.",
    ),
    (
        "Shares rose 5 percent to 20 dollars.",
        "Shares of Acme rose 5 percent to 20 dollars.",
        "Shares of Acme fell 5 percent to 20 dollars.",
    ),
    (
        "Shares rose 5 percent to 20 dollars.",
        "Shares of Acme rose 5 percent to 20 dollars.",
        "Shares of Acme rose 5 percent from 20 dollars.",
    ),
    (
        "Shares rose to 20 dollars from 19.",
        "Shares of Acme rose to 20 dollars from 19.",
        "Shares of Acme rose to 19 dollars from 20.",
    ),
    (
        "Police arrested the driver.",
        "Police arrested the driver after the crash.",
        "The driver was arrested before the crash.",
    ),
    (
        "The mayor criticised the union.",
        "The mayor criticised the union at a rally.",
        "The union criticised the mayor at a rally.",
    ),
    (
        "The mayor criticised the union.",
        "The union's rally drew 300 people.",
        "The union criticised the mayor; the rally drew 300 people.",
    ),
    (
        "He has no plans to retire.",
        "He has no plans to retire this year.",
        "He has plans to retire this year.",
    ),
    (
        "She is not only a pilot but a doctor.",
        "She is a doctor.",
        "She is not a pilot but a doctor.",
    ),
    ("She can swim but can't dive.", "She can swim.", "She can dive but can't swim."),
    ("Few guests stayed.", "A few guests stayed till noon.", "Few guests stayed till noon."),
    ("Zoe might sell her car.", "Zoe might sell her car to Ed.", "Zoe sold her car to Ed."),
    ("Zoe might sell her car.", "Zoe might sell her car to Ed.", "Zoe sells her car to Ed."),
    ("Zoe might sell her car.", "Zoe might sell her car to Ed.", "Ed might sell his car to Zoe."),
    ("Zoe bought a tent from Ed.", "Zoe bought a tent.", "Ed bought a tent from Zoe."),
    (
        "Zoe bought a tent from Ed for Al.",
        "Zoe bought a tent.",
        "Zoe bought a tent from Al for Ed.",
    ),
    (
        "The cafe opens at 8 and closes at 5.",
        "The cafe opens at 8.",
        "The cafe opens at 5 and closes at 8.",
    ),
    (
        "The cafe opens at 8 am.",
        "The cafe opens at 8 am on weekdays.",
        "The cafe opens at 8 pm on weekdays.",
    ),
    (
        "In 1998 she moved to Lyon, in 2004 to Nice.",
        "She moved to Lyon in 1998.",
        "In 2004 she moved to Lyon, in 1998 to Nice.",
    ),
    (
        "Ivo plays chess with his uncle.",
        "Ivo plays chess with his uncle on Sundays.",
        "Ivo plays chess against his uncle on Sundays.",
    ),
    (
        "Ivo plays chess with his uncle.",
        "Ivo plays chess with his uncle on Sundays.",
        "Ivo's uncle plays chess with his on Sundays.",
    ),
    (
        "Ivo plays chess.",
        "Ivo's uncle collects stamps.",
        "Ivo collects stamps and his uncle plays chess.",
    ),
    (
        "Ivo plays chess and his uncle collects stamps.",
        "Ivo plays chess.",
        "Ivo collects stamps and his uncle plays chess.",
    ),
    ("Ivo loves chess.", "Ivo loves chess and hates golf.", "Ivo loves golf and hates chess."),
    ("Ivo loves chess.", "Ivo finds golf dull.", "Ivo finds chess dull and loves golf."),
    (
        "Mara is happy with her job but unhappy with her flat.",
        "Mara is happy with her job.",
        "Mara is happy with her flat but unhappy with her job.",
    ),
    (
        "ミアは東京で働き、大阪に住んでいる。",
        "ミアは東京で働いている。",
        "ミアは大阪で働き、東京に住んでいる。",
    ),
    ("ミアは猫が好きで、犬が嫌いだ。", "ミアは猫が好きだ。", "ミアは犬が好きで、猫が嫌いだ。"),
    (
        "男性が女性に花を渡しています。",
        "男性が女性に花を渡している。",
        "女性が男性に花を渡している。",
    ),
    ("先生が生徒を褒めた。", "先生が生徒を褒めました。", "先生が生徒に褒められた。"),
    ("先生は生徒に本を読ませた。", "先生は生徒に本を読ませました。", "先生は生徒に本を読まれた。"),
    ("店は8時に開く。", "店は平日8時に開きます。", "店は平日9時に開きます。"),
    ("店は平日に開いている。", "店は平日に開いています。", "店は平日に閉まっています。"),
    ("彼は来るかもしれない。", "彼は明日来るかもしれない。", "彼は明日来る。"),
    ("彼は明日来る。", "彼は明日来ます。", "彼は明日来ません。"),
    ("彼は明日来る。", "彼は明日来ます。", "彼は明日来た。"),
    ("彼はピアノを弾ける。", "彼はピアノを上手に弾ける。", "彼はピアノを上手に弾けない。"),
    ("太郎は花子より背が高い。", "太郎は花子より背が高いです。", "花子は太郎より背が高いです。"),
    ("太郎の妹は花子の友達だ。", "太郎の妹は花子の友達です。", "花子の妹は太郎の友達です。"),
    ("白い犬が黒い猫を見ている。", "白い犬が黒い猫を見ています。", "黒い犬が白い猫を見ています。"),
    (
        "女性が窓のそばで本を読んでいる。",
        "女性が本を読んでいます。",
        "女性が窓のそばで新聞を読んでいます。",
    ),
    (
        "女性が窓のそばで本を読んでいる。",
        "女性が本を読んでいます。",
        "女性が窓のそばで本を書いています。",
    ),
    ("2人の男性と3人の女性がいる。", "男性と女性がいる。", "3人の男性と2人の女性がいる。"),
    ("株価は5%上昇し20ドルになった。", "株価は5%上昇した。", "株価は20%上昇し5ドルになった。"),
    (
        "Paul schenkt Lea ein Buch.",
        "Paul schenkt Lea ein Buch zum Geburtstag.",
        "Lea schenkt Paul ein Buch zum Geburtstag.",
    ),
    (
        "Paul wohnt in Ulm und arbeitet in Bonn.",
        "Paul wohnt in Ulm.",
        "Paul wohnt in Bonn und arbeitet in Ulm.",
    ),
    ("Paul wohnt seit 2010 in Ulm.", "Paul wohnt in Ulm.", "Paul wohnt bis 2010 in Ulm."),
    (
        "Zwei Kinder spielen im Garten.",
        "Zwei Kinder spielen im Garten Ball.",
        "Drei Kinder spielen im Garten Ball.",
    ),
    (
        "Paul mag keinen Tee.",
        "Paul mag keinen Tee, aber Kaffee.",
        "Paul mag keinen Kaffee, aber Tee.",
    ),
    ("一个男人在弹吉他。", "一个男人在台上弹吉他。", "一个女人在台上弹吉他。"),
    ("狗追猫。", "黑色的狗追猫。", "猫追黑色的狗。"),
    ("他没有去北京。", "他去年没有去北京。", "他去年去北京。"),
]
"""Subtly wrong, whichever way it is found: a value, a swap, a negation, a relation, a tense."""
