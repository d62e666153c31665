"""The open yardstick: its data hold what its page says, and its script scores."""

from __future__ import annotations

from collections import Counter

import pytest

from yardstick.adapters import Cosine, Ours
from yardstick.score import (
    Outcome,
    Pair,
    made,
    outcome,
    read_merges,
    read_pairs,
    report,
)

KINDS = {
    "number", "date", "name", "negation", "quantifier", "modality", "role", "tense",
    "paraphrase", "addition",
}  # fmt: skip
LANGUAGES = {"en", "ja", "de"}
FAITHFUL = {"union", "paraphrase", "correction"}


def pair(a_states_b: bool, b_states_a: bool) -> Pair:
    return Pair("x", "en", "number", "A", "B", a_states_b, b_states_a)


def test_there_are_ten_pairs_of_each_kind_in_each_language() -> None:
    pairs = read_pairs()
    assert Counter((one.language, one.kind) for one in pairs) == {
        (language, kind): 10 for language in LANGUAGES for kind in KINDS
    }
    assert all(one.redundant for one in pairs if one.kind == "paraphrase")
    assert sum(one.losable for one in pairs) == 198
    assert sum(one.redundant for one in pairs) == 138


def test_half_of_the_merges_are_faithful_and_each_says_why() -> None:
    merges = read_merges()
    assert len(merges) == 100
    assert sum(one.faithful for one in merges) == 50
    assert {one.language for one in merges} == LANGUAGES
    assert {one.reason for one in merges if one.faithful} == FAITHFUL
    wrong = {one.reason for one in merges if not one.faithful}
    assert wrong == KINDS - {"paraphrase", "addition"} | {"lost", "invented", "outdated"}


def test_no_item_is_there_twice() -> None:
    pairs, merges = read_pairs(), read_merges()
    names = [one.id for one in pairs] + [one.id for one in merges]
    assert len(set(names)) == 400
    texts = [text for one in pairs for text in (one.a, one.b)]
    assert [text for text, times in Counter(texts).items() if times > 1] == []
    asked = [{one.a, one.b} for one in pairs] + [{one.a, one.b} for one in merges]
    assert len({frozenset(one) for one in asked}) == 400
    assert all(text == text.strip() and text for text in texts)


@pytest.mark.parametrize(
    ("states", "left", "expected"),
    [
        ((False, False), ["A", "B"], Outcome.RIGHT),
        ((False, False), ["B"], Outcome.FALSE_MERGE),
        ((False, False), [], Outcome.FALSE_MERGE),
        ((True, False), ["A"], Outcome.RIGHT),
        ((True, False), ["B"], Outcome.FALSE_MERGE),
        ((False, True), ["B"], Outcome.RIGHT),
        ((False, True), ["A", "B"], Outcome.KEPT_DUPLICATE),
        ((True, True), ["A"], Outcome.RIGHT),
        ((True, True), [], Outcome.FALSE_MERGE),
        ((True, True), ["A and B"], Outcome.REWRITTEN),
    ],
)
def test_what_became_of_a_pair(
    states: tuple[bool, bool], left: list[str], expected: Outcome
) -> None:
    assert outcome(pair(*states), left) is expected


def test_the_script_scores_ours_and_plain_cosine() -> None:
    some = read_pairs()[::10]
    ours = Ours()
    told = report({"ours": ours, "cosine 0.90": Cosine(0.90)}, some)
    ours.close()
    overall, by_kind, by_language, merging = told.split("\n\n")
    assert [line.split("|")[1].strip() for line in overall.splitlines()[2:]] == [
        "ours", "cosine 0.90",
    ]  # fmt: skip
    assert len(by_kind.splitlines()) == 12
    assert len(by_language.splitlines()) == 5
    assert merging.splitlines()[2].startswith("| ours | ")


def test_a_deduplicator_of_ones_own_is_named_by_its_factory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [(name, one)] = made(["yardstick.adapters:ContentHash"]).items()
    assert name == "yardstick.adapters:ContentHash"
    assert one.keep("A", "A") == ["A"]
    with pytest.raises(SystemExit, match="'nothing' is none of ours"):
        made(["nothing"])
