"""One's own model and embedder: the documented ones work everywhere, failing ones harm nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory import ChatMemory, Embedder, Turn, open_chat_memory
from memory.assembly import build_deduplicator, build_extractor, open_store
from memory.config import MemoryConfig, load_config
from memory.decide import checked_part
from memory.deduplicator import TRIAL, Judging, MemoryDeduplicator
from memory.errors import ConfigError, EmbedderMismatch, EmbeddingError
from memory.extractor import MemoryExtractor
from memory.models import (
    PLAIN,
    Candidate,
    Extraction,
    Memory,
    MergeGroup,
    MergeReading,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Verdict,
)
from memory.providers import Asking, CallBudget, GuardedModel, OfflineModel
from memory.store import MemoryStore
from tests import commands
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder, ScriptedModel
from tests.readings import WRONG, readings

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "own-models.md").read_text(encoding="utf-8")
EXAMPLE = (ROOT / "examples" / "house_models.py").read_text(encoding="utf-8")


class House(BaseHTTPRequestHandler):
    """The server that the example's model asks."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(self._answer(asked["data"])).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, data: dict[str, Any]) -> dict[str, Any]:
        if "known" in data:
            said = [(n, f"{who} {text[2:]}") for n, who, text in data["turns"]]
            found = [(n, text) for n, text in said if text.startswith("Mia")]
            return {"memories": [{"content": text, "turns": [n]} for n, text in found]}
        if "merges" in data:
            lost = [[WRONG[one["text"]]] if one["text"] in WRONG else [] for one in data["merges"]]
            return {"readings": [{"lost": some, "added": []} for some in lost]}
        return {"text": "Good to know.", "groups": []}

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def house() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), House) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_examples_model_and_embedder_serve_the_chat_and_every_command(
    tmp_path: Path, house: str
) -> None:
    (tmp_path / "house_models.py").write_text(EXAMPLE)
    names = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert names is not None
    (tmp_path / "config.yaml").write_text(names[1])
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", "HOUSE_MODEL_URL": house}
    env |= {"MEMORY_DATA_DIR": str(tmp_path / "data")}

    def run(module: str, *args: str, said: str = "") -> str:
        done = commands.run(
            module, "--config", "config.yaml", *args, cwd=tmp_path, env=env, said=said
        )
        assert done.returncode == 0, done.stderr
        assert "failed" not in done.stderr
        return done.stdout + done.stderr

    chatted = run("orchestrator", "--user", "Mia", said="I moved to Porto.\nI sail at noon.\n")
    assert chatted == "Good to know.\nGood to know.\n"
    assert "Mia moved to Porto." in run("memory", "search", "moved to Porto", "--user", "Mia")
    assert "nothing is damaged: 2 memories" in run("memory", "doctor")


def test_the_examples_model_passes_its_trial_and_reads_merged_texts(
    store: MemoryStore, make_memory: MakeMemory, house: str
) -> None:
    names: dict[str, Any] = {}
    exec(EXAMPLE, names)
    model = GuardedModel(names["HouseModel"](house))
    part = checked_part(
        ProposedMerge(
            (make_memory("Mia has a cat."), make_memory("Mia's cat is Pip.")), "Mia has Pip."
        )
    )
    asking = Asking(CallBudget(9), 30.0)
    reader = Judging(store, model, MemoryConfig().rules)
    [settled] = asyncio.run(reader.settle([part], asking))
    assert (model.page_size, settled.verified, asking.usage.calls) == (48, "by a second reading", 2)


# --- the least that is accepted -------------------------------------------------------------------


class Smallest:
    """An own model with the required methods alone: it joins all it is shown into one text."""

    name = "smallest-1"

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.shown: list[int] = []

    async def judge(self, question: Question) -> Verdict:
        self.shown.append(len(question.members))
        members = tuple(range(len(question.members)))
        return Verdict(parts=(MergeGroup(members=members, text=self.text),))

    async def extract(
        self, turns: Sequence[Turn], *, context: object = (), remembered: object = ()
    ) -> Extraction:
        found = [Candidate(content=f"Mia: {one.text}", turns=(n,)) for n, one in enumerate(turns)]
        return Extraction(candidates=tuple(found))

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        return Reply(text="I see.")

    async def aclose(self) -> None: ...


