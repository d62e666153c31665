"""The agent's tools through a real MCP client, against the server as a process of its own."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from memory.agent.schemas import TOOLS, Tool, shown_schema
from memory.agent.workspace_sync import WorkspaceMemorySync
from memory.ledger import Ledger, Reader
from memory.models import Memory
from memory.store import MemoryStore
from tests import commands
from tests.agent.driving import PLACED, ROOT, Agent, Wire, agent, environment, text_of
from tests.agent.placed_server import RoomyEmbedder
from tests.openai_server import Asked, OpenAIServer
from tests.readings import memories_shown

OLD_NEWS = "今日の会話は楽しかった。Masterから多くのことを学んだ。"
NEWS = "今日の会話は楽しかった。Masterとの対話は学びが多い。"
EDGES = {cosine: f"at {cosine}" for cosine in (0.89, 0.90, 0.91, 0.949999, 0.95, 0.96)}
PAIRS = [(f"one of pair {n}", f"other of pair {n}") for n in range(7)]
ADDRESS = "The printer answers at 192.168.7.1."
NEW_ADDRESS = "The printer answers at 192.168.9.1."
SECOND_LINE = "If this is a genuinely new insight, save with remember (category: introspection)."


def placements() -> list[tuple[str, float, str]]:
    placed = [(OLD_NEWS, 0.0, OLD_NEWS), (NEWS, 0.97, OLD_NEWS), (NEW_ADDRESS, 0.99, ADDRESS)]
    placed += [(text, cosine, f"beside {cosine}") for cosine, text in EDGES.items()]
    placed += [(other, 0.99 - n / 100, one) for n, (one, other) in enumerate(PAIRS)]
    placed += [("linked near", 0.71, "hub"), ("linked at the edge", 0.7, "hub")]
    return placed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("agent")
    (made / "placed.json").write_text(json.dumps(placements()), encoding="utf-8")
    (made / "workspace").mkdir()
    return made


@pytest.fixture(scope="module")
def placed(folder: Path) -> Iterator[Agent]:
    """One server for many tests, with hand-placed vectors: texts not placed are all unlike.

    The guard is off, so that only the distance counts, as in the seed.
    """
    workspace = str(folder / "workspace")
    with agent(
        folder, PLACED, MEMORY_AGENT_WORKSPACE_DIR=workspace, MEMORY_DEDUP_GUARD="false"
    ) as opened:
        yield opened


def workspace_text(folder: Path) -> str:
    files = sorted((folder / "workspace").rglob("*.md"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def holding(folder: Path, words: str) -> list[str]:
    """Every file below the folder that holds these words."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if words.encode() in path.read_bytes()]


# --- the guard ----------------------------------------------------------------------------------


def test_a_near_copy_is_not_saved_and_the_answer_says_what_is_there(placed: Agent) -> None:
    first = placed.remember(OLD_NEWS)
    assert placed.says("remember", content=NEWS).splitlines() == [
        "Not saved — very similar memory already exists.",
        f"Existing (id: {first}, just now): {OLD_NEWS}",
        "Similarity: 0.97",
        "If this is a meaningful update, use recall to review the existing memory "
        "and consider whether the new perspective adds value.",
        "Differs: " + placed.data("remember", content=NEWS)["differs"],
        f'To correct the existing memory, use remember(..., replaces="{first}").',
        "",
        "---",
        "Is there truly something new here, or is this a repetition?",
        "If your understanding has deepened, try expressing what changed specifically.",
    ]


@pytest.mark.parametrize(
    ("cosine", "saved"), [(0.949999, True), (0.95, True), (0.96, False)], ids=str
)
def test_the_guard_blocks_strictly_below_its_distance(
    placed: Agent, cosine: float, saved: bool
) -> None:
    placed.remember(f"beside {cosine}")
    assert placed.data("remember", content=EDGES[cosine])["saved"] is saved


def test_a_correction_shows_what_differs_and_replaces_recorded_and_undoable(
    placed: Agent, folder: Path
) -> None:
    old = placed.remember(ADDRESS, importance=5, tags=["home"])
    answer = placed.data("remember", content=NEW_ADDRESS, replaces=old)
    assert answer["replaced"] == old
    [found] = placed.data("recall", context=NEW_ADDRESS, n_results=1)["memories"]
    assert (found["id"], found["importance"]) == (answer["id"], 5)
    assert ADDRESS not in workspace_text(folder)
    url = f"sqlite:///{folder / 'data' / 'ledger.db'}"
    with MemoryStore(Ledger.create(url), RoomyEmbedder()) as store:
        taken = store.undo(store.history(old)[-1].number)
        WorkspaceMemorySync(folder / "workspace").follow_undo(taken, store.get)
    found = placed.data("recall", context=ADDRESS, n_results=2)["memories"]
    assert {one["id"] for one in found} == {old, answer["id"]}
    assert ADDRESS in workspace_text(folder)


