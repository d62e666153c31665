"""What is forgotten is in no file: not the text, not the vector, whatever was done before."""

from __future__ import annotations

import os
import signal
import subprocess
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import pytest

from memory.errors import LedgerError
from memory.ledger import Ledger, Writer
from memory.models import (
    PERSON,
    Action,
    Decision,
    Memory,
    MemoryLink,
    Outcome,
    Scope,
    Survivor,
    Turn,
)
from memory.providers import WordLlamaEmbedder
from memory.search import EmbeddedChroma
from memory.store import (
    ForgottenUser,
    MemoryStore,
    forget_user,
)
from memory.text import text_key
from tests import commands
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder, ScriptedModel, living_for, under

pytestmark = pytest.mark.usefixtures("forked_chroma")


@pytest.fixture
def open_it(tmp_path: Path, embedder: PlacedEmbedder) -> Callable[[], MemoryStore]:
    """Opens a store with a real Chroma beside its ledger."""

    def open_index(_: Ledger) -> EmbeddedChroma:
        return EmbeddedChroma(tmp_path / "data" / "chroma")

    def open_store() -> MemoryStore:
        ledger = Ledger.create(f"sqlite:///{tmp_path / 'data' / 'ledger.db'}")
        return MemoryStore(ledger, embedder, open_index, vectors_mb=0)

    return open_store


@pytest.fixture
def store(open_it: Callable[[], MemoryStore]) -> Iterator[MemoryStore]:
    with open_it() as opened:
        yield opened


def holders(folder: Path, needle: bytes) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if needle in path.read_bytes()]


def vector_of(store: MemoryStore, memory: Memory) -> bytes:
    [embedded] = store.embeddings.embed([memory])
    assert embedded.vector is not None
    return embedded.vector.tobytes()


def update(store: MemoryStore, memory: Memory, other: Memory) -> None:
    store.update(memory.id, "Mia rows.")


def link(store: MemoryStore, memory: Memory, other: Memory) -> None:
    end = MemoryLink(target_id=memory.id, note="the secret reason")
    store.add(store.new_memory("Mia sneezes.").model_copy(update={"linked_ids": (end,)}))


def replace(store: MemoryStore, memory: Memory, other: Memory) -> None:
    with store.ledger.reading() as reader:
        since = reader.revision()
    survivor = Survivor(memory, (other.id,))
    decision = Decision(Action.REPLACE, "the secret reason", (other, memory), (survivor,))
    assert isinstance(store.apply(under(decision, since)), Outcome)


@pytest.mark.parametrize("change", [None, update, link, replace])
def test_text_vector_and_reasons_are_gone_whatever_happened_after_chroma_copied_them(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory,
    change: Callable[[MemoryStore, Memory, Memory], None] | None,
) -> None:  # fmt: skip
    memory, other = (
        store.add(make_memory("Mia sails.")),
        store.add(make_memory("Mia sails a boat.")),
    )
    vectors = [vector_of(store, memory)]
    store.index.rebuild()
    if change is not None:
        change(store, memory, other)
        [*_, now] = [row for row in store.memories() if row.id == memory.id]
        vectors.append(vector_of(store, now))
    assert holders(tmp_path / "data", vectors[0])
    sails = b64encode(blake2b(b"sail", digest_size=6).digest())
    with store.ledger.reading() as reader:
        assert reader.terms.postings(["sail"], None, everyone=True).numbers.tolist()
    assert store.forget(memory.id).erased
    for needle in (b"Mia sails.", b"Mia rows.", b"secret reason", *vectors):
        assert holders(tmp_path / "data", needle) == []
    with store.ledger.reading() as reader:
        left = [row.memory.content for row in reader.memories.live()]
        found = reader.terms.postings(["sail"], None, everyone=True).numbers.tolist()
    assert len(found) == any("sails" in text for text in left)
    if not any("sails" in text for text in left):
        assert holders(tmp_path / "data", sails) == []


