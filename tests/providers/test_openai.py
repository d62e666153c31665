"""The real openai client against a loopback server with the quirks of those that speak like it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
import pytest
from pydantic import SecretStr

from memory.config import LLMConfig
from memory.errors import EmbeddingError, ModelError, ModelUnavailable
from memory.models import MergeReading, ProposedMerge, Question, Reply, Turn, Usage, Verdict
from memory.providers.openai import OpenAIEmbedder, OpenAIModel
from memory.providers.openai import OpenAIServer as Server
from tests.conftest import MakeMemory
from tests.loopback import Raw
from tests.openai_server import Answer, Asked, OpenAIServer, embeddings, failed, said
from tests.readings import memories_shown

KEY = "key-that-must-not-leak"
T = TypeVar("T")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer().running() as running:
        yield running


def ask(
    server: OpenAIServer,
    call: Callable[[OpenAIModel], Awaitable[T]],
    pauses: list[float] | None = None,
    key: str | None = KEY,
    **changes: Any,
) -> T:
    """Nothing is waited for between tries; `pauses` is where to note what would have been."""
    noted = pauses if pauses is not None else []
    config = LLMConfig(**{"timeout_s": 5.0, "max_attempts": 3, **changes})

    async def note(seconds: float) -> None:
        noted.append(seconds)

    async def run() -> T:
        there = Server(SecretStr(key) if key else None, server.url)
        model = OpenAIModel(there, config, "house-8b")
        model.sleep = note
        try:
            return await call(model)
        finally:
            await model.aclose()

    return asyncio.run(run())


@pytest.fixture
def question(make_memory: MakeMemory) -> Question:
    members = (
        make_memory("Mia has a cat.", user="Mia"),
        make_memory("Mia has a black cat.", user="Mia"),
    )
    return Question(members, "between 0.90 and 0.95", 0.93)


NONE = json.dumps({"groups": [], "reason": "two cats"})
MERGED = json.dumps({"groups": [{"members": [1, 2], "text": "Mia has a black cat."}], "reason": ""})


def judge(server: OpenAIServer, question: Question, **changes: Any) -> Verdict:
    return ask(server, lambda model: model.judge(question), **changes)


def texts(verdict: Verdict) -> list[str]:
    return [part.text for part in verdict.parts]


# --- what is asked ------------------------------------------------------------------------------


def test_the_judge_is_asked_with_a_strict_schema_in_the_form_and_in_words(
    server: OpenAIServer, question: Question
) -> None:
    server.script = [MERGED]
    verdict = judge(server, question)
    assert texts(verdict) == ["Mia has a black cat."]
    assert (verdict.usage.calls, verdict.usage.input_tokens, verdict.usage.output_tokens) == (
        1, 11, 7,
    )  # fmt: skip
    [asked] = server.asked
    assert (asked.path, asked.body["model"]) == ("/v1/chat/completions", "house-8b")
    assert asked.body["temperature"] == 0.0
    form = asked.body["response_format"]["json_schema"]
    assert (asked.format, form["name"], form["strict"]) == ("json_schema", "Judgement", True)
    assert form["schema"]["required"] == ["groups", "updates", "reason"]
    assert form["schema"]["additionalProperties"] is False
    assert "default" not in json.dumps(form["schema"])
    assert json.dumps(form["schema"]) in asked.system
    assert "- Combine all distinct information from both\n" in asked.system
    assert memories_shown(asked.data)[1] == (2, "Mia has a black cat.")


def test_the_key_goes_into_a_header_and_nowhere_else(
    server: OpenAIServer, question: Question, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script = [failed(403, "no")]
    with pytest.raises(ModelError, match="403; check OPENAI_API_KEY") as caught:
        judge(server, question)
    [asked] = server.asked
    assert asked.authorization == f"Bearer {KEY}"
    assert KEY not in asked.path + json.dumps(asked.body) + str(caught.value) + caplog.text


def test_a_server_of_ones_own_needs_no_key_and_is_sent_none(
    server: OpenAIServer, question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor whose account it is at OpenAI, which the SDK reads from the environment too."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"x-gateway: {KEY}\nAuthorization: Bearer {KEY}")
    server.script = [NONE]
    judge(server, question, key=None)
    assert KEY not in str(server.asked[0].headers)
    assert server.asked[0].authorization is None
    server.script = [NONE]
    judge(server, question, key="its own")
    assert KEY not in str(server.asked[1].headers)
    assert server.asked[1].authorization == "Bearer its own"


def test_openai_itself_is_sent_what_the_environment_says_of_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-gateway: mine")
    assert list(Server(None, "https://example.org/v1").request["headers"])[-1] == "x-gateway"
    assert Server(SecretStr(KEY)).request["headers"] == {}


def test_nothing_follows_to_another_host(server: OpenAIServer, question: Question) -> None:
    with OpenAIServer().running() as elsewhere:
        server.default = Raw(307, b"", {"location": elsewhere.url + "/chat/completions"})
        with pytest.raises(ModelError):
            judge(server, question, max_attempts=1)
        assert elsewhere.asked == []


# --- quirks -------------------------------------------------------------------------------------


def knows(*forms: str | None, refusal: str, status: int = 400) -> Callable[[Asked], Raw | str]:
    """A server that knows these forms of an answer only."""

    def answer(asked: Asked) -> Raw | str:
        return MERGED if asked.format in forms else failed(status, refusal)

    return answer


@pytest.mark.parametrize(
    ("known", "refusal", "forms"),
    [
        (
            ("json_object", None),
            "This response_format type is unavailable now",
            ["json_schema", "json_object", "json_object"],
        ),
        (
            (None,),
            "'response_format.type' must be 'text'",
            ["json_schema", "json_object", None, None],
        ),
        (
            ("json_object", None),
            "Failed to initialize samplers: failed to parse grammar",
            ["json_schema", "json_object", "json_object"],
        ),
    ],
    ids=["DeepSeek", "neither", "llama.cpp"],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_form_that_the_server_refuses_is_left_for_good(
    server: OpenAIServer, question: Question, known: tuple[str | None, ...], refusal: str,
    forms: list[str | None], status: int,
) -> None:  # fmt: skip
    server.default = knows(*known, refusal=refusal, status=status)

    async def twice(model: OpenAIModel) -> list[Verdict]:
        return [await model.judge(question) for _ in range(2)]

    assert [texts(verdict) for verdict in ask(server, twice)] == [["Mia has a black cat."]] * 2
    assert [asked.format for asked in server.asked] == forms
    assert all("JSON schema" in asked.system for asked in server.asked)


def test_an_answer_among_the_reasoning_is_read(server: OpenAIServer, question: Question) -> None:
    server.default = said(None, reasoning_content=MERGED)
    assert texts(judge(server, question)) == ["Mia has a black cat."]


def test_calls_side_by_side_step_down_together(server: OpenAIServer, question: Question) -> None:
    server.default = knows("json_object", refusal="This response_format type is unavailable now")

    async def many(model: OpenAIModel) -> None:
        await asyncio.gather(*(model.judge(question) for _ in range(6)))
        await model.judge(question)

    ask(server, many)
    assert {asked.format for asked in server.asked} == {"json_schema", "json_object"}
    assert server.asked[-1].format == "json_object"


@pytest.mark.parametrize(
    ("structured", "form"), [("schema", "json_schema"), ("json", "json_object"), ("prompt", None)]
)
def test_merged_texts_are_read_in_whatever_form_the_server_takes(
    server: OpenAIServer, make_memory: MakeMemory, structured: str, form: str | None
) -> None:
    members = (
        make_memory("Mia has a cat.", user="Mia"),
        make_memory("Mia's cat is Pip.", user="Mia"),
    )
    merge = ProposedMerge(members, "Mia has a cat named Pip.")
    lost = {"number": 2, "lost": ["the cat's name"], "added": []}
    whole = {"merges": [{"number": 1, "lost": [], "added": []}, lost]}
    server.reader, server.script = None, [json.dumps(whole)]
    found = ask(server, lambda model: model.reread([merge, merge]), structured=structured)
    assert found.readings == (MergeReading(), MergeReading(lost=("the cat's name",)))
    assert (found.usage.calls, found.usage.input_tokens) == (1, 11)
    [asked] = server.asked
    assert asked.format == form
    assert [one["text"] for one in asked.data["merges"]] == [merge.text] * 2
    assert '"lost"' in asked.system


def test_a_malformed_reading_may_be_mended_once_if_no_schema_holds_it(
    server: OpenAIServer, make_memory: MakeMemory
) -> None:
    merge = ProposedMerge(
        (make_memory("Mia has a cat."), make_memory("Mia's cat is Pip.")), "Mia has Pip, a cat."
    )
    whole = json.dumps({"merges": [{"number": 1, "lost": [], "added": []}]})
    server.reader, server.script = None, ["It is all there.", whole]
    found = ask(server, lambda model: model.reread([merge]), structured="prompt")
    assert (found.readings, found.usage.calls) == ((MergeReading(),), 2)
    assert "malformed" in server.asked[1].data["your_last_answer_was_discarded_because"]


@pytest.mark.parametrize(
    ("structured", "form"), [("schema", "json_schema"), ("json", "json_object"), ("prompt", None)]
)
def test_a_form_that_is_configured_is_kept(
    server: OpenAIServer, question: Question, structured: str, form: str | None
) -> None:
    server.script = [failed(400, "This response_format type is unavailable now"), MERGED]
    with pytest.raises(ModelError, match="400: This response_format type"):
        judge(server, question, structured=structured)
    assert texts(judge(server, question, structured=structured)) == ["Mia has a black cat."]
    assert [asked.format for asked in server.asked] == [form, form]


def test_an_error_is_told_wherever_the_server_puts_it(
    server: OpenAIServer, question: Question
) -> None:
    """LM Studio's is a string, FastAPI's a `detail`."""
    for body in ({"error": "the context is too long"}, {"detail": "the context is too long"}):
        server.script = [Raw(400, json.dumps(body).encode(), {"content-type": "application/json"})]
        with pytest.raises(ModelError, match="answered 400: the context is too long"):
            judge(server, question)
    assert len(server.asked) == 2


def test_a_temperature_that_the_model_does_not_take_is_left_out_from_then_on(
    server: OpenAIServer, question: Question
) -> None:
    told = "Unsupported value: 'temperature' does not support 0 with this model."
    server.default = lambda asked: failed(400, told) if "temperature" in asked.body else MERGED
    assert texts(judge(server, question)) == ["Mia has a black cat."]
    assert ["temperature" in asked.body for asked in server.asked] == [True, False]
    assert server.asked[1].format == "json_schema"


@pytest.mark.parametrize(
    "answer",
    [
        f"```json\n{MERGED}\n```",
        f"Here it is:\n```\n{MERGED}\n```\nShall I go on?",
        f"<think>Two memories, {{one}} cat.\n[Hm.] So merge.</think>\n\n{MERGED}",
        f"They are the same cat.</think>{MERGED}",
        f"Both tell of a cat. {MERGED}",
    ],
    ids=["fenced", "fenced in words", "thoughts", "thoughts without a beginning", "words before"],
)
def test_text_around_the_json_is_ignored(
    server: OpenAIServer, question: Question, answer: str
) -> None:
    server.script = [answer]
    assert texts(judge(server, question)) == ["Mia has a black cat."]
    assert len(server.asked) == 1


def test_thoughts_are_not_said_aloud(server: OpenAIServer) -> None:
    turns = [Turn(speaker="Mia", text="Who am I?", at=datetime(2026, 5, 1, tzinfo=UTC))]
    server.script = [said("<think>She asks who she is.</think>\nYou are Mia.")]
    reply: Reply = ask(server, lambda model: model.reply(turns, ()))
    assert reply.text == "You are Mia."
    assert server.asked[0].format is None
    assert "JSON schema" not in server.asked[0].system


def test_reasoning_beside_the_answer_is_not_read(server: OpenAIServer, question: Question) -> None:
    server.script = [said(MERGED, reasoning_content="Two cats? No, one.")]
    assert texts(judge(server, question)) == ["Mia has a black cat."]


@pytest.mark.parametrize(
    "first",
    [
        '{"answer": "they are the same"}',
        '{"groups": [{"members": ["1", "2"], "text": "Mia has a black cat."}]}',
        '{"groups": [], "reason": "", "confidence": 1}',
        '{"groups": [{"members": [1, 2], "te',
        "<think>Hm, let me see",
    ],
    ids=["another shape", "another type", "more than asked", "half", "thoughts alone"],
)
def test_an_answer_that_ignores_the_schema_may_be_mended_once(
    server: OpenAIServer, question: Question, first: str
) -> None:
    server.script = [first, MERGED]
    verdict = judge(server, question)
    assert (texts(verdict), verdict.usage.calls) == (["Mia has a black cat."], 2)
    before, after = server.asked
    problem = after.data.pop("your_last_answer_was_discarded_because")
    assert "the answer is" in problem
    assert before.data["memories"] == after.data["memories"]


def test_an_answer_that_ignores_the_schema_twice_is_a_failed_call(
    server: OpenAIServer, question: Question
) -> None:
    server.default = '{"answer": "they are the same"}'
    with pytest.raises(ModelError, match="malformed: groups") as caught:
        judge(server, question)
    assert len(server.asked) == 2
    assert Usage.of_failure(caught.value) == Usage(
        calls=2, input_tokens=22, output_tokens=14, failed=2
    )


@pytest.mark.parametrize(
    ("answers", "cost"),
    [
        (
            [said(""), said(""), said("")],
            Usage(calls=3, input_tokens=33, output_tokens=21, failed=3),
        ),
        ([said(MERGED[:30], "length")], Usage(calls=1, input_tokens=11, output_tokens=7, failed=1)),
        ([said(""), failed(401)], Usage(calls=2, input_tokens=11, output_tokens=7, failed=2)),
        ([NONE[:9], failed(401)], Usage(calls=2, input_tokens=11, output_tokens=7, failed=2)),
    ],
    ids=["empty", "cut off", "empty, then refused", "malformed, then refused"],
)
def test_an_answer_that_cannot_be_taken_has_been_paid_all_the_same(
    server: OpenAIServer, question: Question, answers: list[Answer], cost: Usage
) -> None:
    server.script = answers
    with pytest.raises(ModelError) as caught:
        judge(server, question)
    assert Usage.of_failure(caught.value) == cost


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said(MERGED[:30], "length"), r"answer is cut off \(length\)"),
        (said(None, "stop", refusal="I cannot help with that."), r"no answer \(refused\)"),
        (said("", "content_filter"), r"no answer \(content_filter\)"),
        (failed(400, "bad field"), "answered 400: bad field"),
        (failed(401), "401; check OPENAI_API_KEY"),
        (failed(402, "Insufficient Balance"), "402: Insufficient Balance"),
        (failed(404), "there is no model 'house-8b'; set llm.model"),
    ],
)
def test_a_permanent_failure_is_not_retried(
    server: OpenAIServer, question: Question, answer: Answer, reason: str
) -> None:
    server.script = [answer]
    with pytest.raises(ModelError, match=reason):
        judge(server, question)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        failed(429),
        failed(500),
        failed(503),
        failed(529),
        Raw(502, b"<html>busy</html>", {"content-type": "text/html"}),
        Raw(200, b"<html>hello</html>", {"content-type": "text/html"}),
        Raw(200, b"<html>hello</html>", {"content-type": "application/json"}),
        Raw(200, b"", {"content-type": "application/json"}),
        {},
        said(None),
        said(""),
        {"choices": []},
        {"choices": None, "error": {"message": "upstream", "code": 502}},
        Raw(200, json.dumps(said(NONE)).encode(), {"content-type": "application/json"}, cut=True),
        Raw(drop=True),
        Raw(reset=True),
    ],
    ids=str,
)
def test_a_passing_failure_is_retried_and_the_answer_is_believed(
    server: OpenAIServer, question: Question, answer: Answer
) -> None:
    server.script = [answer]
    server.default = NONE
    verdict = judge(server, question)
    assert (verdict.parts, verdict.usage.calls, len(server.asked)) == ((), 2, 2)


def test_the_client_tries_nothing_again_by_itself(server: OpenAIServer, question: Question) -> None:
    server.default = failed(503, "overloaded")
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:\d+ answered 503"):
        judge(server, question, max_attempts=1)
    assert len(server.asked) == 1


def test_a_pause_that_the_server_asks_for_is_kept_and_else_pauses_grow(
    server: OpenAIServer, question: Question
) -> None:
    pauses: list[float] = []
    server.script = [failed(429, "slow down", retry_after="30.5"), failed(429, "slow down"), NONE]
    judge(server, question, pauses=pauses)
    assert pauses[0] == 30.5
    assert 0.0 <= pauses[1] <= 5.0
    server.script = [failed(429, "quota", retry_after="3600")]
    with pytest.raises(ModelUnavailable):
        judge(server, question)


def test_without_usage_a_call_is_counted_all_the_same(
    server: OpenAIServer, question: Question
) -> None:
    server.script = [{"choices": said(NONE)["choices"]}, said(NONE) | {"usage": None}]
    for _ in range(2):
        usage = judge(server, question).usage
        assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 0, 0)


def test_a_server_that_hangs_or_is_not_there_is_unavailable(
    server: OpenAIServer, question: Question
) -> None:
    server.default = Raw(200, b"{}", hang_s=2.0)
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        judge(server, question, timeout_s=0.2, max_attempts=1)
    server.url = "http://127.0.0.1:9/v1"
    with pytest.raises(ModelUnavailable, match=r"connection to 127\.0\.0\.1:9 failed"):
        judge(server, question, max_attempts=1)


def test_one_model_serves_one_event_loop_after_another(
    server: OpenAIServer, question: Question
) -> None:
    server.default = NONE
    model = OpenAIModel(Server(None, server.url), LLMConfig(), "house-8b")
    for _ in range(3):
        assert asyncio.run(model.judge(question)).parts == ()
    asyncio.run(model.aclose())


# --- embeddings ---------------------------------------------------------------------------------


def embedder(server: OpenAIServer, *model: Any) -> OpenAIEmbedder:
    there = Server(SecretStr(KEY), server.url)
    config = LLMConfig(timeout_s=5.0, max_attempts=3)
    embedder = OpenAIEmbedder(there, config, *model)
    embedder.sleep = lambda _seconds: None
    return embedder


def test_texts_are_embedded_a_hundred_at_a_time_each_with_its_own_vector(
    server: OpenAIServer,
) -> None:
    server.default = embeddings
    many = [f"text {n}" for n in range(130)]
    vectors = embedder(server, "nomic-embed-text", 64).embed(many)
    assert vectors.shape == (130, 64)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert np.allclose(vectors[7], embedder(server, "nomic-embed-text", 64).embed(["text 7"])[0])
    assert [len(asked.body["input"]) for asked in server.asked] == [100, 30, 1]
    assert server.asked[0].authorization == f"Bearer {KEY}"


def test_only_models_that_can_shorten_their_vectors_are_asked_to(server: OpenAIServer) -> None:
    server.default = embeddings
    embedder(server, "nomic-embed-text", 64).embed(["tea"])
    embedder(server).embed(["tea"])
    assert ["dimensions" in asked.body for asked in server.asked] == [False, True]
    assert embedder(server).fingerprint.startswith("openai:localhost/text-embedding-3-small-1536/")


def test_the_fingerprint_names_host_model_and_dimension_and_no_port_or_key() -> None:
    def of(url: str) -> str:
        return OpenAIEmbedder(Server(SecretStr(KEY), url), LLMConfig(), "m", 64).fingerprint

    assert of("http://user:pw@10.0.0.8:8000/v1") == "openai:10.0.0.8/m-64/unit/nfkc-casefold"
    assert of("http://127.0.0.1:11434/v1") == of("http://localhost:8080/v1")


def test_a_busy_embedder_is_tried_again_and_what_it_lacks_is_named(server: OpenAIServer) -> None:
    server.script = [failed(503)]
    server.default = embeddings
    assert embedder(server, "m", 64).embed(["a"]).shape == (1, 64)
    server.script = [failed(404)]
    with pytest.raises(EmbeddingError, match=r"set memory\.embedding\.model"):
        embedder(server, "m", 64).embed(["a"])
    with pytest.raises(EmbeddingError, match=r"of 64 dimensions came, not of 1024; set memory"):
        embedder(server, "m", 1024).embed(["a"])
    server.script = [{"data": []}, {"error": "no"}]
    with pytest.raises(EmbeddingError, match="1 texts gave 0 vectors"):
        embedder(server, "m", 64).embed(["a"])
    with pytest.raises(EmbeddingError, match="holds no embeddings"):
        embedder(server, "m", 64).embed(["a"])
