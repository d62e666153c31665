"""A report as a file: its format is how the name ends."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from memory.errors import InputError, WrongArgument
from memory.review.cards import Card
from memory.review.pages import report_page
from memory.review.report import Report
from memory.runtime import write_whole
from memory.text import one_line, visible

_FORMULA = re.compile(r"[=+\-@\t\r]")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$&@!])")
_COLUMNS = (
    "group", "action", "reason", "similarity", "certainty", "member", "user", "timestamp", "fate",
    "text", "becomes", "decision", "by", "verified",
)  # fmt: skip


def check_report_name(path: Path) -> None:
    """Before any work is done. Raises: InputError where no report ends like that."""
    if path.suffix.lower() not in _FORMATS:
        named = ", ".join(_FORMATS)
        raise WrongArgument(path, f"ends in none of {named}", "name the report by its format")
    if not path.resolve().parent.is_dir():
        raise InputError(path, "its folder is not there", "make the folder first")


def write_report(report: Report, path: Path) -> None:
    """Write the file whole or not at all.

    Raises: InputError.
    """
    check_report_name(path)
    data = _FORMATS[path.suffix.lower()](report).encode()
    try:
        write_whole(path, data)
    except OSError as exc:
        why = exc.strerror or type(exc).__name__
        raise InputError(path, f"cannot be written: {why}", "name another file") from exc


def _json(report: Report) -> str:
    return report.model_dump_json(indent=1) + "\n"


# --- csv --------------------------------------------------------------------------------------


def _csv(report: Report) -> str:
    """A row a member; with a mark at the start, by which spreadsheets know the encoding."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(_COLUMNS)
    for number, card in enumerate(report.cards, start=1):
        rows.writerows(_rows(number, card))
    return "\ufeff" + out.getvalue()


def _rows(number: int, card: Card) -> Iterator[list[object]]:
    recorded = card.recorded
    becomes = {n: one.text for one in card.kept for n in one.members}
    decided = (recorded.number, recorded.by, recorded.verified) if recorded else ("", "", "")
    for n, member in enumerate(card.members):
        yield [
            *(number, card.action, _cell(card.reason), card.similarity, card.certainty),
            *(member.id, _cell(member.user or ""), member.timestamp.isoformat(), member.fate),
            *(_cell(member.content), _cell(becomes.get(n, "")), *decided),
        ]


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


# --- Markdown ---------------------------------------------------------------------------------


def _markdown(report: Report) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {report.headline}\n"
    yield f"{report.told} {report.at:%Y-%m-%d %H:%M} UTC.\n"
    yield from (f"- {one.value} {one.name}" for one in report.figures)
    yield from (f"- {count:,} pairs >= {band}" for band, count in report.pairs.items())
    yield f"\n{report.warning}\n"
    for number, card in enumerate(report.cards, start=1):
        yield from _group_lines(number, card)


def _group_lines(number: int, card: Card) -> Iterator[str]:
    alike = "" if card.similarity is None else f", {card.similarity:.2f} alike"
    yield f"## {number}. {card.action}: {_plain(card.user or 'everyone')}{alike}\n"
    for member in card.members:
        when = f"{member.timestamp:%Y-%m-%d %H:%M}"
        yield f"- {member.fate}: {_plain(member.content)} ({when}, `{member.id}`)"
    for kept in card.kept:
        if kept.is_new and kept.text:
            yield f"- becomes: {_plain(kept.text)} (`{kept.id}`)"
    yield f"\nBecause {_plain(card.reason)}."
    if card.recorded:
        verified = f", verified {card.recorded.verified}" if card.recorded.verified else ""
        state = ", taken back" if card.recorded.undone else ""
        yield f"Decision {card.recorded.number}, by {_plain(card.recorded.by)}{verified}{state}."
    yield ""


def _plain(text: str) -> str:
    """One line that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", one_line(visible(text)))


_FORMATS: dict[str, Callable[[Report], str]] = {
    ".html": report_page, ".json": _json, ".csv": _csv, ".md": _markdown,
}  # fmt: skip
