"""A sign, a code, a unit, a capital inside a word is a fact as it stands; own sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage import Belief, compare, hard_facts, verify
from memory.text.cleaning import text_key
from memory.text.signs import decoded, encoded, unified

DIFFERENT = [
    # operators and bounds
    ("Ola's fever is > 39.", "Ola's fever is < 39."),
    ("Ola's fever is > 39.", "Ola's fever is 39."),
    ("The budget is <= 400.", "The budget is >= 400."),
    ("The budget is ≈ 400.", "The budget is 400."),
    ("The flag is x == 1.", "The flag is x != 1."),
    ("The mask is a & b.", "The mask is a | b."),
    ("The area is 3×4.", "The area is 3+4."),
    ("The scale is 1:50.", "The scale is 1:500."),
    ("The gauge shows ±0.5.", "The gauge shows 0.5."),
    # arrows, boxes, stars
    ("Ferry: Oslo → Kiel", "Ferry: Kiel → Oslo"),
    ("The arrow points ↑.", "The arrow points ↓."),
    ("☑ water the fern", "☐ water the fern"),
    ("Ola rates it ★★★★☆.", "Ola rates it ★★☆☆☆."),
    # emoji and smileys
    ("Ola feels 😀 today.", "Ola feels 😢 today."),
    ("Ola roots for 🇧🇷", "Ola roots for 🇧🇴"),
    ("Ola's answer: ✅", "Ola's answer: ❌"),
    ("Ola on the exam ;)", "Ola on the exam ;("),
    ("The heart is 🧡.", "The heart is 💙."),
    ("The runner is 🏃‍♀️.", "The runner is 🏃‍♂️."),
    # grades, groups, signs behind
    ("The bond is rated BBB+.", "The bond is rated BBB-."),
    ("The film is 16+.", "The film is 16."),
    ("The ion is Na+.", "The ion is Na."),
    ("Ola's lens is -1.75.", "Ola's lens is 1.75."),
    ("The altitude is −12 m.", "The altitude is 12 m."),
    # languages, products, keys
    ("Ola writes J#.", "Ola writes J."),
    ("Ola uses Vue.js.", "Ola uses Vue."),
    ("Ola likes g++.", "Ola likes g."),
    ("Ola listens to P!nk.", "Ola listens to Pnk."),
    ("The étude is in F# minor.", "The étude is in F minor."),
    ("The étude is in B♭.", "The étude is in B."),
    ("Ola's key is qZ7mT.", "Ola's key is qz7mt."),
    ("The hash is 9f3c_aa.", "The hash is 9f3caa."),
    ("The pass is river-8-Stone.", "The pass is river-8-stone."),
    # handles, paths, addresses
    ("Ola is @ola.n", "Ola is @ola_n"),
    ("The tag is #off-grid", "The tag is #offgrid"),
    ("The file is /srv/Ola/a.txt.", "The file is /srv/ola/a.txt."),
    ("The mail is ola+shop@example.net", "The mail is ola@example.net"),
    ("The host is 172.16.0.2.", "The host is 172.16.0.20."),
    ("The site is ftp://example.net.", "The site is sftp://example.net."),
    ("The MAC starts with 3c:.", "The MAC starts with c3:."),
    # versions, codes, numerals
    ("Ola runs Node 2.1.", "Ola runs Node 2.10."),
    ("The driver is 5.0.2.", "The driver is 5.02."),
    ("The flight is LH1203.", "The flight is LH1230."),
    ("The strain is B.1.1.", "The strain is B.1.7."),
    ("The pope is Leo XI.", "The pope is Leo IX."),
    ("The locker is 007.", "The locker is 7."),
    # units and their case
    ("The cell gives 3 mV.", "The cell gives 3 MV."),
    ("The link has 8 Mb.", "The link has 8 MB."),
    ("The bottle holds 3 cl.", "The bottle holds 3 dl."),
    ("The dose is 2 µg.", "The dose is 2 mg."),
    ("The flow is 4 l/min.", "The flow is 4 l/h."),
    ("The fee is £30.", "The fee is ¥30."),
    ("Outside it is -3 °C.", "Outside it is 3 °C."),
    ("Outside it is 3 °C.", "Outside it is 3 °F."),
    ("The room has 20 m².", "The room has 20 m³."),
    # case and letters
    ("Ola works for WHO.", "Ola works for who."),
    ("Ola teaches IT.", "Ola teaches it."),
    ("Ola takes vitamin D.", "Ola takes vitamin d3."),
    ("Die Buße ist hoch.", "Die Busse ist hoch."),
    ("The song is \"You\".", "The song is you."),
    ("Ola can paint?", "Ola can paint."),
    # numbers of other languages
    ("Das Auto hat 2.500 Euro gekostet.", "Das Auto hat 2,500 Euro gekostet."),
    ("電話は午前9時です。", "電話は午後9時です。"),
    ("オラはC#で書く。", "オラはCで書く。"),
    ("オラの評価は👍です。", "オラの評価は👎です。"),
    ("To pack: tent, rope", "To pack: tent"),
]  # fmt: skip
SAME = [
    ("Ola ate ¾ of it.", "Ola ate 3/4 of it."),
    ("Ola needs 2½ cups.", "Ola needs 2 1/2 cups."),
    ("Der Zug fährt um 9.15 Uhr.", "Der Zug fährt um 9:15 Uhr."),
    ("Call +49 170 1234567.", "Call +491701234567."),
    ("Call 0761/45 67 89.", "Call 0761-456789."),
    ("映画は午後7時です。", "映画は19時です。"),
    ("Das Sofa ist 2.400 Euro wert.", "Das Sofa ist 2400 Euro wert."),
    ("Der Termin ist am 03.11.2026.", "Der Termin ist am 3. November 2026."),
    ("Due 2026-07-09.", "Due 9 July 2026."),
    ("The tank is at 80 %.", "The tank is at 80%."),
    ("Ola runs 5km.", "Ola runs 5 km."),
    ("The ticket is €12.", "The ticket is 12 euros."),
    ("The limit is ≤ 5.", "The limit is <= 5."),
    ("The limit is <5.", "The limit is < 5."),
    ("Route: Oslo -> Kiel", "Route: Oslo → Kiel"),
    ("The gas is H₂O.", "The gas is H2O."),
    ("Locker #12 is Ola's.", "Locker 12 is Ola's."),
    ("It is level 2.", "It is level II."),
    ("Ola smiles :-)", "Ola smiles :)"),
    ("Ola ❤️ tea", "Ola ❤ tea"),
    ("OLA LIKES TEA.", "Ola likes tea."),
    ("Ola's T-shirt is blue...", "Ola's T-shirt is blue."),
    ("The price is $2.50.", "The price is 2.5 dollars."),
    ("It is −4 degrees.", "It is -4 degrees."),
    ("Ola writes C++ at **night**.", "Ola writes C++ at night."),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_texts_that_differ_in_a_sign_or_code_cover_neither_way(a: str, b: str) -> None:
    told = compare(a, b)
    assert (told.a_covers_b, told.b_covers_a) == (False, False)
    assert text_key(a) != text_key(b)


@pytest.mark.parametrize(("a", "b"), SAME)
def test_other_spellings_of_a_text_cover_both_ways(a: str, b: str) -> None:
    told = compare(a, b)
    assert (told.a_covers_b, told.b_covers_a) == (True, True)


@given(st.text())
def test_a_word_that_stands_for_a_code_is_read_back(code: str) -> None:
    if code.isprintable():
        assert decoded(encoded(code)) == code
    assert decoded(code) == ""
    unified(code)


def test_hard_facts_are_the_values_signs_and_codes_of_a_text() -> None:
    text = "Ola's blood group is A+, her LDL is < 130 mg/dl, and the key is qZ7. She likes tea 👍."
    [facts] = hard_facts([text])
    assert {"A+", "<", "130", "mg/dl", "qZ7", "👍"} <= facts.stated.keys()


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (["Ola's blood group is A+.", "Ola gave blood."], "Ola gave blood, group A-."),
        (["Ola's LDL is < 130.", "Ola's LDL is < 130 since May."], "Ola's LDL is > 130 since May."),
        (["Ola has a key.", "Ola's key is qZ7m."], "Ola has the key qz7m."),
        (["Ola likes tea.", "Ola likes tea 👍."], "Ola likes tea 👎."),
    ],
)
def test_a_merged_text_keeps_signs_and_codes_to_the_letter(sources: list[str], text: str) -> None:
    assert verify(text, sources).belief is Belief.REFUSED
