"""What somebody asks to be remembered, in English and Japanese: "Remember that I ..."."""

from __future__ import annotations

import re

from memory.text import sentences

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


def asked_to_remember(text: str) -> list[str]:
    """What sentences like "Remember that I ..." ask to remember."""
    matches = (_request(sentence) for sentence in sentences(text))
    return [match["what"].strip() for match in matches if match]


def only_asks_to_remember(text: str) -> bool:
    """Whether every sentence is such a request."""
    return all(_request(sentence) for sentence in sentences(text))


def _request(sentence: str) -> re.Match[str] | None:
    if sentence.endswith(("?", "？")):
        return None
    return _REMEMBER.match(sentence) or _REMEMBER_JA.match(sentence)