def test_a_value_that_conflicts_is_saved_and_a_copy_of_either_is_not(tmp_path: Path) -> None:
    with agent(tmp_path) as one:
        old = one.remember("The rent is 1200 euros.")
        answer = one.call("remember", content="The rent is 1300 euros.")
        assert answer.structured_content is not None
        new = answer.structured_content["id"]
        assert text_of(answer).splitlines() == [
            f"Saved (id: {new}). Linked to 1 existing memories.",
            "Most related:",
            "- [just now] The rent is 1200 euros. (similarity: 0.96)",
            f"Differs from [{old}]: 1200 -> 1300. To correct that one, "
            f'use merge_memories(keep_id="{new}", remove_id="{old}").',
            "",
            "---",
            "Do any of these connections surprise you? Is there a pattern forming?",
        ]
        assert answer.structured_content["differs"] == "1200 -> 1300"
        assert answer.structured_content["differs_from"] == old
        for copy in (
            "The rent is 1200 euros.",
            "The rent is 1300 euros",
            "The rent is 1,300 euros.",
        ):
            assert not one.data("remember", content=copy)["saved"]
        one.says("merge_memories", keep_id=new, remove_id=old)
        [found] = one.data("recall", context="the rent")["memories"]
        assert found["content"] == "The rent is 1300 euros."


def test_force_saves_a_copy_all_the_same(placed: Agent) -> None:
    first = placed.remember("Said twice on purpose.")
    second = placed.data("remember", content="Said twice on purpose.", force=True)
    assert second["saved"]
    assert second["id"] != first


def test_observers_hear_of_real_saves_only(placed: Agent, folder: Path) -> None:
    saved = placed.remember("Heard once.")
    placed.says("remember", content="Heard once.")
    placed.says("forget", memory_id=saved)
    heard = (folder / "heard.txt").read_text().split()
    assert heard.count(saved) == 1
    assert heard[-1] == saved


def test_a_saved_memory_is_linked_both_ways_strictly_below_the_distance(placed: Agent) -> None:
    hub = placed.remember("hub")
    text = placed.says("remember", content="linked near")
    near = re.findall(r"mem_[0-9a-f]{12}", text)[0]
    assert text.splitlines()[:3] == [
        f"Saved (id: {near}). Linked to 1 existing memories.",
        "Most related:",
        "- [just now] hub (similarity: 0.71)",
    ]
    assert text.endswith(
        "---\nDo any of these connections surprise you? Is there a pattern forming?"
    )
    assert placed.data("remember", content="linked at the edge")["links"] == 0
    assert placed.links(near, "linked near") == {hub}
    assert placed.links(hub, "hub") == {near}


# --- consolidate ----------------------------------------------------------------------------------


def test_consolidation_names_each_pair_once_closest_first_and_five_at_most(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "placed.json").write_text((folder / "placed.json").read_text(encoding="utf-8"))
    with agent(tmp_path, PLACED) as alone:
        none = alone.says("consolidate")
        pairs = [[alone.remember(text, force=True) for text in pair] for pair in PAIRS]
        alone.remember("beside 0.9")
        alone.remember(EDGES[0.90])
        text = alone.says("consolidate")
        again = alone.data("consolidate")
    assert none == (
        "Consolidation complete. Replayed 0 events, updated 0 co-activations, "
        "created 0 links, refreshed 0 memories."
    )
    lines = text.splitlines()
    assert lines[0] == (
        "Consolidation complete. Replayed 15 events, updated 15 co-activations, "
        "created 7 links, refreshed 16 memories."
    ), "within a pair the save made the link"
    assert lines[1:3] == ["", "Found 5 near-duplicate pair(s):"]
    assert [line for line in lines if line.startswith("- ")] == [
        f"- {old} <-> {new} (similarity: {0.99 - n / 100:.2f})"
        for n, (old, new) in enumerate(pairs[:5])
    ], "as they were told: the older first"
    assert lines[4:6] == [f"  A: {PAIRS[0][0]}", f"  B: {PAIRS[0][1]}"]
    assert lines[-3:] == [
        "",
        "Review each pair with recall. If one is redundant, use forget to remove it.",
        "If both have value, consider which perspective to keep.",
    ]
    assert again["link_updates"] == 0
    assert set(again["merge_candidates"][0]) == {
        "memory_a_id", "memory_b_id", "distance", "snippet_a", "snippet_b",
    }  # fmt: skip


# --- forget ---------------------------------------------------------------------------------------


