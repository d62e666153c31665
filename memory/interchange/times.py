"""When somebody else's memory was recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

_MILLISECONDS_FROM = 1e11
"""As seconds, the year 5138: what is larger was counted in milliseconds."""


def moment(value: Any, *, assume_utc: bool) -> str:
    """ISO 8601 with an offset, from that or from seconds or milliseconds since 1970.

    Raises: ValueError, saying what is wrong in one line.
    """
    if value is None:
        raise ValueError("timestamp is missing: when was it recorded?")
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            in_ms = abs(value) >= _MILLISECONDS_FROM
            read = datetime.fromtimestamp(value / 1000 if in_ms else value, UTC)
        else:
            read = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError) as exc:
        raise ValueError(f"timestamp {value!r} is not ISO 8601") from exc
    if read.tzinfo is None:
        if not assume_utc:
            raise ValueError(f"timestamp {value!r} has no time zone: add one, or --assume-utc")
        read = read.replace(tzinfo=UTC)
    return read.isoformat()
