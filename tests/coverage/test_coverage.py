"""What one text states that the other does not. The sentences are this project's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage.covers import Comparison, compare, covers
from memory.coverage.parse import parse

OWN = [
    json.loads(line)
    for line in (Path(__file__).parent.parent.parent / "examples" / "pairs.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]

ASKED = {"p114", "p123", "p127", "p130", "p241"}
"""Duplicates that no rule recognises: another article or tense, or another order in Japanese."""
SAME = [
    *(
        (one["a"], one["b"])
        for one in OWN
        if one["label"] == "duplicate" and one["id"] not in ASKED
    ),
    ("Mia adopted a cat in 2023.", "mia adopted a cat in 2023"),
    ("Mia adopted a cat in 2023.", "Actually, Mia adopted a cat in 2023."),
    ("Mia has three parrots.", "Mia has 3 parrots."),
    ("In 2023 Mia adopted a cat.", "Mia adopted a cat in 2023."),
    ("The rent is $1,250.", "The rent is $1250."),
    ("ミアは猫を飼っている。", "ミアは猫を飼っています。"),
    ("Dr. Weiss treats Mia.", "Doctor Weiss treats Mia."),
    ("Prof. Weiss berät Mia.", "Professor Weiss berät Mia."),
    ("Mia's favourite drink is cold tea.", "Cold tea is Mia's favourite drink."),
    ("Mia's sister is Aiko's boss.", "Aiko's boss is Mia's sister."),
]
DIFFERENT = [
    *((one["a"], one["b"]) for one in OWN if one["label"] == "changed"),
    ("The dentist is on March 4.", "The dentist is on March 5."),
    ("Jonas plays chess with Aiko.", "Jonas plays chess with Bela."),
    ("Mia bought ラーメン for Leo.", "Mia bought ラーメン with Leo."),
    ("Mia eats meat.", "Mia does not eat meat."),
    ("Jonas can swim.", "Jonas can't swim."),
    ("The router is at 10.0.7.1.", "The router is at 10.0.9.1."),
    ("Aiko lent Jonas a tent.", "Jonas lent Aiko a tent."),
    ("Jonas prefers tea over coffee.", "Jonas prefers coffee over tea."),
    ("Mia moved from Lisbon to Porto.", "Mia moved from Porto to Lisbon."),
    ("The dentist is on May 3 at 5 pm.", "The dentist is on May 5 at 5 pm."),
    ("Mia has 2 cats and Bela has 3.", "Mia has 2 cats and Bela has 2."),
    ("Mia is Bela's aunt.", "Bela is Mia's aunt."),
    ("Mia's sister is Aiko's boss.", "Aiko's sister is Mia's boss."),
    ("Mia's only friend is Leo.", "Only Leo is Mia's friend."),
    ("Mia's horse is faster than Leo.", "Leo is faster than Mia's horse."),
    ("Mia's cat is in Leo.", "Leo is in Mia's cat."),
    ("Mia's friend is helping Leo.", "Leo is helping Mia's friend."),
    ("The Doctor Mia saw is Leo.", "Dr. Mia saw Leo."),
    ("Mia's password is Dr. Weiss.", "Mia's password is Doctor Weiss."),
    ("It is -5 degrees outside.", "It is 5 degrees outside."),
    ("Mia has a cat.", "Mia has a cat?"),
    ("Mia has a cat.", "Mia had a cat."),
    ("Aiko is divorced from Bela.", "Aiko was divorced from Bela."),
    ("The bakery is closed.", "The bakery was closed."),
    ("Jonas was trained in Porto.", "Jonas trained in Porto."),
    ("Mia lives in Porto.", "Mia used to live in Porto."),
    ("Mia has passed the exam.", "Mia hopes that she has passed the exam."),
    ("Mia likes the plan 👍.", "Mia likes the plan 👎."),
    ("小王会游泳。", "小王不会游泳。"),
    ("Миа ест мясо.", "Миа не ест мясо."),
    ("The shop opens at 9:30 am.", "The shop opens at 9:30 pm."),
    ("ミアは東京に住んでいる。", "ミアは大阪に住んでいる。"),
    ("ジョナスは3月4日に行く。", "ジョナスは3月5日に行く。"),
    ("ミアは肉を食べる。", "ミアは肉を食べない。"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_texts_that_say_the_same_cover_both_ways(a: str, b: str) -> None:
    assert covers(a, b)
    assert covers(b, a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_texts_that_differ_in_a_value_cover_neither_way(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


def test_the_longer_text_covers_the_shorter_and_names_what_is_more() -> None:
    comparison = compare("Mia gladly adopted a tiny cat.", "Mia adopted a cat.")
    assert comparison.a_covers_b
    assert not comparison.b_covers_a
    assert comparison.only_a == ("gladly", "tiny")


def test_capitals_that_are_a_word_of_their_own_are_content() -> None:
    assert compare("Mia works in IT at the port.", "Mia works at the port.").only_a == ("IT",)


def test_an_added_negation_covers_nothing() -> None:
    """It would be one more word, and turns the statement around."""
    comparison = compare("Mia is not happy at work.", "Mia is happy at work.")
    assert (comparison.only_a, comparison.only_b) == (("not",), ("not",))
    assert not comparison.a_covers_b
    assert not comparison.b_covers_a


def test_negations_are_counted() -> None:
    assert parse("He never said that he would not come.").negations == 2
    assert parse("ミアは肉を食べない。").negations == 1


ADDS = [
    ("Mia has a cat.", "Mia has a black cat."),
    ("Mia met a doctor.", "Mia happily met a young doctor."),
]
CHANGES = [
    ("Mia has a cat.", "Mia has a cat toy."),
    ("Mia has a cat.", "Mia has a small old black cat."),
    ("Leo has a boat.", "Leo has a few friends. Leo has a boat."),
    ("Mia has a dog.", "Mia has a dog in The Sims."),
    ("Mia left Tom.", "Mia left Tom a house."),
    ("Mia is free on Friday.", "Mia is free of debt on Friday."),
    ("Mia bought a house.", "Mia bought a doll's house."),
    ("Mia is 34.", "Mia is 34 weeks pregnant."),
    ("Mia is allergic to milk.", "Mia is allergic to coconut milk."),
    ("Mia likes dogs.", "Mia likes small dogs."),
    ("Mia moved to Porto.", "Mia moved to Porto in May."),
    ("Mia moved to Rome.", "Last week Mia moved to Rome."),
    ("Leo said that Mia sings.", "Leo said that Mia sings in a choir."),
    ("Mia earns 50 euros.", "Mia earns at least 50 euros."),
    ("Mia knows Jo.", "Mia knows Jo Weber."),
    ("Mia lives in Porto.", "Mia would like it if she lived in Porto."),
    ("小王骑车。", "小王骑自行车。"),
    ("小王住在北京。", "如果下雨，小王住在北京。"),
    ("Anna ist mit der Arbeit fertig.", "Anna ist mit der Arbeit fast fertig."),
]


NARROWED = [
    ("Leo never eats soup.", "Leo never eats soup at work."),
    ("Most dentists like Leo.", "Most young dentists like Leo."),
    ("Every cousin of Mia sings.", "Every cousin of Mia in Oslo sings."),
    ("Mia is the tallest girl.", "Mia is the second tallest girl."),
    ("Leo runs faster than Bela.", "Leo runs faster than Bela on sand."),
    ("If it snows, Mia skis.", "If it snows on Sunday, Mia skis."),
    ("Leo has a drum.", "Leo has a toy drum."),
    ("Bela is a pilot.", "Bela is an aspiring pilot."),
    ("Mia moves to Rome.", "Mia moves to Rome, provided she finds a flat."),
    ("Mia moves to Rome.", "Mia moves to Rome in case she finds a flat."),
    ("Mia moves to Rome.", "Mia moves to Rome as long as Leo pays."),
    ("Mia is ill.", "Mia is ill, Leo thinks."),
    ("Mia is ill.", "According to Leo, Mia is ill."),
    ("Leo is too weak for a walk.", "Leo is too weak for a short walk."),
    ("Mia hates the harbour.", "Mia hates the noisy harbour."),
    ("Leo stopped smoking.", "Leo stopped smoking at work."),
    ("Does Leo swim?", "Does Leo swim in the lake?"),
    ("Anna isst kein Brot.", "Anna isst kein helles Brot."),
    ("Alle Hunde von Anna bellen.", "Alle jungen Hunde von Anna bellen."),
    ("Anna zieht nach Rom.", "Anna zieht nach Rom, falls es klappt."),
    ("Hij woont in Gent.", "Hij woont niet in Gent."),
    ("Anna habla con Leo.", "Anna nunca habla con Leo."),
    ("ミアは引っ越す。", "ミアは引っ越す予定だ。"),
    ("ミアは魚を食べない。", "ミアはめったに魚を食べない。"),
    ("ミアが歌っている。", "ミアが歌っている弟を見ている。"),
]


@pytest.mark.parametrize(("short", "long"), NARROWED)
def test_nothing_is_an_addition_within_the_scope_of_another_word(short: str, long: str) -> None:
    assert not covers(long, short)
    assert not covers(short, long)


NOT_DENIED = [
    ("Leo doesn't like the dog.", "Leo doesn't like the black dog."),
    ("Leo has no gun.", "Leo has no toy gun."),
    ("Mia left without money.", "Mia left quickly without money."),
    ("Mia did not come.", "Mia did not come because she was ill."),
    ("Mia eats no meat.", "Mia eats no meat and plays chess."),
    ("Mia did not leave.", "Young Mia did not leave."),
    ("Leo has no car.", "Leo has no 2 cars."),
    ("Mia does not visit Dakota.", "Mia does not visit North Dakota."),
    ("Mia may not own a car.", "Mia may not own a new car."),
]


@pytest.mark.parametrize(("short", "long"), NOT_DENIED)
def test_a_negation_denies_only_what_it_reaches(short: str, long: str) -> None:
    assert not covers(short, long)
    assert not covers(long, short)


MOVED = [
    ("From Porto Mia flew to Rome.", "Mia flew to Rome from Porto."),
]
NOT_MOVED = [
    ("Beverly loves Leo.", "Leo loves Beverly."),
    ("Only Mia sings.", "Mia sings only."),
    ("The man with a dog saw Mia.", "The man saw Mia with a dog."),
    ("Leo leaves not on Friday, but on Sunday.", "Leo leaves not on Sunday, but on Friday."),
    ("Nicht alle Nachbarn mögen Leo.", "Alle Nachbarn mögen Leo nicht."),
    ("The nurse thanked the cook and the singer.", "The singer thanked the cook."),
    ("Bela called and Leo paid.", "Bela called Leo and paid."),
    ("In June Bela promised to visit Leo.", "Bela promised to visit Leo in June."),
    ("Leo lived in Rome and worked in Oslo.", "Leo lived in Oslo and worked in Rome."),
    ("Mia vio a Leo.", "Leo vio a Mia."),
    ("小王打小李。", "小李打小王。"),
    ("ミアはレオが好きです。", "レオはミアが好きです。"),
    ("ミアは京都でレオに、奈良でベラに会った。", "ミアは奈良でレオに、京都でベラに会った。"),
]


@pytest.mark.parametrize(("a", "b"), MOVED)
def test_a_phrase_may_move(a: str, b: str) -> None:
    assert covers(a, b)
    assert covers(b, a)


@pytest.mark.parametrize(("a", "b"), NOT_MOVED)
def test_other_moved_words_change_who_does_what(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


OTHERS = [
    ("You lost my key.", "I lost my key."),
    ("Leo has been to Peru.", "Leo has gone to Peru."),
    ("Leo's mother-in-law sings.", "Leo's mother sings."),
    ("Leo's great grandmother sings.", "Leo's grandmother sings."),
    ("Mia knocked the wall.", "Mia knocked the wall over."),
    ("Mia painted the inside of the boat.", "Mia painted the outside of the boat."),
    ("Mia is not really tired.", "Mia is not tired."),
    ("Leo named the ship Really.", "Leo named the ship."),
    ("Leo sold the other boat.", "Leo sold the boat."),
    ("ミアは五時まで働く。", "ミアは五時までに働く。"),
    ("ミアは土曜日にしか働かない。", "ミアは土曜日に働かない。"),
]


@pytest.mark.parametrize(("a", "b"), OTHERS)
def test_small_words_that_matter_are_seen(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


def test_a_country_is_no_pronoun() -> None:
    assert not covers("Leo moved.", "Leo moved to the U.S.")


def test_a_shade_is_stated_by_whoever_has_it() -> None:
    assert covers("Mia has her own boat.", "Mia has her boat.")
    assert not covers("Mia has her boat.", "Mia has her own boat.")
    assert covers("Mia really likes the tea.", "Mia likes the tea.")
    assert covers("Mia likes the tea.", "Mia really likes the tea.")


@pytest.mark.parametrize(("short", "long"), ADDS)
def test_a_text_that_only_adds_covers(short: str, long: str) -> None:
    assert covers(long, short)
    assert not covers(short, long)


@pytest.mark.parametrize(("short", "long"), CHANGES)
def test_an_addition_that_changes_the_meaning_covers_nothing(short: str, long: str) -> None:
    assert not covers(long, short)
    assert not covers(short, long)


def test_another_word_that_governs_is_named_with_what_it_governs() -> None:
    comparison = compare("Jonas works for Bela.", "Jonas works with Bela.")
    assert comparison.only_a == comparison.only_b == ("for Bela / with Bela",)


words_of = st.lists(
    st.sampled_from(
        "Mia Jo Bela not never was 3 three 5 pm May cat cats dog likes liked by for from to is "
        "being hired which red blue and or , . ? 猫 は を 犬 も 京 です 不".split()
    ),
    max_size=9,
).map(" ".join)


@given(words_of, words_of)
def test_a_comparison_reads_the_same_from_both_sides(a: str, b: str) -> None:
    there, back = compare(a, b), compare(b, a)
    assert there.a_covers_b == back.b_covers_a
    assert there.b_covers_a == back.a_covers_b


@given(words_of)
def test_a_text_covers_itself(text: str) -> None:
    assert compare(text, text) == Comparison((), ())


@given(words_of, words_of)
def test_a_covering_text_has_each_number_name_and_negation(a: str, b: str) -> None:
    """The oracle knows no grammar: it only looks for the words."""
    if covers(a, b):
        for word in ("Mia", "Jo", "Bela", "犬", "red", "blue"):
            assert a.count(word) >= b.count(word)
        assert parse(a).negations == parse(b).negations
        assert ("?" in a.split()[-1:]) == ("?" in b.split()[-1:])


RESTATED = [
    ("Leo's aunt is a nurse.", "The aunt of Leo is a nurse."),
    ("The address of Leo's shop is new.", "Leo's shop address is new."),
    ("Mia cooks a pork chop which is breaded.", "Mia cooks a breaded pork chop."),
    ("The hat is being put on by Mia.", "Mia is putting on the hat."),
]
LOOK_ALIKES = [
    ("Mia is devoted to Leo.", "Leo is devoted to Mia."),
    ("Mia is married to Leo.", "Mia is engaged to Leo."),
    ("Mia gave Leo a hat.", "Leo gave Mia a hat."),
    ("Mia gave a hat to Leo.", "Leo gave a hat to Mia."),
    ("Leo's aunt is a nurse.", "The aunt is a nurse of Leo."),
    ("Mia is Leo's sister.", "Leo is Mia's sister."),
    ("Leo has a red car and bike.", "Leo has a red bike and car."),
    ("Mia lived in Rome and Leo in Oslo.", "Mia lived in Oslo and Leo in Rome."),
    ("Max and Ben are 30 and 27.", "Max and Ben are 27 and 30."),
    ("Beverly the singer left.", "The singer left."),
    ("Bela worked at the harbour as a cook.", "Bela is a cook at the harbour."),
    ("The owner of Leo's shop is new.", "Leo's shop is new."),
    ("It was Leo that Mia saw.", "Leo saw Mia."),
    ("It was not Mia who broke the lamp.", "Mia broke the lamp."),
    ("It was Mia's brother who broke the lamp.", "Mia broke the lamp."),
    ("It was only Mia who sang.", "Mia sang."),
    ("Mia saw Leo, Bela said.", "Bela saw Leo, Mia said."),
    ("Leo left, said Mia.", "Mia left, said Leo."),
    ("Leo bought a coat for Mia.", "Leo bought a Mia coat."),
    ("Leo bought a climber's wall.", "Leo bought a climbing wall."),
    ("Mia saw a black bird.", "Mia saw a blackbird."),
    ("Leo painted the green house.", "Leo painted the greenhouse."),
]


@pytest.mark.parametrize(("a", "b"), RESTATED)
def test_the_same_told_from_the_other_side_is_the_same(a: str, b: str) -> None:
    assert compare(a, b) == Comparison((), ())


@pytest.mark.parametrize(("a", "b"), LOOK_ALIKES)
def test_what_only_looks_told_from_the_other_side_is_not(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)


NOT_BY_KIND = [
    ("Mia loves dogs.", "Mia loves animals."),
    ("A dog needs long walks.", "An animal needs long walks."),
    ("No dog is sleeping.", "No animal is sleeping."),
    ("Every boy broke a window.", "Every kid broke a window."),
    ("Leo may buy the car.", "Leo may buy the vehicle."),
    ("The dog is sleeping.", "The cat is sleeping."),
    ("The dog is biting the man.", "The man is biting the animal."),
    ("Mia has no friends.", "Mia has some friends."),
]


@pytest.mark.parametrize(("special", "general"), NOT_BY_KIND)
def test_what_is_said_of_dogs_need_not_hold_of_animals(special: str, general: str) -> None:
    assert not covers(special, general)
    assert not covers(general, special)


def test_counted_things_are_counted_as_a_whole() -> None:
    assert not covers("Zwei Hunde schwimmen in einem Pool.", "Hunde schwimmen in einem Pool.")
    assert not covers("Mia has two small dogs.", "Mia has two dogs.")
    assert not covers("Two square metres are wet.", "Two metres are wet.")


ELSEWHERE_LOOK_ALIKES = [
    ("Mia ist mit Leo zufrieden.", "Leo ist mit Mia zufrieden."),
    ("Mia wurde von Leo gesehen.", "Mia hat Leo gesehen."),
    ("Der Hund wurde von Mia gebissen.", "Mia hat der Hund gebissen."),
    ("Mia est attachée à Leo.", "Leo est attaché à Mia."),
    ("C'est Mia que Leo a vue.", "Mia a vue Leo."),
    ("Ce n'est pas Mia qui a cassé la lampe.", "Mia a cassé la lampe."),
    ("Leo a été aidé par Mia.", "Leo a aidé Mia."),
    ("À Paris, Mia ne travaille pas.", "Mia travaille à Paris."),
    ("De Paris, Leo va à Rome.", "De Rome, Leo va à Paris."),
    ("Mia está enfadada con Leo.", "Leo está enfadado con Mia."),
    ("No fue Mia quien rompió la lámpara.", "Mia rompió la lámpara."),
    ("Leo fue visto por Mia.", "Leo vio Mia."),
    ("En Lima, Mia conoció a Leo.", "En Lima, Leo conoció a Mia."),
]


@pytest.mark.parametrize(("a", "b"), ELSEWHERE_LOOK_ALIKES)
def test_what_only_looks_so_in_german_french_and_spanish_is_not(a: str, b: str) -> None:
    assert not covers(a, b)
    assert not covers(b, a)
