"""Every text that the agent's tools return: answers, quotes, ages, and the closing questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memory.coverage import differing
from memory.models import Episode, Memory, SearchResult
from memory.text import one_line, shortened

SCAFFOLD_SAVED = "Do any of these connections surprise you? Is there a pattern forming?"
SCAFFOLD_DUPLICATE = (
    "Is there truly something new here, or is this a repetition?\n"
    "If your understanding has deepened, try expressing what changed specifically."
)
SCAFFOLD_INTROSPECT = (
    "Reflect on these in your own words. How do you feel right now?\n"
    "If this is a genuinely new insight, save with remember (category: introspection).\n"
    "If memory feels fragmented, run consolidate."
)
SCAFFOLD_FORGOT = (
    "This memory is gone. Was there anything worth preserving in a new form?\n"
    "If this was part of a merge, save the consolidated version with remember."
)
SCAFFOLD_NOT_FOUND = "Double-check the ID. Use recall to search for the memory you're looking for."
NO_MEMORIES = "No memories found."
INDEX_PENDING = (
    "Index pending: it is gone from the record; what is left of it in an index or a log is "
    "cleared by the process that has them open."
)
MERGE_ADVICE = (
    "Review each pair with recall. If one is redundant, use forget to remove it.\n"
    "If both have value, consider which perspective to keep."
)
_WHOLE = 2_000
"""The most characters of a memory in the text answer of the tool `recall`.

The structured answer of the tool has the whole text.
"""
QUOTE = 120
RELATED_QUOTE = 70
_RELATED = 3
_AGES = (
    (365 * 86_400, "y"),
    (30 * 86_400, "mo"),
    (7 * 86_400, "w"),
    (86_400, "d"),
    (3_600, "h"),
    (60, "m"),
)


# --- small forms --------------------------------------------------------------------------------


def compose_response(data: str, scaffold: str) -> str:
    """Return one text: a tool's answer (`data`), a horizontal rule, and a question (`scaffold`)."""
    return f"{data}\n\n---\n{scaffold}"


