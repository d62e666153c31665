"""Numbers in any form are one: what is equal, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage import parse


def keys(text: str) -> list[str]:
    return [word.key for word in parse(text).words]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("twenty-one", "21"), ("two hundred and five", "205"), ("1,250", "1250"), ("a dozen", "12"),
        ("three thousand four hundred", "3400"), ("1.5 million", "1500000"), ("-5", "−5"),
        ("17:00", "5 pm"), ("5:00 p.m.", "5pm"), ("9:05 am", "9:05 AM"), ("$50", "50 dollars"),
        ("5km", "5 kilometres"), ("5 %", "five percent"), ("May 3rd", "3 May"),
        ("the 3rd of May", "May 3"), ("2026-05-03", "May 3, 2026"), ("21st", "21st"),
        ("third", "3rd"), ("２１", "21"), ("三人", "3人"), ("二十一日", "21日"), ("两只", "2只"),
        ("12万円", "120000円"), ("2亿元", "200000000元"), ("3百円", "300円"),
    ],
)  # fmt: skip
def test_two_forms_of_one_number_read_the_same(a: str, b: str) -> None:
    assert keys(a) == keys(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("10²", "102"), ("1½", "112"), ("0042", "42"), ("5 am", "5 pm"), ("17:00", "17:30"),
        ("two three", "23"), ("2.4.1", "2.4.10"), ("10.0.0.1", "10.0.0.11"), ("5 km", "5 miles"),
        ("May 3", "March 3"), ("May 3", "May 30"), ("2026-05-03", "2026-03-05"), ("$5", "€5"),
        ("12時", "2時"), ("三人", "二人"), ("1,250", "1,25"), ("fifteen", "fifty"), ("-5", "5"),
        ("20 one", "twenty-one"), ("3rd", "3"),
        ("12万円", "12円"), ("12万円", "1万2千円"), ("2億円", "2万円"), ("3千代", "3代"),
        ("10〜12万円", "10〜120000円"), ("10 to 12 million", "10 to 12,000,000"),
    ],
)  # fmt: skip
def test_two_numbers_do_not(a: str, b: str) -> None:
    assert keys(a) != keys(b)


ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
ONES += "fifteen sixteen seventeen eighteen nineteen"
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def in_words(number: int) -> str:
    """The oracle: a number below a million as a person writes it."""
    if number < 20:
        return ONES.split()[number]
    if number < 100:
        tens = TENS.split()[number // 10 - 2]
        return tens if number % 10 == 0 else f"{tens}-{in_words(number % 10)}"
    scale, word = (1_000, "thousand") if number >= 1_000 else (100, "hundred")
    told = f"{in_words(number // scale)} {word}"
    rest = number % scale
    if not rest:
        return told
    return f"{told} and {in_words(rest)}" if rest < 100 else f"{told} {in_words(rest)}"


@given(st.integers(0, 999))
def test_words_and_digits_of_every_number_below_a_thousand_agree(number: int) -> None:
    assert keys(f"Mia has {in_words(number)} stamps") == keys(f"Mia has {number} stamps")


@given(st.integers(1, 999), st.integers(0, 99))
def test_and_of_thousands(thousands: int, rest: int) -> None:
    number = thousands * 1_000 + rest
    assert keys(f"It has {in_words(number)} rows") == keys(f"It has {number:,} rows")
