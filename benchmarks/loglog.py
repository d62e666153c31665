"""Draw line charts with two logarithmic axes as one SVG, in the reader's light or dark colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Point = tuple[float, float]
Lines = Mapping[str, Sequence[Point]]

LIGHT = ("#1b6ca8", "#b03a2e", "#1e7b4f", "#7d3c98", "#8a5200", "#555555")
DARK = ("#6cb6ff", "#ff8f80", "#5fd39a", "#d2a8ff", "#e3b341", "#b8c0c8")
TOP, LEFT, BOTTOM, LEGEND = 44, 58, 56, 150
"""The space around the plot of a panel, in pixels; the legend is to the right of it."""
ROW = 20
"""The distance between two lines of the legend, in pixels."""


@dataclass(frozen=True)
class Panel:
    """One chart of the picture: its title, its lines, and its place and size in pixels."""

    title: str
    lines: Lines
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Axes:
    """The mapping from values to pixels; both axes are logarithmic and show whole powers of ten."""

    across: tuple[int, int]
    up: tuple[int, int]
    left: float
    right: float
    top: float
    bottom: float

    def x(self, value: float) -> float:
        share = (math.log10(value) - self.across[0]) / (self.across[1] - self.across[0])
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        share = (math.log10(value) - self.up[0]) / (self.up[1] - self.up[0])
        return self.bottom - share * (self.bottom - self.top)


def picture(panels: Sequence[Panel], told: str) -> str:
    """Return the whole SVG; `told` is its description for people who cannot see it."""
    width = max(panel.x + panel.width for panel in panels)
    height = max(panel.y + panel.height for panel in panels)
    parts = [part for panel in panels for part in _panel(panel)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(told)}</title>",
            f"<style>{_style()}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            *parts,
            "</svg>",
        ]
    )


def _style() -> str:
    return (
        "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:13px}"
        ".page{fill:#fff}.grid{stroke:#d8dee4}"
        + _colours(LIGHT)
        + "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}"
        ".grid{stroke:#30363d}" + _colours(DARK) + "}"
    )


def _colours(colours: Sequence[str]) -> str:
    return "".join(
        f".l{n}{{stroke:{colour};fill:none;stroke-width:2}}.m{n}{{fill:{colour}}}"
        for n, colour in enumerate(colours)
    )


def _panel(panel: Panel) -> Iterator[str]:
    axes = _axes(panel)
    yield f'<text class="title" x="{panel.x + 12}" y="{panel.y + 22}">{escape(panel.title)}</text>'
    yield from _grid(axes)
    names = sorted(panel.lines, key=lambda name: -max(panel.lines[name])[1])
    for number, name in enumerate(names):
        places = [(axes.x(n), axes.y(s)) for n, s in sorted(panel.lines[name])]
        yield from _line(places, number)
        x, y = axes.right + 18, axes.top + 8 + ROW * number
        yield from _line([(x, y), (x + 20, y)], number)
        yield f'<text x="{x + 28:.0f}" y="{y + 4:.0f}">{escape(name)}</text>'


def _axes(panel: Panel) -> Axes:
    points = [point for line in panel.lines.values() for point in line]
    across, up = (_decades([point[axis] for point in points]) for axis in (0, 1))
    return Axes(
        across,
        up,
        left=panel.x + LEFT,
        right=panel.x + panel.width - LEGEND,
        top=panel.y + TOP,
        bottom=panel.y + panel.height - BOTTOM,
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _grid(axes: Axes) -> Iterator[str]:
    for n in range(axes.across[0], axes.across[1] + 1):
        x = axes.x(10.0**n)
        yield f'<path class="grid" d="M{x:.0f} {axes.bottom:.0f}V{axes.top:.0f}"/>'
        where = f'x="{x:.0f}" y="{axes.bottom + 18:.0f}" text-anchor="middle"'
        yield f"<text {where}>{10**n:,}</text>"
    where = f'x="{(axes.left + axes.right) / 2:.0f}" y="{axes.bottom + 36:.0f}"'
    yield f'<text {where} text-anchor="middle">memories</text>'
    for n in range(axes.up[0], axes.up[1] + 1):
        y = axes.y(10.0**n)
        yield f'<path class="grid" d="M{axes.left:.0f} {y:.0f}H{axes.right:.0f}"/>'
        where = f'x="{axes.left - 8:.0f}" y="{y + 4:.0f}" text-anchor="end"'
        yield f"<text {where}>{_plain(n)}</text>"


def _plain(decade: int) -> str:
    return f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:.{-decade}f}"


def _line(places: Sequence[Point], number: int) -> Iterator[str]:
    """Return a line of a chart, with a mark at each point.

    Lines differ in their marks too, for readers who do not see the colours well.
    """
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline class="l{number}" points="{path}"/>'
    for x, y in places:
        yield f'<path class="m{number}" d="{_mark(x, y, number)}"/>'


def _mark(x: float, y: float, number: int) -> str:
    """Return the mark of line `number` at a point: a square, a diamond, a triangle, and so on."""
    corners = (
        ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        ((0, -5), (5, 0), (0, 5), (-5, 0)),
        ((0, -5), (4.5, 4), (-4.5, 4)),
        ((0, 5), (4.5, -4), (-4.5, -4)),
        ((-5, -2), (5, -2), (5, 2), (-5, 2)),
        ((-2, -5), (2, -5), (2, 5), (-2, 5)),
    )[number]
    return "M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in corners) + "Z"
