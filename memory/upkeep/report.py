"""Reports as files: the plan of an audit, the result of a batch, or the history of decisions.

The extension of the file's name selects the format: HTML, JSON, CSV or Markdown.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Literal

from memory.errors import InputError, WrongArgument
from memory.models import DeduplicationReport, Frozen, Rules, SimilarityHistogram, Usage
from memory.runtime import write_whole
from memory.text import counted, one_line, visible
from memory.upkeep.cards import Card, card_data, least_certain_first

_TEMPLATES = Path(__file__).parent / "templates"
_ANSWER_KEYS = (
    ", <kbd>y</kbd> $yes, <kbd>n</kbd> these are different, <kbd>1</kbd> to <kbd>9</kbd> this one "
    "stays, <kbd>b</kbd> both hold, <kbd>s</kbd> later, <kbd>e</kbd> write one text (<kbd>Ctrl"
    "</kbd> <kbd>Enter</kbd> applies it), <kbd>i</kbd> insist, <kbd>t</kbd> take a refused text, "
    "<kbd>p</kbd> ask the model, <kbd>u</kbd> undo the last"
)
_FORMULA = re.compile(r"[=+\-@\t\r]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&@!])")
_HEAD = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src \
$script; style-src $style; base-uri 'none'; form-action 'none'">
$sheet"""
_TOP = """  <p class="quiet">memory-dedup · $kind · <time datetime="$at">$minute UTC</time></p>"""
_FIGURE = "    <div><dd>$value</dd><dt>$name</dt></div>\n"
_SPREAD = """<details class="spread">
  <summary>How alike the memories are: $pairs pairs$bands</summary>
  <p class="quiet">Pairs of memories that may be compared, by similarity, on a log scale\
$estimated. At $lower and above a pair needs a decision; at $upper and above the rules may \
replace a memory without a model.</p>
  <svg class="histogram" viewBox="0 0 840 244" role="img" aria-label="Histogram of similarity">
$bars    <line x1="20" x2="820" y1="206.5" y2="206.5"/>
$marks  </svg>
</details>"""
_BAR = """    <rect class="$kind" x="$left" width="$width" y="$top" height="$height" rx="1.5">\
<title>$title</title></rect>
"""
_MARK = """    <text x="$x" y="232" text-anchor="$anchor">$value</text>\n"""
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

    >>> report = history_report([], config.memory.rules, store.clock())
    >>> report.kind, report.headline, report.summary
    ('history', '0 decisions', 'None was taken back.')
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
            f"This file contains {counted(texts, 'text')} of memories. `memory-dedup forget` cannot"
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

    >>> found, at = await audit_store(store, config), store.clock()
    >>> alike = similarity_histogram(found.plan.snapshot, store.scope_of, store.scale)
    >>> report = audit_report(found.report, cards_of(found.plan), alike, config.memory.rules, at)
    >>> report.summary.endswith("Nothing was changed.")
    True
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
        headline=f"{counted(planned.found, 'group')} of near-copies"
        f" among {counted(planned.memories, 'memory')}",
        summary=f"{counted(certain, 'group')} without need of a model; "
        f"{counted(planned.questions, 'question')} would go to {planned.model}."
        " Nothing was changed.",
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

    >>> alike = similarity_histogram(store.snapshot(), store.scope_of, store.scale)
    >>> done, at = memories.clean(), store.clock()
    >>> batch_report(done, [], alike, config.memory.rules, at).figures[0].name
    'memories now'
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
        headline=f"{counted(done.memories, 'memory')} became {done.memories_after:,}",
        summary=f"{counted(len(cards), 'decision')} in {done.seconds:,.0f} s;"
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
    """Return the report of the history. `cards`: one card for each decision, oldest first.

    >>> history_report([], config.memory.rules, store.clock()).spread is None
    True
    """
    actions = Counter(card.action for card in cards)
    undone = sum(card.recorded is not None and card.recorded.undone for card in cards)
    return Report(
        kind="history",
        at=at,
        headline=counted(len(cards), "decision"),
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


# --- files --------------------------------------------------------------------------------------


def check_report_name(path: Path) -> Path:
    """Return the path, if the file's extension is known and its folder exists.

    >>> check_report_name(Path("audit.html")).name
    'audit.html'

    Raises: InputError.
    """
    if path.suffix.lower() not in _FORMATS:
        raise WrongArgument(
            path, f"ends in none of {', '.join(_FORMATS)}", "end the name with a format"
        )
    if not path.resolve().parent.is_dir():
        raise InputError(path, "its folder does not exist", "make the folder first")
    return path


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
    figures = _each(_FIGURE, (figure.model_dump() for figure in report.figures))
    policy = {"script": source_hash("page.js"), "style": source_hash("page.css")}
    return page(
        report.headline,
        [card_data(card) for card in report.cards],
        kind=report.kind,
        saves="file" if report.kind == "audit" else "",
        summary=report.summary,
        head=fill(_HEAD, sheet=inline("style", "page.css"), **policy),
        top=fill(_TOP, kind=report.kind, at=report.at.isoformat(), minute=_minute(report.at)),
        figures=fill('  <dl class="figures">\n$figures  </dl>', figures=figures),
        spread=_spread(report, report.spread) if report.spread else "",
        foot=fill("  <p>$warning</p>", warning=report.warning),
        script=inline("script", "page.js"),
    )


def _each(template: str, rows: Iterable[Mapping[str, object]]) -> Markup:
    return Markup("".join(fill(template, **row) for row in rows))


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _spread(report: Report, spread: SimilarityHistogram) -> Markup:
    """Return the histogram of similarities.

    The heights of its bars are logarithmic: on a linear scale, the few very similar pairs would be
    too low to see.
    """
    top = math.log10(1 + max(spread.counts)) or 1.0
    width = 1 / len(spread.counts)
    about = "" if spread.exact else "about "
    bars = [
        {
            "kind": _kind(n * width + 1e-9, report),
            "left": f"{20 + 800 * n * width + 0.75:.2f}",
            "width": f"{800 * width - 1.5:.2f}",
            "top": f"{206 - 176 * height:.2f}",
            "height": f"{176 * height:.2f}",
            "title": f"{n * width:.3g} to {(n + 1) * width:.3g}: {about}{counted(count, 'pair')}",
        }
        for n, count in enumerate(spread.counts)
        for height in [math.log10(1 + count) / top]
    ]
    marks = ((0.0, "start"), (0.5, "middle"), (report.lower, "end"), (report.upper, "start"))
    bands = (f", {count:,} at or above {band}" for band, count in sorted(report.pairs.items()))
    return fill(
        _SPREAD,
        pairs=f"{spread.pairs:,}",
        bands="".join(bands),
        estimated="" if spread.exact else ", estimated from some of them",
        lower=f"{report.lower:.2f}",
        upper=f"{report.upper:.2f}",
        bars=_each(_BAR, bars),
        marks=_each(
            _MARK,
            (
                {"x": 20 + 800 * at, "anchor": anchor, "value": f"{at:.2f}" if at else 0}
                for at, anchor in marks
            ),
        ),
    )


def _kind(similarity: float, report: Report) -> str:
    return "copy" if similarity >= report.upper else "near" if similarity >= report.lower else ""


def _markdown(report: Report) -> str:
    blocks = [
        f"# {report.headline}",
        f"{report.summary} {_minute(report.at)} UTC.",
        "\n".join(
            [
                *(f"- {figure.value} {figure.name}" for figure in report.figures),
                *(f"- {counted(count, 'pair')} >= {band}" for band, count in report.pairs.items()),
            ]
        ),
        report.warning,
        *(f"## {n}. {_card(card)}" for n, card in enumerate(report.cards, start=1)),
    ]
    return "\n\n".join(blocks) + "\n"


def _card(card: Card) -> str:
    alike = "" if card.similarity is None else f", similarity {card.similarity:.2f}"
    lines = [
        f"{card.action}: {_plain(card.user or 'no user')}{alike}",
        "",
        *(
            f"- {one.fate}: {_plain(one.content)} ({_minute(one.timestamp)}, `{one.id}`)"
            for one in card.members
        ),
        *(
            f"- becomes: {_plain(kept.text)} (`{kept.id}`)"
            for kept in card.kept
            if kept.is_new and kept.text
        ),
        "",
        f"Reason: {_plain(card.reason)}.",
    ]
    if (recorded := card.recorded) is not None:
        verified = f", verified {recorded.verified}" if recorded.verified else ""
        undone = ", taken back" if recorded.undone else ""
        lines.append(f"Decision {recorded.number}, by {_plain(recorded.by)}{verified}{undone}.")
    return "\n".join(lines)


def _plain(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", one_line(visible(text)))


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
    ".md": _markdown,
}


# --- the page: one template, script and stylesheet for reports and reviews ------------------------


class Markup(str):
    """HTML that `fill` inserts as it is. Any other value is escaped."""

    __slots__ = ()


def fill(template: str, **values: object) -> Markup:
    """Return a template with its `$names` replaced by the values, which are escaped.

    >>> fill("<b>$name</b>", name="<i>")
    '<b>&lt;i&gt;</b>'

    Raises: KeyError if a name has no value.
    """
    return Markup(
        Template(template).substitute(
            {
                name: value if isinstance(value, Markup) else escape(str(value))
                for name, value in values.items()
            }
        )
    )


def page(
    headline: str,
    cards: Sequence[dict[str, Any]],
    *,
    kind: str,
    saves: Literal["", "file", "post"],
    blind: bool = False,
    judges: Sequence[str] = (),
    progress: dict[str, Any] | None = None,
    **parts: object,
) -> str:
    """Return the page of some cards, each as `card_data` returns it.

    `saves`: how the page saves answers; "" if none can be given. `parts`: the other values of the
    template; what is not given is empty. `blind`, `judges` and `progress` are for its script.
    """
    data = {
        "cards": cards,
        "kind": kind,
        "saves": saves,
        "blind": blind,
        "judges": judges,
        "progress": progress,
    }
    always = dict.fromkeys(("summary", "figures", "spread", "older", "script"), "")
    always |= {"title": headline, "headline": headline, "data": _as_json(data)}
    always["keys"] = fill(_ANSWER_KEYS, yes="same" if blind else "apply") if saves else ""
    return fill(source("page.html"), **always | parts)


def inline(element: Literal["script", "style"], name: str) -> Markup:
    """Return an element with a script or stylesheet of this package."""
    return Markup(f"<{element}>{source(name)}</{element}>")


def source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_hash(name: str) -> str:
    """Return the source expression that admits this script or stylesheet in a policy."""
    digest = hashlib.sha256(source(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _as_json(value: Any) -> Markup:
    """Return a value as JSON that is safe inside `<script>`: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)
