"""Eight merges on which a model's second reading is tried before it is trusted.

Four are faithful, though reworded. The others are wrong where a hasty reader looks away: a value,
who does what, a newer fact that is gone, an invention.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memory.models import Memory, ProposedMerge, Rereading

VERSION = 1
"""Raise it when the merges change: a model is then tried again."""
MOST_ACCEPTED = 1
"""Wrong merges that a model may accept and still be trusted."""
_FAITHFUL, _WRONG = True, False
_MERGES = (
    (
        _FAITHFUL,
        "Ines moved to Ghent for a job at a print shop.",
        "Ines has been running the print shop in Ghent since its owner retired.",
        "Ines moved to Ghent to work at a print shop, which she runs now that its owner retired.",
    ),
    (
        _WRONG,  # a value: once every two weeks, not twice a week
        "Tomasz sees a physiotherapist about his knee.",
        "Tomasz sees the physiotherapist every other week and does exercises at home.",
        "Tomasz sees a physiotherapist about his knee twice a week and exercises at home.",
    ),
    (
        _WRONG,  # who: Amara is the one who owes
        "Amara and her brother Kofi bought a van together.",
        "Amara still owes Kofi her share of the van, and pays him back every month.",
        "Amara and her brother Kofi bought a van together; Kofi still owes her his share, which he "
        "pays back every month.",
    ),
    (
        _FAITHFUL,
        "Lucia is thinking about giving up meat.",
        "Lucia is a vegetarian now, though she still eats fish on holidays.",
        "Lucia has become a vegetarian, but eats fish when she is on holiday.",
    ),
    (
        _FAITHFUL,
        "Henrik teaches chemistry at a school in Aarhus.",
        "Henrik's pupils won a prize with a project about dyes.",
        "Henrik is a chemistry teacher in Aarhus whose students won a prize for their project on "
        "dyes.",
    ),
    (
        _WRONG,  # the newer fact, that the lessons have stopped, is gone
        "Noor takes piano lessons from a neighbour and practises every evening.",
        "Noor stopped the lessons with her neighbour, but still practises the piano every evening.",
        "Noor learns the piano with a neighbour and practises every evening.",
    ),
    (
        _FAITHFUL,
        "Pavel's dog is afraid of thunder.",
        "Pavel bought his dog a padded vest, and it no longer hides during storms.",
        "Pavel's dog used to hide in thunderstorms; since Pavel got it a padded vest, it does not.",
    ),
    (
        _WRONG,  # an invention: nobody says why
        "Greta sold her car.",
        "Greta sold her car and cycles to the harbour, where she works.",
        "Greta sold her car to save money, and cycles to her work at the harbour.",
    ),
)


def _merge(number: int, *texts: str) -> ProposedMerge:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    *members, merged = texts
    return ProposedMerge(
        tuple(
            Memory(id=f"mem_{16 * number + n:012x}", content=text, timestamp=start.replace(hour=n))
            for n, text in enumerate(members)
        ),
        merged,
    )


TRIAL = tuple(_merge(number, *texts) for number, (_, *texts) in enumerate(_MERGES))
"""The merges as a model is shown them, in one call."""
FAITHFUL = tuple(faithful for faithful, *_ in _MERGES)
"""Whether each merge of the trial is faithful."""


def accepted_wrongly(answer: Rereading) -> int:
    """Count the wrong merges that a second reading accepts."""
    return sum(
        reading is not None and reading.accepted and not faithful
        for reading, faithful in zip(answer.readings, FAITHFUL, strict=False)
    )