class SmallestEmbedder:
    """An own embedder that has only what is required: a text's letters, counted."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        counts = [[1 + text.count(letter) for letter in "abcdefghijklmnop"] for text in texts]
        vectors = np.array(counts, dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


SMALLEST = """\
memory:
  embedding:
    provider: tests.test_own_models:SmallestEmbedder
llm:
  provider: tests.test_own_models:Smallest
"""


def test_the_smallest_model_and_embedder_serve_a_chat(tmp_path: Path) -> None:
    async def talk(text: str) -> list[str]:
        own: Any = {"model": Smallest(), "embedder": SmallestEmbedder()}
        async with open_chat_memory(data_dir=str(tmp_path), **own) as memory:
            await memory.hear(Turn(speaker="Mia", text=text, at=START, id=text))
            assert (await memory.settle()).extracted == 1
            return sorted(one.content for one in await memory.recall("Porto", user="Mia"))

    first, second = "I moved to Porto.", "Chess bores me."
    assert asyncio.run(talk(first)) == [f"Mia: {first}"]
    assert asyncio.run(talk(second)) == [f"Mia: {second}", f"Mia: {first}"], "the same embedder"


def test_the_smallest_model_and_embedder_serve_every_command(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(SMALLEST)
    env = os.environ | {"PYTHONPATH": str(ROOT), "MEMORY_DATA_DIR": str(tmp_path / "data")}
    env["MEMORY_LLM_PROVIDER"] = "tests.test_own_models:Smallest"
    env["MEMORY_EMBEDDING_PROVIDER"] = "tests.test_own_models:SmallestEmbedder"

    def run(module: str, *args: str, said: str = "") -> str:
        done = commands.run(module, *args, cwd=tmp_path, env=env, said=said)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert run("orchestrator", "--user", "Mia", said="I moved to Porto.\n") == "I see.\n"
    assert "Mia: I moved to Porto." in run("memory", "search", "Porto", "--user", "Mia")
    assert "nothing is damaged: 1 memory" in run("memory", "doctor")
    assert "memories" in run("memory", "dedup")


def test_the_smallest_model_is_accepted_by_the_classes_themselves(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    model: Any = Smallest()
    deduplicator = MemoryDeduplicator(store, model)
    extractor = MemoryExtractor(store, deduplicator, model)
    found = asyncio.run(extractor.extract_and_store([Turn(speaker="Mia", text="Hi.", at=START)]))
    assert (found.extracted, found.problem) == (1, "")
    asyncio.run(deduplicator.check_and_merge(make_memory("Mia sails.")))
    assert len(list(store.memories())) == 2


def test_vectors_of_another_class_are_not_compared(tmp_path: Path) -> None:
    class Another(SmallestEmbedder, Embedder):
        """It inherits the default fingerprint, for a type checker's sake."""

    config = load_config(None, settings={"data_dir": str(tmp_path)})
    first: Any = SmallestEmbedder()
    with open_store(config, embedder=first) as store:
        store.add(Memory(content="Mia sails.", timestamp=START))
        assert store.embeddings.fingerprint == "SmallestEmbedder"
    with pytest.raises(EmbedderMismatch):
        open_store(config, embedder=Another())


class Reading(Smallest):
    """It says nothing of pages, but reads merged texts."""

    def __init__(self, text: str, lost: tuple[str, ...]) -> None:
        super().__init__(text)
        self.lost = lost

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        if tuple(merges) == TRIAL:
            return readings(merges)
        return Rereading(readings=(MergeReading(lost=self.lost),) * len(merges))


@pytest.mark.parametrize("lost", [(), ("that it is a black",)])
def test_a_second_reading_needs_no_page_size(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory, lost: tuple[str, ...]
) -> None:
    texts = [embedder.place("Mia has a black cat.")]
    texts.append(embedder.place("Mia's cat is called Pip.", 0.93, texts[0]))
    store.add_batch([*map(make_memory, texts)])
    model: Any = Reading("Mia has a black named Pip.", lost)
    asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    live = sorted(memory.content for memory in store.memories())
    assert live == (sorted(texts) if lost else [model.text])


VALUES = [
    ("Mia is allergic to penicillin.", "Mia is allergic to peanuts.", False),
    ("Mia pays 900 euros for her flat.", "Mia pays 950 euros for her flat.", True),
]


