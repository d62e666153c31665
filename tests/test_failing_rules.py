"""A rule that fails loses nothing, whichever rule it is and by whichever way a memory comes."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import pytest

from memory.agent import AgentMemory
from memory.coverage import (
    Belief,
    compare,
    compare_memories,
    conflicting_values,
    difference,
    differing,
    differs,
    marked,
    only_times_differ,
    states,
    verify,
    verify_by_words,
)
from memory.deduplicator import MemoryDeduplicator
from memory.extractor import MemoryExtractor
from memory.ledger import Ledger
from memory.models import Memory, MergeGroup, Question, Vectors, Verdict
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.text import (
    asked_to_remember,
    normalise,
    only_asks_to_remember,
    periods,
    retold,
    search_terms,
    statements,
    telling_words,
    wordings,
)
from memory.upkeep import examine
from tests.conftest import MakeMemory
from tests.doubles import START, ScriptedModel, ticking
from tests.turns import hook, turn

MODULES = """
    coverage.covers coverage.differences coverage.parse coverage.times coverage.verification
    providers.offline text.languages text.numbers text.period text.retelling
    text.signs text.statements text.time_finder text.time_readers text.time_words text.tokens
    text.worth
""".split()
WITHOUT_PRECAUTION = {
    # answers of the boundary itself
    "_all_replaced", "_whole_texts", "_not_checked", "_plain_words", "_as_said",
    "_all_as_said", "_own_day",
    # writes a column, without any rule
    "to_json",
    # every write needs them, as it needs `text.cleaning`
    "has_cjk", "is_japanese", "literal_start", "quotations",
    # run while modules are loaded
    "with_all_languages", "_evidence", "time_finder._named", "_bounded", "time_words._read",
    # run only where a merged text tells times in its own words, behind `verify`
    "_recounts", "coverage.times._week_of", "_middle", "_from_to", "_is_week",
}  # fmt: skip

PAIRS = [
    ("Her boss makes everybody wait for no reason", "Her boss makes everybody wait"),
    (
        "By no means does Mia have 2,500 euros, or $3 million, since 3 May 2024 at 17:00.",
        'By no means does Mia have "it", or twenty one hundred and five euros, since 7.5.2024.',
    ),
    ("Mia's old red cat toy was thrown by Leo on 2024-05-07.", "Mia's cat was thrown by Leo."),
    ("A wall made of stone, which is old, belongs to the mother of Leo.", "A wall is of stone."),
    ("Mia needs a rope for climbing, and a raise of 5 %.", "Mia needs a rope, and a 6 % raise."),
    ("Mia gave Leo a little book.", "Mia gave a little book to Leo."),
    ("Mia works at a shop as a cook.", "Mia may work as a cook at a shop."),
    ("Mia waited 3 hours and 18 minutes because her C++ course ended.", "Mia waited 3 hours."),
    ("In the choir Mia sings every Tuesday.", "Mia sings every Tuesday in the choir."),
    ("Because of the rain Mia did not leave.", "Mia did not leave because of the rain."),
    ("Mia lives near Leo.", "Leo lives near Mia."),
    ("Mia Berg's sister is Ana.", "Ana is Mia Berg's sister."),
    ("Call Mia at +49 170 1234567.", "Call Mia at +49 170 7654321."),
    ("Mia met Leo, Ana and Tom.", "Mia met Ana, Leo and Tom."),
    ("On the hill stands a chapel.", "A chapel stands on the hill."),
    ("The ball was thrown by Mia in Rome.", "In Rome Mia threw the ball."),
    ("Mia often slowly reads.", "Mia slowly often reads."),
    ("Mia has no new car.", "Mia has no car."),
    ("Mia has no car, as she likes the web site.", "Mia has no car, as she likes the website."),
    ("Mia likes her web site.", "Mia likes her website."),
    ("Mia is very tired, not at all sad, and at 17:00 in Rome.", "Mia is tired."),
    ("Mia has read chapter IV.", "Mia has read chapter 5 of the iPhone 12 book :-)"),
    ("Anna sieht den Hund nicht, er kostet 1.200,50 Euro um 17 Uhr.", "Anna sieht den Hund."),
    ("ミアは昨日の午後3時に公園で二匹の犬と遊んでいませんでした。", "ミアは公園で犬と遊んだ。"),
    ("レオは庭で猫と寝た。", "レオは猫と庭で寝た。"),
    ("ミアは公園で大きな犬と遊んだ。", "ミアは犬と公園で遊んだ。"),
    ("米亚有十二只猫，没有狗。", "米亚有十二只猫。"),
    ("Mia is ill since last Friday evening.", "Mia is ill since 5 January 2026 at 7 pm."),
    ("Mia flew on the 5th and on May 3rd, 3 weeks ago.", "Mia flies on Fridays, next May."),
    ("Mia has been a nurse for 3 years, and is 36.", "Mia is 36 years old, born in 1990."),
    ("Mia will retire in two months, on the weekend.", "Mia retired last summer, in 2019."),
    ("Mia sings every Monday and recently danced.", "Mia said she will sing the next day."),
    ("Mia flog gestern Abend, vor 3 Wochen.", "Mia fliegt am Freitag, am 5. Mai 2026, in 2 Tagen."),
    ("Mia est née hier soir, il y a 3 ans.", "Mia chante lundi prochain, le 5 mai, depuis 2019."),
    ("Mia cantó ayer por la noche, hace 3 años.", "Mia canta el lunes, el 5 de mayo de 2026."),
    ("ミアは先週の金曜日の夜、3年前に歌った。", "ミアは来月の5日、2026年1月に歌う。36歳です。"),
    ("Mia met Leo at Christmas, this morning, next Friday.", "Mia met Leo last Easter."),
    ("Mia danced several weeks ago, this weekend.", "Mia danced in early 2024, this spring."),
    ("Mia hiked last fortnight.", "Mia hiked a week ago, the day after tomorrow."),
    ("Mia will retire in December next year.", "Mia works over the next two weeks."),
    ("Mia retires at Easter 2027, at Christmas next year.", "Saturday Mia danced in the choir."),
    ("Mia flies tomorrow.", "Mia flies on 2 January 2026."),
    ("Ieri Mia ha cantato.", "Domani Mia canta."),
    ("Mia has a cat which is old.", "Mia has an old cat."),
    ("Mia has rowed for 2 months.", "Mia rowed in the week of 12 January 2026."),
    ("Mia rows on the lake. " * 200, "Mia rows on the lake. " * 200 + "Leo has 2 boats."),
]
FORTY_DAYS = timedelta(days=40)
SAID = [
    "My sister and I moved to Porto two weeks ago, and I love my new job at the bakery.",
    "My dog is called Bobo. He was born last month and eats 3 apples a day! I had never swum.",
    "I made this pottery bowl yesterday and gave it to Ana. We both like to sing and play chess.",
    "私は昨日、東京に引っ越しました。うちの犬の名前はモモです。",
    "I'd been to Peru with my aunt before my wedding. Note: I am vegan.",
    "I had soup with a client downtown.",
    "Dog died on Monday.\nHe was called Bosco.",
]
_ONE_OF = 8
"""One rule of so many fails in every run, the others in the drills."""


class Paired:
    """An embedder for which the two texts of a pair are alike, and no other two texts are."""

    fingerprint = "paired"

    def __init__(self) -> None:
        self._axes = {normalise(text): n for n, pair in enumerate(PAIRS) for text in pair}

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), 512), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            vector[self._axes.setdefault(text, len(self._axes))] = 1.0
        return vectors


# --- the rules ------------------------------------------------------------------------------------


def functions() -> dict[str, FunctionType]:
    """Return the functions that are defined in MODULES, by name."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"memory.{name}")
        for function in vars(module).values():
            bare = getattr(function, "__wrapped__", function)
            if isinstance(bare, FunctionType) and bare.__module__ == module.__name__:
                found[f"{name}.{bare.__name__}"] = bare
    return found


