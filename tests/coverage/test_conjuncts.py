"""An addition that makes another thing, quantity, name or list, and some that only add."""

from __future__ import annotations

import pytest

from memory.coverage.covers import covers

NO_COVERS = [
    ("The team consists of Mia, Leo and Ben.", "The team consists of Mia and Ben."),
    ("My hobbies are chess, rowing and yoga.", "My hobbies are chess and yoga."),
    ("The walk took 3 hours and 18 minutes.", "The walk took 3 hours."),
    ("The bag weighs 2 kg and 300 g.", "The bag weighs 2 kg."),
    ("Mia is six feet and two inches tall.", "Mia is six feet tall."),
    ("The flight lasted two days and four hours.", "The flight lasted two days."),
    ("The baby is three years and two months old.", "The baby is three years old."),
    ("Mia likes the song Frog and the Nightingale.", "Mia likes the song Frog."),
    ("Mia works at Marks and Spencer.", "Mia works at Marks."),
    ("Mia works at Johnson & Johnson.", "Mia works at Johnson."),
    ("Mia read Pride and Prejudice.", "Mia read Pride."),
    ("Mia lives in Bosnia and Herzegovina.", "Mia lives in Bosnia."),
    ("Mia and Leo play tennis and chess respectively.", "Mia and Leo play tennis."),
    ("Mia and Leo play tennis and chess, respectively.", "Mia and Leo play chess."),
    ("The team consists of Mia and Leo.", "The team consists of Mia."),
    ("The colours of the flag are red and white.", "The colours of the flag are red."),
    ("The alloy is composed of copper and tin.", "The alloy is composed of copper."),
    ("The members are Mia and Leo.", "The members are Mia."),
    ("The set comprises a pen and a book.", "The set comprises a pen."),
    ("Mia's allergies are nuts and milk.", "Mia's allergies are nuts."),
    ("Mia met a retired pilot.", "Mia met a pilot."),
    ("Mia lives with a would-be actor.", "Mia lives with an actor."),
    ("Mia married a late king.", "Mia married a king."),
    ("Mia owns a decommissioned ship.", "Mia owns a ship."),
    ("Mia bought an imaginary castle.", "Mia bought a castle."),
    ("Mia is an erstwhile teacher.", "Mia is a teacher."),
    ("Mia is the incoming director.", "Mia is the director."),
    ("Mia is a failed artist.", "Mia is an artist."),
    ("Mia is a disbarred lawyer.", "Mia is a lawyer."),
    ("Mia has a broken phone.", "Mia has a phone."),
    ("Mia ordered a fictional novel.", "Mia ordered a novel."),
    ("Mia is a wannabe singer.", "Mia is a singer."),
    ("Mia likes not tea but coffee.", "Mia likes tea."),
    ("In no time Mia wrote it.", "Mia wrote it."),
    ("Mia left, not because of Leo but because of Ben.", "Mia left because of Leo."),
    ("The soup contains milk and salt, but nothing else.", "The soup contains milk."),
    ("Mia waited one year and a half.", "Mia waited one year."),
    ("The rope is 5 metres and 20 centimetres long.", "The rope is 5 metres long."),
    ("Mia owes 4 dollars and 50 cents.", "Mia owes 4 dollars."),
    ("Mia studies at Barnes & Noble.", "Mia studies at Barnes."),
    ("Mia plays Romeo and Juliet.", "Mia plays Romeo."),
    ("Mia moved to Trinidad and Tobago.", "Mia moved to Trinidad."),
    ("Mia, Leo and Ben won gold, silver and bronze respectively.", "Mia, Leo and Ben won gold."),
    ("Mia and Leo are 30 and 40 respectively.", "Mia and Leo are 30."),
    ("Mia and Leo live in Rome and Oslo, respectively.", "Mia and Leo live in Rome."),
    ("Tea and coffee cost 2 and 3 euros, respectively.", "Tea and coffee cost 3 euros."),
    ("The kit is made up of a saw and a file.", "The kit is made up of a saw."),
    ("My hobbies are chess and rowing.", "My hobbies are chess."),
    ("Mia knows a deposed king.", "Mia knows a king."),
    ("Mia is a self-styled expert.", "Mia is an expert."),
    ("Leo is a deceased singer.", "Leo is a singer."),
    ("Mia is the outgoing chair.", "Mia is the chair."),
    ("Mia hired a phony doctor.", "Mia hired a doctor."),
    ("Mia visited a demolished tower.", "Mia visited a tower."),
    ("Mia is a presumed winner.", "Mia is a winner."),
    ("Mia has an expired passport.", "Mia has a passport."),
    ("Mia signed a void contract with Leo.", "Mia signed a contract with Leo."),
    ("Mia got a chalk horse for her birthday.", "Mia got a horse for her birthday."),
    ("Mia met her old boss at the harbour.", "Mia met her boss at the harbour."),
    ("Mia usually rows on the lake.", "Mia rows on the lake."),
    ("Mia ist eine pensionierte Lehrerin.", "Mia ist eine Lehrerin."),
    ("Mia hat einen gefälschten Pass.", "Mia hat einen Pass."),
    ("Mia has a cat and a dog.", "Mia has a cat."),
    ("Mia bought milk and bread on Monday.", "Mia bought milk on Monday."),
    ("Mia ran for 3 hours and swam.", "Mia ran for 3 hours."),
    ("Mia walked for 3 hours and met a friend.", "Mia walked for 3 hours."),
    ("Mia walked for 3 hours and saw a fox.", "Mia walked for 3 hours."),
    ("Mia plays the piano and the flute.", "Mia plays the piano."),
    ("Mia grows beans and peas in the garden.", "Mia grows beans in the garden."),
    ("Mia lives with Leo and Ben.", "Mia lives with Leo."),
    ("Mia wears a red hat and a blue scarf.", "Mia wears a red hat."),
    ("Mia swims and rows on Sundays.", "Mia swims on Sundays."),
]
COVERS = [
    ("Mia has a small red car.", "Mia has a red car."),
    ("Mia has a black cat.", "Mia has a cat."),
    ("Mia has a huge house by the lake.", "Mia has a house by the lake."),
    ("Mia met a young pilot.", "Mia met a pilot."),
    ("Mia owns a big boat.", "Mia owns a boat."),
]


@pytest.mark.parametrize(("longer", "shorter"), NO_COVERS)
def test_an_addition_that_makes_another_thing_is_none(longer: str, shorter: str) -> None:
    assert not covers(longer, shorter)


@pytest.mark.parametrize(("longer", "shorter"), COVERS)
def test_an_addition_beside_it_is_one(longer: str, shorter: str) -> None:
    assert covers(longer, shorter)
