"""Tables without lines, of whole texts: what does not fit is folded, never cut."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from rich.table import Table
from rich.text import Text


def grid(
    rows: Iterable[Sequence[str | Text]],
    fixed: int,
    *,
    gap: int = 1,
    right: Container[int] = (),
) -> Table:
    """`fixed` columns that keep their width, and one that folds; `right` are aligned there."""
    made = Table.grid(padding=(0, gap))
    for column in range(fixed):
        made.add_column(no_wrap=True, justify="right" if column in right else "left")
    made.add_column(overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def table(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values in two columns."""
    return grid(((Text(name), Text(value)) for name, value in rows), fixed=1, gap=2)
