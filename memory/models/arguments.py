"""Check what callers give: an error names the argument and says what to write.

Cleaning, validating and quoting a value all take time that grows with its size, and some of it
holds every thread. So the size is checked first, by looking at no more than the limits allow.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from functools import wraps
from inspect import Signature
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from pydantic import BaseModel, model_validator

from memory.errors import InputError
from memory.text import clean

MAX_NAME = 1_000
"""The maximum number of characters in a name, a category or a tag."""
MAX_CONTENT = 100_000
MAX_CHARACTERS = 2_000_000
"""The maximum number of characters in all texts of one memory, turn or request."""
MAX_VALUES = 10_000
"""The maximum number of values in one memory, turn or request, metadata and list items included."""
MAX_QUOTED = 100
"""The maximum number of characters that a message quotes of a value."""

_TOO_HIGH = 2**63
_surrogate = re.compile("[\ud800-\udfff]").search
_is_no_path = re.compile(r"\0|://|^:memory:$").search
_OTHERWISE = {
    **dict.fromkeys(("recall.limit", "recall.top_k"), "did you mean k?"),
    "forget.user": "call forget_user, or list and forget each",
}
"""What to do instead of giving an argument that other calls take."""
_INSTEAD = {
    **dict.fromkeys(("add", "save", "insert"), "remember"),
    **dict.fromkeys(("search", "query", "find"), "recall"),
    **dict.fromkeys(("get_all", "all", "memories"), "list"),
    **dict.fromkeys(("delete", "remove"), "forget"),
    **dict.fromkeys(("delete_all", "reset"), "forget_user"),
    **dict.fromkeys(("edit", "correct"), "update"),
    "get": "store.get(memory_id)",
    "show": "history",
    "audit": "clean(dry_run=True)",
}
"""What other libraries, and our commands, call the methods of a class, and the names of these."""
_JSON = (str, int, float, list, tuple, dict, type(None))

T = TypeVar("T", bound=Callable[..., Any])


class _Rule(NamedTuple):
    """A condition on an argument. `wanted` and `example` describe it in a message."""

    holds: Callable[[Any], bool]
    wanted: str
    example: str


def checked(target: T) -> T:
    """Decorate a function, or all public methods of a class, so that arguments are checked first.

    A wrong, unknown or missing argument raises an InputError. `RULES` says what an argument of a
    name must be. None is right, too, if it is the default or the annotation allows it. A class then
    also says what to write for a name that it does not have, or for `with` instead of `async with`.

    >>> memories.recall("Which pet?", user="Mia", k="5")
    Traceback (most recent call last):
        ...
    memory.errors.InputError: recall: k must be a whole number from 1, not '5'; write k=5
    """
    if not isinstance(target, type):
        return cast(T, _checking(target))
    for name, method in [*vars(target).items()]:
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(target, name, _checking(method))
    is_async = hasattr(target, "__aenter__")
    for name in ("__enter__", "__exit__") if is_async else ("__aenter__", "__aexit__"):
        setattr(target, name, _opened_wrongly(target.__name__, is_async=is_async))
    setattr(target, "__getattr__", _named_otherwise)  # noqa: B010 - unseen by type checkers
    return target


def _opened_wrongly(source: str, *, is_async: bool) -> Callable[..., Any]:
    def refuse(*_: object) -> NoReturn:
        if is_async:
            raise InputError(source, "is asynchronous", "write `async with`, or use Memories")
        remedy = "write `with`, or use open_chat_memory"
        raise InputError(source, "is not asynchronous", remedy)

    return refuse


def _named_otherwise(face: object, name: str) -> NoReturn:
    known = [one for one in dir(type(face)) if not one.startswith("_")]
    instead = _INSTEAD.get(name, "")
    if re.split(r"\W", instead)[0] not in known:
        instead = f"one of {', '.join(known)}"
    raise AttributeError(f"{type(face).__name__} has no {name!r}; use {instead}")


def _checking(function: Any) -> Any:
    signature = inspect.signature(function)
    *_, source = function.__qualname__.removesuffix(".__init__").split(".")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_arguments(source, signature, args, kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        check_arguments(source, signature, args, kwargs)
        return await function(*args, **kwargs)

    return wait if inspect.iscoroutinefunction(function) else call


def check_arguments(
    source: str, signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Check the arguments of one call. `source`: the name of what is called, for the message.

    Raises: InputError.
    """
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        problem, remedy = _misplaced(source, signature, args, kwargs)
        raise InputError(source, problem, remedy) from None
    for name, value in given.items():
        rule = _rule(source, name)
        if rule is None or rule.holds(value):
            continue
        parameter = signature.parameters[name]
        if value is None and (parameter.default is None or "None" in str(parameter.annotation)):
            continue
        problem = f"{name} must be {rule.wanted}, not {_shown(value, rule)}"
        raise InputError(source, problem, f"write {name}={rule.example}")


