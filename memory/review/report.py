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
from typing import Literal, NamedTuple

from memory.errors import InputError, WrongArgument
from memory.models import DeduplicationReport, Frozen, Rules, SimilarityHistogram, Usage
from memory.review.cards import Card, least_certain_first
from memory.review.pages import card_data, environment
from memory.runtime import write_whole
from memory.text import one_line, visible

_FORMULA = re.compile(r"[=+\-@\t\r]")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$&@!])")
_COLUMNS = (
    "group", "action", "reason", "similarity", "certainty", "member", "user", "timestamp", "fate",
    "text", "becomes", "decision", "by", "verified",
)  # fmt: skip
_DONE = {
    "add": "added", "replace": "replaced", "merge": "merged", "keep_both": "kept apart",
    "update": "reworded", "undo": "taken back", "forget": "forgotten",
}  # fmt: skip


class Figure(Frozen):
    value: str
    name: str


class Report(Frozen):
    """The content of a report, whatever its format."""

    kind: Literal["audit", "batch", "history"]
    at: datetime
    headline: str
    summary: str
    figures: tuple[Figure, ...]
    pairs: dict[str, int]
    """The number of pairs of memories that have at least a given similarity, by this similarity.

    The keys are similarities as text. Only pairs within a scope are counted. Empty if no pairs were
    counted.
    """
    lower: float
    upper: float
    spread: SimilarityHistogram | None
    cards: tuple[Card, ...]
    """The groups of the report, the least certain first.

    In a report of the history, they are in the order of the decisions, oldest first.
    """

    @property
    def warning(self) -> str:
        """A warning for readers: `memory-dedup forget` does not erase the texts in this file."""
        texts = sum(len(card.members) for card in self.cards)
        return (
            f"This file contains {_count(texts, 'text')} of memories. `memory-dedup forget` cannot"
            " erase them from it: delete the file when you no longer need it."
        )

    @property
    def answerable(self) -> bool:
        """Whether people can answer the report's groups: true only for the plan of an audit."""
        return self.kind == "audit"


def audit_report(
    planned: DeduplicationReport,
    cards: Sequence[Card],
    spread: SimilarityHistogram,
    rules: Rules,
    at: datetime,
) -> Report:
    """Return the report of what a clean-up would do.

    `planned` has the plan in numbers, and `cards` has its groups. `spread` is the distribution of
    similarities over all pairs of memories of the same scope. `rules` has the thresholds that the
    report shows. `at` is the time of the report.
    """
    questions = _count(planned.questions, "question")
    certain = sum(all(member.fate != "judge" for member in card.members) for card in cards)
    return Report(
        kind="audit",
        at=at,
        headline=f"{_count(planned.found, 'group')} of near-copies"
        f" among {_count(planned.memories, 'memory', 'memories')}",
        summary=f"{certain:,} groups need no model; {questions}"
        f" would go to {planned.model}. Nothing was changed.",
        figures=tuple(_planned_figures(planned, cards)),
        pairs=planned.pairs,
        lower=rules.lower,
        upper=rules.upper,
        spread=spread,
        cards=tuple(least_certain_first(cards)),
    )


def _planned_figures(planned: DeduplicationReport, cards: Sequence[Card]) -> Iterator[Figure]:
    open_ones = sum(member.fate == "judge" for card in cards for member in card.members)
    kept = planned.memories - planned.retired - open_ones
    yield Figure(value=f"{kept:,}", name="kept as they are")
    yield Figure(value=f"{planned.retired:,}", name="replaced by one that says as much")
    yield Figure(value=f"{open_ones:,}", name="need a decision")
    yield Figure(value=f"{planned.questions:,}", name="questions to the model")
    yield from _cost(planned.estimated, planned.money, "about ")
    if planned.undecided:
        yield Figure(value=f"{planned.undecided:,}", name="pairs that a model failed at before")


