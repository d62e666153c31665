"""Pages: the templates of this room, and a card as the data that their scripts render."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memory.coverage import difference, marked
from memory.models import Spread
from memory.review.cards import Card, CardMember, KeptText
from memory.review.report import Report
from memory.text import one_line, shortened, visible

_MOST_COMPARED = 12
_TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """The templates; whatever is put into one is escaped. `script` and `style` put a file in."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["inline"] = lambda name: Markup(source(name))  # noqa: S704 - files of this room
    made.filters["as_json"] = as_json
    made.filters["visible"] = visible
    made.filters["shortened"] = shortened
    made.filters["source_hash"] = source_hash
    return made


def source(name: str) -> str:
    """A stylesheet or script of this room."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_hash(name: str) -> str:
    """What names a stylesheet or script that stands in a page, for its Content-Security-Policy."""
    digest = hashlib.sha256(source(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def as_json(value: Any) -> Markup:
    """JSON that can stand in a `<script>`: nothing in it ends the element or begins a comment."""
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        told = told.replace(char, f"\\u{ord(char):04x}")
    return Markup(told)  # noqa: S704 - what could be markup was replaced


def report_page(report: Report) -> str:
    """One file that works by itself: nothing in it is fetched, and only its own scripts run."""
    scripts, styles = ("cards.js", "report.js"), ("style.css", "report.css")
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            scripts=scripts,
            styles=styles,
            bars=list(_bars(report.spread)) if report.spread else [],
            data={
                "cards": [card_data(card) for card in report.cards],
                "answerable": report.answerable,
                "kind": report.kind,
            },
        )
    )


class Bar(NamedTuple):
    """A bar of the histogram, in parts of its whole width and height."""

    left: float
    width: float
    height: float
    title: str


def _bars(spread: Spread) -> Iterator[Bar]:
    """On a log scale: millions of pairs are unlike, and a handful are what matters."""
    top = math.log10(1 + max(spread.counts))
    width = 1 / len(spread.counts)
    for n, count in enumerate(spread.counts):
        height = math.log10(1 + count) / top if top else 0.0
        about = "" if spread.exact else "about "
        title = f"{n * width:.3g} to {(n + 1) * width:.3g}: {about}{count:,} pairs"
        yield Bar(n * width, width, height, title)


def card_data(card: Card) -> dict[str, Any]:
    """A card as `cards.js` renders it; texts as eyes see them, cut into what differs."""
    told: dict[str, Any] = card.model_dump(
        mode="json", include={"key", "similarity", "action", "certainty"}
    )
    told["alike"] = _alike(card)
    told["user"] = visible(card.user) if card.user is not None else None
    told["private"] = card.is_private
    told["reason"] = one_line(card.reason)
    told["members"] = list(map(_member_data, card.members, _marked(card.members)))
    told["kept"] = [_kept_data(one, card.members) for one in card.kept]
    told["recorded"] = card.recorded and card.recorded.model_dump(mode="json")
    return told


def _alike(card: Card) -> str | None:
    """The least and the greatest similarity, rounded as everywhere."""
    if card.similarity is None or card.highest is None:
        return None
    low, high = f"{card.similarity:.2f}", f"{card.highest:.2f}"
    return low if low == high else f"{low} to {high}"


def _marked(members: Sequence[CardMember]) -> list[tuple[str, ...]]:
    """Mark in each text what any other member lacks; of many members, the newest are compared."""
    texts = [member.content for member in members]
    return [
        marked(text, [other for n, other in enumerate(texts) if n != at][-_MOST_COMPARED:])
        for at, text in enumerate(texts)
    ]


def _member_data(member: CardMember, text: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": member.id,
        "hash": member.content_hash,
        "user": visible(member.user) if member.user is not None else None,
        "at": member.timestamp.isoformat(timespec="minutes"),
        "fate": member.fate,
        "alike": None if member.alike is None else f"{member.alike:.2f}",
        "text": text,
    }


def _kept_data(kept: KeptText, members: Sequence[CardMember]) -> dict[str, Any]:
    """What lives on; a new text with how it came of the newest that it stands for."""
    told: dict[str, Any] = {"id": kept.id, "members": kept.members, "is_new": kept.is_new}
    if kept.is_new and kept.text and kept.members:
        runs = difference(members[kept.members[-1]].content, kept.text)
        told["text"] = [[run.kind, run.text] for run in runs]
    elif kept.is_new:
        told["text"] = [["kept", visible(kept.text)]] if kept.text else []
    return told