def test_what_another_process_forgot_is_cleared_by_whoever_has_chroma(
    open_it: Callable[[], MemoryStore],
    tmp_path: Path,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
) -> None:
    with open_it() as owner:
        memory = owner.add(make_memory("Mia sails."))
        vector = vector_of(owner, memory)
        owner.index.rebuild()
        with MemoryStore(Ledger.create(f"sqlite:///{owner.ledger.name}"), embedder) as other:
            assert not other.forget(memory.id).erased
    assert holders(tmp_path / "data", vector) == []
    with open_it() as owner:
        assert owner.scrub()


def test_a_folder_that_was_deleted_leaves_nothing_pending(
    open_it: Callable[[], MemoryStore], tmp_path: Path, make_memory: MakeMemory
) -> None:
    with open_it() as store:
        memory = store.add(make_memory("Mia sails."))
        store.index.rebuild()
    (tmp_path / "data" / "chroma").rename(tmp_path / "elsewhere")
    with open_it() as store:
        assert store.forget(memory.id).erased


def test_the_vector_of_an_undone_merge_goes_with_its_members(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory
) -> None:
    old, new = store.add(make_memory("Mia sails.")), store.add(make_memory("Mia dives."))
    joined = new.model_copy(update={"id": store.new_id(), "content": "Mia sails and dives."})
    with store.ledger.reading() as reader:
        since = reader.revision()
    merge = Decision(Action.MERGE, "test", (old, new), (Survivor(joined, (old.id, new.id)),))
    assert isinstance(store.apply(under(merge, since)), Outcome)
    vector = vector_of(store, joined)
    store.undo(store.history()[-1].number)
    store.forget(old.id)
    assert holders(tmp_path / "data", vector) == []


def decide(
    store: MemoryStore, action: Action, members: tuple[Memory, ...], *survivors: Survivor,
    reason: str = "test", by: str | None = None, distinct: tuple[tuple[str, str], ...] = (),
) -> int:  # fmt: skip
    """Apply a decision; gives its number."""
    decision = Decision(action, reason, members, survivors, model=by, distinct=distinct)
    done = store.apply(decision)
    assert isinstance(done, Outcome)
    return store.history()[-1].number


def kept_apart_by_a_person(store: MemoryStore, of_a: Memory, c: Memory) -> None:
    pair = (of_a.id, c.id)
    decide(store, Action.KEEP_BOTH, (of_a, c), by=PERSON, distinct=(pair,))


def merged_and_taken_back(store: MemoryStore, of_a: Memory, c: Memory) -> None:
    made = c.model_copy(update={"id": store.new_id(), "content": "Mia sails and rows."})
    reason = "she sails in both"
    survivor = Survivor(made, (of_a.id, c.id))
    store.undo(decide(store, Action.MERGE, (of_a, c), survivor, reason=reason, by="scripted"))


@pytest.mark.parametrize("later", [kept_apart_by_a_person, merged_and_taken_back])
@pytest.mark.parametrize("is_new", [True, False], ids=["merged", "replaced"])
def test_what_was_decided_about_a_merge_before_it_was_taken_back_quotes_nothing(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory,
    later: Callable[[MemoryStore, Memory, Memory], None], is_new: bool,
) -> None:  # fmt: skip
    a, b, c = (store.add(make_memory(text)) for text in ("Mia sails.", "Mia dives.", "Mia rows."))
    name = store.new_id() if is_new else b.id
    of_a = b.model_copy(update={"id": name, "content": "Mia sails and dives."})
    gone = (a.id, b.id) if is_new else (a.id,)
    first = decide(store, Action.MERGE, (a, b), Survivor(of_a, gone))
    later(store, of_a, c)
    store.undo(first)
    afterwards = decide(store, Action.KEEP_BOTH, (b, c), reason="dives and rows", by="scripted")
    store.forget(a.id)
    assert holders(tmp_path / "data", b"sails") == []
    [kept] = [one for one in store.history(b.id) if one.number == afterwards]
    assert kept.reason == "dives and rows", "what was decided once it was taken back stays"


