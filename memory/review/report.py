"""What a report tells: the plan of an audit, what a batch did, or what was ever decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from memory.models import DeduplicationReport, Frozen, Rules, Spread, Usage
from memory.review.cards import Card, least_certain_first

Kind = Literal["audit", "batch", "history"]


class Figure(Frozen):
    """A number that a reader looks for, and what it counts."""

    value: str
    name: str


class Report(Frozen):
    """All that stands in a report, whatever the format."""

    kind: Kind
    at: datetime
    headline: str
    told: str
    """One sentence more."""
    figures: tuple[Figure, ...]
    pairs: dict[str, int]
    """Pairs in one scope at or above each similarity; empty where they were not counted."""
    lower: float
    upper: float
    spread: Spread | None
    cards: tuple[Card, ...]
    """The least certain first; a history's oldest first."""

    @property
    def warning(self) -> str:
        """What whoever keeps the file must know."""
        texts = sum(len(card.members) for card in self.cards)
        return (
            f"This file holds {_many(texts, 'text')} of memories. What `memory-dedup forget` erases"
            " later stays in it: delete the file when it has served."
        )

    @property
    def answerable(self) -> bool:
        """Whether somebody may still say what becomes of the groups."""
        return self.kind == "audit"


def audit_report(
    planned: DeduplicationReport,
    cards: Sequence[Card],
    spread: Spread,
    rules: Rules,
    at: datetime,
) -> Report:
    """What would be done; nothing was changed."""
    certain = planned.found - planned.estimated_model_calls
    return Report(
        kind="audit",
        at=at,
        headline=f"{_many(planned.found, 'group')} of near-copies"
        f" among {_many(planned.memories, 'memory', 'memories')}",
        told=f"{certain:,} need no model; {_many(planned.estimated_model_calls, 'question')}"
        f" would be put to a judge ({planned.model}). Nothing was changed.",
        figures=tuple(_planned_figures(planned, cards)),
        pairs=planned.pairs,
        lower=rules.lower,
        upper=rules.upper,
        spread=spread,
        cards=tuple(least_certain_first(cards)),
    )


def _planned_figures(planned: DeduplicationReport, cards: Sequence[Card]) -> Iterator[Figure]:
    judged = sum(member.fate == "judge" for card in cards for member in card.members)
    yield Figure(value=f"{planned.memories - planned.retired - judged:,}", name="kept as they are")
    yield Figure(value=f"{planned.retired:,}", name="replaced by one that says as much")
    yield Figure(value=f"{judged:,}", name="to be judged, and merged or kept")
    yield Figure(value=f"{planned.estimated_model_calls:,}", name="questions to the judge")
    yield from _paid(planned.estimated, planned.money, "about ")
    if planned.undecided:
        yield Figure(value=f"{planned.undecided:,}", name="pairs that a model failed at before")


def batch_report(
    done: DeduplicationReport,
    cards: Sequence[Card],
    spread: Spread,
    rules: Rules,
    at: datetime,
) -> Report:
    """What a run did, with how alike the memories were before it."""
    return Report(
        kind="batch",
        at=at,
        headline=f"{_many(done.memories, 'memory', 'memories')} became {done.memories_after:,}",
        told=f"{_many(len(cards), 'decision')} in {done.seconds:,.0f} s;"
        f" {done.retired:,} were retired, none destroyed: `undo` takes any of it back.",
        figures=tuple(_done_figures(done)),
        pairs=done.pairs,
        lower=rules.lower,
        upper=rules.upper,
        spread=spread,
        cards=tuple(least_certain_first(cards)),
    )


def _done_figures(done: DeduplicationReport) -> Iterator[Figure]:
    usage = done.usage
    yield Figure(value=f"{done.memories_after:,}", name="memories now")
    yield Figure(value=f"{done.retired:,}", name="retired")
    yield Figure(value=f"{done.merged:,}", name="written from several")
    yield Figure(value=f"{done.decisions.get('keep_both', 0):,}", name="groups kept apart")
    if waiting := done.pending + done.left:
        yield Figure(value=f"{waiting:,}", name="groups left for a later run")
    yield Figure(value=f"{usage.calls:,}", name=f"calls of the model ({done.model})")
    yield from _paid(usage, done.money)


def _paid(usage: Usage, money: float | None, about: str = "") -> Iterator[Figure]:
    """Tokens, and money where prices are known; nothing where none are paid for."""
    tokens = usage.input_tokens + usage.output_tokens
    if tokens:
        yield Figure(value=f"{about}{tokens:,}", name="tokens, in and out")
    if money is not None and usage.calls:
        yield Figure(value=f"{about}{money:,.2f}", name="money, at the configured price")


def history_report(cards: Sequence[Card], rules: Rules, at: datetime) -> Report:
    """What was decided, whoever decided it."""
    actions = Counter(card.action for card in cards)
    undone = sum(card.recorded is not None and card.recorded.undone for card in cards)
    figures = [Figure(value=f"{n:,}", name=_NAMES.get(one, one)) for one, n in actions.items()]
    return Report(
        kind="history",
        at=at,
        headline=_many(len(cards), "decision"),
        told=f"{undone:,} were taken back." if undone else "None was taken back.",
        figures=tuple(figures),
        pairs={},
        lower=rules.lower,
        upper=rules.upper,
        spread=None,
        cards=tuple(cards),
    )


_NAMES = {
    "add": "added", "replace": "replaced", "merge": "merged", "keep_both": "kept apart",
    "update": "reworded", "undo": "taken back", "forget": "forgotten",
}  # fmt: skip


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"
