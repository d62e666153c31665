"""What a second reading says of a merged text that was doubtful. Pure."""

from __future__ import annotations

from memory.models import Doubt, SecondReading


def still_wrong(doubt: Doubt, reading: SecondReading) -> str:
    """What the second reading found lost or invented, for the judge; empty where all is well."""
    lost = [
        f"{one.words!r} of memory {one.source + 1}"
        for one, stated in zip(doubt.verification.lost, reading.stated, strict=True)
        if not stated
    ]
    new = [
        repr(words)
        for words, source in zip(doubt.verification.new, reading.sources, strict=True)
        if source is None
    ]
    faults = [f"does not state {', '.join(lost)}"] if lost else []
    faults += [f"states what no memory states: {', '.join(new)}"] if new else []
    return f"the merged text {' and '.join(faults)}" if faults else ""
