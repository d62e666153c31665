"""The test merges that a model reads once before it is trusted with second readings.

Six texts are faithful to their memories. Each of the other seven has an error that is easy to miss:
a changed value, a wrong person, a newer fact left out, an invention, or a newer memory that is said
to end another one, of which something still holds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memory.ledger import Reader
from memory.models import Memory, ProposedMerge, Rereading

BY_WORDS = "it counts as having no second reading, and its merged texts are checked word by word"
PREFIX = "second_reading:3:"
"""Prefix of the ledger's keys for results of trials; a model's name follows.

Raise the number when the test merges change, so that every model is tried with the new ones.
"""


MOST_WRONGLY_ACCEPTED = 1
_FAITHFUL, _WRONG = True, False
_ENDS: tuple[tuple[bool, str, str], ...] = (
    (
        _FAITHFUL,
        "Odile lives in Namur.",
        "Odile moved from Namur to Arlon and likes her new flat.",
    ),
    (
        _WRONG,  # somebody may have two
        "Bram's phone number at the surgery is 0412.",
        "Bram's phone number at home is 0977.",
    ),
    (
        _WRONG,  # he still sings
        "Idris plays chess on Mondays and sings in a choir.",
        "Idris no longer plays chess, as the club has closed.",
    ),
    (
        _FAITHFUL,
        "Wanda is not sure whether she will sell the barn.",
        "Wanda has decided to keep the barn.",
    ),
    (
        _WRONG,  # a plan
        "Selma works at a bank in Lund.",
        "Selma hopes to work at a museum in Lund one day.",
    ),
)
"""Whether the second memory ends the first, and both."""
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
        "Lucia is a vegetarian now, though she still eats fish when she travels.",
        "Lucia has become a vegetarian, but eats fish on her travels.",
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


def _merge(number: int, *texts: str, ends: bool = False) -> ProposedMerge:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    *members, merged = texts
    return ProposedMerge(
        tuple(
            Memory(id=f"mem_{16 * number + n:012x}", content=text, timestamp=start.replace(hour=n))
            for n, text in enumerate(members)
        ),
        merged,
        ends,
    )


TRIAL = (
    *(_merge(number, *texts) for number, (_, *texts) in enumerate(_MERGES)),
    *(
        _merge(number, older, newer, newer, ends=True)
        for number, (_, older, newer) in enumerate(_ENDS, start=len(_MERGES))
    ),
)
"""The test merges, which a model reads in one call before it is trusted."""
FAITHFUL = tuple(faithful for faithful, *_ in (*_MERGES, *_ENDS))
"""For each test merge in `TRIAL`, in order: whether its text is faithful to its memories."""


def accepted_wrongly(answer: Rereading) -> int:
    """Count the wrong test merges that a model accepted.

    `answer`: the model's readings of `TRIAL`, in order. A merge without a reading counts as not
    accepted.
    """
    return sum(
        reading is not None and reading.accepted and not faithful
        for reading, faithful in zip(answer.readings, FAITHFUL, strict=False)
    )


def untrusted_readers(reader: Reader) -> list[str]:
    """Return a sentence about each model that failed its trial on test merges, sorted by name."""
    return [
        described(key.removeprefix(PREFIX), int(wrong))
        for key, wrong in sorted(reader.metas(PREFIX).items())
        if int(wrong) > MOST_WRONGLY_ACCEPTED
    ]


def described(name: str, wrong: int) -> str:
    return (
        f"{name} accepted {wrong} of {FAITHFUL.count(False)} wrong merges when it was tried: "
        f"{BY_WORDS}"
    )