def test_an_undone_merge_does_not_keep_what_a_member_stated_only_at_that_time(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory
) -> None:
    a = store.add(make_memory("Mia rows."))
    store.update(a.id, "Mia rows and sails.")
    updated = store.history()[-1].number
    [a] = store.memories()
    b = store.add(make_memory("Mia rows and sails daily."))
    store.undo(decide(store, Action.REPLACE, (a, b), Survivor(b, (a.id,))))
    store.undo(updated)
    store.forget(b.id)
    assert holders(tmp_path / "data", b"sails") == []


def replaced_and_taken_back(store: MemoryStore, a: Memory, c: Memory) -> None:
    store.undo(decide(store, Action.REPLACE, (a, c), Survivor(c, (a.id,))))


def updated_and_taken_back(store: MemoryStore, a: Memory, c: Memory) -> None:
    store.update(a.id, f"{a.content} Far.")
    store.undo(store.history()[-1].number)


@pytest.mark.parametrize(
    "later", [updated_and_taken_back, replaced_and_taken_back, kept_apart_by_a_person]
)
def test_decisions_about_others_do_not_keep_what_only_the_forgotten_one_still_stated(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory,
    later: Callable[[MemoryStore, Memory, Memory], None],
) -> None:  # fmt: skip
    a, c = store.add(make_memory("Mia rows.")), store.add(make_memory("Mia dives."))
    store.update(a.id, "Mia rows and sails.")
    updated = store.history()[-1].number
    b = store.add(make_memory("Ben heard that she sails."))
    later(store, next(one for one in store.memories() if one.id == a.id), c)
    store.undo(updated)
    store.forget(b.id)
    assert holders(tmp_path / "data", b"sails") == []


def test_a_person_who_keeps_two_apart_does_not_keep_what_a_judge_said_of_a_third(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory
) -> None:
    a, b, c = (store.add(make_memory(text)) for text in ("Mia sails.", "Mia dives.", "Mia rows."))
    apart = ((a.id, b.id), (b.id, c.id), (a.id, c.id))
    reason = "she sails alone, dives deep and rows far"
    decide(store, Action.KEEP_BOTH, (a, b, c), reason=reason, by="scripted", distinct=apart)
    number = decide(store, Action.KEEP_BOTH, (b, c), by=PERSON, distinct=((b.id, c.id),))
    store.forget(a.id)
    assert holders(tmp_path / "data", b"sails") == []
    store.undo(number)
    with store.ledger.reading() as reader:
        scope = Scope.of(b, ("user",))
        verdict = reader.distinct.verdict(scope, text_key(b.content), text_key(c.content))
    assert verdict.by == "model"


def test_nothing_brings_a_forgotten_memory_back(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory("Mia sails."))
    store.forget(memory.id)
    store.add(memory)
    assert list(store.memories()) == []


def test_an_undo_restores_no_link_to_what_was_forgotten(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory
) -> None:
    a, b = store.add(make_memory("Mia sails.")), store.add(make_memory("Mia sails a boat."))
    end = MemoryLink(target_id=a.id, note="the secret note")
    x = store.add(make_memory("Mia sneezes.", linked_ids=(end,)))
    alive = living_for(store, a)
    assert alive is not None
    replace(store, b, alive)
    store.forget(x.id)
    assert holders(tmp_path / "data", b"secret note") == []
    number = next(one.number for one in store.history() if one.action is Action.REPLACE)
    store.undo(number)
    assert all(memory.linked_ids == () for memory in store.memories())


def test_to_forget_a_bystander_answers_nobody_elses_question(
    store: MemoryStore, model: ScriptedModel, make_memory: MakeMemory
) -> None:
    a, b, c = (store.add(make_memory(text)) for text in ("Mia sails.", "Mia dives.", "Mia rows."))
    question = Decision(
        Action.KEEP_BOTH, "no answer", (a, b), candidates=((c.id, 0.91),), pending=True
    )
    assert isinstance(store.apply(question), Outcome)
    store.forget(c.id)
    assert store.counts().pending == 1
    store.forget(b.id)
    assert store.counts().pending == 0