def test_forget_says_what_went_and_unlinks_the_other_side(placed: Agent) -> None:
    a, b = placed.remember("Forgettable."), placed.remember("It stays.")
    placed.says("link_memories", source_id=a, target_id=b, link_type="caused_by", note="why")
    assert placed.links(b, "It stays.") == {a}
    assert placed.says("forget", memory_id=a).splitlines() == [
        f"Forgot (id: {a}, just now): Forgettable.",
        "Emotion: neutral | Importance: 3",
        "",
        "---",
        "This memory is gone. Was there anything worth preserving in a new form?",
        "If this was part of a merge, save the consolidated version with remember.",
    ]
    assert placed.links(b, "It stays.") == set()


@pytest.mark.parametrize("memory_id", ["mem_invalid123", "mem_000000000000"])
def test_an_unknown_id_is_a_normal_answer(placed: Agent, memory_id: str) -> None:
    assert placed.says("forget", memory_id=memory_id).splitlines() == [
        f"Memory not found: {memory_id}",
        "",
        "---",
        "Double-check the ID. Use recall to search for the memory you're looking for.",
    ]


def test_a_forgotten_memory_is_not_found_again(placed: Agent) -> None:
    gone = placed.remember("Gone for good.")
    placed.says("forget", memory_id=gone)
    assert placed.data("forget", memory_id=gone)["found"] is False


def test_forget_of_a_merged_memory_names_the_one_that_stands_for_it(placed: Agent) -> None:
    kept, gone = placed.remember("Basil wants sun."), placed.remember("The ladder is too short.")
    placed.says("merge_memories", keep_id=kept, remove_id=gone)
    assert f"{gone} lives on in {kept}" in placed.refuses("forget", memory_id=gone)
    assert f"forget {kept} to erase both" in placed.refuses("forget", memory_id=gone)


# --- the workspace --------------------------------------------------------------------------------


def test_public_memories_are_lines_of_the_workspace_and_leave_it(
    placed: Agent, folder: Path
) -> None:
    thought = "A thought of\n# two lines - [x] *marked*"
    saved = placed.remember(thought, category="introspection")
    line = f"A thought of # two lines - [x] *marked* [id:{saved}]"
    daily = max((folder / "workspace" / "memory").glob("????-??-??.md"))
    curated = folder / "workspace" / "MEMORY.md"
    latest = folder / "workspace" / "memory" / "inner-monologue-latest.md"
    assert any(one.endswith(line) for one in daily.read_text().splitlines())
    assert any(one.endswith(line) for one in curated.read_text().splitlines())
    assert latest.read_text() == thought + "\n"
    placed.says("forget", memory_id=saved)
    assert saved not in workspace_text(folder)
    assert latest.read_text() == ""


def test_private_memories_are_recalled_and_never_written_to_the_workspace(
    placed: Agent, folder: Path
) -> None:
    secret = placed.remember("A secret of mine.", is_private=True, importance=5)
    assert "A secret" not in workspace_text(folder)
    assert f"id: {secret} | private" in placed.says("recall", context="A secret of mine.")


def test_a_marker_typed_into_a_text_deletes_no_other_entry(placed: Agent, folder: Path) -> None:
    first = placed.remember("The first.")
    second = placed.remember(f"It quotes [id:{first}] here.")
    placed.says("forget", memory_id=first)
    assert second in workspace_text(folder)
    assert "It quotes" in workspace_text(folder)


def test_a_missing_workspace_is_made_and_one_that_fails_is_a_warning(tmp_path: Path) -> None:
    notes = tmp_path / "workspace"
    with agent(tmp_path, MEMORY_AGENT_WORKSPACE_DIR=str(notes)) as served:
        private = served.data("remember", content="Private.", is_private=True)
        assert private["warnings"] == []
        public = served.data("remember", content="Public.")
        assert public["warnings"] == []
        assert "Public." in workspace_text(tmp_path)
        shutil.rmtree(notes)
        assert served.data("forget", memory_id=private["id"])["warnings"] == [], "never written"
        [warning] = served.data("forget", memory_id=public["id"])["warnings"]
        assert "workspace could not be brought up to date: No such file" in warning
        notes.write_text("in the way")
        saved = [served.data("remember", content=text) for text in ("I sail.", "The oven is new.")]
        assert all(one["saved"] and len(one["warnings"]) == 1 for one in saved)
        ids = {"keep_id": saved[0]["id"], "remove_id": saved[1]["id"]}
        merged = served.data("merge_memories", **ids, merged_content="I often sail.")
        assert "workspace could not be brought up to date" in merged["warnings"][0]
        assert [one["content"] for one in served.data("introspect")["recent"]] == ["I often sail."]


# --- recall and introspect ------------------------------------------------------------------------