def batch_report(
    done: DeduplicationReport,
    cards: Sequence[Card],
    spread: SimilarityHistogram,
    rules: Rules,
    at: datetime,
) -> Report:
    """Return the report of what a clean-up did.

    `done` has the clean-up in numbers, and `cards` has its groups. `spread` is the distribution of
    similarities before the clean-up, over all pairs of memories of the same scope. `rules` has the
    thresholds that the report shows. `at` is the time of the report.
    """
    return Report(
        kind="batch",
        at=at,
        headline=f"{_count(done.memories, 'memory', 'memories')} became {done.memories_after:,}",
        summary=f"{_count(len(cards), 'decision')} in {done.seconds:,.0f} s;"
        f" {done.retired:,} were retired, none destroyed: `undo` takes any of it back.",
        figures=tuple(_done_figures(done)),
        pairs=done.pairs,
        lower=rules.lower,
        upper=rules.upper,
        spread=spread,
        cards=tuple(least_certain_first(cards)),
    )


def _done_figures(done: DeduplicationReport) -> Iterator[Figure]:
    yield Figure(value=f"{done.memories_after:,}", name="memories now")
    yield Figure(value=f"{done.retired:,}", name="retired")
    yield Figure(value=f"{done.merged:,}", name="written from several")
    yield Figure(value=f"{done.decisions.get('keep_both', 0):,}", name="groups kept apart")
    if waiting := done.pending + done.left:
        yield Figure(value=f"{waiting:,}", name="groups left for a later run")
    yield Figure(value=f"{done.usage.calls:,}", name=f"calls of the model ({done.model})")
    yield from _cost(done.usage, done.money)


def _cost(usage: Usage, money: float | None, about: str = "") -> Iterator[Figure]:
    """Yield one figure for the number of tokens, and one for the cost in money.

    The first is left out if `usage` has no tokens. The second is left out if `money` is None
    because no prices are configured, or if no model was called. `about` is put before each number:
    "about " if the numbers are estimates, otherwise "".
    """
    tokens = usage.input_tokens + usage.output_tokens
    if tokens:
        yield Figure(value=f"{about}{tokens:,}", name="tokens, in and out")
    if money is not None and usage.calls:
        yield Figure(value=f"{about}{money:,.2f}", name="money, at the configured price")


def history_report(cards: Sequence[Card], rules: Rules, at: datetime) -> Report:
    """Return the report of all recorded decisions, those by people and those by rules and models.

    `cards` has a card for each decision, oldest first. `rules` has the thresholds, which are stored
    in the report. `at` is the time of the report.
    """
    actions = Counter(card.action for card in cards)
    undone = sum(card.recorded is not None and card.recorded.undone for card in cards)
    figures = [
        Figure(value=f"{n:,}", name=_DONE.get(action, action)) for action, n in actions.items()
    ]
    return Report(
        kind="history",
        at=at,
        headline=_count(len(cards), "decision"),
        summary=f"{undone:,} were taken back." if undone else "None was taken back.",
        figures=tuple(figures),
        pairs={},
        lower=rules.lower,
        upper=rules.upper,
        spread=None,
        cards=tuple(cards),
    )


