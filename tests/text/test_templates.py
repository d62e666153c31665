"""What texts of one pattern share, and the values in which they differ."""

from __future__ import annotations

import pytest

from memory.text.templates import Template, pieces, share_a_pattern, template_of


def test_a_pattern_and_its_values_say_what_the_texts_say() -> None:
    texts = ["Mia's flight leaves at 10:40 on May 3.", "Mia's flight leaves at 9:15 on June 12.",
             "Mia's flight leaves at noon on May 4."]  # fmt: skip
    found = template_of(texts)
    assert found == Template(
        "Mia's flight leaves at {1} on {2}.",
        (("10:40", "May 3"), ("9:15", "June 12"), ("noon", "May 4")),
    )


def test_an_empty_place_is_an_empty_value() -> None:
    found = template_of(["Ben has a dog.", "Ben has a black dog."])
    assert found == Template("Ben has a {1} dog.", (("",), ("black",)))


def test_a_script_without_spaces_is_read_by_characters() -> None:
    found = template_of(["ミアの部屋は三階です。", "ミアの部屋は十二階です。"])
    assert found == Template("ミアの部屋は{1}階です。", (("三",), ("十二",)))


def test_texts_with_little_in_common_have_no_pattern() -> None:
    assert template_of(["Mia has a cat.", "Ben bought an old house in Bonn."]) is None


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ("Mia likes apples", "Mia likes pears", True),
        ("On March 3 Mia paid 20 dollars", "On March 5 Mia paid 30 dollars", True),
        ("Mia lives in New York City now", "Mia lives in Bonn now", True),
        ("Mia likes apples", "The shop sells apples", False),
        ("Mia has a cat", "Ben lost his keys", False),
    ],
)
def test_pairs_of_one_pattern(a: str, b: str, share: bool) -> None:
    assert share_a_pattern(pieces(a), pieces(b)) is share
    assert share_a_pattern(pieces(b), pieces(a)) is share


def test_texts_of_thousands_of_pieces_have_no_pattern() -> None:
    long = "the cat sat on a mat " * 300
    assert template_of([f"{long} 1", f"{long} 2"]) is not None
    assert template_of([f"{long * 2} 1", f"{long * 2} 2"]) is None
