"""A model names what newer memories end; a second reading decides whether they are superseded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.models import (
    Action,
    DeduplicationReport,
    Memory,
    MergeGroup,
    MergeReading,
    NamedUpdate,
    ProposedMerge,
    Question,
    Rereading,
    Verdict,
)
from memory.store import MemoryStore, answer, suspects
from tests.conftest import MakeMemory
from tests.doubles import Groups, PageModel, PlacedEmbedder, ScriptedModel

GHENT, BRUGES, LIEGE = "Ada lives in Ghent.", "Ada lives in Bruges.", "Ada lives in Liege."
GOLF = "Ada plays golf and speaks Greek."
STOPPED = "Ada has stopped playing golf."
CARRIED_ON = "Ada speaks Greek and has stopped playing golf."


def no_groups(_: list[str]) -> Groups:
    return []


def pages(store: MemoryStore, *ends: tuple[int, int], model: PageModel | None = None) -> PageModel:
    model = model or PageModel(no_groups)
    model.ends = lambda texts: [one for one in ends if max(one) < len(texts)]
    return model


def batch(store: MemoryStore, model: ScriptedModel) -> DeduplicationReport:
    return asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())


def told(store: MemoryStore, make_memory: MakeMemory, *texts: str) -> list[Memory]:
    return [store.add(make_memory(text, user="Ada")) for text in texts]


def live(store: MemoryStore) -> set[str]:
    return {one.content for one in store.memories()}


def test_a_page_supersedes_by_pairs_that_may_chain(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    first, second, _ = told(store, make_memory, GHENT, BRUGES, LIEGE)
    model = pages(store, (1, 2), (0, 1))
    report = batch(store, model)
    assert live(store) == {LIEGE}
    assert (report.retired, report.decisions[Action.SUPERSEDE], report.pages) == (2, 2, 1)
    [read] = model.reread_merges
    assert [(one.members[0].id, one.text, one.ends) for one in read] == [
        (first.id, BRUGES, True),
        (second.id, LIEGE, True),
    ]
    [decision] = [one for one in store.history(first.id) if one.action is Action.SUPERSEDE]
    assert (decision.reason, decision.model) == ("it holds no longer: moved", model.name)
    store.undo(decision.number)
    assert live(store) == {GHENT, LIEGE}
    assert batch(store, model).decisions.get(Action.SUPERSEDE) is None, "a person took it back"


class CarriesOn(PageModel):
    """Names an update; asked once more, it writes one text for both."""

    def __init__(self) -> None:
        super().__init__(no_groups)
        self.ends = lambda _: [(0, 1)]

    async def judge(self, question: Question) -> Verdict:
        verdict = await super().judge(question)
        group = MergeGroup(members=(0, 1), text=CARRIED_ON)
        return Verdict(parts=(group,)) if question.objection else verdict


def test_what_would_be_lost_is_carried_on_by_a_merged_text(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    told(store, make_memory, GOLF, STOPPED)
    model = CarriesOn()
    batch(store, model)
    assert live(store) == {CARRIED_ON}
    assert "loses: speaks Greek" in model.asked[-1].objection
    [[merge]] = model.reread_merges
    assert (merge.text, merge.ends) == (CARRIED_ON, False), "checked as one merge"


def test_what_the_second_reading_contradicts_is_recorded_and_stays(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    old, _ = told(store, make_memory, "Ada's work phone is 0412.", "Ada's home phone is 0977.")
    model = pages(store, (0, 1))
    model.checked = lambda _: MergeReading(lost=("her work phone",))
    batch(store, model)
    assert len(live(store)) == 2
    [decision] = [one for one in store.history(old.id) if one.refused]
    assert (decision.refused[0].why, decision.pending) == (
        "the merged text loses: her work phone",
        False,
    )


def test_an_update_of_a_merged_memory_is_read_against_the_merged_text(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    cottage = "Ada lives in Ghent, in a cottage."
    told(store, make_memory, GHENT, "Ada's Ghent home is a cottage.", BRUGES)
    model = PageModel(lambda texts: [([0, 1], cottage)] if len(texts) == 3 else [])
    model.ends = lambda texts: [(0, 2)] if len(texts) == 3 else []
    batch(store, model)
    [read] = model.reread_merges[-1]
    assert [one.content for one in read.members] == [cottage, BRUGES]
    assert live(store) == {BRUGES}


def test_a_failed_second_reading_leaves_the_page_for_the_next_run(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    told(store, make_memory, GHENT, BRUGES)
    model = pages(store, (0, 1))

    class Fails(PageModel):
        async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
            raise ModelUnavailable("down")

    report = batch(store, pages(store, (0, 1), model=Fails(no_groups)))
    assert (report.pages_left, live(store)) == (1, {GHENT, BRUGES})
    batch(store, model)
    assert live(store) == {BRUGES}


def test_an_untrusted_model_a_person_and_the_order_forbid_it(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    told(store, make_memory, GHENT, BRUGES)

    class Lazy(PageModel):
        name = "lazy"

        async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
            return Rereading(readings=(MergeReading(),) * len(merges))

    batch(store, pages(store, (0, 1), model=Lazy(no_groups)))
    assert live(store) == {GHENT, BRUGES}, "it accepts planted errors"
    batch(store, pages(store, (1, 0), (0, 7)))
    assert live(store) == {GHENT, BRUGES}, "the older cannot end the newer"
    [pair] = suspects(store)
    answer(store, pair, "both")
    batch(store, pages(store, (0, 1), model=Renamed(no_groups)))
    assert live(store) == {GHENT, BRUGES}, "a person said that both hold"


class Renamed(PageModel):
    name = "another"


ENDS = Verdict(updates=(NamedUpdate(older=0, newer=1, reason="moved"),))


@pytest.mark.parametrize("at_once", [False, True])
def test_the_judge_names_it_for_a_new_memory_and_in_a_batch(
    store: MemoryStore, make_memory: MakeMemory, embedder: PlacedEmbedder, at_once: bool
) -> None:
    embedder.place(BRUGES, 0.92, to=embedder.place(GHENT))
    old, new = make_memory(GHENT, user="Ada"), make_memory(BRUGES, user="Ada")
    model = ScriptedModel(ENDS)
    worker = MemoryDeduplicator(store, model)
    store.add(old)
    if at_once:
        store.add(new)
        batch(store, model)
    else:
        assert asyncio.run(worker.check_and_merge(new)).content == BRUGES
    assert live(store) == {BRUGES}
    assert [one.ends for one in model.reread_merges[0]] == [True]