def _shown(value: Any, rule: _Rule) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int) and abs(value) >= _TOO_HIGH:
        return "a number of so many digits"
    if isinstance(value, str) and not _is_unicode(value):
        return "one that is no Unicode text"
    if isinstance(value, str) and (rule in _UNQUOTED or len(value) > MAX_NAME):
        return f"one of {len(value):,} characters" if clean(value) else "an empty one"
    return type(value).__name__ if rule in _UNQUOTED else reprlib.repr(value)


def _misplaced(
    source: str, signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, str]:
    """Return why the arguments do not fit the signature, and what to write."""
    parameters = signature.parameters
    for name in kwargs:
        if name not in parameters:
            close = difflib.get_close_matches(name, parameters, 1)
            known = ", ".join(one for one in parameters if one != "self")
            remedy = f"did you mean {close[0]}?" if close else f"it takes {known}"
            return f"has no argument {name}", _OTHERWISE.get(f"{source}.{name}", remedy)
    by_place = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    missing = [
        name
        for name, one in parameters.items()
        if one.default is one.empty and name not in kwargs and name not in by_place[: len(args)]
    ]
    if len(args) > len(by_place):
        name = next((name for name in parameters if name not in by_place), "")
        problem = f"takes {name} by its name only" if name else f"takes {len(by_place)} values only"
    else:
        name = missing[0] if missing else next(name for name in by_place if name in kwargs)
        problem = f"needs {name}" if missing else f"has two values for {name}"
    rule = _rule(source, name)
    return problem, f"write {name}={rule.example}" if rule else ""


def _rule(source: str, name: str) -> _Rule | None:
    return RULES.get(f"{source}.{name}") or RULES.get(name)


# --- what an argument of a name must be -----------------------------------------------------------


def _is_unicode(value: Any) -> bool:
    """Return whether a value is a text without halves of surrogate pairs, which nothing stores."""
    return isinstance(value, str) and _surrogate(value) is None


def _is_name(value: Any) -> bool:
    return _is_unicode(value) and len(value) <= MAX_NAME and bool(clean(value))


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple | Set) and all(map(_is_name, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)


def _is_count(value: Any) -> bool:
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < _TOO_HIGH
    )


def _is_no_name(value: Any) -> bool:
    return not isinstance(value, str)


def _is_file(value: Any) -> bool:
    return isinstance(value, PathLike) or (_is_name(value) and not _is_no_path(value))


