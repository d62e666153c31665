"""What somebody said, as statements about them by name: the offline model's reading. Pure.

English and Japanese. A sentence is taken when it declares something in the first person ("I moved
to Porto") or about something named ("Clara studies law"), stands alone and is worth keeping.
Questions, greetings, small talk, praise and what is addressed to the listener are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from memory.offline.english import Setting, english_statements, retold_english
from memory.offline.japanese_statements import japanese_statement, retold_japanese
from memory.offline.third_person import Speaker, pronoun_of
from memory.text import is_japanese, sentences

_STRONG = re.compile(
    r"\b(love|hate|really|so|amazing|always|never|best|worst|allergic)\b|大好き|大嫌い|とても|絶対"
)
_OPINION = re.compile(
    r"\b(like|love|hate|prefer|enjoy|think|believe|feel|favou?rite)\b|好き|嫌い|思う|思い"
)


@dataclass(frozen=True)
class Statement:
    """One thing stated, naming who it is about; strength is 0..1."""

    text: str
    is_opinion: bool
    strength: float


def statements(
    text: str,
    speaker: str,
    at: datetime,
    *,
    before: str = "",
    listeners: Iterable[str] = (),
) -> list[Statement]:
    """What the speaker states, told of them by name and with dates for days.

    `before` is what the speaker said earlier: it may tell who "we" are, and "she" from "he".
    """
    who = Speaker(speaker, pronoun_of(f"{before} {text}"))
    setting = Setting(who, at, tuple(listeners), before)
    found: list[Statement] = []
    for japanese, run in groupby(sentences(text), is_japanese):
        said = list(run)
        told = _japanese(said, who, at) if japanese else _english(said, setting)
        found += [_statement(one, source) for one, source in told]
    return found


def retold(text: str, speaker: str, at: datetime) -> str:
    """The speaker's words about themselves, told of them by name."""
    if is_japanese(text):
        return retold_japanese(text, speaker, at)
    return retold_english(text, Speaker(speaker, pronoun_of(text)), at)


def _english(said: Sequence[str], setting: Setting) -> list[tuple[str, str]]:
    return [(one.text, one.source) for one in english_statements(said, setting)]


def _japanese(said: Sequence[str], who: Speaker, at: datetime) -> list[tuple[str, str]]:
    told = ((japanese_statement(one, who.name, at), one) for one in said)
    return [(text, source) for text, source in told if text is not None]


def _statement(text: str, source: str) -> Statement:
    strong = bool(_STRONG.search(source))
    return Statement(text, bool(_OPINION.search(source)), 0.7 if strong else 0.5)
