"""A Gemini on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gemini_server import GeminiServer


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer().running() as server:
        yield server