@pytest.mark.parametrize(("older", "newer", "joined"), VALUES)
@pytest.mark.parametrize("page_size", [None, 48])
def test_the_smallest_model_loses_no_value_but_to_a_newer_one(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    older: str,
    newer: str,
    joined: bool,
    page_size: int | None,
) -> None:
    """Its judge keeps the newer text alone, and nobody reads that a second time."""
    embedder.place(older)
    embedder.place(newer, 0.93, older)
    store.add_batch([make_memory(older), make_memory(newer)])
    model: Any = Smallest(newer)
    if page_size is not None:
        model.page_size = page_size
    asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    assert {memory.content for memory in store.memories()} == (
        {newer} if joined else {older, newer}
    )
    last = list(store.history())[-1]
    told = "a newer memory gives another value for 900" if joined else "does not state: penicillin"
    assert told in last.reason
    assert last.pending is not joined


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_smallest_model_is_shown_at_most_eight_memories(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory, wrapped: bool
) -> None:
    texts = [f"Mia owns the book numbered {n}." for n in range(20)]
    for n, text in enumerate(texts, start=1):
        embedder.place_at(text, [1.0, *[0.0] * n, 0.27])
    store.add_batch([make_memory(text) for text in texts])
    own: Any = Smallest("Mia owns books.")
    model = GuardedModel(own) if wrapped else own
    asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    assert own.shown
    assert max(own.shown) <= 8
    assert {memory.content for memory in store.memories()} == set(texts)


@pytest.mark.parametrize("size", ["48", -1, None])
def test_a_page_size_that_is_no_number_of_memories_is_a_configuration_error(size: object) -> None:
    model: Any = Smallest()
    model.page_size = size
    with pytest.raises(ConfigError, match="page_size"):
        GuardedModel(model)


def test_what_is_missing_is_named_with_the_page_that_shows_it(tmp_path: Path) -> None:
    config = load_config(None, settings={"data_dir": str(tmp_path)})
    page = r"docs/own-models\.md"
    for own in ({"model": object()}, {"embedder": object()}):
        with pytest.raises(ConfigError, match=rf"has no (name, judge.*|embed); see {page}"):
            open_chat_memory(config, **own)  # type: ignore[arg-type]


# --- what fails -----------------------------------------------------------------------------------


class Broken(OfflineModel):
    """An own model that raises what nobody expects, until it is mended."""

    name = "broken-1"

    def __init__(self) -> None:
        self.raises: BaseException | None = ValueError("no such GPU")

    async def extract(self, turns: Sequence[Turn], **rest: Any) -> Extraction:
        if self.raises is not None:
            raise self.raises
        return await super().extract(turns, **rest)


class Vectors:
    """An own embedder that gives what it was told to."""

    fingerprint = "vectors-1"

    def __init__(self, gives: object) -> None:
        self.gives = gives

    def embed(self, texts: Sequence[str]) -> Any:
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def heard(memory: ChatMemory) -> Turn:
    return Turn(speaker="Mia", text="I moved to Porto in 2021.", at=START, id=1)  # type: ignore[arg-type]


RAISED = [
    ValueError("no such GPU"),
    asyncio.CancelledError(),
    ConfigError("the house", "", "has no key", "set one"),
]