def _has_names(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_a(class_name: str) -> Callable[[Any], bool]:
    """Return whether a value is of the class of this name, which may stand in a room above."""
    return lambda value: class_name in (one.__name__ for one in type(value).__mro__)


def _are(class_name: str) -> Callable[[Any], bool]:
    is_one = _is_a(class_name)
    return lambda value: isinstance(value, list | tuple) and all(map(is_one, value))


_TEXT = _Rule(
    lambda value: isinstance(value, str) and len(value) <= MAX_CONTENT,
    f"a text of at most {MAX_CONTENT:,} characters",
    '"Which pet does Mia have?"',
)
_CONTENT = _Rule(
    lambda value: _TEXT.holds(value) and _is_unicode(value) and bool(clean(value)),
    f"a text of 1 to {MAX_CONTENT:,} characters",
    '"Mia has a cat."',
)
_KEY = _Rule(
    lambda value: _is_name(value) or hasattr(value, "judge"),
    "a key of Gemini, or a language model of your own",
    'os.environ["GEMINI_API_KEY"]',
)
_UNQUOTED = (_TEXT, _CONTENT, _KEY)
"""The rules of values that a message must not quote."""
_USER = _Rule(_is_name, f"a name of 1 to {MAX_NAME:,} characters", '"Mia"')
_NAME = _USER._replace(example='"..."')
_TURN_ID = _Rule(lambda value: _is_name(value) or _is_count(value), "a name", '"turn-1"')
_TIME = _Rule(
    lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    "a datetime with an offset from UTC",
    "datetime.now(UTC)",
)
_FLAG = _Rule(lambda value: isinstance(value, bool), "True or False", "True")
_ID = _Rule(_is_name, "the id of a memory", '"mem_0123456789ab"')
_SHARE = _Rule(lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1", "0.9")
_TAGS = _Rule(_are_names, f"a list of texts of 1 to {MAX_NAME:,} characters", '["sport"]')
_METADATA = _Rule(
    lambda value: _has_names(value) and all(isinstance(one, _JSON) for one in value.values()),
    "a dict with texts as keys and what JSON can hold as values",
    '{"from": "chat"}',
)
_CONFIG = _Rule(
    lambda value: isinstance(value, PathLike) or _is_a("Config")(value),
    "a Config or the Path of a config.yaml",
    'Path("config.yaml")',
)
_BUILT = _Rule(lambda _: True, "what open_chat_memory builds", "..., or call open_chat_memory")
_SOURCE = _Rule(_is_a("Source"), "a Source", 'Source(file="memories.jsonl")')
_TURN = 'Turn(speaker="Mia", text="I have a cat.", at=datetime.now(UTC))'

RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(("text", "description", "content", "part"), _CONTENT),
    **dict.fromkeys(("recall.text", "exchange.text", "Turn.text"), _TEXT),
    **dict.fromkeys(("user", "speaker"), _USER),
    **dict.fromkeys(("conversation", "external_id", "category", "emotion"), _NAME),
    **dict.fromkeys(("turn_id", "Turn.id"), _TURN_ID),
    "recall.user": _Rule(
        lambda value: _is_name(value) or (_are_names(value) and bool(value)),
        "a name, or a list of names",
        '"Mia"',
    ),
    **dict.fromkeys(("at", "timestamp", "said"), _TIME),
    **dict.fromkeys(
        ("since", "until", "as_of", "expires_at"),
        _TIME._replace(example="datetime(2026, 5, 1, tzinfo=UTC)"),
    ),
    **dict.fromkeys(("is_private", "private", "everyone", "include_superseded"), _FLAG),
    **dict.fromkeys(("dry_run", "lineage", "is_bot"), _FLAG),
    "k": _Rule(lambda value: _is_count(value) and value > 0, "a whole number from 1", "5"),
    "limit": _Rule(_is_count, "a whole number from 0", "20"),
    "min_score": _Rule(_is_number, "a number", "0.5"),
    **dict.fromkeys(("upper_threshold", "lower_threshold"), _SHARE),
    "intensity": _SHARE,
    "importance": _Rule(lambda value: value in (1, 2, 3, 4, 5), "1, 2, 3, 4 or 5", "3"),
    "tags": _TAGS,
    "recalled_ids": _TAGS._replace(example="[found.id]"),
    "metadata": _METADATA,
    "settings": _Rule(_has_names, "a dict with texts as keys", '{"llm_provider": "offline"}'),
    "environ": _Rule(
        lambda value: _has_names(value) and all(isinstance(one, str) for one in value.values()),
        "a dict of texts",
        "os.environ",
    ),
    "memory_id": _ID,
    "target": _Rule(
        lambda value: _is_name(value) or (isinstance(value, int) and _is_count(value)),
        "the number of a decision, the id of a memory, or the name of a run",
        "outcome.number",
    ),
    "texts": _Rule(
        lambda value: (
            isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
        ),
        "a list of texts",
        '["...", "..."]',
    ),
    "turn": _Rule(_is_a("Turn"), "a Turn (for a text, call `exchange`)", _TURN),
    "turns": _Rule(_are("Turn"), "a list of Turns", f"[{_TURN}]"),
    "on_progress": _Rule(callable, "a function of two numbers", "print"),
    "file": _Rule(_is_file, "the path of a file on disk (a URL is ledger_url=...)", '"mia.db"'),
    "load_config.config": _CONFIG,
    **dict.fromkeys(
        [
            f"{name}.config"
            for name in "Memories open_chat_memory audit import_memories write_back".split()
        ],
        _CONFIG._replace(example='Path("config.yaml"), or ledger_url="sqlite:///mia.db"'),
    ),
    "open_store.config": _Rule(_is_a("Config"), "a Config", "load_config()"),
    **dict.fromkeys(("audit.source", "write_back.target"), _SOURCE),
    "import_memories.source": _SOURCE._replace(
        holds=lambda value: (
            _SOURCE.holds(value) or _are("Memory")(value) or _is_a("Brought")(value)
        ),
        wanted="a Source, or a list of Memory",
    ),
    "undo_file": _Rule(_is_file, "the path of a file", '"notes.undo-1.jsonl"'),
    **dict.fromkeys(
        ("Memories.model", "open_chat_memory.model"),
        _Rule(_is_no_name, "an object of your own", 'MyModel(), or llm_model="..."'),
    ),
    **dict.fromkeys(
        ("Memories.embedder", "open_chat_memory.embedder", "open_store.embedder"),
        _Rule(_is_no_name, "an object of your own", 'MyEmbedder(), or embedding_provider="..."'),
    ),
    **dict.fromkeys(("ChatMemory.store", "ChatMemory.extractor"), _BUILT),
    "MemoryDeduplicator.store": _Rule(_is_a("MemoryStore"), "an open store", "open_store(config)"),
    "MemoryDeduplicator.api_key": _KEY,
    "MemoryDeduplicator.model": _NAME,
}
"""What an argument must be, by its name, or by the name of what is called and its own."""


# --- how large a value may be ---------------------------------------------------------------------


class Bounded(BaseModel):
    """Base class of models that refuse input of too many values or characters, in one problem.

    It is for models that are made from Python values: with such a validator, a strict model no
    longer reads a JSON text's times and lists.

    >>> class Tags(Bounded):
    ...     tags: list[str]
    >>> try:
    ...     Tags(tags=["x" * 3_000_000])
    ... except ValueError as error:
    ...     print(error.errors()[0]["msg"])
    Value error, has more than 2,000,000 characters in all
    """

    @model_validator(mode="before")
    @classmethod
    def _check_sizes(cls, value: Any) -> Any:
        if problem := too_large(value):
            raise ValueError(problem)
        return value


def too_large(value: Any, most_values: int = MAX_VALUES) -> str:
    """Return what is too large about a value made of mappings, sequences and texts, or "".

    >>> too_large({"text": "Mia sails."})
    ''
    >>> too_large({"text": "x" * 3_000_000})
    'has more than 2,000,000 characters in all'
    """
    values = characters = 0
    todo: list[Any] = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str | bytes):
            characters += len(one)
        elif isinstance(one, Mapping | Sequence | Set):
            values += len(one)
            if values > most_values:
                return f"has more than {most_values:,} values"
            todo.extend(one)
            if isinstance(one, Mapping):
                todo.extend(one.values())
        if characters > MAX_CHARACTERS:
            return f"has more than {MAX_CHARACTERS:,} characters in all"
    return ""


def check_length(what: str, text: str, most: int) -> None:
    """Check that a text has at most `most` characters; `what` names the text in the message.

    Raises: InputError.
    """
    if len(text) > most:
        raise InputError(what, f"has {len(text):,} characters, more than {most:,}")
