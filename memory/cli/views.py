"""Tables for the terminal, at most 80 columns wide: reports, decisions, and a memory's history."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memory import models, review
from memory.cli.shell import EXIT_PROBLEM, err

_FATE_STYLE = {"keep": "green", "retire": "red", "judge": "yellow"}
_INDENTED = (0, 0, 0, 2)


def grid(
    rows: Iterable[Sequence[str | Text]],
    fixed: int,
    *,
    gap: int = 1,
    right: Container[int] = (),
) -> Table:
    """Return a table for the terminal. Only its last column is wrapped; nothing is cut off.

    `fixed`: the number of columns before the last column. `gap`: the number of spaces between
    columns. `right`: the positions, from 0, of the columns that are aligned right.
    """
    made = Table.grid(padding=(0, gap))
    for column in range(fixed):
        made.add_column(no_wrap=True, justify="right" if column in right else "left")
    made.add_column(overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def table(rows: Iterable[tuple[str, str]]) -> Table:
    return grid(((Text(name), Text(value)) for name, value in rows), fixed=1, gap=2)


# --- a report -------------------------------------------------------------------------------------


def view(report: models.DeduplicationReport, *, groups: bool) -> RenderableType:
    """Return a report as a table for the terminal.

    `groups`: whether to show the report's groups above this table.
    """
    shown = report.groups if groups else ()
    above = [
        Padding(_group(group, f"{number}/{report.found}"), (0, 0, 1, 0))
        for number, group in enumerate(shown, start=1)
    ]
    rows = _planned(report) if report.dry_run else _done(report)
    return Group(*above, table([row for row in rows if row[1]]))


def _planned(report: models.DeduplicationReport) -> list[tuple[str, str]]:
    """Return the rows of the table about a dry run, as pairs (label, value).

    If a row does not apply to this report, its value is "", and the caller must leave it out.
    """
    free = f", of which {report.found - report.questions:,} need no model"
    hidden = report.found - len(report.groups)
    below = report.just_below
    near = f"from {below.low:.2f} to just below {below.high:.2f}" if below else ""
    pages = f"{report.pages:,} pages of memories; {report.characters:,} characters go to the model"
    priced = cost(report.model, report.estimated, report.money)
    return [
        *_found(report),
        ("groups", f"{report.found:,}{'' if report.pages else free}"),
        (
            "not shown",
            f"{hidden:,} groups that are more certain; see --groups and --json" if hidden else "",
        ),
        ("just below", f"{below.pairs:,} pairs {near}" if below else "not counted"),
        ("would retire", f"{report.retired:,} without a model"),
        ("would ask", f"about {report.questions:,} questions ({report.model})"),
        ("would read", pages if report.pages else ""),
        ("would cost", f"about {priced}" if report.estimated.calls else ""),
        ("nothing changed", f"a dry run, {report.seconds:.1f} s"),
    ]


def _done(report: models.DeduplicationReport) -> list[tuple[str, str]]:
    """Return the rows of the table about a finished batch, as pairs (label, value).

    If a row does not apply to this report, its value is "", and the caller must leave it out.
    """
    decisions = ", ".join(f"{n:,} {name}" for name, n in _by_count(report.decisions))
    left = f"{report.left:,} groups, for the next run (calls spent, or the model rests)"
    unread = f"{report.pages_left:,}, for the next run (calls spent, or no answer)"
    failed = f"{report.undecided:,} pairs that the model failed at before; see retry --all"
    return [
        *_found(report),
        ("memories after", f"{report.memories_after:,}"),
        ("decisions", decisions or "none"),
        *((f"  {n:,}", reason) for reason, n in _by_count(report.reasons)),
        ("retired", f"{report.retired:,}, none destroyed"),
        ("synthesised", f"{report.merged:,}"),
        ("pending", f"{report.pending:,}"),
        ("pages read", f"{report.pages:,}" if report.pages else ""),
        ("left", left if report.left else ""),
        ("pages left", unread if report.pages_left else ""),
        ("undecided", failed if report.undecided else ""),
        ("model calls", cost(report.model, report.usage, report.money)),
        ("rounds, time", f"{report.rounds}, {report.seconds:.1f} s"),
    ]


def _found(report: models.DeduplicationReport) -> list[tuple[str, str]]:
    pairs = ((f"pairs >= {band}", f"{count:,}") for band, count in report.pairs.items())
    return [("memories", f"{report.memories:,}"), *pairs]


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _group(group: models.GroupReport, number: str) -> RenderableType:
    privacy = ", private" if group.is_private else ""
    scores = [score for _, _, score in group.similarities] or [1.0]
    low, high = f"{min(scores):.2f}", f"{max(scores):.2f}"
    title = Text.assemble(
        (f"group {number}", "bold"),
        f"  {group.user or 'no user'}{privacy}  {low if low == high else f'{low} to {high}'}  ",
        (group.action, "bold"),
    )
    members = grid(map(_member_row, group.members), fixed=2)
    why = table([("reason", group.reason), *(("differs", line) for line in group.differences[:3])])
    return Group(title, Padding(members, _INDENTED), Padding(why, _INDENTED))


def _member_row(member: models.MemberReport | review.CardMember) -> tuple[Text, str, Text]:
    fate = Text(f"{member.fate:6}", style=_FATE_STYLE.get(member.fate, ""))
    content = Text.assemble(member.content, (f"  {member.id}", "dim"))
    return fate, f"{member.timestamp:%Y-%m-%d}", content


# --- cost and failure -----------------------------------------------------------------------------


def cost(model: str, usage: models.Usage, money: float | None) -> str:
    """Return a text with the number of calls, the model's name, the tokens and the price.

    `money`: the price; None if it is not known, and then it is left out.
    """
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    paid = "" if money is None else f", {money:,.2f} in all" if money >= 0.01 else ", below 0.01"
    return f"{usage.calls:,} ({model}), {tokens}{paid}"


def say_cost(planned: models.DeduplicationReport) -> None:
    """Print what the first round of model calls of a deduplication will probably cost.

    `planned`: the report on the planned first round. Print nothing if it needs no model calls.
    """
    if planned.estimated.calls:
        first = cost(planned.model, planned.estimated, planned.money)
        err().print(f"the first round asks about {first}")


def end_if_nothing_was_answered(report: models.DeduplicationReport) -> None:
    """If the model was called and every call failed, print the reason and end the command.

    Raises: typer.Exit, with status 1, in this case.
    """
    if report.failure:
        err().print(f"error: no call of {report.model} succeeded: {report.failure}")
        err().print("nothing was replaced or merged without an answer; the questions wait")
        raise typer.Exit(EXIT_PROBLEM)


# --- decisions, and one memory --------------------------------------------------------------------


def memory_view(found: review.MemoryHistory) -> RenderableType:
    wordings = [
        (
            f"{row.memory.timestamp:%Y-%m-%d %H:%M}",
            row.memory.id,
            "live" if row.live else "retired",
            Text(row.memory.content),
        )
        for row in found.wordings
    ]
    added = [_title(card) for card in found.decisions if card.action == models.Action.ADD]
    others = [card for card in found.decisions if card.action != models.Action.ADD]
    decisions = [Padding(_decision(card), (1, 0, 0, 0)) for card in others]
    living = table([("lives today", found.living or "nobody")])
    return Group(grid(wordings, fixed=3), "", *added, *decisions, "", living)


def decisions_view(cards: Sequence[review.Card]) -> RenderableType:
    return Group(*(Padding(_decision(card), (0, 0, 1, 0)) for card in cards))


def _decision(card: review.Card) -> RenderableType:
    members = grid(map(_member_row, card.members), fixed=2)
    return Group(_title(card), *(Padding(part, _INDENTED) for part in (members, _why(card))))


def _title(card: review.Card) -> Text:
    recorded = card.recorded
    assert recorded is not None
    state = "undone" if recorded.undone else "pending" if recorded.pending else ""
    alike = "" if card.similarity is None else f"{card.similarity:.2f}"
    if recorded.cosine not in (None, card.similarity):
        alike += f" (cosine {recorded.cosine:.2f})"
    stored = card.reason if card.action == models.Action.ADD else ""
    facts = (f"{recorded.at:%Y-%m-%d %H:%M}", alike, (card.action, "bold"), state, stored)
    parts = [part for fact in facts if fact for part in ("  ", fact)]
    return Text.assemble((f"decision {recorded.number}", "bold"), *parts)


def _why(card: review.Card) -> Table:
    recorded = card.recorded
    assert recorded is not None
    verified = f", verified {recorded.verified}" if recorded.verified else ""
    made = [
        ("becomes", f"{kept.text}  {kept.id}") for kept in card.kept if kept.is_new and kept.text
    ]
    rows = [*made, ("reason", card.reason), ("by", f"{recorded.by}{verified}")]
    if recorded.reversible and not recorded.undone:
        rows.append(("to undo", f"memory-dedup undo {recorded.number}"))
    return table(rows)