@pytest.mark.parametrize("raised", RAISED)
def test_an_error_of_your_own_model_is_a_failed_call_and_loses_nothing(
    tmp_path: Path, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    model = Broken()
    model.raises = raised

    async def talk() -> None:
        async with open_chat_memory(data_dir=str(tmp_path), model=model) as memory:
            await memory.hear(heard(memory))
            failed = await memory.settle()
            assert (failed.extracted, failed.pending, failed.usage.calls) == (0, 1, 1)
            assert f"broken-1 failed ({type(raised).__name__}" in failed.problem
            model.raises = None
            assert (await memory.settle()).extracted == 1
            [kept] = await memory.recall("Porto", user="Mia")
            assert kept.content == "Mia moved to Porto in 2021."

    asyncio.run(talk())
    assert "broken-1 failed" in caplog.text


def test_an_object_given_to_a_builder_is_guarded_as_everywhere(
    tmp_path: Path, make_memory: MakeMemory
) -> None:
    """Whatever it raises, the memory is stored and its question stays open."""

    class Raising(OfflineModel):
        name = "raising-1"

        async def judge(self, _question: Question) -> Verdict:
            raise RuntimeError("out of memory")

    config = load_config(None, settings={"data_dir": str(tmp_path / "data")})
    texts = ["Mia has a black cat named Pip at home.", "Mia has a black cat named Pop at home."]

    async def check(store: MemoryStore) -> None:
        deduplicator = build_deduplicator(store, config, Raising())
        for text in texts:
            await deduplicator.check_and_merge(make_memory(text, user="Mia"))
        extractor = build_extractor(store, config, Broken())
        failed = await extractor.extract_and_store([Turn(speaker="Mia", text="I sail.", at=START)])
        assert "broken-1 failed (ValueError: no such GPU)" in failed.problem
        assert failed.pending == 1

    with open_store(config) as store:
        asyncio.run(check(store))
        assert [memory.content for memory in store.memories()] == texts
        assert store.counts().pending == 1


def test_an_embedder_object_is_compared_by_its_own_cosine(
    tmp_path: Path, make_memory: MakeMemory
) -> None:
    """0.75 is far apart for it, though it is near for the default embedder."""
    config = load_config(
        None, settings={"data_dir": str(tmp_path / "data"), "llm_provider": "offline"}
    )
    embedder = PlacedEmbedder()
    embedder.place("Mia sings in a choir.")
    embedder.place("Mia sings in a choir on Mondays.", 0.75, "Mia sings in a choir.")
    with open_store(config, embedder=embedder) as store:
        deduplicator = build_deduplicator(store, config, OfflineModel())
        for text in ("Mia sings in a choir.", "Mia sings in a choir on Mondays."):
            asyncio.run(deduplicator.check_and_merge(make_memory(text)))
        assert len(list(store.memories())) == 2
        assert [one.action for one in store.history()] == []


def test_thresholds_beside_a_key_mean_what_they_mean_in_a_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(None, settings={"data_dir": str(tmp_path / "data")})
    with open_store(config) as store:
        assert store.scale != PLAIN
        MemoryDeduplicator(store, "key")
        assert store.scale != PLAIN
        MemoryDeduplicator(store, "key", lower_threshold=0.80)
        assert store.scale == PLAIN
    assert "compared with plain cosine" in caplog.text


@pytest.mark.parametrize(
    "gives",
    [
        RuntimeError("out of memory"),
        [[float("nan")] * 4],
        [[float("inf")] * 4],
        [[1e300] * 4],
        [[0.0] * 4],
        [[1.0, 0.0], [0.0, 1.0]],
        [1.0, 2.0],
        [[1.0], [1.0, 2.0]],
        None,
        "text",
    ],
)
def test_vectors_that_cannot_be_are_embedding_errors_and_lose_nothing(
    tmp_path: Path, gives: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk() -> None:
        embedder = Vectors(gives)
        own = {"model": OfflineModel(), "embedder": embedder}
        async with open_chat_memory(data_dir=str(tmp_path), **own) as memory:  # type: ignore[arg-type]
            await memory.hear(heard(memory))
            assert (await memory.settle()).extracted == 1
            with pytest.raises(EmbeddingError, match="vectors-1"):
                await memory.recall("Porto", user="Mia")
            embedder.gives = [[0.6, 0.8]]

    asyncio.run(talk())
    assert "vectors-1" in caplog.text


def test_a_vector_of_another_length_than_those_stored_is_an_embedding_error(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.add(make_memory("Mia sails."))
    monkeypatch.setattr(embedder, "embed", lambda texts: np.eye(len(texts), 32))
    with pytest.raises(EmbeddingError, match="placed-64"):
        store.search("Mia rows.", everyone=True)


def test_a_vector_is_brought_to_length_one(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedder, "embed", lambda texts: 7.0 * np.eye(len(texts), 64))
    store.add(make_memory("Mia sails."))
    assert store.search("Mia sails.", everyone=True)[0].similarity == 1.0


@pytest.mark.parametrize("name", ["", " ", None, 7])
def test_a_model_without_a_name_is_a_configuration_error(name: Any) -> None:
    """Its verdicts and failures would be kept under no name."""
    model = ScriptedModel()
    model.name = name
    with pytest.raises(ConfigError, match="its `name` is not a text"):
        GuardedModel(model)


@pytest.mark.parametrize("named", ["nowhere:make", "json:nothing", "tests.doubles:BrokenIndex"])
def test_a_factory_that_gives_no_model_is_a_configuration_error(tmp_path: Path, named: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.provider|has no judge"):
        open_chat_memory(data_dir=str(tmp_path), llm_provider=named)
