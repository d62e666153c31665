"""The page of groups: one template, script and stylesheet for reports and for reviews."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memory.text import one_line, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$&@!])")


def page(
    headline: str,
    cards: Sequence[dict[str, Any]],
    *,
    kind: str,
    saves: Literal["", "file", "post"],
    **values: Any,
) -> str:
    """Return the page of some cards, each as `card_data` returns it.

    `saves`: how the page saves answers; "" if none can be given. `values`: other values of the
    template, `blind`, `judges` and `progress` for its script.
    """
    script = {name: values.pop(name, None) for name in ("blind", "judges", "progress")}
    data = {"cards": cards, "kind": kind, "saves": saves, **script}
    always = {"title": headline, "summary": "", "report": None, "places": (), "older": ""}
    template = environment().get_template("page.html")
    return template.render(always | values, headline=headline, data=data)


@cache
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
        "plain": _plain,
        "source_hash": _source_hash,
    }
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
