"""Functions and constants for the texts that the agent's tools return.

The functions describe what a tool found or did. Each constant `SCAFFOLD_...` is a question or a
hint to the agent, which can follow such a description.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memory.agent.schemas import Consolidated
from memory.assembly import differing, still_stated
from memory.models import Episode, Memory, SearchResult
from memory.text import counted, one_line, shortened

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
INDEX_PENDING = (
    "Index pending: it is gone from the record; what is left of it in an index or a log is "
    "cleared by the process that has them open."
)
MERGE_ADVICE = (
    "Review each pair with recall. If one is redundant, use forget to remove it.\n"
    "If both have value, consider which perspective to keep."
)
PROPOSAL_ADVICE = (
    "Take one with merge_memories: merged_content is the text, once for each memory that goes. "
    "What you leave stays as it is."
)
_WHOLE = 2_000
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
    return f"{data}\n\n---\n{scaffold}"


def relative_time(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was: `just now`, `5m ago`, `2h ago`, `3d ago`, `1y ago`."""
    seconds = (now - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)}{unit} ago"
    return "just now"


def _dated(memory: Memory, most: int) -> str:
    """Return a memory's text, cut after about `most` characters, and dated if it has time words."""
    text = memory.dated if memory.periods else memory.content
    return shortened(text, most + len(text) - len(memory.content))


def shown_similarity(distance: float) -> float:
    return max(0.0, min(1.0, 1.0 - distance))


# --- remember -----------------------------------------------------------------------------------


def saved(memory: Memory, related: Sequence[SearchResult], now: datetime) -> str:
    lines = [f"Saved (id: {memory.id}). Linked to {len(related)} existing memories."]
    lines += ["Most related:"] if related else []
    lines += [
        f"- [{relative_time(hit.memory.timestamp, now)}] "
        f"{_dated(hit.memory, RELATED_QUOTE)} "
        f"(similarity: {shown_similarity(hit.distance):.2f})"
        for hit in related[:_RELATED]
    ]
    return "\n".join(lines)


def replaced(old: Memory) -> str:
    return (
        f"Replaces (id: {old.id}): {shortened(old.content, QUOTE)}\n"
        f"The old wording is retired; `memory-dedup undo {old.id}` brings it back."
    )


def not_replaced(old: Memory, content: str) -> str:
    kept = "; ".join(f'"{part}"' for part in still_stated(content, old.content))
    return (
        f"Both are kept: the new text says nothing about a part of {old.id}: "
        f"{shortened(kept, QUOTE)}. To retire that one all the same, use "
        "remember(..., replaces=..., force=true), or merge_memories with one text for both."
    )


def differs_from(old_id: str, differs: str, new_id: str) -> str:
    return (
        f"Differs from [{old_id}]: {differs}. To correct that one, use "
        f'merge_memories(keep_id="{new_id}", remove_id="{old_id}").'
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
    lines += [f"Differs: {differs}"] if differs else []
    lines.append(f'To correct the existing memory, use remember(..., replaces="{existing.id}").')
    return "\n".join(lines)


def difference(old: str, new: str) -> str:
    """Return the parts in which two texts differ, such as `192.168.7.1 -> 192.168.9.1`.

    Return "" if the two texts state the same.
    """
    changes = []
    for sides in differing(old, new):
        before, after = (shortened(side, QUOTE) for side in sides)
        both = f"{before} -> {after}"
        alone = f"adds {after}" if after else f"leaves out {before}"
        changes.append(both if before and after else alone)
    return "; ".join(changes)


# --- recall and introspect ------------------------------------------------------------------------


def recalled(results: Sequence[SearchResult], now: datetime) -> str:
    lines = (
        f"- [{relative_time(hit.memory.timestamp, now)}] {shortened(hit.dated, _WHOLE)}\n"
        f"  emotion: {hit.memory.emotion} | importance: {hit.memory.importance} | "
        f"similarity: {shown_similarity(hit.distance):.2f} | id: {hit.memory.id}"
        + (" | private" if hit.memory.is_private else "")
        + (f"\n  also: {', '.join(one.id for one in hit.also)}" if hit.also else "")
        + (f"\n  may be outdated by: {hit.newer}" if hit.newer else "")
        for hit in results
    )
    return "\n".join(lines) or "No memories found."


def introspected(recent: Sequence[Memory], still_open: Sequence[str], now: datetime) -> str:
    lines = ["Recent memories:"] if recent else ["No memories yet."]
    lines += [
        f"- [{relative_time(memory.timestamp, now)}] {_dated(memory, QUOTE)} "
        f"(emotion: {memory.emotion}, id: {memory.id})"
        for memory in recent
    ]
    lines += ["", "Still open:"] if still_open else ["", "Still open: nothing."]
    return "\n".join([*lines, *(f"- {question}" for question in still_open)])


# --- the backend ----------------------------------------------------------------------------------


def consolidated(stats: Consolidated) -> str:
    lines = [
        f"Consolidation complete. Replayed {stats.replay_events} events, "
        f"updated {stats.coactivation_updates} co-activations, "
        f"created {stats.link_updates} links, refreshed {stats.refreshed_memories} memories."
    ]
    if stats.proposals:
        lines.append(f"\nA model proposes {len(stats.proposals)} merge(s):")
        for one in stats.proposals:
            lines += [f"- {name}: {one_line(content)}" for name, content in one.members.items()]
            lines += [f"  Text: {one_line(one.text)}", f"  Reason: {one_line(one.reason)}"]
        lines.append(PROPOSAL_ADVICE)
    if stats.unread:
        lines.append(f"\nNot all was read: {one_line(stats.unread)}")
    if not stats.merge_candidates:
        return "\n".join(lines)
    lines.append(f"\nFound {len(stats.merge_candidates)} near-duplicate pair(s):")
    for pair in stats.merge_candidates:
        lines += [
            f"- {pair.memory_a_id} <-> {pair.memory_b_id} "
            f"(similarity: {shown_similarity(pair.distance):.2f})",
            f"  A: {one_line(pair.snippet_a)}",
            f"  B: {one_line(pair.snippet_b)}",
        ]
    return "\n".join([*lines, f"\n{MERGE_ADVICE}"])


def forgotten(memory: Memory, remaining: Sequence[Memory], now: datetime) -> str:
    lines = [
        f"Forgot (id: {memory.id}, {relative_time(memory.timestamp, now)}): "
        f"{shortened(memory.content, QUOTE)}",
        f"Emotion: {memory.emotion} | Importance: {memory.importance}",
    ]
    lines += [
        f"Still remembered (id: {one.id}): {shortened(one.content, QUOTE)}" for one in remaining
    ]
    return "\n".join(lines)


def merged(kept: Memory, removed_id: str) -> str:
    return (
        f"Merged {removed_id} into {kept.id}: {shortened(kept.content, QUOTE)}\n"
        f"Linked to {counted(len(kept.linked_ids), 'memory')}. "
        f"{removed_id} is retired; `memory-dedup undo {removed_id}` takes it back."
    )


def episode_shown(episode: Episode, gone: int) -> str:
    lines = [
        f"Episode: {episode.id}",
        f"Summary: {one_line(episode.summary)}",
        f"Memories: {', '.join(episode.memory_ids) or 'none'}",
        f"Period: {episode.start_time:%Y-%m-%d %H:%M} to {episode.end_time:%Y-%m-%d %H:%M} UTC",
        f"Importance: {episode.importance}",
    ]
    lines += [f"Note: {gone} memory(ies) no longer exist."] if gone else []
    return "\n".join(lines)
