"""The trial of a model counts what it got right, and says what it is good enough for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from memory.errors import ModelUnavailable
from memory.models import Candidate, Extraction, Memory, Turn, Usage
from memory.providers import OfflineModel
from memory.upkeep import try_model
from memory.upkeep.try_model import page_shown
from tests.doubles import Groups, PageModel

RIGHT = (["blanket"], ["swim", "swam"], ["llergic to walnuts", "Walnuts"])
TOLD = (
    "Runa takes a course in welding on Tuesdays.",
    "Runa wants to build a gate for her mother's garden.",
    "Otis gave up his flat in Turku and lives with his sister Vera.",
    "Runa's dog Biscuit had an operation on his hip.",
    "Otis eats fish again, but mushrooms make him ill.",
    "Otis plays chess in a final on 7 March 2026.",
)


class Answering(PageModel):
    """A model that knows the answers, all but those that a test takes away."""

    def __init__(self, groups: Sequence[Sequence[str]], told: Sequence[str]) -> None:
        def named(texts: list[str]) -> Groups:
            found = [
                [n for n, text in enumerate(texts) if any(word in text for word in words)]
                for words in groups
            ]
            return [(members, "One text.") for members in found]

        super().__init__(named)
        self._told = told

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        told = self._told if not context else ()
        return Extraction(candidates=tuple(Candidate(content=text) for text in told))


def test_a_model_that_knows_the_answers_is_good_enough_for_everything() -> None:
    found = asyncio.run(try_model(Answering(RIGHT, TOLD), clock=iter((1.0, 3.5)).__next__))
    assert (found.accepted, found.refused) == (0, 0)
    assert (found.pairs_found, found.pairs, found.pairs_wrong) == (3, 3, 0)
    assert (found.facts_found, found.facts, found.noise) == (7, 7, 0)
    assert (found.reads_again, found.reads_pages, found.extracts) == (True, True, True)
    assert (found.seconds, found.failures) == (2.5, {})
    assert found.usage.calls == 4


def test_what_is_missed_or_invented_counts() -> None:
    two_rows = [["rowed"], ["choir"], *RIGHT[1:]]
    found = asyncio.run(try_model(Answering(two_rows, [*TOLD[3:], "Hi.", "Fine.", "Yes.", "No."])))
    assert (found.pairs_found, found.pairs_wrong, found.reads_pages) == (2, 2, False)
    assert (found.facts_found, found.noise, found.extracts) == (4, 4, False)


def test_a_model_that_fails_at_one_part_is_asked_about_the_others() -> None:
    class Down(Answering):
        async def extract(
            self,
            turns: Sequence[Turn],
            *,
            context: Sequence[Turn] = (),
            remembered: Sequence[Memory] = (),
        ) -> Extraction:
            raise ModelUnavailable("503")

    found = asyncio.run(try_model(Down(RIGHT, ())))
    assert found.failures == {"turns": "503"}
    assert (found.reads_pages, found.extracts) == (True, False)


def test_the_offline_model_reads_no_page_and_gives_no_second_reading() -> None:
    found = asyncio.run(try_model(OfflineModel()))
    assert found.failures == {
        "merges": "it gives no second reading",
        "page": "it reads no pages",
    }
    assert (found.reads_again, found.reads_pages) == (False, False)
    assert found.usage == Usage()


def test_the_page_fits_on_one_page() -> None:
    assert len(page_shown()) <= PageModel(lambda _: []).page_size
