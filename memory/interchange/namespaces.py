"""Choose the namespaces of a LangGraph store that hold memories, not files or prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory.errors import InputError
from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading, text_of

_MEMORY_LABELS = frozenset({"memory", "memories", "fact", "facts", "semantic", "episodic"})
_OTHER_WORDS = frozenset(
    "file files filesystem prompt prompts instruction instructions template templates greeting "
    "greetings document documents doc docs page pages skill skills setting settings config cache "
    "checkpoint checkpoints draft drafts report reports code".split()
)
"""Words in a label or key of data that is no memory."""
_FILE_KEYS = frozenset(
    "modified_at encoding lines path file_path filename file_name mime_type media_type size_bytes "
    "prompt template system_prompt variables input_variables".split()
)
"""Keys of values that are no memories, such as deepagents' files or stored prompts."""
_GENERATED = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|[0-9a-f]{8,}|[0-9A-Z]{26}"
    r"|[a-z]{0,8}[-_:]?\d+",
    re.IGNORECASE,
)
"""A key that a program generates for a memory: a UUID, a hash, a ULID, or a counter."""
_FILE_NAME = re.compile(r"/|\.[A-Za-z]\w{0,4}$")
_PLACEHOLDER = re.compile(r"\{\{?\s*[A-Za-z_][\w.]*\s*\}?\}|<[A-Z_]{3,}>")
_LONGEST = 1_000
"""The longest text, in characters, that is taken for a memory."""


@dataclass(frozen=True)
class NamespaceChoice:
    """The rows of the chosen namespaces, and the namespaces that were left out."""

    rows: list[ForeignRow]
    chosen: tuple[str, ...]
    left: dict[str, int]
    """The number of items in each namespace that was not chosen."""


def choose_namespaces(
    rows: Sequence[ForeignRow], source: str, reading: Reading, wanted: Sequence[str]
) -> NamespaceChoice:
    """Choose the wanted namespaces and all inside them; by default those that hold memories.

    Raises: InputError where a wanted namespace does not exist.
    """
    by_namespace: dict[str, list[ForeignRow]] = {}
    for row in rows:
        by_namespace.setdefault(namespace_of(row), []).append(row)
    if wanted:
        _refuse_unknown(wanted, by_namespace, source)
        chosen = [name for name in by_namespace if any(_is_inside(name, one) for one in wanted)]
    else:
        chosen = [name for name, items in by_namespace.items() if _holds_memories(items, reading)]
    left = {name: len(items) for name, items in by_namespace.items() if name not in set(chosen)}
    return NamespaceChoice(in_namespaces(rows, chosen), tuple(sorted(chosen)), left)


def in_namespaces(rows: Iterable[ForeignRow], chosen: Iterable[str]) -> list[ForeignRow]:
    """Return the rows whose namespace is one of these, not one inside them."""
    names = set(chosen)
    return [row for row in rows if namespace_of(row) in names]


def namespace_of(row: ForeignRow) -> str:
    return str(row.metadata["namespace"])


def _refuse_unknown(wanted: Sequence[str], there: Iterable[str], source: str) -> None:
    names = sorted(there)
    for one in wanted:
        if not any(_is_inside(name, one) for name in names):
            shown = ", ".join(names[:20]) or "none"
            raise InputError(source, f"has no namespace {one!r}", f"there are: {shown}")


def _is_inside(namespace: str, prefix: str) -> bool:
    """Compare label by label; `*` stands for any label."""
    labels, wanted = namespace.split("."), prefix.split(".")
    pairs = zip(wanted, labels, strict=False)
    return len(wanted) <= len(labels) and all(one in ("*", label) for one, label in pairs)


def _holds_memories(items: Sequence[ForeignRow], reading: Reading) -> bool:
    """Return whether the items are certainly memories: what is chosen here may be deleted.

    No item may look like a file or a prompt, and the namespace, the keys or the values must say
    that these are memories.
    """
    labels = namespace_of(items[0]).lower().split(".")
    if any(_OTHER_WORDS & set(_words(label)) for label in labels):
        return False
    if any(_is_something_else(row, reading) for row in items):
        return False
    texts = [row for row in items if text_of(row, reading)]
    return bool(texts) and (
        bool(_MEMORY_LABELS & {word for label in labels for word in _words(label)})
        or all(_names_a_memory(row) for row in texts)
    )


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name.lower())


def _is_something_else(row: ForeignRow, reading: Reading) -> bool:
    text, key = text_of(row, reading), _key_of(row)
    return bool(
        len(text) > _LONGEST
        or _PLACEHOLDER.search(text)
        or _FILE_NAME.search(key)
        or _OTHER_WORDS & set(_words(key))
        or _FILE_KEYS & row.metadata.keys()
        or any(isinstance(row.metadata.get(name), list) for name in TEXT_KEYS)
    )


def _names_a_memory(row: ForeignRow) -> bool:
    return bool(
        row.metadata.get("kind") == "Memory"  # langmem's
        or "memory" in row.metadata
        or _GENERATED.fullmatch(_key_of(row))
    )


def _key_of(row: ForeignRow) -> str:
    return str(row.metadata["key"])