def test_recall_filters_by_emotion_category_and_time(placed: Agent, folder: Path) -> None:
    ages = {"lately": 0, "last week": 8, "long ago": 400}
    now = datetime.now(UTC)
    embedder = RoomyEmbedder()
    url = f"sqlite:///{folder / 'data' / 'ledger.db'}"
    with MemoryStore(Ledger.create(url), embedder) as store:
        for when, days in ages.items():
            told = store.new_memory(f"A walk {when}.", user="walker")
            store.add(told.model_copy(update={"timestamp": now - timedelta(days=days)}))
    glad = placed.remember("A glad walk.", emotion="happy", category="dream")

    def recalled(**filters: Any) -> list[str]:
        found = placed.data("recall", context="A walk", n_results=10, **filters)["memories"]
        return [one["content"] for one in found if "walk" in one["content"]]

    assert recalled(emotion_filter="happy", category_filter="dream") == ["A glad walk."]
    assert recalled(category_filter="lesson") == []
    day = f"{now - timedelta(days=8):%Y-%m-%d}"
    zone = (now - timedelta(days=8)).astimezone()
    local = f"{zone:%Y-%m-%d}"
    assert recalled(date_from=local, date_to=local) == ["A walk last week."], day
    assert recalled(date_to=(now - timedelta(days=100)).isoformat()) == ["A walk long ago."]
    shown = placed.says("recall", context="A glad walk.", emotion_filter="happy", n_results=1)
    assert shown == (
        f"- [just now] [{now:%a %Y-%m-%d}] A glad walk.\n"
        f"  emotion: happy | importance: 3 | similarity: 1.00 | id: {glad}"
    )
    assert placed.says("recall", context="x", date_to="1970-01-02") == "No memories found."


def test_introspection_shows_the_newest_and_asks_whether_the_insight_is_new(placed: Agent) -> None:
    newest = placed.remember("The newest of all.")
    text = placed.says("introspect")
    assert text.startswith(
        f"Recent memories:\n- [just now] The newest of all. (emotion: neutral, id: {newest})\n"
    )
    assert "Still open: nothing." in text
    assert text.split("---\n")[1].splitlines() == [
        "Reflect on these in your own words. How do you feel right now?",
        SECOND_LINE,
        "If memory feels fragmented, run consolidate.",
    ]


def test_what_has_time_words_is_shown_with_its_dates(placed: Agent) -> None:
    text = "Mia sees the dentist tomorrow."
    answer = placed.data("remember", content=text)
    [recent] = [line for line in placed.says("introspect").splitlines() if "dentist" in line]
    assert re.search(r"\[\w{3} \d{4}-\d\d-\d\d\] Mia .* tomorrow \[= \d{4}-\d\d-\d\d\]\.", recent)
    found, *_ = placed.data("recall", context="dentist")["memories"]
    assert (found["content"], found["id"]) == (text, answer["id"])
    assert found["dated"] in recent


# --- episodes and links ---------------------------------------------------------------------------


def test_an_episode_follows_merges_and_loses_what_is_forgotten(placed: Agent) -> None:
    a, b, c = (placed.remember(f"Scene {n}.") for n in "abc")
    told = placed.data("create_episode", memory_ids=[a, b, c, a], summary="A play", importance=4)
    episode = told["id"]
    assert re.fullmatch("ep_[0-9a-f]{12}", episode)
    assert told["memory_ids"] == [a, b, c]
    placed.says("merge_memories", keep_id=a, remove_id=b)
    assert placed.data("get_episode", episode_id=episode)["memory_ids"] == [a, c]
    placed.says("forget", memory_id=c)
    lines = placed.says("get_episode", episode_id=episode).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "Episode", "Summary", "Memories", "Period", "Importance", "Note",
    ]  # fmt: skip
    assert lines[0:3] == [f"Episode: {episode}", "Summary: (forgotten)", f"Memories: {a}"]
    assert lines[-1] == "Note: 1 memory(ies) no longer exist."
    placed.says("consolidate")
    assert "Note:" not in placed.says("get_episode", episode_id=episode)
    assert placed.says("get_episode", episode_id="ep_0") == "Episode not found: ep_0"


def test_an_episode_says_how_many_memories_it_has(placed: Agent) -> None:
    only = placed.remember("One scene.")
    text = placed.says("create_episode", memory_ids=[only], summary="Short")
    assert re.fullmatch("Created episode ep_[0-9a-f]{12} with 1 memory.", text)


def test_a_link_is_made_once_and_takes_a_new_type(placed: Agent) -> None:
    a, b = placed.remember("The cause."), placed.remember("The effect.")
    assert placed.says("link_memories", source_id=a, target_id=b) == f"Linked {a} -> {b} (related)."
    told = placed.says("link_memories", source_id=b, target_id=a, link_type="caused_by")
    assert told == f"Already linked, now {b} -> {a} (caused_by)."


def test_a_link_to_a_merged_memory_leads_to_its_successor_and_names_it(placed: Agent) -> None:
    kept, gone = placed.remember("A spark."), placed.remember("A dry field.")
    other = placed.remember("A fire.")
    placed.says("merge_memories", keep_id=kept, remove_id=gone)
    told = placed.says("link_memories", source_id=gone, target_id=other)
    assert told == f"Linked {kept} -> {other} (related). {gone} was merged into {kept}."
    assert "itself" in placed.refuses("link_memories", source_id=gone, target_id=kept)


