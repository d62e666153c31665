"""A failing model is left alone for a while, tried once, and asked again when it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from pydantic import SecretStr

from memory.assembly import build_model
from memory.config import Config, LLMConfig
from memory.errors import ModelAnswerError, ModelError, ModelUnavailable
from memory.models import Question, Turn, Verdict
from memory.providers.asking import GuardedModel
from tests.conftest import MakeMemory
from tests.doubles import START, HangingModel, ScriptedModel
from tests.gemini_server import GeminiServer, failed

SAME = Verdict(reason="answered")
TURNS = [Turn(speaker="Mia", text="Hello.", at=START)]


class Seconds:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def question(make_memory: MakeMemory) -> Question:
    return Question((make_memory("Mia has a cat."), make_memory("Mia has a dog.")), "test", 0.92)


def down(n: int, retry_after_s: float | None = None) -> list[ModelError]:
    return [ModelUnavailable("Gemini answered 503", retry_after_s=retry_after_s)] * n


def refused(call: Awaitable[object]) -> str:
    """Why a question failed."""

    async def ask() -> None:
        await call

    with pytest.raises(ModelUnavailable) as caught:
        asyncio.run(ask())
    return str(caught.value)


def opened(model: ScriptedModel, question: Question, seconds: Seconds) -> GuardedModel:
    """A breaker that has just seen five failures, ten seconds apart."""
    breaker = GuardedModel(model, clock=seconds)
    for _ in range(5):
        seconds.now += 10
        assert refused(breaker.judge(question)) == "Gemini answered 503"
    return breaker


def test_after_five_failures_in_a_row_the_model_is_not_asked_and_the_reason_says_all(
    question: Question, seconds: Seconds
) -> None:
    model = ScriptedModel(*down(5))
    breaker = opened(model, question, seconds)
    seconds.now += 1
    assert refused(breaker.judge(question)) == (
        "the model is not asked: 5 questions in a row failed (Gemini answered 503), "
        "the first 41 s ago; it is tried again in 29 s"
    )
    assert len(model.asked) == 5


def test_an_answer_in_between_starts_the_count_anew(question: Question, seconds: Seconds) -> None:
    model = ScriptedModel(*down(4), SAME, *down(4), SAME)
    breaker = GuardedModel(model, clock=seconds)
    for expected in [*down(4), SAME, *down(4), SAME]:
        if isinstance(expected, Verdict):
            assert asyncio.run(breaker.judge(question)) == expected
        else:
            assert refused(breaker.judge(question)) == str(expected)


@pytest.mark.parametrize("error", [ModelAnswerError("it is cut off"), ModelError("answered 403")])
def test_an_unusable_answer_is_an_answer(
    error: ModelError, question: Question, seconds: Seconds
) -> None:
    model = ScriptedModel(*down(4), error, *down(4), *[error] * 9)
    breaker = GuardedModel(model, clock=seconds)
    for _ in range(18):
        with pytest.raises(ModelError):
            asyncio.run(breaker.judge(question))
    assert len(model.asked) == 18


def test_judge_extractor_and_conversation_share_it(question: Question, seconds: Seconds) -> None:
    model = ScriptedModel(*down(5))
    breaker = opened(model, question, seconds)
    for call in (breaker.judge(question), breaker.extract(TURNS), breaker.reply(TURNS, [])):
        assert refused(call).startswith("the model is not asked")
    assert model.shown == []


def test_a_failing_extractor_opens_it_for_all(question: Question, seconds: Seconds) -> None:
    model = ScriptedModel()
    model.extractions = list(down(5))
    breaker = GuardedModel(model, clock=seconds)
    for _ in range(5):
        refused(breaker.extract(TURNS))
    assert refused(breaker.judge(question)).startswith("the model is not asked")
    assert model.asked == []


def test_after_the_pause_an_answer_closes_it(question: Question, seconds: Seconds) -> None:
    breaker = opened(ScriptedModel(*down(5), SAME, *down(4), SAME), question, seconds)
    seconds.now += 30
    assert asyncio.run(breaker.judge(question)) == SAME
    for _ in range(4):
        assert refused(breaker.judge(question)) == "Gemini answered 503"
    assert asyncio.run(breaker.judge(question)) == SAME


def test_an_unusable_answer_on_trial_closes_it_too(question: Question, seconds: Seconds) -> None:
    unusable = ModelAnswerError("it is cut off")
    breaker = opened(ScriptedModel(*down(5), unusable, SAME), question, seconds)
    seconds.now += 30
    with pytest.raises(ModelAnswerError):
        asyncio.run(breaker.judge(question))
    assert asyncio.run(breaker.judge(question)) == SAME


def test_each_failed_trial_doubles_the_pause_up_to_ten_minutes(
    question: Question, seconds: Seconds
) -> None:
    model = ScriptedModel(*down(12))
    breaker = opened(model, question, seconds)
    pauses = []
    for _ in range(7):
        before, asked = seconds.now, len(model.asked)
        while len(model.asked) == asked:
            seconds.now += 1
            refused(breaker.judge(question))
        pauses.append(seconds.now - before)
    assert pauses == [30, 60, 120, 240, 480, 600, 600]


def test_after_it_closed_the_pause_is_short_again(question: Question, seconds: Seconds) -> None:
    breaker = opened(ScriptedModel(*down(6), SAME, *down(5)), question, seconds)
    seconds.now += 30
    refused(breaker.judge(question))
    seconds.now += 60
    assert asyncio.run(breaker.judge(question)) == SAME
    for _ in range(5):
        refused(breaker.judge(question))
    assert refused(breaker.judge(question)).endswith("it is tried again in 30 s")


@pytest.mark.parametrize(
    ("asked_for_s", "pause_s"), [(None, 30), (7.0, 30), (90.0, 90), (1e9, 3_600)]
)
def test_the_server_may_ask_for_a_longer_pause_of_an_hour_at_most(
    asked_for_s: float | None, pause_s: int, question: Question, seconds: Seconds
) -> None:
    breaker = opened(ScriptedModel(*down(5, asked_for_s), SAME), question, seconds)
    assert refused(breaker.judge(question)).endswith(f"it is tried again in {pause_s} s")
    seconds.now += pause_s
    assert asyncio.run(breaker.judge(question)) == SAME


def test_only_one_question_is_on_trial_and_the_others_fail_at_once(
    question: Question, seconds: Seconds
) -> None:
    model = HangingModel(*down(5), SAME, SAME)
    model.hangs = False
    breaker = opened(model, question, seconds)
    model.hangs = True
    seconds.now += 30

    async def many() -> list[Verdict | BaseException]:
        tried = [asyncio.create_task(breaker.judge(question)) for _ in range(9)]
        await asyncio.wait(tried, return_when=asyncio.FIRST_COMPLETED)
        model.hangs = False
        return await asyncio.gather(*tried, return_exceptions=True)

    first, *others = asyncio.run(many())
    assert first == SAME
    assert all(str(one).endswith("it is being tried again") for one in others)
    assert len(model.asked) == 6
    assert asyncio.run(breaker.judge(question)) == SAME


def test_questions_asked_before_it_opened_neither_lengthen_the_pause_nor_count(
    question: Question, seconds: Seconds
) -> None:
    model = HangingModel(*down(9))
    breaker = GuardedModel(model, clock=seconds)

    async def together() -> None:
        tried = [asyncio.create_task(breaker.judge(question)) for _ in range(9)]
        await model.reached(9)
        model.hangs = False
        await asyncio.wait(tried)

    asyncio.run(together())
    assert len(model.asked) == 9
    told = refused(breaker.judge(question))
    assert "5 questions in a row failed" in told
    assert told.endswith("it is tried again in 30 s")


def given_up(
    breaker: GuardedModel, model: HangingModel, question: Question, after: Callable[[], None]
) -> None:
    """Ask, and give up while the model hangs, once `after` has happened."""

    async def ask() -> None:
        before = model.waiting
        asking = asyncio.create_task(breaker.judge(question))
        await model.reached(before + 1)
        after()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask())


def test_a_model_that_hangs_longer_than_anybody_waits_has_failed(
    question: Question, seconds: Seconds
) -> None:
    model = HangingModel()
    breaker = GuardedModel(model, patience_s=15.0, clock=seconds)

    def wait() -> None:
        seconds.now += 15

    for _ in range(5):
        given_up(breaker, model, question, wait)
    assert "(no answer in time)" in refused(breaker.judge(question))


def test_giving_up_at_once_says_nothing_about_the_model(
    question: Question, seconds: Seconds
) -> None:
    model = HangingModel()
    breaker = GuardedModel(model, patience_s=15.0, clock=seconds)
    for _ in range(9):
        given_up(breaker, model, question, lambda: None)
    model = HangingModel(*down(5), SAME)
    model.hangs = False
    breaker = opened(model, question, seconds)
    seconds.now += 30
    model.hangs = True
    given_up(breaker, model, question, lambda: None)
    model.hangs = False
    assert asyncio.run(breaker.judge(question)) == SAME, "the next one is on trial"


def test_it_says_once_when_it_opens_and_once_when_it_closes(
    question: Question, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="memory.providers")
    breaker = opened(ScriptedModel(*down(5), SAME), question, seconds)
    refused(breaker.judge(question))
    seconds.now += 30
    asyncio.run(breaker.judge(question))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "scripted failed 5 times in a row (Gemini answered 503): not asked for 30 s"),
        ("INFO", "scripted answers again after 5 failures"),
    ]


def test_it_has_the_name_of_the_model_and_closes_it(seconds: Seconds) -> None:
    class Closing(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    model = Closing()
    breaker = GuardedModel(model, clock=seconds)
    asyncio.run(breaker.aclose())
    assert (breaker.name, model.closed) == ("scripted", 1)


def test_gemini_is_built_with_it_as_configured(question: Question) -> None:
    with GeminiServer(failed(503)).running() as server:
        llm = LLMConfig(base_url=server.url, max_attempts=1)
        model = build_model(Config(llm=llm, api_key=SecretStr("k")))
        assert model.name == "gemini-3-flash-preview"
        told = [refused(model.judge(question)) for _ in range(7)]
        assert [len(server.asked), *told[:5]] == [5, *["Gemini answered 503 SOME_STATUS"] * 5]
        assert all(one.startswith("the model is not asked: 5 questions") for one in told[5:])
        asyncio.run(model.aclose())
