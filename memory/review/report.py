"""Reports as files: the plan of an audit, the result of a batch, or the history of decisions.

The extension of the file's name selects the format: HTML, JSON, CSV or Markdown.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from memory.errors import InputError, WrongArgument
from memory.models import DeduplicationReport, Frozen, Rules, SimilarityHistogram, Usage
from memory.review.pages import environment, page
from memory.runtime import write_whole
from memory.upkeep import Card, card_data, least_certain_first

_FORMULA = re.compile(r"[=+\-@\t\r]")
_COLUMNS = (
    "group", "action", "reason", "similarity", "certainty", "member", "user", "timestamp", "fate",
    "text", "becomes", "decision", "by", "verified",
)  # fmt: skip
_DONE = {
    "add": "added", "replace": "replaced", "merge": "merged", "keep_both": "kept apart",
    "update": "reworded", "undo": "taken back", "forget": "forgotten",
    "supersede": "superseded", "expire": "expired",
}  # fmt: skip


class Figure(Frozen):
    value: str
    name: str


class Report(Frozen):
    """The content of a report, whatever its format.

    `pairs` maps a similarity, such as "0.90", to the number of pairs of memories that are at least
    that similar. `lower`: from this similarity on, a model may be asked. `upper`: from this
    similarity on, a memory may replace another without a model. `spread` says how the similarities
    in the store are distributed; None in a history.
    """

    kind: Literal["audit", "batch", "history"]
    at: datetime
    headline: str
    summary: str
    figures: tuple[Figure, ...]
    pairs: dict[str, int]
    lower: float
    upper: float
    spread: SimilarityHistogram | None
    cards: tuple[Card, ...]

    @property
    def warning(self) -> str:
        texts = sum(len(card.members) for card in self.cards)
        return (
            f"This file contains {_count(texts, 'text')} of memories. `memory-dedup forget` cannot"
            " erase them from it: delete the file when you no longer need it."
        )


def audit_report(
    planned: DeduplicationReport,
    cards: Sequence[Card],
    spread: SimilarityHistogram,
    rules: Rules,
    at: datetime,
) -> Report:
    """Return the report of what a clean-up would do.

    `spread`: how the similarities in the store are distributed.
    """
    certain = sum(all(member.fate != "judge" for member in card.members) for card in cards)
    open_ones = sum(member.fate == "judge" for card in cards for member in card.members)
    figures = (
        _figure(planned.memories - planned.retired - open_ones, "kept as they are"),
        _figure(planned.retired, "replaced by one that says as much"),
        _figure(open_ones, "need a decision"),
        _figure(planned.questions, "questions to the model"),
        *_cost(planned.estimated, planned.money, "about "),
        *(
            [_figure(planned.undecided, "pairs that a model failed at before")]
            if planned.undecided
            else ()
        ),
    )
    return Report(
        kind="audit",
        at=at,
        headline=f"{_count(planned.found, 'group')} of near-copies"
        f" among {_count(planned.memories, 'memory', 'memories')}",
        summary=f"{certain:,} groups need no model; {_count(planned.questions, 'question')}"
        f" would go to {planned.model}. Nothing was changed.",
        figures=figures,
        pairs=planned.pairs,
        lower=rules.lower,
        upper=rules.upper,
        spread=spread,
        cards=tuple(least_certain_first(cards)),
    )


def batch_report(
    done: DeduplicationReport,
    cards: Sequence[Card],
    spread: SimilarityHistogram,
    rules: Rules,
    at: datetime,
) -> Report:
    """Return the report of what a clean-up did.

    `spread`: how the similarities in the store were distributed before the clean-up.
    """
    waiting = done.pending + done.left
    figures = (
        _figure(done.memories_after, "memories now"),
        _figure(done.retired, "retired"),
        _figure(done.merged, "written from several"),
        _figure(done.decisions.get("keep_both", 0), "groups kept apart"),
        *([_figure(waiting, "groups left for a later run")] if waiting else ()),
        _figure(done.usage.calls, f"calls to the model ({done.model})"),
        *_cost(done.usage, done.money),
    )
    return Report(
        kind="batch",
        at=at,
        headline=f"{_count(done.memories, 'memory', 'memories')} became {done.memories_after:,}",
        summary=f"{_count(len(cards), 'decision')} in {done.seconds:,.0f} s;"
        f" {done.retired:,} were retired, none destroyed: `undo` takes any of it back.",
        figures=figures,
        pairs=done.pairs,
        lower=rules.lower,
        upper=rules.upper,
        spread=spread,
        cards=tuple(least_certain_first(cards)),
    )


def _cost(usage: Usage, money: float | None, about: str = "") -> Iterator[Figure]:
    if tokens := usage.input_tokens + usage.output_tokens:
        yield Figure(value=f"{about}{tokens:,}", name="tokens, in and out")
    if money is not None and usage.calls:
        yield Figure(value=f"{about}{money:,.2f}", name="money, at the configured price")


def history_report(cards: Sequence[Card], rules: Rules, at: datetime) -> Report:
    """Return the report of the history. `cards`: one card for each decision, oldest first."""
    actions = Counter(card.action for card in cards)
    undone = sum(card.recorded is not None and card.recorded.undone for card in cards)
    return Report(
        kind="history",
        at=at,
        headline=_count(len(cards), "decision"),
        summary=f"{undone:,} were taken back." if undone else "None was taken back.",
        figures=tuple(_figure(n, _DONE.get(action, action)) for action, n in actions.items()),
        pairs={},
        lower=rules.lower,
        upper=rules.upper,
        spread=None,
        cards=tuple(cards),
    )


def _figure(count: int, name: str) -> Figure:
    return Figure(value=f"{count:,}", name=name)


def _count(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"


# --- files --------------------------------------------------------------------------------------


def check_report_name(path: Path) -> None:
    """Check that the file's extension is known and that its folder exists.

    Raises: InputError.
    """
    if path.suffix.lower() not in _FORMATS:
        raise WrongArgument(
            path, f"ends in none of {', '.join(_FORMATS)}", "end the name with a format"
        )
    if not path.resolve().parent.is_dir():
        raise InputError(path, "its folder does not exist", "make the folder first")


def write_report(report: Report, path: Path) -> None:
    """Write a report in the format that the file's extension names.

    If writing fails, an earlier file stays as it was.

    Raises: InputError if the extension is not known or the file cannot be written.
    """
    check_report_name(path)
    data = _FORMATS[path.suffix.lower()](report).encode()
    try:
        write_whole(path, data)
    except OSError as exc:
        why = exc.strerror or type(exc).__name__
        raise InputError(path, f"cannot be written: {why}", "name another file") from exc


def _html(report: Report) -> str:
    return page(
        report.headline,
        [card_data(card) for card in report.cards],
        kind=report.kind,
        saves="file" if report.kind == "audit" else "",
        summary=report.summary,
        report=report,
        bars=list(_bars(report.spread)) if report.spread else [],
    )


def _bars(spread: SimilarityHistogram) -> Iterator[tuple[float, float, float, str]]:
    """Yield (left, width, height, title) for the bar of each interval of similarity.

    The numbers are fractions of the chart, from 0 to 1. Heights are logarithmic: on a linear scale,
    the few very similar pairs would be too low to see.
    """
    top = math.log10(1 + max(spread.counts)) or 1.0
    width = 1 / len(spread.counts)
    about = "" if spread.exact else "about "
    for n, count in enumerate(spread.counts):
        title = f"{n * width:.3g} to {(n + 1) * width:.3g}: {about}{count:,} pairs"
        yield n * width, width, math.log10(1 + count) / top, title


def _csv(report: Report) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(_COLUMNS)
    for number, card in enumerate(report.cards, start=1):
        recorded = card.recorded
        becomes = {n: kept.text for kept in card.kept for n in kept.members}
        decided = (recorded.number, recorded.by, recorded.verified) if recorded else ("", "", "")
        rows.writerows(
            (
                *(number, card.action, _cell(card.reason), card.similarity, card.certainty),
                *(member.id, _cell(member.user or ""), member.timestamp.isoformat(), member.fate),
                *(_cell(member.content), _cell(becomes.get(n, "")), *decided),
            )
            for n, member in enumerate(card.members)
        )
    return "\ufeff" + out.getvalue()


def _cell(text: str) -> str:
    """Return the text; if a spreadsheet would run it as a formula, put an apostrophe before it."""
    return f"'{text}" if _FORMULA.match(text) else text


_FORMATS: dict[str, Callable[[Report], str]] = {
    ".html": _html,
    ".json": lambda report: report.model_dump_json(indent=1) + "\n",
    ".csv": _csv,
    ".md": lambda report: environment().get_template("report.md").render(report=report),
}
