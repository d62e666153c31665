"""Made-up memories for measuring speed: varied sentences, drawn with a seed.

They do not show how well near-copies are recognised. About one in ten repeats an earlier memory in
other words, so that an import has something to decide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from memory.models import Memory

START = datetime(2026, 1, 1, tzinfo=UTC)
REPEATED = 0.1
"""The share of memories that repeat an earlier memory of the same user in other words."""

NAMES = "Mia Jonas Aiko Tomo Runa Idris Lotte Paulo Signe Wanjiru Emil Noor Katya Bruno".split()
WHAT = """
    a violin|the oak table|her left knee|a tabby cat|his savings account|an old motorbike
    the greenhouse|a marathon|two tickets to the opera|the night shift|a leaking roof
    a Portuguese course|the family recipe|a spare tyre|the thesis|a broken tooth|a sailing boat
    the allotment|three hens|a wedding speech|the tax return|a job interview|the blue bicycle
    a choir rehearsal|the kitchen floor|a pair of hiking boots|the mortgage|a stray dog
    a pottery kiln|the school play|an electric piano|a sourdough starter|the driving licence
    a chess tournament|the attic|a winter coat|the telescope|a blood test|an apprenticeship
    the vegetable patch|a ferry crossing|a library card|the wood stove|a crossword|the beehives
""".replace("\n", "|").split("|")
DID = """
    bought|sold|repaired|lost|painted|borrowed|photographed|cancelled|inherited|postponed
    is proud of|is worried about|dreams about|complained about|paid for|insured|gave away
    looks after|spent the weekend on|learned everything about|argued over|forgot about
    wrote a letter about|saved up for|took a course for|injured a thumb with
""".replace("\n", "|").split("|")
WHERE = """
    in Porto|near the harbour|at the sports centre|in Kyoto|behind the church|on the island
    at the clinic|in Tartu|beside the railway|in the mountains|at a flea market|in Lima
    outside Graz|by the canal|at the airport|in the suburbs|on the farm|in Perth|at university
    in the basement|at the notary's office|under the bridge|in Oslo|at grandmother's house
""".replace("\n", "|").split("|")
WHEN = """
    in spring|last Tuesday|before breakfast|during the heat wave|at Christmas|in 2019
    after the operation|on a rainy afternoon|since the divorce|while the children slept
    every other Sunday|right after graduation|two years ago|at the age of forty|in November
    without telling anybody|for the third time|with help from a neighbour|against all advice
    because the old one broke|for eleven hundred euros|as a birthday present|by mistake
""".replace("\n", "|").split("|")
SHAPES = (
    "{name} {did} {what} {where} {when}.",
    "{When}, {name} {did} {what} {where}.",
    "{name} {did} {what} {when}.",
    "{Where}, {name} {did} {what}.",
    "It was {where} that {name} {did} {what}, and {other} was there too.",
    "{other} knows that {name} {did} {what} {where}.",
    "{name} {did} {what} together with {other} {when}.",
    "{name} {did} {what} {where}, then {did2} {what2}.",
    "{name} {did} {what} and {did2} {what2} {when}.",
)


def memories(count: int, users: int, seed: int = 1) -> Iterator[Memory]:
    """Yield `count` memories, spread evenly over the users, a minute apart.

    Equal arguments give equal texts.
    """
    drawn = random.Random(seed)
    told: dict[int, list[str]] = {}
    for n in range(count):
        mine = told.setdefault(n % users, [])
        repeats = mine and drawn.random() < REPEATED
        text = _reworded(drawn, drawn.choice(mine)) if repeats else sentence(drawn)
        mine.append(text)
        yield Memory(
            id=f"mem_{drawn.getrandbits(48):012x}",
            content=text,
            user=f"user {n % users}",
            timestamp=START + timedelta(minutes=n),
        )


def sentence(drawn: random.Random) -> str:
    """Return one of some hundred million sentences."""
    parts = {
        "name": drawn.choice(NAMES),
        "other": drawn.choice(NAMES),
        "did": _one(drawn, DID),
        "did2": _one(drawn, DID),
        "what": _one(drawn, WHAT),
        "what2": _one(drawn, WHAT),
        "where": _one(drawn, WHERE),
        "when": _one(drawn, WHEN),
    }
    parts |= {key.capitalize(): _upper(parts[key]) for key in ("where", "when")}
    return drawn.choice(SHAPES).format(**parts)


def _one(drawn: random.Random, words: list[str]) -> str:
    return drawn.choice([word.strip() for word in words if word.strip()])


def _reworded(drawn: random.Random, text: str) -> str:
    """Return the text with something added, or with one word less."""
    if drawn.random() < 0.5:
        return f"{text[:-1]} {_one(drawn, WHEN)}."
    words = text.split()
    words.pop(drawn.randrange(1, len(words)))
    return " ".join(words)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
