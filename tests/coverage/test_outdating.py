"""Suspects: the newer statement gives another value to an attribute that has one, or a change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.coverage import may_outdate
from memory.models import Memory

MARCH = datetime(2026, 3, 6, 10, tzinfo=UTC)


def said(text: str, month: int, **fields: object) -> Memory:
    given = {"content": text, "timestamp": MARCH.replace(month=month), **fields}
    return Memory.model_validate(given)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ada lives in Ghent.", "Ada lives in Bruges."),
        ("Ada lives in Ghent.", "Ada has moved to Bruges for a man."),
        ("Ada lives at 5 Dock Road.", "Ada lives at 71 Elm Row."),
        ("Ada works at Orbis as a data engineer.", "Ada works at Nimbus as a data engineer."),
        ("Ada weighs 61 kg.", "Ada weighs 58 kg."),
        ("The router's port is 8080.", "The router's port is 9090."),
        ("The proxy listens on port 81.", "The proxy listens on port 82."),
        ("Ada's locker code is 4711.", "Ada's locker code is 0815."),
        ("Ada's hearing is on 3 May.", "Ada's hearing is on 12 June."),
        ("The launch is on track.", "As of today, the launch is cancelled."),
        ("The launch is in planning.", "As of today, the launch is cancelled."),
        ("Note: Bo Lund interview at 2 pm in Room A", "Update: Bo Lund interview at 9 by phone"),
        ("10 tents for Nord", "CORRECTION: miscounted. The value was: 10 tents for Nord."),
        ("The flea market is in the hall.", "The flea market in the hall has been cancelled."),
        ("Approved 2 days of leave for Bo Lund", "do not leave Bo Lund; pending review"),
        ("Approved the trip to Oslo for $900.", "The trip to Oslo is cancelled; no money left."),
        (
            "The cache uses a time limit of 30 seconds.\nChosen by Ada.",
            "The cache uses a time limit of 45 seconds — found in a test.\nChosen by Bo.",
        ),
    ],
)  # fmt: skip
def test_what_the_newer_one_changes_is_suspect(older: str, newer: str) -> None:
    assert may_outdate(said(newer, 5), said(older, 3))
    assert not may_outdate(said(older, 3), said(newer, 5))
    assert not may_outdate(said(newer, 3), said(older, 3)), "equal times prove no order"
    assert not may_outdate(said(newer, 5), said(older, 3, said=None)), "an unknown time"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ada lives in Ghent.", "Bo lives in Bruges."),
        ("Ada lives in Ghent.", "Ada used to live in Bruges."),
        ("Ada lived in Ghent.", "Ada lives in Bruges."),
        ("Ada lives in Ghent.", "Ada wants to live in Bruges."),
        ("Ada lives in Ghent.", "Bo heard that Ada lives in Bruges."),
        ("Ada lives in Ghent.", "Does Ada live in Bruges?"),
        ("Ada lives in Ghent.", "Ada lives in Ghent!"),
        ("Ada's work phone is 555-3311.", "Ada's home phone is 555-3312."),
        ("The wifi password at home is frog1.", "The wifi password at work is toad2."),
        ("Ada has a cat called Pip.", "Ada has a cat called Tut."),
        ("Ada's sister is called Ines.", "Ada's sister is called Ute."),
        ("Ada speaks Danish.", "Ada speaks Polish."),
        ("Ada beat Bo 3:1.", "Ada beat Bo 2:0."),
        ("Ada works as a nurse.", "Ada works as a baker on Sundays."),
        ("Ada has 2 kayaks.", "Ada has 3 tents."),
        ("Ada prefers tea at work.", "Ada prefers wine at dinner."),
        ("The printer's IP is 10.1.1.4.", "The scanner has moved to the IP 10.1.1.5."),
        ("Ada owns a kayak.", "Ada has sold her caravan."),
        ("Ada's appointment is tomorrow at 3 pm.", "Ada's appointment is tomorrow at 4 pm."),
        ("Ada is allergic to nuts.", "Ada is allergic to milk."),
        ("Ada is in Rome.", "Ada is in pain."),
        ("Bo Lund interview at 2 pm", "Update: Bo Lund has a dog."),
        ("x" * 5_000, "y" * 5_000),
    ],
)  # fmt: skip
def test_what_may_both_hold_is_not_suspect(older: str, newer: str) -> None:
    assert not may_outdate(said(newer, 5), said(older, 3))
