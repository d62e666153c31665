"""Draw how time grows with the number of memories, as the other benchmarks measure it.

    python -m benchmarks.growth                                  growth.json becomes growth.svg
    python -m benchmarks.growth --measure import write           at SIZES, into growth.json first
    python -m benchmarks.growth --measure write --sizes 1000 3000
    python -m benchmarks.growth --measure audit --texts FILE...
    python -m benchmarks.growth --measure pairs --texts FILE... [--only "batch"]

`growth.json` has the lines of each panel of the chart, and the points (memories, time) of each
line. A new measurement replaces the point of the same size and is saved at once, so the sizes can
be measured one by one. `speed.py`, `importing.py`, `batching.py` and `writing.py` say what their
clocks cover.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import batching, importing, speed, writing
from benchmarks.loglog import Panel, picture

HERE = Path(__file__).parent
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
TITLES = {
    "pairs": "To find all pairs of so many: CPU seconds",
    "bulk": "To import or audit so many: seconds",
    "write": "To write one to so many: milliseconds",
}
PLACES = {"pairs": (0, 0, 860, 340), "bulk": (0, 340, 430, 300), "write": (430, 340, 430, 300)}
"""The place of each panel in pixels: distance from the left and from the top, width, height."""
TOLD = "How time grows with the number of memories: pairs, import and audit, and one write"

Panels = dict[str, dict[str, list[tuple[int, float]]]]
Measured = Iterator[tuple[str, str, float]]
"""Measurements, each with its panel, its line, and the time in the panel's unit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=[])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--texts", type=Path, nargs="+", default=[])
    parser.add_argument("--only", nargs="+", choices=speed.WAYS, default=list(speed.WAYS))
    args = parser.parse_args()
    if {"pairs", "audit"} & {*args.measure} and not args.texts:
        parser.error("to measure pairs and audit, --texts names files of sentences")
    points = HERE / "growth.json"
    for what in args.measure:
        for count in args.sizes:
            for panel, line, took in MEASURES[what](count, args):
                print(f"{line}, {count:,}: {took:g}", flush=True)
                note(points, panel, line, (count, took))
    (HERE / "growth.svg").write_text(chart(read(points)), encoding="utf-8")


def read(points: Path) -> Panels:
    told: Panels = json.loads(points.read_text(encoding="utf-8"))
    return {
        panel: {name: [(n, took) for n, took in line] for name, line in lines.items()}
        for panel, lines in told.items()
    }


def note(points: Path, panel: str, line: str, point: tuple[int, float]) -> None:
    """Save a measured point, (memories, time), in place of an earlier one of the same size."""
    told = read(points)
    kept = dict(told.setdefault(panel, {}).get(line, []))
    told[panel][line] = sorted((kept | dict([point])).items())
    points.write_text(written(told), encoding="utf-8")


def written(told: Panels) -> str:
    """Return the content of `growth.json`, with a line of text for each line of the chart."""
    return "{\n" + ",\n".join(_panel(*one) for one in told.items()) + "\n}\n"


def _panel(name: str, lines: dict[str, list[tuple[int, float]]]) -> str:
    each = (f"  {json.dumps(line)}: {json.dumps(points)}" for line, points in lines.items())
    return f" {json.dumps(name)}: {{\n" + ",\n".join(each) + "\n }"


def chart(told: Panels) -> str:
    return picture([Panel(TITLES[name], told[name], *PLACES[name]) for name in told], TOLD) + "\n"


def pairs(count: int, args: argparse.Namespace) -> Measured:
    texts = drawn(count, args)
    ways = speed.installed(args.only)
    for figure in speed.measure(texts, speed.embedded(texts), ways, rounds=1):
        yield "pairs", figure.name, round(figure.cpu, 3)


def imports(count: int, _: argparse.Namespace) -> Measured:
    for name, work in (("import --raw", importing.raw), ("import", importing.deduplicating)):
        with TemporaryDirectory(prefix="growth-") as folder:
            yield "bulk", name, work(importing.config_of(Path(folder)), count).seconds


def audit(count: int, args: argparse.Namespace) -> Measured:
    for found in batching.measure(count, drawn(count, args)):
        yield "bulk", "audit", round(found.seconds, 2)


def write(count: int, _: argparse.Namespace) -> Measured:
    with TemporaryDirectory(prefix="growth-") as folder:
        found = writing.measure(Path(folder), count, writing.MANY)[-1]
    yield "write", "a write, p50", found.p50_ms
    yield "write", "a write, p95", found.p95_ms
    yield "write", "Chroma, p50", found.plain_p50_ms


def drawn(count: int, args: argparse.Namespace) -> list[str]:
    return speed.enough(speed.sentences(args.texts), count)[0]


MEASURES: dict[str, Callable[[int, argparse.Namespace], Measured]] = {
    "pairs": pairs,
    "import": imports,
    "audit": audit,
    "write": write,
}


if __name__ == "__main__":
    main()
