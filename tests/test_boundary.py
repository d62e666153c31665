"""An exception of a rule becomes the answer that loses nothing, a line in the log, and a count."""

from __future__ import annotations

import hashlib
import sys
from inspect import unwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage import (
    Belief,
    compare,
    conflicting_values,
    difference,
    differing,
    differs,
    marked,
    verify,
    verify_by_words,
)
from memory.text import (
    asked_to_remember,
    clean,
    fails,
    guarded,
    identity,
    normalise,
    only_asks_to_remember,
    periods,
    retold,
    search_terms,
    statements,
    telling_words,
    text_key,
    wordings,
)
from tests.doubles import START

A, B = "Mia has a cat.", "Mia has a cat named Bo."


class Alarm(Exception):
    pass


@guarded(lambda *_texts: "unknown")
def ringing(*texts: str | list[str]) -> str:
    raise Alarm(f"the text was {texts}")


def test_the_first_exception_of_a_kind_is_logged_with_hashes_and_without_texts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ringing(A, [B]) == ringing(B) == "unknown"
    [record] = caplog.records
    hashes = [hashlib.sha256(text.encode()).hexdigest()[:12] for text in (A, B)]
    assert record.getMessage().startswith("ringing failed with Alarm at test_boundary.py:")
    assert ", ".join(hashes) in record.getMessage()
    assert "Mia" not in caplog.text
    assert record.exc_info is None


def test_an_interrupt_is_no_answer() -> None:
    @guarded(lambda: "unknown")
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


@pytest.mark.parametrize("error", [RecursionError, MemoryError, UnicodeError])
def test_every_exception_counts_as_cannot_tell(error: type[Exception]) -> None:
    @guarded(lambda text: text)
    def failing(text: str) -> str:
        raise error

    assert failing(A) == A
    assert fails(failing, A)


def test_texts_that_cannot_be_read_cover_nothing_and_are_no_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("covers", "verification"):
        monkeypatch.setattr(sys.modules[f"memory.coverage.{module}"], "parse", unwrap(ringing))
    found = compare(B, A)
    assert (found.a_covers_b, found.b_covers_a) == (False, False)
    assert verify(B, [A, B]).belief is Belief.DOUBTFUL
    assert verify_by_words(B, [A, B]).belief is Belief.REFUSED


@given(st.text())
def test_what_every_write_needs_never_fails(text: str) -> None:
    kept = clean(text)
    assert len(text_key(kept)) == 32
    assert identity(kept).strip() == identity(kept)
    assert not normalise(kept) or kept


@given(st.text(), st.text())
def test_no_rule_fails_on_any_text(a: str, b: str) -> None:
    for rule in (compare, differing, differs, difference, conflicting_values):
        assert not fails(rule, a, b)
    for rule_of_several in (marked, verify, verify_by_words):
        assert not fails(rule_of_several, a, [b])
    for rule_of_one in (search_terms, telling_words, asked_to_remember, only_asks_to_remember):
        assert not fails(rule_of_one, a)
    assert not fails(wordings, a, "Mia")
    assert not fails(periods, a, START)
    assert not fails(retold, a, "Mia", START)
    assert not fails(statements, a, "Mia", START)
