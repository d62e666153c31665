"""The HTML templates of reports and review pages, and the data that they render."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory.coverage import difference, marked
from memory.ledger import Attempt, Reader, Row, Step
from memory.models import Action, Scope
from memory.review.cards import Card, CardMember, KeptText, card_key, content_hash
from memory.text import one_line, shortened, text_of, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_MOST_COMPARED = 12
_TEMPLATES = Path(__file__).parent / "templates"
_FIGURES = ("memories", "copies removed", "model calls", "tokens")
_WIDTH, _HEIGHT = 600, 120
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$&@!])")


def environment() -> Environment:
    """Return the Jinja environment of this package's templates. In HTML, it escapes all values.

    The filter `inline` inserts a stylesheet or script of this package as it is.
    """
    # only a page needs these
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(disabled_extensions=("md",), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "inline": lambda name: Markup(source(name)),  # noqa: S704 - files of this room
        "as_json": as_json,
        "visible": visible,
        "plain": _plain,
        "shortened": shortened,
        "source_hash": _source_hash,
    }
    made.globals["card_data"] = card_data
    return made


def source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _source_hash(name: str) -> str:
    digest = hashlib.sha256(source(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", one_line(visible(text)))


def as_json(value: Any) -> Markup:
    """Return a value as JSON that is safe inside `<script>`: nothing in it can end the element."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704 - what could be markup was replaced


def card_data(card: Card) -> dict[str, Any]:
    shown_as_it_is = {"key", "similarity", "action", "certainty", "recorded"}
    texts = [member.content for member in card.members]
    return {
        **card.model_dump(mode="json", include=shown_as_it_is),
        "alike": _similarities(card),
        "user": visible(card.user) if card.user is not None else None,
        "private": card.is_private,
        "reason": one_line(card.reason),
        "members": [_member_data(member, n, texts) for n, member in enumerate(card.members)],
        "kept": [_kept_data(kept, card.members) for kept in card.kept],
    }


def _similarities(card: Card) -> str | None:
    if card.similarity is None or card.highest is None:
        return None
    low, high = f"{card.similarity:.2f}", f"{card.highest:.2f}"
    return low if low == high else f"{low} to {high}"


def _member_data(member: CardMember, position: int, texts: Sequence[str]) -> dict[str, Any]:
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
    data: dict[str, Any] = {"id": kept.id, "members": kept.members, "is_new": kept.is_new}
    if kept.is_new and kept.text and kept.members:
        runs = difference(members[kept.members[-1]].content, kept.text)
        data["text"] = [[run.kind, run.text] for run in runs]
    elif kept.is_new:
        data["text"] = [["kept", visible(kept.text)]] if kept.text else []
    return data


# --- open questions -------------------------------------------------------------------------------


def open_group(rows: Sequence[Row]) -> tuple[str, list[tuple[str, str]]]:
    """Return what an answer form needs: the group's key, and each member's id and text hash.

    `rows`: the members of the group. If a member is no longer live, a person cannot decide about
    the group any more, and the list of members is empty.
    """
    members = [(row.memory.id, content_hash(row.memory.content)) for row in rows]
    return card_key(members), members if all(row.live for row in rows) else []


def failed_pairs(reader: Reader) -> list[tuple[Attempt, list[Row]]]:
    """Return the pairs of texts that a model failed to judge.

    Each pair comes with the live memories that have one of its two texts. A pair is left out if no
    live memory has the first text, or none has the second.
    """
    attempts = reader.attempts.all()
    rows: dict[str, list[Row]] = {
        key: [] for attempt in attempts for key in (attempt.low_key, attempt.high_key)
    }
    for row in reversed(reader.memories.live_with_texts({*map(text_of, rows)}, Scope(()))):
        if row.dated_key in rows:
            rows[row.dated_key].append(row)
    pairs = ((attempt, rows[attempt.low_key], rows[attempt.high_key]) for attempt in attempts)
    return [(attempt, low + high) for attempt, low, high in pairs if low and high]


# --- figures over time ----------------------------------------------------------------------------


def replay(steps: Iterable[Step]) -> Iterator[tuple[datetime, tuple[int, ...]]]:
    """Replay all decisions of a store, oldest first; yield the time of each, and the totals so far.

    The totals are live memories, copies removed, model calls and tokens. For an undone decision,
    only the calls and tokens count.
    """
    known, live, copies = set[str](), set[str](), set[str]()
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
        yield step.at, (len(live), len(copies), calls, tokens)


def lines(
    found: Sequence[tuple[datetime, tuple[int, ...]]],
) -> Iterator[tuple[str, int, int, str]]:
    """Yield (name, last value, highest value, points) for each of the totals that `replay` yields.

    `found`: what `replay` yielded, not empty. The points are those of an SVG polyline,
    `x,y x,y ...`; y is 0 at the top.
    """
    begin, span = found[0][0], found[-1][0] - found[0][0]
    last_at = {round((at - begin) / span * _WIDTH) if span else _WIDTH: n for at, n in found}
    for name, *values in zip(_FIGURES, *last_at.values(), strict=True):
        most = max(values)
        heights = (_HEIGHT - value / max(most, 1) * _HEIGHT for value in values)
        points = [f"{x},{y:.1f}" for x, y in zip(last_at, heights, strict=True)]
        yield name, values[-1], most, " ".join([f"0,{_HEIGHT}", *points])
