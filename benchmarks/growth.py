"""Draw how time grows with the number of memories, on two logarithmic axes.

    python -m benchmarks.growth benchmarks/growth.json > benchmarks/growth.svg

`growth.json`: for each line its name and its points, (memories, seconds), from runs of
`benchmarks.speed`; README.md says how they were measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT, EDGE = 760, 460, 60
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#555555")

Point = tuple[float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("points", type=Path)
    told = json.loads(parser.parse_args().points.read_text(encoding="utf-8"))
    print(chart({name: [(n, s) for n, s in points] for name, points in told.items()}))


def chart(lines: Mapping[str, Sequence[Point]]) -> str:
    """The whole picture."""
    every = [point for points in lines.values() for point in points]
    across, up = (_decades([point[axis] for point in every]) for axis in (0, 1))

    def place(point: Point) -> Point:
        right = (math.log10(point[0]) - across[0]) / (across[1] - across[0])
        high = (math.log10(point[1]) - up[0]) / (up[1] - up[0])
        return EDGE + right * (WIDTH - 4 * EDGE), HEIGHT - EDGE - high * (HEIGHT - 2 * EDGE)

    parts = [*_grid(across, up, place)]
    for n, (name, points) in enumerate(lines.items()):
        parts += _line(
            name, [place(point) for point in sorted(points)], COLOURS[n % len(COLOURS)], n
        )
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _grid(across: tuple[int, int], up: tuple[int, int], place: object) -> Iterator[str]:
    assert callable(place)
    for n in range(across[0], across[1] + 1):
        (x, low), (_, high) = place((10.0**n, 10.0 ** up[0])), place((10.0**n, 10.0 ** up[1]))
        yield f'<path d="M{x:.0f} {low:.0f}V{high:.0f}" stroke="#ddd"/>'
        yield f'<text x="{x:.0f}" y="{low + 18:.0f}" text-anchor="middle">{10**n:,}</text>'
    for n in range(up[0], up[1] + 1):
        (left, y), (right, _) = (
            place((10.0 ** across[0], 10.0**n)),
            place((10.0 ** across[1], 10.0**n)),
        )
        yield f'<path d="M{left:.0f} {y:.0f}H{right:.0f}" stroke="#ddd"/>'
        yield f'<text x="{left - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{10.0**n:g} s</text>'
    yield f'<text x="{EDGE}" y="{HEIGHT - 14}">memories</text>'


def _line(name: str, places: Sequence[Point], colour: str, number: int) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y in places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    y = EDGE + 18 * number
    yield f'<text x="{WIDTH - 3 * EDGE + 12}" y="{y}" fill="{colour}">{name}</text>'


if __name__ == "__main__":
    main()
