"""A deduplication report for people (tables that fit 80 columns) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memory.cli.shell import EXIT_PROBLEM, err
from memory.cli.tables import grid, table
from memory.models import DeduplicationReport, GroupReport, MemberReport, Usage

if TYPE_CHECKING:
    from memory.review import CardMember

_FATE_STYLE = {"keep": "green", "retire": "red", "judge": "yellow"}


def to_json(report: DeduplicationReport) -> str:
    return report.model_dump_json(indent=2)


def view(report: DeduplicationReport, *, groups: bool) -> RenderableType:
    """The summary; with `groups`, each group before it."""
    shown = report.groups if groups else ()
    above = [
        Padding(_group(group, f"{number}/{report.found}"), (0, 0, 1, 0))
        for number, group in enumerate(shown, start=1)
    ]
    return Group(*above, _planned(report) if report.dry_run else _done(report))


def _planned(report: DeduplicationReport) -> Table:
    asked = report.questions
    free = "" if report.pages else f", of which {report.found - asked:,} need no model"
    return table(
        [
            *_found(report),
            ("groups", f"{report.found:,}{free}"),
            *_not_shown(report),
            ("just below", _just_below(report)),
            ("would retire", f"{report.retired:,} without a model"),
            ("to judge", f"about {asked:,} questions ({report.model})"),
            *_would_read(report),
            *_would_cost(report),
            ("nothing changed", f"a dry run, {report.seconds:.1f} s"),
        ]
    )


def _done(report: DeduplicationReport) -> Table:
    rows = [
        *_found(report),
        ("memories after", f"{report.memories_after:,}"),
        ("decisions", _counted(report.decisions) or "none"),
        *((f"  {n:,}", reason) for reason, n in _by_count(report.reasons)),
        ("retired", f"{report.retired:,}, none destroyed"),
        ("synthesised", f"{report.merged:,}"),
        ("pending", f"{report.pending:,}"),
        *((("pages read", f"{report.pages:,}"),) if report.pages else ()),
        *_left_over(report),
        ("model calls", cost(report.model, report.usage, report.money)),
        ("rounds, time", f"{report.rounds}, {report.seconds:.1f} s"),
    ]
    return table(rows)


def _would_read(report: DeduplicationReport) -> Iterator[tuple[str, str]]:
    if report.pages:
        told = f"{report.pages:,} pages of them; {report.characters:,} characters go to the model"
        yield "to read", told


def _would_cost(report: DeduplicationReport) -> Iterator[tuple[str, str]]:
    if report.estimated.calls:
        yield "would cost", "about " + cost(report.model, report.estimated, report.money)


def say_cost(planned: DeduplicationReport) -> None:
    """Before anything is paid for, what the first round would cost."""
    if planned.estimated.calls:
        told = cost(planned.model, planned.estimated, planned.money)
        err().print(f"the first round asks about {told}")


def end_if_nothing_was_answered(report: DeduplicationReport) -> None:
    """End with 1 and the server's reason where no call of the model succeeded.

    Raises: typer.Exit.
    """
    if report.failure:
        err().print(f"error: no call of {report.model} succeeded: {report.failure}")
        err().print("nothing was replaced or merged for want of an answer; the questions wait")
        raise typer.Exit(EXIT_PROBLEM)


def cost(model: str, usage: Usage, money: float | None) -> str:
    """Calls, tokens and, where prices are known, money."""
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    paid = "" if money is None else f", {money:,.2f} in all" if money >= 0.01 else ", below 0.01"
    return f"{usage.calls:,} ({model}), {tokens}{paid}"


def _left_over(report: DeduplicationReport) -> Iterator[tuple[str, str]]:
    """What another run has to do, where there is something."""
    if report.left:
        yield "left", f"{report.left:,} groups, for the next run (calls spent, or the model rests)"
    if report.pages_left:
        why = "for the next run (calls spent, or no answer)"
        yield "pages left", f"{report.pages_left:,}, {why}"
    if report.undecided:
        yield (
            "undecided",
            f"{report.undecided:,} pairs that the model failed at before; see retry --all",
        )


def _not_shown(report: DeduplicationReport) -> Iterator[tuple[str, str]]:
    """Where only the least certain groups are shown, how to see the others."""
    if shown := report.found - len(report.groups):
        yield "not shown", f"{shown:,} groups that are more certain; see --groups and --json"


def _found(report: DeduplicationReport) -> Iterator[tuple[str, str]]:
    yield "memories", f"{report.memories:,}"
    for band, count in report.pairs.items():
        yield f"pairs >= {band}", f"{count:,}"


def _just_below(report: DeduplicationReport) -> str:
    below = report.just_below
    if below is None:
        return "not counted"
    return f"{below.pairs:,} pairs from {below.low:.2f} on that do not reach {below.high:.2f}"


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in _by_count(counts))


def _group(group: GroupReport, number: str) -> RenderableType:
    privacy = ", private" if group.is_private else ""
    title = Text.assemble(
        (f"group {number}", "bold"),
        f"  {group.user or 'everyone'}{privacy}  {_span(group)}  ",
        (group.action, "bold"),
    )
    members = grid(map(member_row, group.members), fixed=2)
    why = table([("because", group.reason), *(("differs", line) for line in group.differences[:3])])
    return Group(title, Padding(members, (0, 0, 0, 2)), Padding(why, (0, 0, 0, 2)))


def member_row(member: MemberReport | CardMember) -> tuple[Text, str, Text]:
    """What becomes of a memory, when it was told, its text and its id."""
    fate = Text(f"{member.fate:6}", style=_FATE_STYLE.get(member.fate, ""))
    told = Text.assemble(member.content, (f"  {member.id}", "dim"))
    return fate, f"{member.timestamp:%Y-%m-%d}", told


def _span(group: GroupReport) -> str:
    scores = [score for _, _, score in group.similarities] or [1.0]
    low, high = f"{min(scores):.2f}", f"{max(scores):.2f}"
    return low if low == high else f"{low} to {high}"
