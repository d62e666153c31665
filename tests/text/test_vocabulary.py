"""The thesaurus: for each group a frame in which its words say the same, and a look-alike."""

from __future__ import annotations

from itertools import pairwise

import pytest

from memory.coverage import covers
from memory.text.vocabulary import GROUPS

TABLE = """
kid child | Bela has a {}. | pupil
trip journey | Leo enjoyed the {} to Peru. | road
concert gig | Mia went to the {} with Leo. | club
film movie | Mia saw the {} with Leo. | play
photo photograph | Leo keeps a {} of the lake. | painting
sofa couch | Mia sleeps on the {}. | bed
car automobile | Leo sold the {}. | van
doctor physician | Bela is a {}. | nurse
mistake error | Leo found the {}. | fault
apartment flat | Mia rents the {} in Oslo. | house
garbage trash rubbish | Leo took the {} out. | bags
bicycle bike | Mia rides a {} to school. | horse
plane airplane aeroplane | Leo saw the {}. | train
fridge refrigerator | The {} is empty. | oven
tv television telly | Leo sold the {}. | radio
advert advertisement | Mia read the {}. | letter
puppy pup | Bela has a {}. | kitten
bunny rabbit | Bela has a {}. | hare
baby infant | The {} sleeps. | toddler
teenager teen | Bela is a {}. | child
friend pal buddy | Leo is a {} of Mia. | colleague
mother mom mommy mum | Mia met the {} of a player. | aunt
father dad daddy | Mia met the {} of a player. | uncle
grandmother grandma granny | Mia called the {} of a player. | mother
grandfather grandpa granddad | Mia called the {} of a player. | father
colleague coworker | Leo is a {} of Mia. | friend
lawyer attorney | Bela is a {}. | judge
illness sickness | The {} lasted a week. | injury
medicine medication | Leo takes the {}. | vitamin
dinner supper | Mia cooks the {}. | lunch
prize award | Leo won a {}. | race
forest woods | Leo runs in the {}. | park
sweater pullover | Mia wears a {}. | shirt
curtains drapes | Mia washed the {}. | sheets
achievement accomplishment | It was a great {}. | disappointment
danger peril | Leo saw the {}. | dancer
courage bravery | Leo has the {}. | luck
joy happiness | Mia felt the {}. | hope
permission consent | Leo has the {} of a teacher. | order
result outcome | Mia likes the {}. | start
duty obligation | It is a {}. | right
income earnings | Mia told Leo the {}. | cost
pain ache | Leo has a {}. | plan
crowd throng | Mia saw the {}. | queue
somebody someone | Mia met {} in Oslo. | everybody
everybody everyone | Mia met {} in Oslo. | somebody
anybody anyone | Did Mia meet {} in Oslo? | everybody
help assist | Leo {}s the nurse. | visit
begin start | The play {}s at noon. | end
buy purchase | Mia {}s a boat. | sell
repair mend fix | Leo {}s the bike. | wash
choose select | Leo {}s the color. | change
allow permit | The rule {}s the game. | forbid
understand comprehend | Mia {}s the plan. | like
remember recollect | Mia {}s the song. | sing
jump leap | The horse {}s over the wall. | look
hurry rush hasten | Mia {}s to the station. | walk
sleep slumber | The cat {}s on the chair. | sit
shout yell | Leo {}s at the dog. | laugh
cry weep | The boy {}s in the kitchen. | sing
smile grin | Leo {}s at the baby. | shout
destroy demolish | The storm {}s the barn. | damage
delete erase | Mia {}s the song. | copy
happen occur | It {}s in the night. | stop
marry wed | Leo {}s Mia in May. | meet
participate partake | Leo {}s in the race. | win
persuade convince | Mia {}s the boss. | know
force compel | The storm {}s Leo to the north. | lead
forbid prohibit | The rule {}s the game. | allow
scare frighten | The dog {}s the cat. | chase
surprise astonish | The result {}s Leo. | please
annoy irritate | The noise {}s Leo. | wake
forgive pardon | Mia {}s the thief. | catch
notify inform | Leo {}s the police. | avoid
agree concur | Mia {}s with the boss. | argue
expand enlarge | The firm {}s the hall. | sell
lend loan | Mia {}s the tent to Leo. | sell
recently lately | Leo has been busy {}. | today
often frequently | Leo is {} in the office. | never
grateful thankful | Mia is {} for the gift. | ready
happy glad | Leo is {} with the result. | sad
big large | Mia has a {} garden. | long
huge enormous gigantic immense | It is a {} building. | new
tiny minuscule | It is a {} fish. | thin
fast quick rapid | It is a {} train. | late
quickly rapidly swiftly | Leo walks {} to the sea. | slowly
clever intelligent | Bela is a {} girl. | tall
sick ill unwell | Leo is {} in bed. | alone
famous renowned | Bela is a {} singer. | rich
rich wealthy affluent | Bela is a {} singer. | famous
delicious tasty yummy | The soup was {}. | cold
entire whole | Mia ate the {} cake. | sweet
wrong incorrect | The answer is {}. | long
brave courageous | Leo is a {} man. | shy
polite courteous | Leo is a {} man. | quiet
rude impolite | Leo is a {} man. | loud
shy timid | Leo is a {} man. | proud
stubborn obstinate | Leo is a {} man. | strong
careful cautious | Leo is a {} driver. | fast
messy untidy | The room is {}. | dark
vague unclear | The plan is {}. | clever
expensive costly pricey | It is an {} watch. | old
cheap inexpensive | It is a {} watch. | new
silly foolish | It is a {} idea. | good
outdoors outside | Leo cooks the soup {}. | inside
annually yearly | The club meets {} in Oslo. | monthly
soon shortly | Mia moves {} to Oslo. | later
immediately instantly | Leo answered the call {}. | never
suddenly abruptly | The car stopped {} in the road. | slowly
sometimes occasionally | Leo smokes {} in the garden. | always
rarely seldom | Leo smokes {} in the garden. | often
formerly previously | Leo was {} a teacher. | later
hardly barely scarcely | Leo {} knows the city. | well
maybe perhaps | {} Leo knows the city. | surely
almost nearly | Leo {} missed the bus. | again
stop cease | The noise {}s at noon. | start
many numerous | Mia has {} hats in the hall. | two
near nearby | The shop is {} the lake. | behind
although though | Mia came {} she was ill. | because
however nevertheless nonetheless | Leo is ill; {} he came. | therefore
moreover furthermore additionally | Leo is ill; {} he is poor. | however
therefore thus hence consequently | Leo is ill; {} he stays. | however
"""
ROWS = [[part.strip() for part in line.split("|")] for line in TABLE.strip().splitlines()]
NOT_THE_SAME = [
    ("Mia completes the treatment.", "Mia ends the treatment."),
    ("Leo lost a match.", "Leo lost a game."),
    ("Leo is on vacation in May.", "Leo has a holiday in May."),
    ("The present is hard.", "The gift is hard."),
    ("Mia loves her job.", "Mia loves her work."),
    ("Leo tries the soup.", "Leo attempts the soup."),
    ("Bela is a bright girl.", "Bela is a smart girl."),
    ("Leo watches the house.", "Leo views the house."),
    ("Mia rents the boat.", "Mia leases the boat."),
    ("Leo found the key.", "Leo located the key."),
    ("Mia replaces butter with oil.", "Mia substitutes butter with oil."),
    ("Leo picks apples.", "Leo chooses apples."),
    ("Mia lives on the street.", "Mia lives on the road."),
    ("Leo's little brother sings.", "Leo's small brother sings."),
    ("Leo wants a boat.", "Leo wishes a boat."),
]


@pytest.mark.parametrize(("words", "frame", "other"), ROWS)
def test_words_of_a_group_stand_for_each_other_and_a_look_alike_does_not(
    words: str, frame: str, other: str
) -> None:
    told = [frame.format(word) for word in words.split()]
    for one, another in pairwise(told):
        assert covers(one, another)
        assert covers(another, one)
    assert not covers(told[0], frame.format(other))
    assert not covers(frame.format(other), told[0])


@pytest.mark.parametrize(("a", "b"), NOT_THE_SAME)
def test_words_that_part_in_some_sense_or_frame_are_not_the_same(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


def test_every_group_has_its_example() -> None:
    assert {frozenset(row[0].split()) - {"mum"} for row in ROWS} == {
        frozenset(group) - {"mum"} for group in GROUPS
    }
