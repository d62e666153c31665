"""Three memories of one fact, oldest first, and the one text that a careful writer makes of it."""

from __future__ import annotations

from typing import NamedTuple


class Triple(NamedTuple):
    """Three texts, and what tells all three."""

    members: tuple[str, str, str]
    merged: str


def _triples(text: str) -> list[Triple]:
    """Blocks of four lines: three members, then the merged text."""
    blocks = [block.strip().splitlines() for block in text.strip().split("\n\n")]
    return [Triple((a, b, c), merged) for a, b, c, merged in blocks]


TRIPLES = _triples("""
Lena is looking for a room for her pottery.
Lena still searches for a workshop where she can make pottery.
Lena hopes to find a workshop near the station.
Lena is still searching for a workshop near the station where she can make pottery.

Omar adopted a dog named Bruno.
Omar's dog Bruno is a beagle.
Omar walks Bruno every morning.
Omar adopted a beagle named Bruno, whom he walks every morning.

Ines works as a nurse.
Ines is a nurse at a children's hospital.
Ines enjoys her work at the children's hospital.
Ines is a nurse at a children's hospital and enjoys her work.

Tom plays the violin.
Tom has played the violin since 2015.
Tom plays the violin in an orchestra.
Tom has played the violin since 2015 and plays in an orchestra.

Priya moved to Leeds.
Priya moved to Leeds in March 2022.
Priya moved to Leeds for her studies.
Priya moved to Leeds in March 2022 for her studies.

Karl is allergic to nuts.
Karl is allergic to nuts and shellfish.
Karl carries a pen against his allergy.
Karl is allergic to nuts and shellfish and carries a pen against his allergy.

Sofia wants to run a marathon.
Sofia trains for a marathon in Lyon.
Sofia runs 10 km every Sunday.
Sofia trains for a marathon in Lyon and runs 10 km every Sunday.

Ben likes jazz.
Ben enjoys listening to jazz on vinyl.
Ben collects jazz records.
Ben likes jazz, enjoys listening to it on vinyl and collects jazz records.

Yuki has two brothers.
Yuki's brothers live in Osaka.
Yuki visits her brothers in Osaka every summer.
Yuki has two brothers in Osaka, whom she visits every summer.

Rita baked a cake for her mother.
Rita baked a lemon cake for her mother's birthday.
Rita's mother loved the lemon cake.
Rita baked a lemon cake for her mother's birthday, and her mother loved it.

Paul does not drink coffee.
Paul does not drink coffee after noon.
Paul prefers green tea.
Paul does not drink coffee and prefers green tea.

Nora volunteers at a shelter.
Nora volunteers at a shelter for cats on Saturdays.
Nora has volunteered at the cat shelter for three years.
Nora has volunteered at a shelter for cats on Saturdays for three years.

Hugo is writing a novel.
Hugo's novel is about a lighthouse.
Hugo has written 120 pages of his novel.
Hugo is writing a novel about a lighthouse and has written 120 pages.

Amira opened a bakery.
Amira's bakery is in Porto.
Amira opened her bakery in 2019.
Amira opened her bakery in Porto in 2019.

Felix broke his leg.
Felix broke his left leg while skiing.
Felix had to rest for six weeks.
Felix broke his left leg while skiing and had to rest for six weeks.

Greta paints landscapes.
Greta paints landscapes in oil.
Greta sold two of her paintings.
Greta paints landscapes in oil and sold two of her paintings.

Ivan speaks Polish and German.
Ivan is learning Spanish.
Ivan takes Spanish lessons on Mondays.
Ivan speaks Polish and German and takes Spanish lessons on Mondays.

Clara has a garden.
Clara grows tomatoes in her garden.
Clara also grows beans and roses.
Clara has a garden where she grows tomatoes, beans and roses.

Dario wants to become a pilot.
Dario is saving money for flying lessons.
Dario dreams of becoming a pilot.
Dario dreams of becoming a pilot and is saving money for flying lessons.

Emma's grandmother gave her a ring.
Emma wears her grandmother's ring every day.
Emma's ring from her grandmother is silver.
Emma wears the silver ring that her grandmother gave her every day.

Oskar coaches a football team.
Oskar coaches a girls' football team in Bremen.
Oskar's team won a cup in May.
Oskar coaches a girls' football team in Bremen, which won a cup in May.

Mei feels nervous about the interview.
Mei has an interview at a museum on Friday.
Mei practised for her interview with a friend.
Mei feels nervous about her interview at a museum on Friday and practised for it with a friend.

Lukas repaired his bicycle.
Lukas repaired the brakes of his bicycle himself.
Lukas rides his bicycle to work.
Lukas repaired the brakes of his bicycle himself and rides it to work.

Hana went camping.
Hana went camping with her family in June.
Hana's family saw deer while camping.
Hana went camping with her family in June, and they saw deer.

Victor owns a boat.
Victor's boat is called Marlin.
Victor keeps the Marlin in Split.
Victor owns a boat called Marlin, which he keeps in Split.

Julia started yoga.
Julia does yoga to relax.
Julia's yoga class is on Tuesday evenings.
Julia does yoga to relax; her class is on Tuesday evenings.

Samir lost his job.
Samir lost his job at the bank in January.
Samir is looking for a new job.
Samir lost his job at the bank in January and is looking for a new one.

Ella is vegetarian.
Ella has been vegetarian for five years.
Ella cooks vegetarian food for her friends.
Ella has been vegetarian for five years and cooks vegetarian food for her friends.

Noah likes astronomy.
Noah bought a telescope.
Noah looks at Saturn through his telescope.
Noah likes astronomy, bought a telescope and looks at Saturn through it.

Marta teaches biology.
Marta teaches biology at a school in Ghent.
Marta's pupils made a film about bees.
Marta teaches biology at a school in Ghent, where her pupils made a film about bees.

Jonas cannot swim.
Jonas takes swimming lessons.
Jonas takes swimming lessons at the old baths.
Jonas cannot swim and takes swimming lessons at the old baths.

Aisha is planning a trip.
Aisha is planning a trip to Iceland with her sister.
Aisha and her sister want to see whales.
Aisha is planning a trip to Iceland with her sister, and they want to see whales.

Leo plays chess.
Leo plays chess online with his uncle.
Leo's uncle taught him chess.
Leo plays chess online with his uncle, who taught him.

Petra has a cat called Minka.
Petra's cat Minka is twelve years old.
Petra's cat Minka needs medicine.
Petra has a twelve years old cat called Minka, who needs medicine.

Ravi met Anna at university.
Ravi and Anna got engaged.
Ravi proposed to Anna in Venice.
Ravi met Anna at university, proposed to her in Venice, and they got engaged.

Kim hates flying.
Kim hates flying and travels by train.
Kim took the night train to Vienna.
Kim hates flying and travels by train; Kim took the night train to Vienna.

Anton's car broke down.
Anton's car broke down on the motorway.
Anton's car was repaired for 400 euros.
Anton's car broke down on the motorway and was repaired for 400 euros.

Laura gave a talk.
Laura gave a talk about coral reefs in Boston.
Laura was proud of her talk.
Laura gave a talk about coral reefs in Boston and was proud of it.

Filip makes furniture.
Filip makes furniture out of old wood.
Filip sells his furniture at a market.
Filip makes furniture out of old wood and sells it at a market.

Zoe studies law.
Zoe studies law in Utrecht.
Zoe will finish her studies in 2027.
Zoe studies law in Utrecht and will finish her studies in 2027.

David wants to adopt a child.
David and his wife want to adopt a child.
David applied to an adoption agency.
David and his wife want to adopt a child, and David applied to an adoption agency.

Maya loves the sea.
Maya finds peace by the sea.
Maya walks by the sea when she is sad.
Maya loves the sea, finds peace there and walks by it when she is sad.

Nils won a prize.
Nils won a prize for his photographs.
Nils photographs birds.
Nils photographs birds and won a prize for his photographs.

Olga's son is called Misha.
Olga's son Misha started school.
Olga's son Misha started school in September.
Olga's son Misha started school in September.

Peter supports his local library.
Peter gave books to the library.
Peter gave 30 books to his local library.
Peter supports his local library and gave 30 books to it.

美咲は猫を飼っている。
美咲の猫の名前はモモだ。
美咲は毎朝モモと遊ぶ。
美咲はモモという名前の猫を飼っていて、毎朝モモと遊ぶ。

健太は大阪に住んでいる。
健太は2021年に大阪に引っ越した。
健太は大阪で教師をしている。
健太は2021年に大阪に引っ越し、大阪に住んで教師をしている。

由美はピアノを習っている。
由美は毎週火曜日にピアノを習っている。
由美は12月にピアノの発表会がある。
由美は毎週火曜日にピアノを習っていて、12月に発表会がある。

翔は魚が食べられない。
翔は魚が食べられないので肉をよく食べる。
翔は週末に料理をする。
翔は魚が食べられないので肉をよく食べ、週末に料理をする。

葵はパン屋で働いている。
葵は駅前のパン屋で働いている。
葵は自分の店を持ちたい。
葵は駅前のパン屋で働いていて、自分の店を持ちたい。
""")
