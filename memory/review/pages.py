"""The templates of this room, and a card as the data that they and `cards.js` render."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memory.coverage import difference, marked
from memory.review.cards import Card, CardMember, KeptText
from memory.text import one_line, shortened, visible

_MOST_COMPARED = 12
_TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Return the templates, which escape every value; the filter `inline` inserts a file."""
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
    return made


def source(name: str) -> str:
    """Return a stylesheet or script of this room."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _source_hash(name: str) -> str:
    """Return the hash that allows an inlined file in a Content-Security-Policy."""
    digest = hashlib.sha256(source(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def as_json(value: Any) -> Markup:
    """Return JSON that is safe inside `<script>`: nothing in it ends the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704 - what could be markup was replaced


def card_data(card: Card) -> dict[str, Any]:
    """Return a card as `cards.js` renders it: visible texts, cut where they differ."""
    data: dict[str, Any] = card.model_dump(
        mode="json", include={"key", "similarity", "action", "certainty"}
    )
    data["alike"] = _alike(card)
    data["user"] = visible(card.user) if card.user is not None else None
    data["private"] = card.is_private
    data["reason"] = one_line(card.reason)
    data["members"] = list(map(_member_data, card.members, _marked(card.members)))
    data["kept"] = [_kept_data(one, card.members) for one in card.kept]
    data["recorded"] = card.recorded and card.recorded.model_dump(mode="json")
    return data


def _alike(card: Card) -> str | None:
    """Return the lowest and the highest similarity, rounded to two places."""
    if card.similarity is None or card.highest is None:
        return None
    low, high = f"{card.similarity:.2f}", f"{card.highest:.2f}"
    return low if low == high else f"{low} to {high}"


def _marked(members: Sequence[CardMember]) -> list[tuple[str, ...]]:
    """Mark in each text what any of the newest twelve others lacks."""
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
    """Return a text that lives on; a new one as its difference from its newest member."""
    data: dict[str, Any] = {"id": kept.id, "members": kept.members, "is_new": kept.is_new}
    if kept.is_new and kept.text and kept.members:
        runs = difference(members[kept.members[-1]].content, kept.text)
        data["text"] = [[run.kind, run.text] for run in runs]
    elif kept.is_new:
        data["text"] = [["kept", visible(kept.text)]] if kept.text else []
    return data