RULES = {
    name: rule
    for name, rule in functions().items()
    if {rule.__name__, name.removeprefix("text.")}.isdisjoint(WITHOUT_PRECAUTION)
    and not inspect.iscoroutinefunction(rule)
    and not rule.__name__.startswith("<")
}


FAULTS: dict[str, type[Exception]] = {}
"""The exception of each rule that fails now, by name."""


def fail_always(monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """Let a rule raise an exception of a class of its own; return the name of the class.

    The rule's code is replaced, so that it fails wherever it is called, also from tables of rules.
    """
    fault = f"Fault_{name.replace('.', '_')}"
    monkeypatch.setitem(FAULTS, fault, type(fault, (Exception,), {}))
    namespace: dict[str, Any] = {}
    raising = f"__import__('sys').modules[{__name__!r}].FAULTS[{fault!r}]('Mia has a secret')"
    exec(f"def fail(*args, **kwargs):\n    raise {raising}", namespace)
    monkeypatch.setattr(RULES[name], "__code__", namespace["fail"].__code__)
    return fault


def forget_results() -> None:
    """Empty the caches, so that each rule runs again."""
    for name in [*MODULES, "models.memory"]:
        for value in vars(importlib.import_module(f"memory.{name}")).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


# --- which texts reach a rule ---------------------------------------------------------------------


@dataclass(frozen=True)
class Reached:
    """The pairs and turns that reach each rule, by the rule's name; at most two each."""

    pairs: Mapping[str, Sequence[tuple[str, str]]]
    turns: Mapping[str, Sequence[str]]


@pytest.fixture(scope="module")
def reached() -> Reached:
    forget_results()
    pairs, turns = defaultdict[str, list[tuple[str, str]]](list), defaultdict[str, list[str]](list)
    for pair in PAIRS:
        for name in _called(partial(_read_pair, *pair)):
            pairs[name] = [*pairs[name], pair][:2]
    for text in SAID:
        for name in _called(partial(_read_turn, text)):
            turns[name] = [*turns[name], text][:2]
    return Reached(pairs, turns)


def _called(reading: Callable[[], None]) -> set[str]:
    names, called = {rule.__code__: name for name, rule in RULES.items()}, set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in names:
            called.add(names[frame.f_code])

    forget_results()
    sys.setprofile(note)
    try:
        reading()
    finally:
        sys.setprofile(None)
    return called


def _read_pair(old: str, new: str) -> None:
    for a, b in ((old, new), (new, old)):
        compare(a, b)
        difference(a, b)
        conflicting_values(a, b)
        marked(a, [b])
        verify(f"{a} 77", [a, b])
        verify(f"{a} She rested last week, for 3 months.", [a, b], [START, START + FORTY_DAYS])
        verify(a, [a, a], [START, START + FORTY_DAYS])
        verify_by_words(f"{a} {b}", [a, b])
        differs(a, b)
        telling_words(a, "Mia")
        search_terms(a)
        periods(a, START)
    members = tuple(
        Memory(id=f"mem_{n:012x}", content=text, timestamp=START + timedelta(days=40 * n))
        for n, text in enumerate((old, new))
    )
    compare_memories(*members)
    only_times_differ(*members)
    states(*members)
    asyncio.run(OfflineModel().judge(Question(members, "near", 1.0)))


def _read_turn(text: str) -> None:
    said = turn(text, speaker="Mia")
    model = OfflineModel()
    asyncio.run(model.extract([said]))
    asyncio.run(model.reply([said], []))
    for request in asked_to_remember(text):
        retold(request, "Mia", said.at)
    wordings(text, "Mia")
    only_asks_to_remember(text)
    for found in statements(text, "Mia", said.at):
        search_terms(found.text)


# --- the ways -------------------------------------------------------------------------------------


class Memories:
    """A store, the texts that are to be told and said, and a way to make memories of a user."""

    def __init__(
        self,
        store: MemoryStore,
        make: MakeMemory,
        pairs: Sequence[tuple[str, str]],
        turns: Sequence[str],
    ) -> None:
        self.store = store
        self.pairs = pairs
        self.turns = turns
        self._make = make

    def of(self, user: str) -> list[Memory]:
        told = [text for pair in self.pairs for text in pair]
        return [
            self._make(text, user=user, timestamp=START + timedelta(days=40 * n))
            for n, text in enumerate(told)
        ]

    def compare(self, old: str, new: str) -> None:
        older, newer = self._make(old), self._make(new)
        assert compare_memories(older, newer) == compare_memories(older, newer)
        assert not states(older, newer) or not compare_memories(older, newer).only_b
        assert not (only_times_differ(older, newer) and states(older, newer))

    def lost(self) -> set[tuple[str, str]]:
        """Return the users and texts that live neither as they are nor inside another text.

        A turn is not lost if a memory came from it.
        """
        live: dict[str | None, list[str]] = {}
        for memory in self.store.memories():
            live.setdefault(memory.user, []).append(memory.content)
        told = [
            (user, text.strip())
            for user in ("one_by_one", "imported", "cleaned", "remembered", "merged")
            for pair in self.pairs
            for text in pair
        ]
        lost = {(user, text) for user, text in told if not any(text in one for one in live[user])}
        sources = {memory.metadata.get("turn") for memory in self.store.memories()}
        return lost | {
            ("heard", text) for n, text in enumerate(self.turns) if str(n) not in sources
        }


def one_by_one(memories: Memories) -> None:
    deduplicator = MemoryDeduplicator(memories.store, OfflineModel())

    async def tell() -> None:
        for memory in memories.of("one_by_one"):
            await deduplicator.check_and_merge(memory)

    asyncio.run(tell())


def imported(memories: Memories) -> None:
    deduplicator = MemoryDeduplicator(memories.store, OfflineModel())
    asyncio.run(deduplicator.check_and_merge_all(memories.of("imported")))


def cleaned(memories: Memories) -> None:
    for memory in memories.of("cleaned"):
        memories.store.add(memory)
    asyncio.run(MemoryDeduplicator(memories.store, OfflineModel()).deduplicate_all())


def remembered(memories: Memories) -> None:
    agent = AgentMemory(memories.store, user="remembered")

    async def tell() -> None:
        for memory in memories.of("remembered"):
            await agent.save_with_auto_link(memory.content)

    asyncio.run(tell())


def merged(memories: Memories) -> None:
    """With a model that merges each pair, and a second reading that accepts everything."""
    model = ScriptedModel(*[_both_in_one] * 10)
    deduplicator = MemoryDeduplicator(memories.store, model)
    asyncio.run(deduplicator.check_and_merge_all(memories.of("merged")))


def _both_in_one(question: Question) -> Verdict:
    members = tuple(range(len(question.members)))
    text = " ".join(member.content for member in question.members)
    return Verdict(parts=(MergeGroup(members=members, text=text),))


def heard(memories: Memories) -> None:
    model = OfflineModel()
    extractor = MemoryExtractor(memories.store, MemoryDeduplicator(memories.store, model), model)
    done = hook(extractor, *(turn(text, n, "heard") for n, text in enumerate(memories.turns)))
    assert done.extracted == len(memories.turns)


def recalled(memories: Memories) -> None:
    hits = memories.store.search("What do I like?", user="one_by_one")
    found = [hit.memory for hit in hits]
    assert asyncio.run(OfflineModel().reply([turn("I like chess.")], found)).text


def shown(memories: Memories) -> None:
    for old, new in memories.pairs:
        memories.compare(old, new)
        kept = [run.text for run in difference(old, new) if run.kind != "removed"]
        assert "".join("".join(kept).split()) == "".join(new.split())
        assert "".join(marked(old, [new])).split() == old.split()
        assert verify(f"{old} 77", [old, new]).belief is not Belief.BELIEVED
        assert conflicting_values(old, new) != ("", "")
        assert verify_by_words(f"{old} {new}", [old, new]).belief is not Belief.DOUBTFUL
        assert all(ours or theirs for ours, theirs in differing(old, new))


WAYS = (one_by_one, imported, cleaned, remembered, merged, heard, recalled, shown)


# --- the tests ------------------------------------------------------------------------------------


def test_the_texts_reach_the_rules(reached: Reached) -> None:
    missing = set(RULES) - reached.pairs.keys() - reached.turns.keys()
    assert missing == set()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if n % _ONE_OF == 0 else pytest.mark.drill)
        for n, name in enumerate(sorted(RULES))
    ],
)
def test_nothing_is_lost_if_a_rule_fails(
    name: str,
    reached: Reached,
    ledger: Ledger,
    tmp_path: Path,
    make_memory: MakeMemory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pairs = reached.pairs.get(name) or PAIRS[:1]
    turns = reached.turns.get(name) or SAID[:1]
    store = MemoryStore(ledger, Paired(), clock=ticking())
    fault = fail_always(monkeypatch, name)
    forget_results()
    lost = _lost_on_all_ways(Memories(store, make_memory, pairs, turns))
    lines = [one.getMessage() for one in caplog.records if fault in one.getMessage()]
    assert len(lines) <= 1, "none if the rule runs only for a merged text of other days"
    assert not any(one.exc_info for one in caplog.records)
    assert "secret" not in caplog.text
    assert not [one for one in examine(store) if one.kind == "damage"]
    if lost:  # only what sound rules do not keep either, because the other text states it
        monkeypatch.undo()
        forget_results()
        with (
            Ledger.create(f"sqlite:///{tmp_path / 'sound.db'}") as other,
            MemoryStore(other, Paired(), clock=ticking()) as sound,
        ):
            assert lost <= _lost_on_all_ways(Memories(sound, make_memory, pairs, turns))


def _lost_on_all_ways(memories: Memories) -> set[tuple[str, str]]:
    for way in WAYS:
        way(memories)
    return memories.lost()