def relative_time(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was, as a text.

    Examples: `just now`, `5m ago`, `2h ago`, `3d ago`, `2w ago`, `4mo ago`, `1y ago`.
    """
    seconds = (now - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)}{unit} ago"
    return "just now"


def shown_similarity(distance: float) -> float:
    return max(0.0, min(1.0, 1.0 - distance))


# --- remember -----------------------------------------------------------------------------------


def saved(memory: Memory, related: Sequence[SearchResult], now: datetime) -> str:
    lines = [f"Saved (id: {memory.id}). Linked to {len(related)} existing memories."]
    if related:
        lines.append("Most related:")
    for hit in related[:_RELATED]:
        age = relative_time(hit.memory.timestamp, now)
        quote = shortened(hit.memory.content, RELATED_QUOTE)
        lines.append(f"- [{age}] {quote} (similarity: {shown_similarity(hit.distance):.2f})")
    return "\n".join(lines)


def replaced(old: Memory, number: int) -> str:
    return (
        f"Replaces (id: {old.id}): {shortened(old.content, QUOTE)}\n"
        f"The old wording is retired; `memory-dedup undo {number}` brings it back."
    )


def differs_from(old_id: str, old: str, new: str, new_id: str) -> str:
    return (
        f"Differs from [{old_id}]: {shortened(old, QUOTE)} / {shortened(new, QUOTE)}. To correct "
        f'that one, use merge_memories(keep_id="{new_id}", remove_id="{old_id}").'
    )


def not_saved(duplicate_of: SearchResult, differs: str, now: datetime) -> str:
    existing = duplicate_of.memory
    lines = [
        "Not saved — very similar memory already exists.",
        f"Existing (id: {existing.id}, {relative_time(existing.timestamp, now)}): "
        f"{shortened(existing.content, QUOTE)}",
        f"Similarity: {shown_similarity(duplicate_of.distance):.2f}",
        "If this is a meaningful update, use recall to review the existing memory "
        "and consider whether the new perspective adds value.",
    ]
    if differs:
        lines.append(f"Differs: {differs}")
    lines.append(f'To correct the existing memory, use remember(..., replaces="{existing.id}").')
    return "\n".join(lines)


def difference(old: str, new: str) -> str:
    """Return the parts that differ between two texts, such as `192.168.7.1 -> 192.168.9.1`.

    Return "" if both texts state the same.
    """
    return "; ".join(map(_changed, differing(old, new)))


def _changed(sides: tuple[str, str]) -> str:
    before, after = (shortened(side, QUOTE) for side in sides)
    if before and after:
        return f"{before} -> {after}"
    return f"adds {after}" if after else f"leaves out {before}"


# --- recall and introspect ------------------------------------------------------------------------


def recalled(results: Sequence[SearchResult], now: datetime) -> str:
    if not results:
        return NO_MEMORIES
    lines = []
    for hit in results:
        memory, age = hit.memory, relative_time(hit.memory.timestamp, now)
        private = " | private" if memory.is_private else ""
        lines.append(
            f"- [{age}] {shortened(memory.content, _WHOLE)}\n"
            f"  emotion: {memory.emotion} | importance: {memory.importance} | "
            f"similarity: {shown_similarity(hit.distance):.2f} | id: {memory.id}{private}"
        )
    return "\n".join(lines)


def introspected(recent: Sequence[Memory], still_open: Sequence[str], now: datetime) -> str:
    lines = ["Recent memories:"] if recent else ["No memories yet."]
    for memory in recent:
        age = relative_time(memory.timestamp, now)
        quote = shortened(memory.content, QUOTE)
        lines.append(f"- [{age}] {quote} (emotion: {memory.emotion}, id: {memory.id})")
    lines += ["", "Still open:"] if still_open else ["", "Still open: nothing."]
    lines += [f"- {question}" for question in still_open]
    return "\n".join(lines)


# --- the backend ----------------------------------------------------------------------------------


def forgotten(memory: Memory, now: datetime) -> str:
    age = relative_time(memory.timestamp, now)
    return (
        f"Forgot (id: {memory.id}, {age}): {shortened(memory.content, QUOTE)}\n"
        f"Emotion: {memory.emotion} | Importance: {memory.importance}"
    )


def memory_not_found(memory_id: str) -> str:
    return f"Memory not found: {memory_id}"


def linked(source_id: str, target_id: str, link_type: str, *, fresh: bool) -> str:
    done = "Linked" if fresh else "Already linked, now"
    return f"{done} {source_id} -> {target_id} ({link_type})."


def merged(kept: Memory, removed_id: str, number: int) -> str:
    return (
        f"Merged {removed_id} into {kept.id}: {shortened(kept.content, QUOTE)}\n"
        f"Linked to {len(kept.linked_ids)} memories. "
        f"{removed_id} is retired; `memory-dedup undo {number}` takes it back."
    )


def episode_created(episode: Episode) -> str:
    return f"Created episode {episode.id} with {len(episode.memory_ids)} memories."


def episode_shown(episode: Episode, gone: int) -> str:
    lines = [
        f"Episode: {episode.id}",
        f"Summary: {one_line(episode.summary)}",
        f"Memories: {', '.join(episode.memory_ids) or 'none'}",
        f"Period: {episode.start_time:%Y-%m-%d %H:%M} to {episode.end_time:%Y-%m-%d %H:%M} UTC",
        f"Importance: {episode.importance}",
    ]
    if gone:
        lines.append(f"Note: {gone} memory(ies) no longer exist.")
    return "\n".join(lines)


def episode_not_found(episode_id: str) -> str:
    return f"Episode not found: {episode_id}"


def workspace_unclean(problem: str) -> str:
    return f"The workspace could not be brought up to date: {problem}."


def workspace_said(what: str) -> str:
    return f"The workspace: {what}."
