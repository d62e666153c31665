"""What somebody said, as statements about them by name: the offline model's reading. Pure.

English and Japanese. A sentence is taken if it declares something in the first person ("I moved
to Porto") or about something named ("Clara studies law"), stands alone and is worth keeping.
Questions, greetings, small talk, praise and what is addressed to the listener are passed over.
Requests such as "Remember that I ..." are found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from memory.offline.english import english_statements, retold_english
from memory.offline.japanese import japanese_statements, retold_japanese
from memory.offline.third_person import Speaker, pronoun_of
from memory.text import is_japanese, sentences

_STRONG = re.compile(
    r"\b(love|hate|really|so|amazing|always|never|best|worst|allergic)\b|大好き|大嫌い|とても|絶対"
)
_OPINION = re.compile(
    r"\b(like|love|hate|prefer|enjoy|think|believe|feel|favou?rite)\b|好き|嫌い|思う|思い"
)
_REMEMBER = re.compile(
    r"(?:please[, ]+|hey[, ]+|can you |could you |and )*"
    r"(?:remember|don['’]t forget|note|keep in mind)(?: that|:)\s+"
    r"(?!(?:time|day|night|one|moment|feeling)\b)(?P<what>.{3,}?)[.!]*$",
    re.IGNORECASE | re.DOTALL,
)
_REMEMBER_JA = re.compile(
    r"(?P<what>.{3,}?)(?:ということ|こと|の|と)?[をは]?(?:覚えて(?:おいて|いて)?|忘れないで)"
    r"(?:ください|下さい|ね|よ)*[。!！]*$",
    re.DOTALL,
)


class Statement(NamedTuple):
    """A statement that names whom it is about; strength is 0..1."""

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
    """Return what the speaker states, in the third person and with dates for days.

    `before` is what the speaker said earlier: it may tell "she" from "he".
    """
    who = Speaker(speaker, pronoun_of(f"{before} {text}"))
    found: list[tuple[str, str]] = []
    for japanese, run in groupby(sentences(text), is_japanese):
        if japanese:
            found += japanese_statements(run, speaker, at)
        else:
            found += english_statements(list(run), who, at, tuple(listeners))
    return [
        Statement(stated, bool(_OPINION.search(source)), 0.7 if _STRONG.search(source) else 0.5)
        for stated, source in found
    ]


def retold(text: str, speaker: str, at: datetime) -> str:
    """Tell a speaker's words about themselves in the third person."""
    if is_japanese(text):
        return retold_japanese(text, speaker, at)
    return retold_english(text, Speaker(speaker, pronoun_of(text)), at)


def asked_to_remember(text: str) -> list[str]:
    """Return what sentences like "Remember that I ..." ask to remember."""
    matches = (_request(sentence) for sentence in sentences(text))
    return [match["what"].strip() for match in matches if match]


def only_asks_to_remember(text: str) -> bool:
    """Whether every sentence is such a request."""
    return all(_request(sentence) for sentence in sentences(text))


def _request(sentence: str) -> re.Match[str] | None:
    if sentence.endswith(("?", "？")):
        return None
    return _REMEMBER.match(sentence) or _REMEMBER_JA.match(sentence)
