"""The chart of growth: it shows what was measured, and can be read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import growth
from benchmarks.loglog import Panel, picture

TWO = {"slow": [(1_000, 0.5), (10_000, 40.0)], "quick <1>": [(1_000, 0.05), (10_000, 0.4)]}


def texts(svg: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("text")]


def test_every_line_is_named_once_below_the_other_with_its_title_and_decades() -> None:
    shown = texts(picture([Panel("Growth", TWO, 0, 0, 430, 300)], "told"))
    assert {"Growth", "memories", "1,000", "10,000", "0.01", "0.1", "1", "10", "100"} < {
        one.text for one in shown
    }
    rows = [float(one.get("y", "")) for one in shown if one.text in TWO]
    assert len(rows) == 2
    assert all(below - above >= 16 for above, below in pairwise(rows))


def test_on_logarithmic_axes_ten_times_as_much_is_as_far_everywhere() -> None:
    line = [(1_000, 1.0), (10_000, 10.0), (100_000, 100.0)]
    svg = picture([Panel("Growth", {"even": line}, 0, 0, 430, 300)], "told")
    drawn = next(one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("polyline"))
    places = [tuple(map(float, place.split(","))) for place in drawn.get("points", "").split()]
    first, second = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)]
    assert first == pytest.approx(second, abs=0.2)
    assert first[0] > 0 > first[1]


def test_a_point_takes_the_place_of_the_one_of_its_size(tmp_path: Path) -> None:
    points = tmp_path / "growth.json"
    points.write_text('{"pairs": {"ours": [[1000, 2], [3000, 5]]}}')
    growth.note(points, "pairs", "ours", (1_000, 1.5))
    growth.note(points, "write", "a write", (1_000, 7.0))
    assert growth.read(points) == {
        "pairs": {"ours": [(1_000, 1.5), (3_000, 5)]},
        "write": {"a write": [(1_000, 7.0)]},
    }


def test_the_chart_is_drawn_from_the_figures_beside_it() -> None:
    drawn = (growth.HERE / "growth.svg").read_text(encoding="utf-8")
    assert drawn == growth.chart(growth.read(growth.HERE / "growth.json"))
