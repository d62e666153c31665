"""A reader is tried before it is trusted; a model that does not read well is not believed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from memory.config import MemoryConfig
from memory.coverage import Belief
from memory.decide import Part, checked_part
from memory.deduplicator.deduplicator import MemoryDeduplicator
from memory.deduplicator.judging import (
    FAITHFUL,
    MOST_WRONGLY_ACCEPTED,
    TRIAL,
    Judging,
    accepted_wrongly,
)
from memory.errors import CallsSpent, ModelError, ModelUnavailable
from memory.models import MergeReading, ProposedMerge, Rereading
from memory.providers import Asking, CallBudget
from memory.store import MemoryStore
from memory.upkeep import examine
from tests.conftest import MakeMemory
from tests.doubles import ScriptedModel

RULES = MemoryConfig().rules
OLDER, NEWER, TEXT = "Mia has a cat.", "Mia's cat is called Pip.", "Mia has a cat named Pip."


class LazyReader(ScriptedModel):
    """Accepts whatever it is shown."""

    name = "lazy"

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        self.reread_merges.append(tuple(merges))
        return Rereading(readings=(MergeReading(),) * len(merges))


@pytest.fixture
def part(make_memory: MakeMemory) -> Part:
    return checked_part(ProposedMerge((make_memory(OLDER), make_memory(NEWER)), TEXT))


def asking(calls: int = 20) -> Asking:
    return Asking(CallBudget(calls), 10.0)


def settle(reader: Judging, *parts: Part, ask: Asking | None = None) -> list[Belief]:
    settled = asyncio.run(reader.settle(parts, ask or asking()))
    return [part.belief for part in settled]


# --- the trial ------------------------------------------------------------------------------------


def test_seven_of_the_thirteen_are_wrong_and_the_program_refuses_no_faithful_one() -> None:
    assert [len(TRIAL), FAITHFUL.count(False)] == [13, 7]
    beliefs = [checked_part(merge).belief for merge in TRIAL]
    assert all(
        belief is Belief.DOUBTFUL
        for belief, faithful in zip(beliefs, FAITHFUL, strict=True)
        if faithful
    )
    assert beliefs.count(Belief.REFUSED) <= 2


def test_a_model_is_tried_once_and_the_ledger_keeps_how_it_went(
    store: MemoryStore, part: Part
) -> None:
    model, spent = ScriptedModel(), asking()
    assert settle(Judging(store, model, RULES), part, ask=spent) == [Belief.BELIEVED]
    assert spent.usage.calls == 2
    assert settle(Judging(store, model, RULES), part, ask=spent) == [Belief.BELIEVED]
    assert spent.usage.calls == 3
    assert examine(store) == []


def test_a_reader_that_accepts_what_is_wrong_counts_as_none(
    store: MemoryStore, part: Part, make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    model = LazyReader()
    covered = ProposedMerge((make_memory(OLDER), make_memory(NEWER)), f"{OLDER} {NEWER}")
    with caplog.at_level(logging.WARNING):
        found = settle(Judging(store, model, RULES), part, checked_part(covered))
    assert found == [Belief.REFUSED, Belief.BELIEVED]
    assert model.reread_merges == [TRIAL]
    assert "lazy accepted 7 of 7 wrong merges" in caplog.text
    [finding] = examine(store)
    assert "lazy accepted 7 of 7 wrong merges" in finding.what
    assert finding.kind == "yours"


def test_a_reader_that_says_nothing_when_it_is_tried_is_not_trusted_and_is_tried_again(
    store: MemoryStore, part: Part, caplog: pytest.LogCaptureFixture
) -> None:
    class Silent(LazyReader):
        async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
            self.reread_merges.append(tuple(merges))
            return Rereading()

    model = Silent()
    with caplog.at_level(logging.WARNING):
        assert settle(Judging(store, model, RULES), part) == [Belief.REFUSED]
    assert "lazy gave no reading when it was tried" in caplog.text
    assert model.reread_merges == [TRIAL]
    assert settle(Judging(store, LazyReader(), RULES), part) == [Belief.REFUSED]
    assert "lazy accepted 7 of 7 wrong merges" in examine(store)[0].what


def test_one_wrong_merge_may_be_accepted_and_a_merge_without_answer_is_not() -> None:
    wrong = [number for number, faithful in enumerate(FAITHFUL) if not faithful]
    found: list[MergeReading | None] = [None] * len(TRIAL)
    for accepted, number in enumerate(wrong):
        assert accepted_wrongly(Rereading(readings=tuple(found))) == accepted
        found[number] = MergeReading()
    assert MOST_WRONGLY_ACCEPTED == 1


def test_a_trial_that_fails_for_want_of_an_answer_is_repeated(
    store: MemoryStore, part: Part
) -> None:
    class Down(ScriptedModel):
        async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
            raise ModelUnavailable("down")

    with pytest.raises(ModelError, match="down"):
        settle(Judging(store, Down(), RULES), part)
    assert settle(Judging(store, ScriptedModel(), RULES), part) == [Belief.BELIEVED]


def test_several_at_once_try_it_once(store: MemoryStore, part: Part) -> None:
    model, spent = ScriptedModel(), asking()
    reader = Judging(store, model, RULES)

    async def run() -> None:
        await asyncio.gather(*(reader.settle([part], spent) for _ in range(4)))

    asyncio.run(run())
    assert (spent.usage.calls, len(model.reread_merges)) == (5, 4)


def test_retry_all_tries_it_again(store: MemoryStore, part: Part) -> None:
    model = ScriptedModel()
    settle(Judging(store, model, RULES), part)
    asyncio.run(MemoryDeduplicator(store, model).retry_pending(again=True))
    spent = asking()
    settle(Judging(store, model, RULES), part, ask=spent)
    assert spent.usage.calls == 2


# --- reading --------------------------------------------------------------------------------------


def test_sixteen_merges_go_into_one_call(store: MemoryStore, part: Part) -> None:
    model = ScriptedModel()
    lost = MergeReading(lost=("the name",))
    model.readings = [[lost, *[MergeReading()] * 14, None]]
    found = settle(Judging(store, model, RULES), *[part] * 16)
    assert [len(merges) for merges in model.reread_merges] == [16]
    refused, believed = Belief.REFUSED, Belief.BELIEVED
    assert found == [refused, *[believed] * 14, refused]


def test_nothing_is_read_when_no_call_is_left(store: MemoryStore, part: Part) -> None:
    model, ask = ScriptedModel(), asking(calls=1)
    with pytest.raises(CallsSpent):
        settle(Judging(store, model, RULES), part, ask=ask)
    assert (model.reread_merges, ask.usage.calls) == ([], 1), "its trial was the last call"


def test_an_answer_that_is_too_short_refuses_the_rest(store: MemoryStore, part: Part) -> None:
    class Short(ScriptedModel):
        async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
            whole = await super().reread(merges)
            return whole if tuple(merges) == TRIAL else Rereading(readings=(MergeReading(),))

    assert settle(Judging(store, Short(), RULES), part, part) == [Belief.BELIEVED, Belief.REFUSED]