# --- bad input ------------------------------------------------------------------------------------

EMPTY: dict[str, Any] = {}
BAD = [
    ("no_such_tool", EMPTY, "no_such_tool: there is no such tool; there are: remember, recall"),
    ("remember", EMPTY, "remember: the argument content is missing"),
    ("remember", {"content": "x", "mood": 1}, "remember: there is no argument 'mood'"),
    ("remember", {"content": 5}, "remember: content: must be a text"),
    ("remember", {"content": ""}, "remember: content: must not be empty"),
    ("remember", {"content": " \n\u0000"}, "content is empty"),
    ("remember", {"content": "x" * 1_000_000}, "content has 1,000,000 characters, more than"),
    ("remember", {"content": "x", "importance": 9}, "importance: must be at most 5"),
    ("remember", {"content": "x", "importance": "5"}, "importance: must be a whole number"),
    (
        "remember",
        {"content": "x", "emotion": "hangry"},
        "emotion must be one of happy, sad, surprised",
    ),
    (
        "remember",
        {"content": "x", "category": "gossip"},
        "category must be one of daily, philosophic",
    ),
    ("remember", {"content": "x", "tags": [""]}, "tags.0"),
    ("remember", {"content": "x", "user": ""}, "user"),
    ("remember", {"content": "x", "replaces": "mem_000000000000"}, "there is no memory mem_0000"),
    ("recall", {"context": "x", "n_results": 11}, "n_results: must be at most 10"),
    ("recall", {"context": "x", "date_from": "tomorrow"}, "'tomorrow' is not a date or a time"),
    ("introspect", {"deep": True}, "there is no argument 'deep'; there are: none"),
    ("forget", {"memory_id": ["a", "b"]}, "memory_id: must be a text"),
    ("forget", {"memory_id": "a", "confirm": True}, "there is no argument 'confirm'"),
    ("link_memories", {"source_id": "a", "target_id": "b"}, "there is no memory a"),
    ("link_memories", {"source_id": "a", "target_id": "a"}, "there is no memory a"),
    ("create_episode", {"memory_ids": [], "summary": "x"}, "memory_ids: must not be empty"),
    ("create_episode", {"memory_ids": ["a"], "summary": "x"}, "there is no memory a"),
    ("merge_memories", {"keep_id": "a", "remove_id": "b"}, "there is no memory a"),
    ("get_episode", EMPTY, "the argument episode_id is missing"),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"), BAD, ids=[f"{n}-{bad[0]}" for n, bad in enumerate(BAD)]
)
def test_bad_input_is_one_clear_sentence_and_nothing_is_written(
    placed: Agent, folder: Path, tool: str, arguments: dict[str, Any], told: str
) -> None:
    before = revision(folder), workspace_text(folder)
    problem = placed.refuses(tool, **arguments)
    assert told in problem
    assert "\n" not in problem
    assert len(problem) < 400
    assert (revision(folder), workspace_text(folder)) == before


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    ledger = Ledger.open(f"sqlite:///{folder / 'data' / 'ledger.db'}")
    with ledger, ledger.reading() as reader:
        yield reader


def revision(folder: Path) -> int:
    with reading(folder) as reader:
        return reader.revision()


def test_an_id_of_another_scope_is_refused_and_nothing_is_written(
    placed: Agent, folder: Path
) -> None:
    hers = placed.remember("She likes tea.", user="Alice")
    his = placed.remember("He likes tea.", user="Carl")
    hidden = placed.remember("She hides tea.", user="Alice", is_private=True)
    before = revision(folder)
    for one, other in [(hers, his), (hers, hidden)]:
        assert "another scope" in placed.refuses("merge_memories", keep_id=one, remove_id=other)
        assert "another scope" in placed.refuses("link_memories", source_id=one, target_id=other)
    told = placed.refuses("remember", content="He likes tea now.", user="Carl", replaces=hers)
    assert "another scope" in told
    assert "itself" in placed.refuses("merge_memories", keep_id=hers, remove_id=hers)
    assert revision(folder) == before


def test_a_merge_refuses_a_text_that_is_none(placed: Agent, folder: Path) -> None:
    a, b = placed.remember("Half one."), placed.remember("Half two.")
    before = revision(folder)
    refused = placed.refuses("merge_memories", keep_id=a, remove_id=b, merged_content=" ")
    assert "content is empty" in refused
    assert revision(folder) == before