def test_what_a_user_said_and_nobody_has_read_yet_goes_with_them(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    stays = store.add(make_memory("Jonas sails.", user="Jonas"))
    hers = [
        store.add(make_memory("Mia sails.", user="Mia", is_private=private))
        for private in (False, True)
    ]
    with store.ledger.writing() as writer:
        for number, speaker in enumerate(("Mia", "Jonas")):
            writer.turns.keep(Turn(speaker=speaker, text="I sail too.", at=START), str(number))
    gone = forget_user(store.ledger, store.index, "Mia", store.clock())
    assert gone == ForgottenUser(len(hers), erased=True)
    assert list(store.memories()) == [stays]
    with store.ledger.reading() as reader:
        assert [waiting.turn.speaker for waiting in reader.turns.waiting()] == ["Jonas"]


@pytest.fixture(scope="module")
def many_texts() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.fixture
def large(
    ledger_url: str, many_texts: WordLlamaEmbedder, make_memory: MakeMemory
) -> Iterator[MemoryStore]:
    """120 memories of Mia, some of them reworded, and one of Jonas; on each database."""
    with MemoryStore(Ledger.create(ledger_url), many_texts) as store:
        store.add_batch([make_memory(f"Mia saw {n} birds.", user="Mia") for n in range(120)])
        for memory in list(store.memories())[::10]:
            store.update(memory.id, f"{memory.content} She wrote that down.")
        store.add(make_memory("Jonas sails.", user="Jonas"))
        yield store


def left_of(store: MemoryStore) -> list[str | None]:
    with store.ledger.reading() as reader:
        return [row.memory.user for row in reader.memories.all() if not row.forgotten]


def test_a_user_is_forgotten_in_transactions_of_a_few_memories(large: MemoryStore) -> None:
    gone = forget_user(large.ledger, large.index, "Mia", START, at_once=40)
    assert gone == ForgottenUser(120, erased=True)
    assert left_of(large) == ["Jonas"]
    with large.ledger.reading() as reader:
        told = [one for one in reader.decisions.all_but_additions() if one.action == Action.FORGET]
    assert sum(len(one.members) for one in told) == 120
    assert max(len(one.members) for one in told) <= 40


def test_what_a_failure_in_between_leaves_the_next_call_erases_and_says_so(
    large: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[int]()

    def failing(_writer: Writer, ids: Sequence[str]) -> None:
        done.append(len(ids))
        if len(done) == 3:
            raise LedgerError("the disk is full", "make room")

    said = "40 memories of Mia erased, others not: the disk is full; make room; then"
    monkeypatch.setattr("memory.ledger.attachments.Episodes.forget", failing)
    with pytest.raises(LedgerError, match=said):
        forget_user(large.ledger, large.index, "Mia", START, at_once=20)
    monkeypatch.undo()
    assert len(left_of(large)) > 1
    assert forget_user(large.ledger, large.index, "Mia", START).erased
    assert left_of(large) == ["Jonas"]


KILLED_WHILE_FORGETTING = """
import os, signal, sys
from memory.cli import app
from memory.ledger.attachments import Episodes

forget, calls = Episodes.forget, []

def killed_at_the_third(*args):
    forget(*args)
    calls.append(args)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

Episodes.forget = killed_at_the_third
app(sys.argv[1:])
"""


def test_a_command_killed_in_between_is_finished_by_running_it_again(
    tmp_path: Path, make_memory: MakeMemory, many_texts: WordLlamaEmbedder
) -> None:
    url = f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"
    with MemoryStore(Ledger.create(url), many_texts) as store:
        store.add_batch([make_memory(f"Mia saw {n} kestrels.", user="Mia") for n in range(500)])
    env = os.environ | {"MEMORY_DATA_DIR": str(tmp_path / "data")}
    forget = ["forget", "--user", "Mia", "--yes"]
    code = [commands.python(), "-c", KILLED_WHILE_FORGETTING, *forget]
    assert subprocess.run(code, env=env, check=False).returncode == -signal.SIGKILL
    assert holders(tmp_path / "data", b"kestrels")
    again = [commands.python(), "-m", "memory", *forget]
    done = subprocess.run(again, env=env, check=False, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "erased"
    assert holders(tmp_path / "data", b"kestrels") == []


def test_wordings_that_live_in_another_users_memory_go_with_the_user(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    """Where `dedup_scope` lacks the user, one of Mia's may be retired for one of Jonas."""
    hers = store.add(make_memory("Mia's secret boat.", user="Mia"))
    his = store.add(make_memory("A boat.", user="Jonas"))
    decide(store, Action.REPLACE, (hers, his), Survivor(his, (hers.id,)))
    assert forget_user(store.ledger, store.index, "Mia", START).erased
    assert left_of(store) == ["Jonas"]


def test_no_verdict_names_a_forgotten_user_whose_texts_another_has(
    store: MemoryStore, tmp_path: Path, make_memory: MakeMemory
) -> None:
    for user in ("Jonas", "Zoltan"):
        pair = [store.add(make_memory(text, user=user)) for text in ("A boat.", "A raft.")]
        kept_apart_by_a_person(store, *pair)
    assert forget_user(store.ledger, store.index, "Zoltan", START).erased
    assert holders(tmp_path / "data", b"Zoltan") == []
    assert store.snapshot().distinct


def test_no_conversation_names_a_forgotten_user_and_no_turn_is_heard_twice(
    store: MemoryStore, tmp_path: Path
) -> None:
    heard = [
        Turn(speaker="Zoltan", text="I row.", at=START),
        Turn(speaker="bot", text="Nice.", at=START, is_bot=True, conversation="Zoltan"),
        Turn(speaker="Jonas", text="I sail.", at=START, conversation="Zoltan"),
    ]
    with store.ledger.writing() as writer:
        for number, turn in enumerate(heard):
            writer.turns.keep(turn, str(number))
    forget_user(store.ledger, store.index, "Zoltan", START)
    with store.ledger.writing() as writer:
        [his] = writer.turns.waiting()
        assert his.turn == heard[2]
        writer.turns.finish(his.seq)
    assert forget_user(store.ledger, store.index, "Zoltan", START).erased
    assert holders(tmp_path / "data", b"Zoltan") == []
    with store.ledger.writing() as writer:
        assert not any(writer.turns.keep(turn, str(n)) for n, turn in enumerate(heard))
        again = heard[0].model_copy(update={"text": "I row on Mondays."})
        assert writer.turns.keep(again, "0")


@pytest.mark.drill
def test_memory_grows_with_the_largest_transaction_and_not_with_the_user(
    ledger: Ledger, many_texts: WordLlamaEmbedder, make_memory: MakeMemory
) -> None:
    """Three thousand at once took some 300 MB, and twice as many four times as much."""
    with MemoryStore(ledger, many_texts) as store:
        store.add_batch([make_memory(f"Mia saw {n} herons.", user="Mia") for n in range(3_000)])
        tracemalloc.start()
        try:
            forget_user(store.ledger, store.index, "Mia", START)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 40_000_000


def test_somebody_of_whom_only_turns_are_known_can_be_forgotten(
    store: MemoryStore,
) -> None:
    said = Turn(speaker="Mia", text="I live in Oslo.", at=START, id="1")
    answered = Turn(speaker="bot", text="So you live in Oslo!", at=START, id="2", is_bot=True)
    with store.ledger.writing() as writer:
        for turn in (said, answered):
            writer.turns.keep(turn, str(turn.id))
    assert forget_user(store.ledger, store.index, "Mia", START).memories == 0
    with store.ledger.reading() as reader:
        assert reader.turns.waiting() == []


def test_forgetting_touches_nothing_that_somebody_else_said(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory("I like tea.", user="Mia"))
    said = Turn(speaker="Jonas", text="I like tea. My sister moved.", at=START, id="1")
    with store.ledger.writing() as writer:
        writer.turns.keep(said, "1")
    store.forget(memory.id)
    with store.ledger.reading() as reader:
        assert [one.turn.text for one in reader.turns.waiting()] == [said.text]
