"""Coverage between memories: their words, and the times that these words mean.

"Mia has a dentist appointment tomorrow", said in January and in March, are two appointments. So the
time expressions of two memories are compared by the dates that they mean, each in its place, and
only the other words by `compare`.
"""

from __future__ import annotations

from datetime import date

from memory.coverage.covers import CANNOT_TELL, Comparison, compare
from memory.models import Memory
from memory.text import Period, compatible, guarded, identity


@guarded(lambda _a, _b: Comparison(CANNOT_TELL, CANNOT_TELL))
def compare_memories(a: Memory, b: Memory) -> Comparison:
    """Return what each of two memories states and the other does not, times included.

    Time expressions that may mean the same time count as equal words: "yesterday" and "on 5
    January". If one memory has more of them, the two are only compared if they were said on the
    same day, since what happened "on 5 January" may have happened on another day too.

    >>> old, new = (store.new_memory(text) for text in ("Mia has a cat.", "Mia has a tabby cat."))
    >>> compare_memories(old, new).b_covers_a
    True
    """
    if not a.periods and not b.periods:
        return compare(a.content, b.content)
    if len(a.periods) == len(b.periods):
        if compatible(a.periods, b.periods):
            return compare(a.content, _in_words_of(a, b))
    elif _day_of(a) == _day_of(b):
        return compare(a.content, b.content)
    return Comparison(_named(a.periods), _named(b.periods))


@guarded(lambda _a, _b: False)
def states(a: Memory, b: Memory) -> bool:
    """Return whether `a` states everything that `b` states; False in case of doubt.

    >>> from datetime import UTC, datetime
    >>> days = datetime(2026, 1, 6, tzinfo=UTC), datetime(2026, 3, 6, tzinfo=UTC)
    >>> states(*(Memory(content="Mia sees a dentist tomorrow.", timestamp=day) for day in days))
    False
    """
    return compare_memories(a, b).a_covers_b


@guarded(lambda _a, _b: True)
def only_times_differ(a: Memory, b: Memory) -> bool:
    """Return whether two memories have the same words, which mean different times.

    >>> said = datetime(2026, 1, 20, tzinfo=UTC), datetime(2026, 3, 20, tzinfo=UTC)
    >>> old, new = (Memory(content="Mia sees the dentist tomorrow.", timestamp=at) for at in said)
    >>> only_times_differ(old, new)  # so they are two appointments
    True
    """
    return (
        bool(a.periods)
        and not compatible(a.periods, b.periods)
        and (identity(a.content) == identity(b.content))
    )


def _day_of(memory: Memory) -> date | None:
    return memory.said and memory.said.date()


def _in_words_of(a: Memory, b: Memory) -> str:
    """Return the text of `b` with the time expressions of `a`, which mean the same."""
    text = b.content
    for mine, other in reversed(list(zip(a.periods, b.periods, strict=True))):
        words = a.content[mine.start : mine.end]
        text = f"{text[: other.start]}{words}{text[other.end :]}"
    return text


def _named(periods: tuple[Period, ...]) -> tuple[str, ...]:
    return tuple(period.words for period in periods) or ("another time",)
