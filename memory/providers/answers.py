"""What a model answers: strict models, which are also the schemas that are sent to it."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from memory.errors import ModelAnswerError
from memory.models import (
    Candidate,
    Extraction,
    MergeGroup,
    MergeReading,
    Question,
    Reply,
    Rereading,
    Usage,
    Verdict,
    as_numbers,
    first_problem,
)

_ONLY_THOUGHTS = "the answer is empty but for its thoughts"

Numbers = Annotated[tuple[int, ...], BeforeValidator(as_numbers)]

Answer = TypeVar("Answer", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Group(_Strict):
    members: list[int] = Field(min_length=1, description="Numbers of the memories, from 1")
    text: str = Field(description="The one text that tells what they tell")


class Judgement(_Strict):
    groups: list[Group] = Field(description="Memories that tell the same fact; may be empty")
    reason: str = Field(default="", description="Why, in a few words")


class ReadMerge(_Strict):
    number: int = Field(description="Number of the merge, from 1")
    lost: list[str] = Field(description="What a reader of the merged text would not learn")
    added: list[str] = Field(description="What the merged text states and no memory does")


class ReadMerges(_Strict):
    merges: list[ReadMerge] = Field(description="An answer for each merge")


class Found(_Strict):
    content: str = Field(description="What these turns say")
    user: str | None = None
    category: str = "fact"
    intensity: float = Field(default=0.5, ge=0.0, le=1.0)
    turns: Numbers = Field(
        default=(),
        description="Numbers of the turns that say it, from 1",
        validation_alias=AliasChoices("turns", "turn"),
    )
    replaces: Numbers = Field(
        default=(), description="Numbers of the remembered memories that it repeats or updates"
    )
    merged: str | None = Field(
        default=None, description="The one text for content and what it replaces"
    )

    # The schema asks for the turns; an answer without them is used all the same.
    model_config = ConfigDict(json_schema_extra={"required": ["content", "turns"]})


class FoundAll(_Strict):
    memories: list[Found]


def read_verdict(text: str, question: Question, usage: Usage) -> Verdict:
    """Read groups of members; plain text is one group of all, except for a page.

    Raises: ModelAnswerError.
    """
    everyone = tuple(range(len(question.members)))
    bare = _without_thoughts(text)
    if not bare:
        raise ModelAnswerError(_ONLY_THOUGHTS)
    if not question.is_page and "{" not in bare and not bare.startswith(("[", "```")):
        return Verdict(parts=(MergeGroup(members=everyone, text=bare),), usage=usage)
    judged = _parsed(bare, Judgement)
    parts = tuple(
        MergeGroup(members=tuple(number - 1 for number in group.members), text=group.text)
        for group in judged.groups
        if len(group.members) > 1
    )
    return Verdict(parts=parts, reason=judged.reason, usage=usage)


def read_rereading(text: str, merges: int, usage: Usage) -> Rereading:
    """Return a reading for each merge, None if the answer has none; two of a merge add up.

    Raises: ModelAnswerError.
    """
    found: dict[int, MergeReading] = {}
    for read in _parsed(_without_thoughts(text), ReadMerges).merges:
        before = found.get(read.number, MergeReading())
        lost = before.lost + tuple(filter(None, map(str.strip, read.lost)))
        added = before.added + tuple(filter(None, map(str.strip, read.added)))
        found[read.number] = MergeReading(lost=lost, added=added)
    return Rereading(
        readings=tuple(found.get(number) for number in range(1, merges + 1)), usage=usage
    )


def read_extraction(text: str, usage: Usage) -> Extraction:
    """Return what was found, with numbers from 0; the caller checks whether those were shown.

    Raises: ModelAnswerError.
    """
    found = _parsed(_without_thoughts(text), FoundAll).memories
    try:
        candidates = tuple(_candidate(one) for one in found if one.content.strip())
    except ValidationError as exc:
        raise _malformed(exc) from exc
    return Extraction(candidates=candidates, usage=usage)


def _candidate(one: Found) -> Candidate:
    return Candidate(
        content=one.content,
        user=one.user or None,
        category=one.category or "fact",
        intensity=one.intensity,
        turns=tuple(number - 1 for number in one.turns),
        replaces=tuple(number - 1 for number in one.replaces),
        merged=one.merged or "",
    )


def read_reply(text: str, usage: Usage) -> Reply:
    """Return the reply without the model's thoughts.

    Raises: ModelAnswerError.
    """
    said = _without_thoughts(text)
    if not said:
        raise ModelAnswerError(_ONLY_THOUGHTS)
    return Reply(text=said, usage=usage)


def _without_thoughts(text: str) -> str:
    """Cut off what a reasoning model thought, which some servers leave in the answer."""
    after = re.sub(r"^.*</think(?:ing)?>", "", text, count=1, flags=re.DOTALL).strip()
    return "" if re.match(r"<think(?:ing)?>", after) else after


def _parsed(text: str, schema: type[Answer]) -> Answer:
    """Parse the answer; words and a fence around the JSON are passed over.

    Raises: ModelAnswerError.
    """
    inside = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        return schema.model_validate_json(inside[0] if inside else text)
    except ValidationError as exc:
        raise _malformed(exc) from exc


def _malformed(exc: ValidationError) -> ModelAnswerError:
    return ModelAnswerError(f"the answer is malformed: {first_problem(exc)}")


def strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema with every field required, as OpenAI's strict mode wants it."""
    whole: dict[str, Any] = _all_required(schema.model_json_schema())
    return whole


def _all_required(node: Any) -> Any:
    if isinstance(node, list):
        return [_all_required(one) for one in node]
    if not isinstance(node, dict):
        return node
    kept = {name: _all_required(value) for name, value in node.items() if name != "default"}
    if isinstance(kept.get("properties"), dict):
        kept["required"] = list(kept["properties"])
    return kept