def _count(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"


# --- files --------------------------------------------------------------------------------------


def check_report_name(path: Path) -> None:
    """Check that the file's extension is known and that its folder exists.

    Commands call this before they begin, so that no work is lost.

    Raises: InputError.
    """
    if path.suffix.lower() not in _FORMATS:
        endings = ", ".join(_FORMATS)
        raise WrongArgument(path, f"ends in none of {endings}", "end the name with a format")
    if not path.resolve().parent.is_dir():
        raise InputError(path, "its folder does not exist", "make the folder first")


def write_report(report: Report, path: Path) -> None:
    """Write a report in the format that the file's extension names.

    The file is replaced as a whole; if writing fails, an earlier file stays as it was.

    Raises: InputError if the extension is not known or the file cannot be written.
    """
    check_report_name(path)
    data = _FORMATS[path.suffix.lower()](report).encode()
    try:
        write_whole(path, data)
    except OSError as exc:
        why = exc.strerror or type(exc).__name__
        raise InputError(path, f"cannot be written: {why}", "name another file") from exc


class Bar(NamedTuple):
    """A bar of a histogram. Positions and sizes are fractions, from 0 to 1, of the whole chart.

    `title` is shown when the pointer is on the bar.
    """

    left: float
    width: float
    height: float
    title: str


def _html(report: Report) -> str:
    """Render the report as one HTML file that loads nothing and runs only its own scripts."""
    page = environment().get_template("report.html")
    return page.render(
        report=report,
        scripts=("cards.js", "report.js"),
        styles=("style.css", "report.css"),
        bars=list(_bars(report.spread)) if report.spread else [],
        data={
            "cards": [card_data(card) for card in report.cards],
            "answerable": report.answerable,
            "kind": report.kind,
        },
    )


def _bars(spread: SimilarityHistogram) -> Iterator[Bar]:
    """Yield a bar for each interval of similarity, from 0 to 1, with a logarithmic height.

    On a linear scale, the bars of very similar pairs, which matter most, would be too low to see.
    """
    top = math.log10(1 + max(spread.counts)) or 1.0
    width = 1 / len(spread.counts)
    about = "" if spread.exact else "about "
    for n, count in enumerate(spread.counts):
        title = f"{n * width:.3g} to {(n + 1) * width:.3g}: {about}{count:,} pairs"
        yield Bar(n * width, width, math.log10(1 + count) / top, title)


def _csv(report: Report) -> str:
    """Render the report as CSV, with a row for each member of each group.

    It begins with a byte order mark, by which spreadsheets recognise UTF-8.
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(_COLUMNS)
    for number, card in enumerate(report.cards, start=1):
        rows.writerows(_rows(number, card))
    return "\ufeff" + out.getvalue()


def _rows(number: int, card: Card) -> Iterator[list[object]]:
    recorded = card.recorded
    becomes = {n: kept.text for kept in card.kept for n in kept.members}
    decided = (recorded.number, recorded.by, recorded.verified) if recorded else ("", "", "")
    for n, member in enumerate(card.members):
        yield [
            *(number, card.action, _cell(card.reason), card.similarity, card.certainty),
            *(member.id, _cell(member.user or ""), member.timestamp.isoformat(), member.fate),
            *(_cell(member.content), _cell(becomes.get(n, "")), *decided),
        ]


def _cell(text: str) -> str:
    """Return the text, with an apostrophe before it if a spreadsheet would run it as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _lines(report: Report) -> Iterator[str]:
    """Yield the lines of the report as Markdown."""
    yield f"# {report.headline}\n"
    yield f"{report.summary} {report.at:%Y-%m-%d %H:%M} UTC.\n"
    yield from (f"- {figure.value} {figure.name}" for figure in report.figures)
    yield from (f"- {count:,} pairs >= {band}" for band, count in report.pairs.items())
    yield f"\n{report.warning}\n"
    for number, card in enumerate(report.cards, start=1):
        yield from _group_lines(number, card)


def _group_lines(number: int, card: Card) -> Iterator[str]:
    alike = "" if card.similarity is None else f", similarity {card.similarity:.2f}"
    yield f"## {number}. {card.action}: {_plain(card.user or 'no user')}{alike}\n"
    for member in card.members:
        when = f"{member.timestamp:%Y-%m-%d %H:%M}"
        yield f"- {member.fate}: {_plain(member.content)} ({when}, `{member.id}`)"
    for kept in card.kept:
        if kept.is_new and kept.text:
            yield f"- becomes: {_plain(kept.text)} (`{kept.id}`)"
    yield f"\nReason: {_plain(card.reason)}."
    if card.recorded:
        verified = f", verified {card.recorded.verified}" if card.recorded.verified else ""
        state = ", taken back" if card.recorded.undone else ""
        yield f"Decision {card.recorded.number}, by {_plain(card.recorded.by)}{verified}{state}."
    yield ""


def _plain(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it as it is."""
    return _MARKUP.sub(r"\\\1", one_line(visible(text)))


_FORMATS: dict[str, Callable[[Report], str]] = {
    ".html": _html,
    ".json": lambda report: report.model_dump_json(indent=1) + "\n",
    ".csv": _csv,
    ".md": lambda report: "\n".join(_lines(report)) + "\n",
}
