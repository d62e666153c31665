"""A report fits 80 columns, shows whole texts, and is the same thing as JSON."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console

from memory.cli.cleaning import view
from memory.models import DeduplicationReport, GroupReport, JustBelow, MemberReport, Usage

WHEN = datetime(2026, 5, 1, tzinfo=UTC)
LONG = "ミアは2023年に前の猫を亡くしたあと保護猫を引き取り、それ以来ずっと一緒に暮らしている。" * 3


def report(dry_run: bool) -> DeduplicationReport:
    members = (
        MemberReport(id="mem_000000000001", content=LONG, timestamp=WHEN, fate="retire"),
        MemberReport(id="mem_000000000002", content="[bold]x[/]", timestamp=WHEN, fate="keep"),
    )
    group = GroupReport(
        user="Mia", is_private=True, action="replace", reason="same text", members=members,
        similarities=((0, 1, 0.973),), differences=('"a" / "b"',),
    )  # fmt: skip
    below = JustBelow(low=0.85, high=0.9, pairs=7) if dry_run else None
    return DeduplicationReport(
        dry_run=dry_run, memories=2_000, memories_after=1_999, pairs={"0.95": 1}, rounds=1,
        just_below=below, found=3, groups=(group,), decisions={"replace": 1},
        reasons={"same text": 1}, retired=1, merged=0, pending=0, left=2, undecided=3,
        usage=Usage(), estimated_model_calls=0, model="offline", seconds=0.5,
    )  # fmt: skip


def printed(dry_run: bool, groups: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=80, highlight=False, emoji=False, markup=False)
    console.print(view(report(dry_run), groups=groups))
    return out.getvalue()


def test_whole_texts_fit_eighty_columns_and_are_not_markup() -> None:
    text = printed(dry_run=True, groups=True)
    cells = Console(width=80)
    assert all(cells.measure(line).maximum <= 80 for line in text.splitlines())
    assert "".join(LONG.split()) in "".join(text.split()).replace("2026-05-01", "")
    assert "[bold]x[/]" in text
    assert "Mia, private  0.97  replace" in text
    assert "reason   same text" in text
    assert 'differs  "a" / "b"' in text


def test_a_plan_says_that_nothing_changed_and_a_run_what_did() -> None:
    plan, done = printed(dry_run=True, groups=False), printed(dry_run=False, groups=False)
    assert "nothing changed" in plan
    assert "not shown        2 groups that are more certain" in plan
    assert "just below       7 pairs from 0.85 to just below 0.90" in plan
    assert "left            2 groups, for the next run" in done
    assert "undecided       3 pairs that the model failed at before" in done
    assert "1,999" in done
    assert "1, none destroyed" in done
