"""Texts that differ in an order, a scope, a part or a contrast, and some that only look so."""

from __future__ import annotations

import pytest

from memory.coverage import covers

NO_COVERS = [
    # lists in a stated order
    (
        "Mia ranks Rome, Oslo and Bonn in this order.",
        "Mia ranks Oslo, Rome and Bonn in this order.",
    ),
    ("Mia ranks Rome, Oslo and Bonn.", "Mia ranks Rome and Bonn."),
    ("Mia visited, in this order, Rome and Oslo.", "Mia visited, in this order, Oslo and Rome."),
    ("Mia prefers, in order, tea, milk and juice.", "Mia prefers, in order, tea and juice."),
    ("Mia has sons Leo and Ben, oldest first.", "Mia has sons Ben and Leo, oldest first."),
    (
        "Mia has sons Leo and Ben, eldest to youngest.",
        "Mia has sons Ben and Leo, eldest to youngest.",
    ),
    ("Leo's children by age are Mia and Ben.", "Leo's children by age are Ben and Mia."),
    ("Sorted by size, Leo owns a boat and a car.", "Sorted by size, Leo owns a car and a boat."),
    (
        "Leo speaks Greek and Dutch, the former better.",
        "Leo speaks Dutch and Greek, the former better.",
    ),
    ("The queue is Leo, Mia, Ben.", "The queue is Mia, Leo, Ben."),
    ("Mia visited first Rome, then Oslo.", "Mia visited first Oslo, then Rome."),
    (
        "Mia mag Tee und Milch in dieser Reihenfolge.",
        "Mia mag Milch und Tee in dieser Reihenfolge.",
    ),
    (
        "Mia besuchte Rom, Oslo und Bonn in dieser Reihenfolge.",
        "Mia besuchte Rom und Bonn in dieser Reihenfolge.",
    ),
    ("Leo met Mia and Ben, chronologically.", "Leo met Ben and Mia, chronologically."),
    ("Leo met Mia and Ben, starting with Mia.", "Leo met Ben and Mia, starting with Mia."),
    # a cause moved out of the scope of a "not"
    ("Mia did not leave because of the rain.", "Because of the rain Mia did not leave."),
    ("Because of the rain, Mia did not leave.", "Mia did not leave because of the rain."),
    ("Because it rained, Mia did not leave.", "Mia did not leave because it rained."),
    ("Mia didn't marry Leo for his money.", "For his money Mia didn't marry Leo."),
    ("Mia does not work to get rich.", "To get rich, Mia does not work."),
    ("Since Leo came, Mia does not smoke.", "Mia does not smoke since Leo came."),
    ("Mia never left because of Leo.", "Because of Leo Mia never left."),
    ("Mia did not leave on account of the noise.", "On account of the noise Mia did not leave."),
    ("Leo didn't call in order to save money.", "In order to save money Leo didn't call."),
    ("On purpose Leo did not call Mia.", "Leo did not call Mia on purpose."),
    ("Mia does not sleep with Leo in the house.", "With Leo in the house Mia does not sleep."),
    ("Nobody left because of the rain.", "Because of the rain nobody left."),
    ("Mia did not deliberately break the vase.", "Mia deliberately did not break the vase."),
    ("Leo rarely travels because of his dog.", "Because of his dog Leo rarely travels."),
    # a preposition before "no"
    ("Mia wrote it in no time.", "At no time Mia wrote it."),
    ("In no time Mia wrote it.", "At no time Mia wrote it."),
    ("Mia wrote it in no time.", "Mia wrote it at no time."),
    ("Mia left in no time.", "Mia did not leave in time."),
    ("Leo is by no means rich.", "Leo is rich by means."),
    ("Leo cried for no reason.", "Leo did not cry."),
    ("Leo worked to no avail.", "Leo did not work."),
    ("Leo can under no conditions swim.", "Leo can swim under conditions."),
    # a part or a kind, and the whole
    ("Mia painted the door of the house.", "Mia painted the house."),
    ("Mia likes the smell of fish.", "Mia likes fish."),
    ("Mia ate a piece of the cake.", "Mia ate the cake."),
    ("Mia read the end of the book.", "Mia read the book."),
    ("Leo broke the handle of the blue cup.", "Leo broke the blue cup."),
    ("Mia has her brother's dog.", "Mia has her dog."),
    ("Leo visited my boss's new house.", "Leo visited my new house."),
    ("Leo sold the flat of his sister.", "Leo sold his flat."),
    ("Our neighbours' cat is ill.", "Our cat is ill."),
    ("Plants of this sort sting.", "Plants sting."),
    ("Leo is an expert on wild birds.", "Leo is an expert on birds."),
    ("Some students of Mia left.", "The students of Mia left."),
    ("A few cups are broken.", "The cups are broken."),
    ("Small dogs are quiet.", "Dogs are quiet."),
    ("Cats that hunt sleep in the day.", "Cats sleep in the day."),
    ("Mia's parrots are mostly green.", "Mia's parrots are green."),
    ("Leo is allergic to some cats.", "Leo is allergic to cats."),
    ("Mia is allergic to cow milk.", "Mia is allergic to milk."),
    ("The tiger is extinct in Java.", "The tiger is extinct."),
    ("The dog is a species.", "The animal is a species."),
    ("The car was invented in Germany.", "The vehicle was invented in Germany."),
    ("レオの兄の犬は黒い。", "レオの犬は黒い。"),
    # contrasts
    ("Leo is not a nurse but a doctor.", "Leo is not a doctor but a nurse."),
    ("Leo is not a nurse but a doctor.", "Leo is a nurse."),
    ("Mia drank tea instead of coffee.", "Mia drank coffee."),
    ("Mia drank tea rather than coffee.", "Mia drank coffee rather than tea."),
    ("Mia likes tea, not coffee.", "Mia likes coffee."),
    ("If Mia drinks tea, not coffee, she sleeps.", "If Mia drinks tea, she sleeps."),
    ("Mia sleeps if she drinks tea instead of coffee.", "Mia sleeps if she drinks tea."),
    ("Mia hates drinking tea instead of coffee.", "Mia hates drinking tea."),
    ("Mia does not drink tea instead of coffee.", "Mia does not drink tea."),
    ("Leo is not happy but Mia is.", "Leo is Mia."),
    ("Mia owns a dog, not a real one.", "Mia owns a dog."),
    ("Mia has a husband, not legally.", "Mia has a husband."),
    ("Mia is too tired to sing and not dance.", "Mia is too tired to sing."),
    ("Mia regrets buying tea instead of milk.", "Mia regrets buying tea."),
    ("It matters that Mia drinks tea, not milk.", "It matters that Mia drinks tea."),
    ("Mia saves money by drinking tea instead of wine.", "Mia saves money by drinking tea."),
    ("Mia is ill because she ate fish, not meat.", "Mia is ill because she ate fish."),
    ("Mia is happy to have tea rather than milk.", "Mia is happy to have tea."),
    ("Mia is rich, not really.", "Mia is rich."),
    ("Mia trinkt nicht Tee, sondern Kaffee.", "Mia trinkt Tee."),
    ("Mia trinkt Tee statt Kaffee.", "Mia trinkt Kaffee."),
    ("Mia bebe té en vez de café.", "Mia bebe café."),
]
COVERS = [
    ("With Mia Leo went to Rome.", "Leo went to Rome with Mia."),
    ("Leo painted the green door of the house.", "Leo painted the door of the house."),
    ("The engine of the small car is red.", "The engine of the car is red."),
    ("Small boys are playing in the park.", "Boys are playing in the park."),
    ("Young friends helped the girl.", "Friends helped the girl."),
    ("The small dog barks at Leo.", "The dog barks at Leo."),
]


@pytest.mark.parametrize(("longer", "shorter"), NO_COVERS)
def test_another_order_scope_part_or_contrast_is_not_covered(longer: str, shorter: str) -> None:
    assert not covers(longer, shorter)


@pytest.mark.parametrize(("longer", "shorter"), COVERS)
def test_the_same_in_another_order_or_with_an_addition_is_covered(
    longer: str, shorter: str
) -> None:
    assert covers(longer, shorter)
