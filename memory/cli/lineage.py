"""One memory for people and for programs: every wording, then each decision with its texts."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memory.cli.report import member_row
from memory.cli.tables import grid, table
from memory.ledger import Row
from memory.models import Action
from memory.review import Card, MemoryHistory


def as_data(found: MemoryHistory) -> dict[str, object]:
    """For programs."""
    return {
        "living": found.living,
        "wordings": [
            {
                **row.memory.model_dump(mode="json"),
                "live": row.live,
                "successor": row.successor_id,
            }
            for row in found.wordings
        ],
        "decisions": [card.model_dump(mode="json") for card in found.decisions],
    }


def as_text(found: MemoryHistory) -> RenderableType:
    """For people: why these texts are one memory, and how each decision is taken back."""
    wordings = grid(map(wording_row, found.wordings), fixed=3)
    added = [_title(card) for card in found.decisions if card.action == Action.ADD]
    others = [card for card in found.decisions if card.action != Action.ADD]
    decisions = [Padding(as_decision(card), (1, 0, 0, 0)) for card in others]
    living = table([("lives today", found.living or "nobody")])
    return Group(wordings, "", *added, *decisions, "", living)


def wording_row(row: Row) -> tuple[str, str, str, Text]:
    """One text, and whether it lives."""
    state = "live" if row.live else "retired"
    at = f"{row.memory.timestamp:%Y-%m-%d %H:%M}"
    return at, row.memory.id, state, Text(row.memory.content)


def as_decision(card: Card) -> RenderableType:
    """Show what became of each member, and why."""
    members = grid(map(member_row, card.members), fixed=2)
    return Group(_title(card), *(Padding(one, (0, 0, 0, 2)) for one in (members, _why(card))))


def _title(card: Card) -> Text:
    """Of an addition it says it all."""
    recorded = card.recorded
    assert recorded is not None
    state = "undone" if recorded.undone else "pending" if recorded.pending else ""
    alike = "" if card.similarity is None else f"{card.similarity:.2f}"
    if recorded.cosine not in (None, card.similarity):
        alike += f" (cosine {recorded.cosine:.2f})"
    stored = card.reason if card.action == Action.ADD else ""
    facts = (f"{recorded.at:%Y-%m-%d %H:%M}", alike, (card.action, "bold"), state, stored)
    told = [part for fact in facts if fact for part in ("  ", fact)]
    return Text.assemble((f"decision {recorded.number}", "bold"), *told)


def _why(card: Card) -> Table:
    recorded = card.recorded
    assert recorded is not None
    verified = f", verified {recorded.verified}" if recorded.verified else ""
    made = [("becomes", f"{one.text}  {one.id}") for one in card.kept if one.is_new and one.text]
    told = [*made, ("because", card.reason), ("by", f"{recorded.by}{verified}")]
    if recorded.reversible and not recorded.undone:
        told.append(("to undo", f"memory-dedup undo {recorded.number}"))
    return table(told)
