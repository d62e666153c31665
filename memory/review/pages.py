"""The page of groups: one template, script and stylesheet for reports and for reviews."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Literal

_TEMPLATES = Path(__file__).parent / "templates"
_ANSWER_KEYS = (
    ", <kbd>y</kbd> $yes, <kbd>n</kbd> these are different, <kbd>1</kbd> to <kbd>9</kbd> this one "
    "stays, <kbd>b</kbd> both hold, <kbd>s</kbd> later, <kbd>e</kbd> write one text (<kbd>Ctrl"
    "</kbd> <kbd>Enter</kbd> applies it), <kbd>i</kbd> insist, <kbd>t</kbd> take a refused text, "
    "<kbd>p</kbd> ask the model, <kbd>u</kbd> undo the last"
)


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
