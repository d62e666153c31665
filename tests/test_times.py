"""The same words about another day stay another memory, through every door."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.agent import build_tools
from memory.assembly import build_deduplicator, build_extractor, open_store
from memory.config import Config, MemoryConfig
from memory.models import Memory, Turn
from memory.providers import OfflineModel
from memory.store import MemoryStore

DAYS = [datetime(2026, month, 6, 12, tzinfo=UTC) for month in (1, 1, 3)]
DENTIST = "Mia has a dentist appointment tomorrow."


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(memory=MemoryConfig(data_dir=str(tmp_path)))


@pytest.fixture
def store(config: Config) -> Iterator[MemoryStore]:
    with open_store(config) as opened:
        yield opened


def memories() -> list[Memory]:
    return [Memory(content=DENTIST, user="Mia", timestamp=day) for day in DAYS]


def chat(store: MemoryStore, config: Config) -> None:
    deduplicator = build_deduplicator(store, config, OfflineModel())
    asyncio.run(deduplicator.check_and_merge_all(memories()))


def batch(store: MemoryStore, config: Config) -> None:
    store.add_batch(memories())
    asyncio.run(build_deduplicator(store, config, OfflineModel()).deduplicate_all())


def agent(store: MemoryStore, config: Config) -> None:
    tools = build_tools(store, config)
    for day in DAYS:
        store.clock = lambda day=day: day  # type: ignore[misc]
        asyncio.run(tools.call("remember", {"content": DENTIST, "user": "Mia"}))


def turns(store: MemoryStore, config: Config) -> None:
    extractor = build_extractor(store, config, OfflineModel())
    text = "I have a dentist appointment tomorrow."
    for number, day in enumerate(DAYS):
        turn = Turn(speaker="Mia", text=text, at=day, id=str(number), conversation=str(number))
        asyncio.run(extractor.extract_and_store([turn]))


PAIRS = [
    # what one speaker says on two days, and what must both be kept
    ("2026-01-12", "I have a job interview tomorrow.",
     "2026-02-12", "I have a job interview tomorrow."),
    ("2026-01-12", "I saw a fox in the garden this morning.",
     "2026-01-13", "I saw a fox in the garden this morning."),
    ("2026-03-02", "I lost my wallet yesterday.",
     "2026-05-02", "I lost my wallet yesterday."),
    ("2026-03-04", "I am flying to Oslo this Friday.",
     "2026-03-04", "I am flying to Oslo next Friday."),
    ("2026-04-10", "I sold two paintings last month.",
     "2026-04-10", "I sold two paintings this month."),
    ("2026-06-01", "I am meeting Lea on Tuesday.",
     "2026-06-08", "I am meeting Lea on Tuesday."),
    ("2026-06-01", "I ran ten miles today.", "2026-06-02", "I ran ten miles today."),
    ("2026-07-15", "I was in Crete last summer.",
     "2027-07-15", "I was in Crete last summer."),
    ("2026-12-30", "I will start a diet next year.",
     "2027-12-30", "I will start a diet next year."),
    ("2026-02-01", "I painted the kitchen last weekend.",
     "2026-02-15", "I painted the kitchen last weekend."),
    ("2026-02-27", "I am giving blood the day after tomorrow.",
     "2026-05-27", "I am giving blood the day after tomorrow."),
    ("2026-05-05", "I fell off my bike two weeks ago.",
     "2026-09-05", "I fell off my bike two weeks ago."),
    ("2026-05-05", "I went to the opera in March.",
     "2027-05-05", "I went to the opera in March."),
    ("2026-08-20", "I fixed the roof on 3 August.",
     "2026-09-20", "I fixed the roof on 3 September."),
    ("2026-10-01", "I had a row with my boss this afternoon.",
     "2026-10-06", "I had a row with my boss this afternoon."),
    ("2026-10-01", "I am cooking for twelve people tonight.",
     "2026-11-01", "I am cooking for twelve people tonight."),
    ("2026-11-09", "I will see the vet next week.",
     "2026-12-14", "I will see the vet next week."),
    ("2026-11-09", "I missed my train on Monday morning.",
     "2026-11-16", "I missed my train on Monday morning."),
    ("2026-11-09", "My sister visited me last week.",
     "2026-11-23", "My sister visited me last week."),
    ("2026-01-31", "My rent goes up next month.",
     "2026-08-31", "My rent goes up next month."),
    ("2026-01-31", "My car broke down last night.",
     "2026-04-30", "My car broke down last night."),
    ("2026-03-20", "My son starts school in six months.",
     "2028-03-20", "My son starts school in six months."),
    ("2026-03-20", "My mother is having surgery on Thursday.",
     "2026-04-20", "My mother is having surgery on Thursday."),
    ("2026-03-20", "I got a parking ticket an hour ago.",
     "2026-03-24", "I got a parking ticket an hour ago."),
    ("2026-01-12", "明日、面接がある。", "2026-02-12", "明日、面接がある。"),
    ("2026-01-12", "昨日、猫が逃げた。", "2026-03-12", "昨日、猫が逃げた。"),
    ("2026-04-05", "先週、映画を三本見た。", "2026-04-19", "先週、映画を三本見た。"),
    ("2026-04-05", "来月、大阪に引っ越す。", "2026-09-05", "来月、大阪に引っ越す。"),
    ("2026-04-05", "今年、マラソンを走る。", "2027-04-05", "今年、マラソンを走る。"),
    ("2026-04-05", "今朝、財布をなくした。", "2026-04-06", "今朝、財布をなくした。"),
    ("2026-01-12", "Ich habe morgen eine Prüfung.",
     "2026-02-12", "Ich habe morgen eine Prüfung."),
    ("2026-01-12", "Ich war gestern im Kino.", "2026-01-19", "Ich war gestern im Kino."),
    ("2026-05-12", "Ich ziehe nächsten Monat um.",
     "2026-12-12", "Ich ziehe nächsten Monat um."),
    ("2026-05-12", "Ich war letzte Woche krank.",
     "2026-06-12", "Ich war letzte Woche krank."),
    ("2026-01-12", "J'ai un rendez-vous chez le dentiste demain.",
     "2026-03-12", "J'ai un rendez-vous chez le dentiste demain."),
    ("2026-01-12", "J'ai perdu mes clés hier.", "2026-02-12", "J'ai perdu mes clés hier."),
    ("2026-05-12", "Je pars en vacances la semaine prochaine.",
     "2026-07-12", "Je pars en vacances la semaine prochaine."),
    ("2026-01-12", "Mañana tengo un examen.", "2026-02-12", "Mañana tengo un examen."),
    ("2026-01-12", "Ayer perdí el tren.", "2026-01-20", "Ayer perdí el tren."),
    ("2026-05-12", "El mes pasado compré una moto.",
     "2026-08-12", "El mes pasado compré una moto."),
]  # fmt: skip


def test_turns_of_two_days_lose_nothing_to_each_other(store: MemoryStore, config: Config) -> None:
    """Who says both has as many memories as one who says the first and one who says the second."""
    extractor = build_extractor(store, config, OfflineModel())
    for position in (0, 2):
        heard = [
            Turn(
                speaker=f"{who} {number}", text=pair[position + 1],
                at=datetime.fromisoformat(f"{pair[position]}T12:00:00+00:00"),
                id=f"{who} {number}", conversation=f"{who} {number // 5} {position}",
            )
            for number, pair in enumerate(PAIRS)
            for who in ("Mia", ("Tom", "Ida")[position // 2])
        ]  # fmt: skip
        asyncio.run(extractor.extract_and_store(heard))
    count = Counter(memory.user for memory in store.memories())
    expected = [count[f"Tom {n}"] + count[f"Ida {n}"] for n in range(len(PAIRS))]
    assert [count[f"Mia {n}"] for n in range(len(PAIRS))] == expected
    assert min(expected[:30]) == 2  # it extracts English and Japanese


@pytest.mark.parametrize("door", [chat, batch, agent, turns])
def test_an_appointment_of_march_is_not_that_of_january(
    store: MemoryStore, config: Config, door: Callable[[MemoryStore, Config], None]
) -> None:
    door(store, config)
    found = sorted(memory.timestamp for memory in store.memories())
    assert [moment.month for moment in found] == [1, 3]
