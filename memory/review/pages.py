"""The HTML templates of reports and review pages, and the data that they render."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memory.coverage import difference, marked
from memory.ledger import Attempt, Reader, Row, Step
from memory.models import Action, Scope
from memory.review.cards import Card, CardMember, KeptText, card_key, content_hash
from memory.text import one_line, shortened, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_MOST_COMPARED = 12
_TEMPLATES = Path(__file__).parent / "templates"
_FIGURES = ("memories", "copies removed", "model calls", "tokens")
_WIDTH, _HEIGHT = 600, 120
"""The width and height of a chart, in the units of its SVG."""


def environment() -> Environment:
    """Return the Jinja environment of this package's templates. It escapes all values.

    The filter `inline` takes the name of a stylesheet or script of this package, and inserts its
    text without escaping.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a page needs them
    from markupsafe import Markup

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
    made.filters["source_hash"] = _source_hash
    made.globals["card_data"] = card_data
    return made


def source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _source_hash(name: str) -> str:
    """Return the hash of a script or stylesheet, such as `'sha256-...'`, to allow it in a page.

    The form is that of a Content-Security-Policy. `name`: the name of a file of this package.
    """
    digest = hashlib.sha256(source(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def as_json(value: Any) -> Markup:
    """Return a value as JSON that is safe inside `<script>`: nothing in it can end the element."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704 - what could be markup was replaced


def card_data(card: Card) -> dict[str, Any]:
    """Return a card as the JSON data from which `cards.js` draws it.

    Invisible characters are removed. Texts are cut into pieces, so that differences between them
    can be highlighted.
    """
    data: dict[str, Any] = card.model_dump(
        mode="json", include={"key", "similarity", "action", "certainty", "recorded"}
    )
    texts = [member.content for member in card.members]
    data["alike"] = _similarities(card)
    data["user"] = visible(card.user) if card.user is not None else None
    data["private"] = card.is_private
    data["reason"] = one_line(card.reason)
    data["members"] = [_member_data(member, n, texts) for n, member in enumerate(card.members)]
    data["kept"] = [_kept_data(kept, card.members) for kept in card.kept]
    return data


def _similarities(card: Card) -> str | None:
    """Return a card's lowest and highest similarity as text, such as `0.92 to 0.97`.

    If both are equal, the text is one number. Return None if they were not recorded.
    """
    if card.similarity is None or card.highest is None:
        return None
    low, high = f"{card.similarity:.2f}", f"{card.highest:.2f}"
    return low if low == high else f"{low} to {high}"


def _member_data(member: CardMember, position: int, texts: Sequence[str]) -> dict[str, Any]:
    """Return the JSON data of one member of a card.

    `texts` has the texts of all members, and `position` is the index of this member's text. The
    text is cut into pieces: pieces that other members also have, and pieces that they do not have.
    It is compared only with the twelve newest other members.
    """
    others = [text for n, text in enumerate(texts) if n != position]
    return {
        "id": member.id,
        "hash": member.content_hash,
        "user": visible(member.user) if member.user is not None else None,
        "at": member.timestamp.isoformat(timespec="minutes"),
        "fate": member.fate,
        "alike": None if member.alike is None else f"{member.alike:.2f}",
        "text": marked(member.content, others[-_MOST_COMPARED:]),
    }


def _kept_data(kept: KeptText, members: Sequence[CardMember]) -> dict[str, Any]:
    """Return the JSON data of a memory that stays live after a decision.

    `members` are the card's members. If the decision made a new text, the data have a key `text`:
    the text in pieces, which show how it differs from the newest member that the memory replaces.
    """
    data: dict[str, Any] = {"id": kept.id, "members": kept.members, "is_new": kept.is_new}
    if kept.is_new and kept.text and kept.members:
        runs = difference(members[kept.members[-1]].content, kept.text)
        data["text"] = [[run.kind, run.text] for run in runs]
    elif kept.is_new:
        data["text"] = [["kept", visible(kept.text)]] if kept.text else []
    return data


# --- open questions -------------------------------------------------------------------------------


class FailedPair(NamedTuple):
    """Two texts that a model failed to compare, and the live memories with each of them."""

    attempt: Attempt
    first: tuple[Row, ...]
    second: tuple[Row, ...]


class OpenGroup(NamedTuple):
    """A group with an open question, with the data that a page needs for a person's answer."""

    key: str
    members: tuple[tuple[str, str], ...]
    """Pairs of a member's id and the hash of its text.

    Empty if a member is no longer live, because the question can then not be answered any more.
    """


def open_group(rows: Sequence[Row]) -> OpenGroup:
    members = tuple((row.memory.id, content_hash(row.memory.content)) for row in rows)
    return OpenGroup(card_key(members), members if all(row.live for row in rows) else ())


def failed_pairs(reader: Reader) -> list[FailedPair]:
    """Return the pairs of texts that a model failed to compare.

    A pair is left out if one of its texts belongs to no live memory any more.
    """
    attempts = reader.attempts.all()
    rows: dict[str, list[Row]] = {
        key: [] for attempt in attempts for key in (attempt.low_key, attempt.high_key)
    }
    for row in reversed(reader.memories.live_with_texts(rows.keys(), Scope(()))):
        rows[row.text_key].append(row)
    pairs = (FailedPair(a, tuple(rows[a.low_key]), tuple(rows[a.high_key])) for a in attempts)
    return [pair for pair in pairs if pair.first and pair.second]


# --- figures over time ----------------------------------------------------------------------------


class Line(NamedTuple):
    """A curve of a chart over time; `name` is its label.

    `last` is the value at the end of the curve, and `most` the highest value.
    """

    name: str
    last: int
    most: int
    points: str
    """The points `x,y x,y ...` of an SVG polyline, from left to right; y is 0 at the top."""


def replay(steps: Iterable[Step]) -> Sequence[tuple[datetime, tuple[int, ...]]]:
    """Replay the decisions of a store; return the time of each, and four totals after it.

    `steps`: all recorded decisions, oldest first. The totals are the number of live memories, of
    copies removed, of model calls and of tokens. For an undone decision, only its model calls and
    tokens are counted.
    """
    known, live, copies = set[str](), set[str](), set[str]()
    found = []
    calls = tokens = 0
    for step in steps:
        live |= set(step.members) - known
        known.update(step.members)
        if step.action is Action.FORGET:
            live -= set(step.members)
        for survivor, retired in () if step.undone else step.survivors:
            live.add(survivor)
            live.difference_update(retired)
            if step.action in (Action.REPLACE, Action.MERGE):
                copies.update(retired)
        calls += step.usage.calls
        tokens += step.usage.input_tokens + step.usage.output_tokens
        found.append((step.at, (len(live), len(copies), calls, tokens)))
    return found


def lines(found: Sequence[tuple[datetime, tuple[int, ...]]]) -> list[Line]:
    """Return the four curves of a chart: memories, copies removed, model calls and tokens.

    `found` has a pair for each decision: its time, and the four totals after it, in the same order
    as the curves. A curve has at most one point per unit of the chart's width.
    """
    if not found:
        return []
    begin, span = found[0][0], found[-1][0] - found[0][0]
    last_at = {round((at - begin) / span * _WIDTH) if span else _WIDTH: n for at, n in found}
    drawn = []
    for name, *values in zip(_FIGURES, *last_at.values(), strict=True):
        most = max(values)
        heights = (_HEIGHT - value / max(most, 1) * _HEIGHT for value in values)
        points = [f"{x},{y:.1f}" for x, y in zip(last_at, heights, strict=True)]
        drawn.append(Line(name, values[-1], most, " ".join([f"0,{_HEIGHT}", *points])))
    return drawn