def test_a_server_of_one_user_keeps_to_that_user(folder: Path, placed: Agent) -> None:
    hers = placed.remember("Alice sings.", user="Alice")
    with agent(folder, PLACED, MEMORY_AGENT_USER=" Bob ") as bobs:
        mine = bobs.remember("Bob dances.", user="Bob ")
        [only] = bobs.data("introspect")["recent"]
        assert (only["id"], only["user"]) == (mine, "Bob")
        assert hers not in bobs.says("recall", context="Alice sings.", n_results=10)
        assert "another user" in bobs.refuses("remember", content="x", user="Alice")
        nobodys = "mem_000000000000"
        told = bobs.says("forget", memory_id=hers)
        assert told.replace(hers, nobodys) == bobs.says("forget", memory_id=nobodys)
        for a, b in ((mine, hers), (hers, hers), (hers, "mem_111111111111")):
            told = bobs.refuses("merge_memories", keep_id=a, remove_id=b)
            other = nobodys if b == hers else b
            unknown = nobodys if a == hers else a
            expected = bobs.refuses("merge_memories", keep_id=unknown, remove_id=other)
            assert told.replace(hers, nobodys) == expected, "whether hers exists is hers to know"
    assert hers in placed.says("recall", context="Alice sings.")


# --- what clients see -----------------------------------------------------------------------------

MOST_TOKENS = 1_600
"""Of the names, descriptions and arguments of all tools, which a model reads with every question.

An estimate: the tokens of WordLlama's tokenizer (Llama 2's, which counts JSON high) of the JSON.
"""


def test_the_descriptions_of_the_tools_are_short(placed: Agent) -> None:
    package = find_spec("wordllama")
    assert package is not None
    assert package.origin is not None
    named = Path(package.origin).parent / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_file(str(named))
    tokenizer.no_truncation()
    told = [
        {"name": one.name, "description": one.description, "inputSchema": one.input_schema}
        for one in placed.tools()
    ]
    assert sum(len(tokenizer.encode(json.dumps(one)).ids) for one in told) <= MOST_TOKENS


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_that_is_told_short_means_what_is_checked(tool: Tool) -> None:
    whole, told = tool.arguments.model_json_schema(), shown_schema(tool.arguments)
    assert told.get("required") == whole.get("required")
    assert list(told["properties"]) == list(tool.arguments.model_fields)
    for name, field in told["properties"].items():
        default = whole["properties"][name].get("default")
        assert field.get("default") == default
        assert isinstance(field["type"], str), "any client can read it"


def test_every_tool_says_what_it_takes_gives_and_does(placed: Agent) -> None:
    tools = {tool.name: tool for tool in placed.tools()}
    assert list(tools) == [
        "remember", "recall", "introspect", "consolidate", "forget", "link_memories",
        "merge_memories", "create_episode", "get_episode",
    ]  # fmt: skip
    for tool in tools.values():
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert tool.description
    hints = {name: tool.annotations for name, tool in tools.items() if tool.annotations}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        "recall", "introspect", "get_episode",
    }  # fmt: skip
    assert {name for name, hint in hints.items() if hint.destructive_hint} == {
        "forget", "merge_memories",
    }  # fmt: skip
    assert tools["forget"].input_schema["required"] == ["memory_id"]
    assert list(tools["forget"].input_schema["properties"]) == ["memory_id", "lineage"]


# --- the process ----------------------------------------------------------------------------------


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    opened = Wire(tmp_path)
    yield opened
    opened.drop()


def test_stdout_carries_the_protocol_only(wire: Wire) -> None:
    wire.begin()
    wire.send("this is no JSON")
    wire.call("remember", content="A sentence.")
    wire.call("recall", context="sentence")
    assert wire.end() == 0
    messages = [json.loads(line) for line in wire.lines]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    assert "sentence" not in wire.errors(), "no memory's text is logged"


def test_the_handshake_loads_nothing_of_the_store() -> None:
    code = (
        "import sys\nfrom memory.agent import AgentServer\n"
        "print(sorted({'sqlalchemy', 'chromadb', 'google', 'wordllama', 'memory.store.store'}"
        " & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("where", [[], ["--http", "127.0.0.1:0"]])
def test_without_its_extra_the_server_names_it_in_one_line(
    tmp_path: Path, where: list[str]
) -> None:
    code = (
        f"import sys; sys.modules['mcp'] = None; sys.argv = ['memory-dedup', 'serve', *{where}]\n"
        "from memory.__main__ import dedup; dedup()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert run.stderr == (
        "error: memory-dedup serve: mcp is not installed; pip install '.[agent]', "
        "or outside a clone: pip install mcp starlette uvicorn\n"
    )


def test_a_store_that_cannot_be_opened_ends_the_server_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ledger.db").write_bytes(b"no database at all, only text" * 99)
    wire = Wire(tmp_path)
    try:
        assert wire.end() == 1
        [line] = wire.errors().splitlines()
        assert line.startswith("error: ")
        assert "ledger" in line
    finally:
        wire.drop()


def test_the_first_answer_waits_for_no_chroma(tmp_path: Path) -> None:
    wire = Wire(tmp_path, python=("-X", "importtime"))
    try:
        wire.begin()
        answer = wire.call("remember", content="The first.")
        assert wire.end() == 0
        assert answer["result"]["structuredContent"]["saved"]
        loaded = wire.errors()
    finally:
        wire.drop()
    assert "wordllama" in loaded
    assert "chromadb" not in loaded


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_while_the_input_stays_open(
    tmp_path: Path, wire: Wire, how: signal.Signals
) -> None:
    wire.begin()
    wire.call("remember", content="Kept through the end.")
    wire.process.send_signal(how)
    assert wire.wait() == 0
    assert "Traceback" not in wire.errors()
    assert kept(tmp_path) == ["Kept through the end."]
    assert not (tmp_path / "data" / "ledger.db-wal").exists(), "the ledger was closed"


def kept(folder: Path) -> list[str]:
    with reading(folder) as reader:
        return sorted(row.memory.content for row in reader.memories.live())


def test_calls_under_way_at_the_end_of_input_are_finished(tmp_path: Path, wire: Wire) -> None:
    wire.begin()
    call = {"name": "remember", "arguments": {"content": "Said last."}}
    wire.send(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call}))
    wire.send(json.dumps({"jsonrpc": "2.0", "id": 10, "method": "ping"}))
    wire.read_line()
    assert wire.end() == 0
    assert kept(tmp_path) == ["Said last."]


