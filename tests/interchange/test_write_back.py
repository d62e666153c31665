"""Written back: rows that became one are one row, as their own program wrote it; and taken back."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from chromadb.utils.embedding_functions import register_embedding_function

from memory.errors import InputError
from memory.interchange.collection import Stored
from memory.interchange.foreign import Reading, as_memories
from memory.interchange.plan_back import WriteBackPlan
from memory.interchange.vector_stores import ChromaStore
from memory.interchange.write_back import (
    ChangedRow,
    UndoHeader,
    note_reading,
    noted_reading,
    read_undo_file,
    undo_write_back,
    vectors_as_theirs,
    write_back,
    write_lines,
)
from memory.models import PERSON, Memory
from memory.search import ChromaProcess, ChromaServer, close_client, http_client
from memory.store import MemoryStore
from tests.frameworks.word_server import WordEmbedder, word_vector
from tests.interchange.backs import (
    MERGED,
    NOW,
    TEXTS,
    WHEN,
    bring_in,
    carried_out,
    cleaned_of,
    killed,
    merge,
    planned,
    planned_again,
    replace,
    run_again,
    supersede,
    taken_back,
    written,
)

pytestmark = pytest.mark.usefixtures("forked_chroma")


def mem0_row(name: str, **more: Any) -> dict[str, Any]:
    text = TEXTS[name]
    times = {"created_at": WHEN, "updated_at": WHEN}
    return {"data": text, "hash": md5(text), "user_id": "mia", "note": name, **times} | more


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


Place = Path | ChromaServer
ON_DISK = pytest.mark.parametrize("theirs", ["folder"], indirect=True)
"""Each opening of a folder starts a process of its own; the other tests share one server."""


def fill(place: Place, *, documents: bool = False, **more: Any) -> None:
    with opened_anew(place) as client:
        made = client.create_collection("mem0", **{"embedding_function": None} | more)
        metadatas = [mem0_row(name) for name in TEXTS]
        if documents:
            metadatas = [{"user": "mia", "created_at": WHEN} for _ in TEXTS]
        made.add(
            ids=list(TEXTS),
            embeddings=[word_vector(text) for text in TEXTS.values()],
            documents=list(TEXTS.values()) if documents else None,
            metadatas=metadatas,
        )


@contextmanager
def opened_anew(place: Place) -> Iterator[Any]:
    if isinstance(place, Path):
        client: Any = chromadb.PersistentClient(
            str(place), settings=Settings(anonymized_telemetry=False)
        )
        yield client
        client.close()
    else:
        client = http_client(place)
        yield client
        close_client(client)


def held(place: Place) -> dict[str, tuple[object, object, bytes]]:
    """Every row, its vector to the bit."""
    with opened_anew(place) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        page = collection.get(include=["documents", "metadatas", "embeddings"])
        assert collection.configuration_json["hnsw"]["sync_threshold"] == 1000
    rows = zip(page["ids"], page["documents"], page["metadatas"], page["embeddings"], strict=True)
    return {
        name: (document, metadata, np.asarray(vector, np.float32).tobytes())
        for name, document, metadata, vector in rows
    }


@pytest.fixture
def server(chroma_port: int) -> ChromaServer:
    """An empty server."""
    place = ChromaServer("127.0.0.1", chroma_port, False, "default_tenant", "default_database", {})
    with opened_anew(place) as client:
        for collection in client.list_collections():
            client.delete_collection(collection.name)
    return place


@pytest.fixture
def theirs(request: pytest.FixtureRequest) -> Place:
    on_disk = getattr(request, "param", "server") == "folder"
    place: Place = (
        request.getfixturevalue("tmp_path") / "theirs"
        if on_disk
        else request.getfixturevalue("server")
    )
    fill(place)
    return place


def mem0(place: Place) -> ChromaStore:
    return ChromaStore(place, "mem0")


@pytest.fixture
def cleaned(store: MemoryStore, theirs: Place) -> MemoryStore:
    return cleaned_of(store, mem0(theirs))


def test_what_was_absorbed_goes_and_what_was_merged_says_the_merged_text(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    before = held(theirs)
    written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    after = held(theirs)
    assert set(after) == {"b", "d", "e"}
    assert (after["b"], after["e"]) == (before["b"], before["e"]), "not a bit of them changed"
    text = "Mia paints houses and pictures."
    changed = {"data": text, "hash": md5(text), "updated_at": NOW.isoformat()}
    assert after["d"][:2] == (None, mem0_row("d") | changed)
    assert after["d"][2] == np.array(word_vector(text), np.float32).tobytes()
    assert planned(cleaned, mem0(theirs)).changes == ()


def test_a_superseded_row_is_deleted_if_a_person_said_so_and_else_marked(
    store: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    known, before = bring_in(store, mem0(theirs)), held(theirs)
    supersede(store, known["a"], known["e"], PERSON)
    supersede(store, known["c"], known["e"], "some-model")
    written(store, mem0(theirs), tmp_path / "undo.jsonl")
    after = held(theirs)
    assert set(after) == {"b", "c", "d", "e"}
    until = known["e"].timestamp.isoformat()
    marks = {"superseded_by": "e", "superseded_at": until, "updated_at": NOW.isoformat()}
    assert after["c"] == (None, mem0_row("c") | marks, before["c"][2])
    assert taken_back(mem0(theirs), tmp_path / "undo.jsonl").restored == 2
    assert held(theirs) == before


def test_the_undo_file_brings_every_row_back_to_the_bit(
    cleaned: MemoryStore, theirs: Path, tmp_path: Path
) -> None:
    before = held(theirs)
    written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    assert (tmp_path / "undo.jsonl").stat().st_mode & 0o777 == 0o600
    assert taken_back(mem0(theirs), tmp_path / "undo.jsonl").restored == 3
    assert held(theirs) == before
    again = taken_back(mem0(theirs), tmp_path / "undo.jsonl")
    assert (again.restored, again.already) == (0, 3)


def test_a_collection_of_documents_is_written_in_its_own_layout(
    store: MemoryStore, server: ChromaServer, tmp_path: Path
) -> None:
    theirs = server
    fill(theirs, documents=True)
    before = held(theirs)
    known = bring_in(store, mem0(theirs))
    merge(store, known["c"], known["d"], "Mia paints houses and pictures.")
    written(store, mem0(theirs), tmp_path / "undo.jsonl")
    unchanged = {"user": "mia", "created_at": WHEN}
    assert held(theirs)["d"][:2] == ("Mia paints houses and pictures.", unchanged)
    taken_back(mem0(theirs), tmp_path / "undo.jsonl")
    assert held(theirs) == before


def test_a_server_is_written_to_and_taken_back(
    store: MemoryStore, server: ChromaServer, tmp_path: Path
) -> None:
    theirs = server
    fill(theirs)
    before = held(theirs)
    known = bring_in(store, mem0(theirs))
    replace(store, known["a"], known["b"])
    written(store, mem0(theirs), tmp_path / "undo.jsonl")
    assert set(held(theirs)) == {"b", "c", "d", "e"}
    taken_back(mem0(theirs), tmp_path / "undo.jsonl")
    assert held(theirs) == before


def test_a_row_that_changed_since_it_was_imported_is_left_alone(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    with opened_anew(theirs) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        collection.update(ids=["a"], metadatas=[{"note": "mine"}])
        collection.update(ids=["c"], metadatas=[{"data": "Mia paints boats."}])
        collection.delete(ids=["e"])
    before = held(theirs)
    plan = written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    assert [(one.id, one.why) for one in plan.left_alone] == [
        ("a", "its metadata changed since it was imported")
    ]
    assert plan.unknown == 1, "c says something else now"
    after = held(theirs)
    assert {name: after[name] for name in "abc"} == {name: before[name] for name in "abc"}


def test_a_row_that_changes_after_the_plan_is_left_alone_with_what_rests_on_it(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    plan = planned(cleaned, mem0(theirs))
    with opened_anew(theirs) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        collection.update(ids=["b"], metadatas=[{"data": "Mia rows."}])
        collection.update(ids=["d"], metadatas=[{"note": "mine"}])
    before = held(theirs)
    made = {one.text: np.array(word_vector(one.text), np.float32) for one in plan.updates}
    undo = tmp_path / "undo.jsonl"
    done = write_back(mem0(theirs), plan, Reading(), undo, NOW, made)
    assert done.changes == ()
    assert {one.id for one in done.left_alone} == {"a", "c", "d"}
    assert held(theirs) == before


def test_relative_words_that_a_write_back_writes_keep_their_day(
    store: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    """The row stays as old as it was, and its new text was said later."""
    known = bring_in(store, mem0(theirs))
    later = known["d"].model_copy(update={"said": NOW})
    merge(store, known["c"], later, "Mia paints a house tomorrow.")
    written(store, mem0(theirs), tmp_path / "undo.jsonl")
    read = as_memories(mem0(theirs).found().rows, "", Reading())
    [memory] = [one for one in read if isinstance(one, Memory) and "tomorrow" in one.content]
    assert memory.dated == "[Sun 2026-11-01] Mia paints a house tomorrow [= 2026-11-02]."
    assert "said" not in memory.metadata


def planned_apart(
    store: MemoryStore, theirs: Place, of_a: dict[str, str], of_c: dict[str, str]
) -> WriteBackPlan:
    """The plan where "b" stands for "a" and "d" for "c", which those there keep apart."""
    fill(theirs)
    with opened_anew(theirs) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        collection.update(ids=["a", "c"], metadatas=[of_a, of_c])
    known = bring_in(store, mem0(theirs))
    replace(store, known["a"], known["b"])
    replace(store, known["c"], known["d"])
    return planned(store, mem0(theirs))


def test_rows_of_two_agents_never_stand_for_each_other_and_keep_their_own_text(
    store: MemoryStore, server: ChromaServer, tmp_path: Path
) -> None:
    theirs = server
    plan = planned_apart(store, theirs, {"agent_id": "x"}, {"expires_at": "2027-01-01"})
    assert plan.changes == ()
    assert [(one.row.id, one.kept.id, one.apart) for one in plan.staying] == [
        ("a", "b", ("agent_id",)), ("c", "d", ("expires_at",)),
    ]  # fmt: skip
    plan = planned(store, mem0(theirs), across=["agent_id", "expires_at"])
    assert [(one.row.id, one.kept.id) for one in plan.deletions] == [("a", "b"), ("c", "d")]
    assert (plan.updates, plan.staying) == ((), ())


def test_a_merged_text_goes_to_one_row_and_others_stay_as_they_are(
    store: MemoryStore, server: ChromaServer, tmp_path: Path
) -> None:
    """Of c, c again and d, d gets the merged text; c stands for its copy in another run."""
    fill(server)
    with opened_anew(server) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        collection.update(ids=["a", "c"], metadatas=[{"data": TEXTS["c"], "run_id": "1"}] * 2)
        collection.update(ids=["d"], metadatas=[{"run_id": "2"}])
    known = bring_in(store, mem0(server))
    replace(store, known["a"], known["c"])
    merge(store, known["c"], known["d"])
    plan = planned(store, mem0(server))
    assert [(one.row.id, one.text) for one in plan.updates] == [("d", MERGED)]
    [deleted], [stays] = plan.deletions, plan.staying
    assert {deleted.row.id, stays.row.id} == {"a", "c"}
    assert (deleted.kept, stays.apart) == (stays.row, ("run_id",))


@pytest.mark.parametrize(
    ("older", "newer", "longest"),
    [
        ("2027-01-01", "2026-12-01", "2027-01-01"),
        ("2026-12-01", "2027-01-01", "2027-01-01"),
        (None, "2027-01-01", None),
        ("2027-01-01", None, None),
    ],
)
def test_a_survivor_lives_as_long_as_the_longest_of_its_group(
    store: MemoryStore,
    server: ChromaServer,
    tmp_path: Path,
    older: str | None,
    newer: str | None,
    longest: str | None,
) -> None:
    theirs = server
    fill(theirs)
    with opened_anew(theirs) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        for name, day in (("a", older), ("b", newer)):
            if day is not None:
                collection.update(ids=[name], metadatas=[{"expiration_date": day}])
    before = held(theirs)
    known = bring_in(store, mem0(theirs))
    replace(store, known["a"], known["b"])
    assert planned(store, mem0(theirs)).changes == ()
    plan = planned(store, mem0(theirs), across=["expiration_date"])
    carried_out(mem0(theirs), plan, tmp_path / "undo.jsonl")
    after = held(theirs)
    [survivor] = {"a", "b"} & set(after)
    metadata: Any = after[survivor][1]
    assert (metadata["data"], metadata.get("expiration_date")) == (TEXTS["b"], longest)
    assert after[survivor][2] == before["b"][2]
    taken_back(mem0(theirs), tmp_path / "undo.jsonl")
    assert held(theirs) == before


def test_a_memory_that_was_forgotten_here_is_not_touched_there(
    cleaned: MemoryStore, theirs: Place
) -> None:
    [living] = [one for one in cleaned.memories() if one.external_id == "b"]
    cleaned.forget(living.id)
    plan = planned(cleaned, mem0(theirs))
    assert {one.row.id for one in plan.changes} == {"c", "d"}


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.drill
@ON_DISK
def test_a_kill_at_any_step_leaves_a_whole_undo_file_and_a_store_that_recovers(
    cleaned: MemoryStore, theirs: Path, tmp_path: Path, step: int
) -> None:
    before = held(theirs)
    undo = tmp_path / "undo.jsonl"
    assert killed(mem0(theirs), tmp_path / "data", undo, step) == 9
    file = read_undo_file(undo)
    header, rows = file.header, file.rows
    assert (header.sync_threshold, len(rows)) == (1000, 3)
    gone = undo_write_back(mem0(theirs), header, rows, lambda _done, _whole: None)
    assert (gone.restored, gone.already) == [(0, 3), (1, 2), (3, 0)][step - 1]
    assert held(theirs) == before
    written(cleaned, mem0(theirs), tmp_path / "second.jsonl")
    after = held(theirs)
    assert len(after) == 3, "c or d: what was put back stands last"
    assert {"b", "e"} < set(after)


@pytest.mark.drill
@ON_DISK
def test_a_crash_of_chroma_while_it_writes_is_an_error_and_another_run_does_the_rest(
    cleaned: MemoryStore, theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma runs in a process of its own, which is not the one that writes back."""
    undo = tmp_path / "undo.jsonl"
    call = ChromaProcess.call

    def crashes(process: ChromaProcess, collection: Any, method: str, **arguments: Any) -> Any:
        if method == "delete":
            os.kill(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # until it is dead
        return call(process, collection, method, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ChromaProcess, "call", crashes)
        with pytest.raises(InputError, match="Chroma's process ended with code -9"):
            written(cleaned, mem0(theirs), undo)
    run_again(cleaned, mem0(theirs), undo)
    assert set(held(theirs)) == {"b", "d", "e"}
    assert not list(tmp_path.rglob("theirs*.*")), "no lock beside it"


@ON_DISK
def test_this_process_opens_no_folder_of_chroma_to_write_back_and_to_undo(
    cleaned: MemoryStore, theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = held(theirs)
    with monkeypatch.context() as patched:
        patched.setattr(chromadb, "PersistentClient", None)
        written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
        taken_back(mem0(theirs), tmp_path / "undo.jsonl")
    assert held(theirs) == before


@ON_DISK
def test_new_files_in_their_folder_have_the_permissions_that_its_owner_gives(
    cleaned: MemoryStore, theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike those of our own index, which nobody else may read."""
    (locks := tmp_path / "locks").mkdir()  # those in the machine's folder are of earlier runs, too
    monkeypatch.setattr(tempfile, "tempdir", str(locks))
    before = os.umask(0o027)
    try:
        with mem0(theirs).opened() as rows:
            names = [f"new{n}" for n in range(3)]
            rows.collection.modify(configuration={"hnsw": {"batch_size": 2, "sync_threshold": 2}})
        with mem0(theirs).opened() as rows:
            vectors = np.stack([word_vector(name) for name in names])
            rows.collection.add(
                ids=names, embeddings=vectors, documents=None, metadatas=[{"data": "x"}] * 3
            )
            taken = list(locks.glob("memory-dedup-*.open"))
            modes = {stat.S_IMODE(path.stat().st_mode) for path in taken}
    finally:
        os.umask(before)
    [made] = theirs.rglob("*.pickle")
    assert stat.S_IMODE(made.stat().st_mode) == 0o640
    assert modes == {0o600}, "the lock"


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.drill
@ON_DISK
def test_after_a_kill_the_same_command_does_the_rest_and_the_first_undo_file_undoes_all(
    cleaned: MemoryStore, theirs: Path, tmp_path: Path, step: int
) -> None:
    before = held(theirs)
    undo = tmp_path / "undo.jsonl"
    assert killed(mem0(theirs), tmp_path / "data", undo, step) == 9
    run_again(cleaned, mem0(theirs), undo)
    after = held(theirs)
    assert set(after) == {"b", "d", "e"}
    changed = {"data": MERGED, "hash": md5(MERGED), "updated_at": NOW.isoformat()}
    assert after["d"][1] == mem0_row("d") | changed
    assert after["d"][2] == np.array(word_vector(MERGED), np.float32).tobytes()
    taken_back(mem0(theirs), undo)
    assert held(theirs) == before


def test_what_was_written_and_then_cleaned_further_is_written_again(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    """Its undo file says what the row was."""
    written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    living = {memory.content: memory for memory in cleaned.memories()}
    merge(cleaned, living[TEXTS["e"]], living[MERGED], "Mia paints houses and has a cat.")
    assert planned(cleaned, mem0(theirs)).unknown == 1
    plan = planned_again(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    assert [(one.row.id, one.said) for one in plan.updates] == [("d", MERGED)]
    assert [(one.row.id, one.kept.id) for one in plan.deletions] == [("e", "d")]


def test_what_somebody_changed_since_is_not_put_back_over_it(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    with opened_anew(theirs) as client:
        collection = client.get_collection("mem0", embedding_function=None)
        collection.update(ids=["d"], metadatas=[{"data": "Mia paints ships."}])
        collection.add(ids=["a"], embeddings=[word_vector("x")], metadatas=[{"data": "x"}])
    done = taken_back(mem0(theirs), tmp_path / "undo.jsonl")
    assert (done.restored, {one.id for one in done.left_alone}) == (1, {"a", "d"})
    assert held(theirs)["d"][1]["data"] == "Mia paints ships."  # type: ignore[index]


def cut(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def other(file: Path) -> None:
    file.write_text('{"content": "Mia sails."}\n')


@pytest.mark.parametrize(("harm", "said"), [(cut, "has 2 of its 3 rows"), (other, "no undo file")])
def test_a_file_that_is_not_whole_takes_nothing_back(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    harm(tmp_path / "undo.jsonl")
    with pytest.raises(InputError, match=said):
        read_undo_file(tmp_path / "undo.jsonl")


def test_an_undo_file_holds_every_value_as_it_is(tmp_path: Path) -> None:
    metadata = {
        "at": "2026-05-01T10:00:00+02:00", "n": 1_777_622_400, "same": 1_777_622_400.0,
        "big": 2**70, "most": float("inf"), "least": float("-inf"), "half": "\ud83d", "née": None,
    }  # fmt: skip
    row = ChangedRow(Stored("a", " Mia sails. ", metadata, {"": np.array([0.1], np.float32)}))
    header = UndoHeader(
        kind="chroma", place="theirs", collection="mem0", collection_id="x", sync_threshold=None,
        rows=1, at=NOW,
    )  # fmt: skip
    write_lines(tmp_path / "undo.jsonl", [header.model_dump_json(), row.line])
    file = read_undo_file(tmp_path / "undo.jsonl")
    [again] = file.rows
    assert (again.before.document, repr(again.before.metadata)) == (" Mia sails. ", repr(metadata))
    assert again.before.vectors[""].tobytes() == row.before.vectors[""].tobytes()
    assert file.holds([row])


def test_without_a_place_for_the_undo_file_nothing_is_written(
    cleaned: MemoryStore, theirs: Place, tmp_path: Path
) -> None:
    before = held(theirs)
    (tmp_path / "undo.jsonl").touch()
    with pytest.raises(InputError, match="exists already"):
        written(cleaned, mem0(theirs), tmp_path / "undo.jsonl")
    with pytest.raises(InputError, match="cannot be written"):
        written(cleaned, mem0(theirs), tmp_path / "none" / "undo.jsonl")
    assert held(theirs) == before


@register_embedding_function
class OwnWords(chromadb.EmbeddingFunction):  # type: ignore[type-arg]
    """The embedding function that a collection names as its own."""

    def __init__(self) -> None:
        """Nothing to set."""

    def __call__(self, input: list[str]) -> Any:  # noqa: A002 - Chroma's name for it
        return [np.array(word_vector(text), np.float32) for text in input]

    @staticmethod
    def name() -> str:
        return "own-words"

    def get_config(self) -> dict[str, Any]:
        return {}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> OwnWords:
        return OwnWords()


def test_who_made_the_vectors_makes_those_of_merged_texts(theirs: Place, tmp_path: Path) -> None:
    def wrong(texts: list[str]) -> Any:
        return np.ones((len(texts), 256))

    def broken(texts: list[str]) -> Any:
        raise OSError("no network")

    rows = ChromaStore(theirs, "mem0").found().rows

    def made(place: Place, *others: Any) -> list[str]:
        with mem0(place).looking() as look:
            return list(vectors_as_theirs(look, rows, Reading(), ["Mia rows."], others))

    assert made(theirs, wrong, broken, lambda texts: [[1.0]] * len(texts)) == []
    assert made(theirs, broken, WordEmbedder().embed) == ["Mia rows."]
    fill(tmp_path / "own", embedding_function=OwnWords())
    assert made(tmp_path / "own") == ["Mia rows."]


def test_how_a_collection_was_read_is_known_again(store: MemoryStore) -> None:
    reading = Reading(user_key="who", default_time=NOW)
    note_reading(store.ledger, "uuid", reading)
    assert noted_reading(store.ledger, "uuid") == reading
    assert noted_reading(store.ledger, "other") is None