@pytest.mark.drill
def test_several_servers_keep_one_memory_together(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()

    def talk(n: int) -> list[bool]:
        with agent(tmp_path, MEMORY_AGENT_WORKSPACE_DIR=str(tmp_path / "workspace")) as one:
            mine = [f"Server {n} saw the colour {colour}." for colour in ("red", "blue", "green")]
            said = [*mine, "What all of them say."]
            return [
                one.data("remember", content=told, force=told in mine)["saved"] for told in said
            ]

    with ThreadPoolExecutor(3) as pool:
        saved = list(pool.map(talk, range(3)))
    assert all(all(own[:3]) for own in saved)
    assert sum(own[3] for own in saved) == 1, "the guard holds between processes"
    contents = kept(tmp_path)
    assert len(contents) == 10
    written = workspace_text(tmp_path)
    assert all(content in written for content in contents)
    assert two_way(tmp_path)


def two_way(folder: Path) -> bool:
    """Whether every link is seen from both of its ends, and leads to a live memory."""
    with reading(folder) as reader:
        alive = {row.memory.id: row.memory for row in reader.memories.live()}
    ends = {(name, link.target_id) for name, one in alive.items() for link in one.linked_ids}
    return all((b, a) in ends for a, b in ends)


# --- the whole flow -------------------------------------------------------------------------------


def command(folder: Path, *args: str, module: str = "memory", said: str = "") -> None:
    env = environment(folder, MEMORY_AGENT_WORKSPACE_DIR=str(folder / "workspace"))
    subprocess.run(
        [commands.python(), "-m", module, *args],
        cwd=folder,
        env=env,
        input=said,
        check=True,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("by_command", [True, False])
def test_a_memory_that_is_forgotten_leaves_the_workspace_too(
    tmp_path: Path, by_command: bool
) -> None:
    (tmp_path / "workspace").mkdir()
    with agent(tmp_path, MEMORY_AGENT_WORKSPACE_DIR=str(tmp_path / "workspace")) as one:
        gone = one.remember("A passing worry.", category="introspection", user="Mia")
    assert len(holding(tmp_path / "workspace", "passing worry")) == 3
    if by_command:
        command(tmp_path, "forget", gone)
    else:
        command(tmp_path, "--user", "Mia", module="orchestrator", said=f"/forget {gone}\n")
    assert holding(tmp_path, "passing worry") == []


SIX = [
    "The garden shed needs a new roof before winter.",
    "The garden shed needs a new roof before the winter.",
    "Grandmother baked an apple cake on Sunday.",
    "The meeting about the budget was postponed.",
    "A blackbird is nesting under the balcony.",
    "Learning the violin takes more patience than I thought.",
]


def test_remember_consolidate_recall_merge_forget_and_undo(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    with agent(tmp_path, MEMORY_AGENT_WORKSPACE_DIR=str(tmp_path / "workspace")) as one:
        ids = [one.remember(content, force=True, importance=4) for content in SIX]
        assert two_way(tmp_path)
        assert all(content in workspace_text(tmp_path) for content in SIX)

        [pair] = one.data("consolidate")["merge_candidates"]
        assert {pair["memory_a_id"], pair["memory_b_id"]} == set(ids[:2])
        assert two_way(tmp_path)

        [found] = one.data("recall", context="the roof of the shed", n_results=1)["memories"]
        assert found["id"] in ids[:2]
        episode = one.data("create_episode", memory_ids=ids, summary="A week")["id"]
        before = exported(tmp_path)

        text = "The shed in the garden needs a roof before winter."
        merged = one.data("merge_memories", keep_id=ids[0], remove_id=ids[1], merged_content=text)
        assert two_way(tmp_path)
        assert len(kept(tmp_path)) == 5
        assert one.data("get_episode", episode_id=episode)["memory_ids"] == [ids[0], *ids[2:]]
        assert f"[id:{ids[1]}]" not in workspace_text(tmp_path)
        assert "The shed in the garden" in workspace_text(tmp_path)

        one.says("forget", memory_id=ids[4])
        assert two_way(tmp_path)
        told = one.says("get_episode", episode_id=episode)
        assert ids[4] not in told
        assert told.endswith("Note: 1 memory(ies) no longer exist.")

    command(tmp_path, "undo", merged["removed_id"])
    assert two_way(tmp_path)
    assert exported(tmp_path) == without(before, ids[4])
    assert all(content in workspace_text(tmp_path) for content in SIX if content != SIX[4])
    assert "The shed in the garden" not in workspace_text(tmp_path)
    assert holding(tmp_path, "blackbird") == []
    with agent(tmp_path) as again:
        shown = again.data("get_episode", episode_id=episode)
        assert shown["memory_ids"] == [name for name in ids if name != ids[4]]


def exported(folder: Path) -> dict[str, Memory]:
    with reading(folder) as reader:
        return {row.memory.id: row.memory for row in reader.memories.live()}


def without(memories: dict[str, Memory], gone: str) -> dict[str, Memory]:
    """As they are once one of them is forgotten."""
    return {
        name: memory.model_copy(
            update={"linked_ids": tuple(k for k in memory.linked_ids if k.target_id != gone)}
        )
        for name, memory in memories.items()
        if name != gone
    }


def test_the_same_sentence_twice_is_blocked_offline(tmp_path: Path) -> None:
    sentence = NEWS
    with agent(tmp_path) as one:
        first = one.remember(sentence)
        again = one.call("remember", content=sentence)
    assert text_of(again).startswith(
        "Not saved — very similar memory already exists.\n"
        f"Existing (id: {first}, just now): {sentence}\nSimilarity: 1.00\n"
    )
    assert "Differs:" not in text_of(again)


def test_a_repeat_that_is_not_saved_leaves_its_tags_and_higher_importance(tmp_path: Path) -> None:
    with agent(tmp_path) as one:
        first = one.remember(NEWS, tags=["press"], importance=2)
        again = one.says("remember", content=NEWS, tags=["press", "city"], importance=4)
        assert "\nAdded to it: tags city; importance 4.\n" in again
        assert "Added to it" not in one.says("remember", content=NEWS, tags=["city"])
    assert labels(tmp_path) == [(first, ("press", "city"), 4)]
    command(tmp_path, "undo", first)
    assert labels(tmp_path) == [(first, ("press",), 2)]


def labels(folder: Path) -> list[tuple[str, tuple[str, ...], int]]:
    ledger = Ledger.open(f"sqlite:///{folder / 'data' / 'ledger.db'}")
    with ledger, ledger.reading() as reader:
        live = [row.memory for row in reader.memories.live()]
    return [(one.id, one.tags, one.importance) for one in live]


def test_consolidate_shows_what_a_model_would_merge_and_the_agent_decides(tmp_path: Path) -> None:
    boats = ["Edda owns a red boat.", "The boat of Edda needs a new mast."]
    merged = "Edda owns a red boat, which needs a new mast."

    def about_the_boat(asked: Asked) -> str:
        found = [number for number, text in memories_shown(asked.data) if "boat" in text]
        group = {"members": found, "text": merged, "reason": "which boat Edda owns"}
        return json.dumps({"groups": [group] if len(found) > 1 else [], "updates": []})

    with OpenAIServer(about_the_boat).running() as server:
        llm = {"provider": "openai", "model": "house-8b", "base_url": server.url}
        (tmp_path / "config.yaml").write_text(json.dumps({"llm": llm}), encoding="utf-8")
        with agent(tmp_path, ["-m", "memory", "--config", "config.yaml", "serve"]) as mine:
            ids = [mine.remember(text) for text in [*boats, "Edda sings in a choir in Ghent."]]
            said = mine.says("consolidate")
            asked = len(server.asked)
            again = mine.data("consolidate")
            assert len(server.asked) == asked  # what was read is not asked about again
            shown = mine.data("recall", context="Edda's boat", n_results=10)["memories"]
            assert {one["content"] for one in shown} >= set(boats)  # nothing is merged yet
            taken = mine.says(
                "merge_memories", keep_id=ids[0], remove_id=ids[1], merged_content=merged
            )
            left = mine.data("consolidate")
    assert all(words in said for words in [*boats, merged, "which boat Edda owns", *ids[:2]])
    assert [one["text"] for one in again["proposals"]] == [merged]
    assert left["proposals"] == [], taken
