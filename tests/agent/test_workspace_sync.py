"""The workspace: one line a memory, nothing else is touched, files whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memory.agent import keep_workspace
from memory.agent.workspace_sync import WorkspaceMemorySync, forget_everywhere
from memory.config import AgentConfig, Config
from memory.errors import InputError
from memory.models import Memory, new_memory_id
from memory.store import Forgotten, MemoryStore, forget_user
from tests import commands
from tests.doubles import START

DAY = START.astimezone()


def told(content: str, **fields: Any) -> Memory:
    return Memory(id=new_memory_id(), content=content, timestamp=START, **fields)


@pytest.fixture
def sync(tmp_path: Path) -> WorkspaceMemorySync:
    return WorkspaceMemorySync(tmp_path)


def daily(workspace: Path) -> Path:
    return workspace / "memory" / f"{DAY:%Y-%m-%d}.md"


def test_every_public_memory_is_a_line_of_its_day(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    one, other = told("first\nin two lines\u2028or three"), told("second")
    for memory in (one, other):
        sync.sync_memory(memory)
    assert daily(tmp_path).read_text() == (
        f"# {DAY:%Y-%m-%d}\n\n"
        f"- [{DAY:%H:%M}] first in two lines or three [id:{one.id}]\n"
        f"- [{DAY:%H:%M}] second [id:{other.id}]\n"
    )
    assert not (tmp_path / "MEMORY.md").exists()
    names = sorted(path.name for path in (tmp_path / "memory").iterdir())
    assert names == [".sync.lock", daily(tmp_path).name]


@pytest.mark.parametrize(
    ("fields", "curated"),
    [
        ({"importance": 4}, True),
        ({"importance": 3}, False),
        ({"category": "lesson"}, True),
        ({"category": "relationship"}, True),
        ({"category": "self_discovery"}, True),
        ({"category": "introspection"}, True),
        ({"category": "daily"}, False),
    ],
)
def test_important_memories_are_curated(
    sync: WorkspaceMemorySync, tmp_path: Path, fields: dict[str, Any], curated: bool
) -> None:
    sync.sync_memory(told("it", **fields))
    assert (tmp_path / "MEMORY.md").exists() is curated
    latest = tmp_path / "memory" / "inner-monologue-latest.md"
    assert latest.exists() is (fields.get("category") == "introspection")


def test_a_private_memory_is_never_written(sync: WorkspaceMemorySync, tmp_path: Path) -> None:
    sync.sync_memory(told("secret", category="introspection", importance=5, is_private=True))
    assert [path.name for path in (tmp_path / "memory").glob("*.md")] == []


def test_a_removed_memory_leaves_both_files_and_other_lines_stay(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    gone, stays = told("gone", importance=5), told("stays", importance=5)
    (tmp_path / "MEMORY.md").write_bytes(b"# Mine\r\n\r\nby hand \xff\r\n")
    for memory in (gone, stays):
        sync.sync_memory(memory)
    assert sync.remove_memory(gone.id)
    assert "gone" not in daily(tmp_path).read_text()
    assert "stays" in daily(tmp_path).read_text()
    curated = (tmp_path / "MEMORY.md").read_bytes()
    assert curated.startswith(b"# Mine\r\n\r\nby hand \xff\r\n- [")
    assert b"gone" not in curated
    assert b"stays" in curated


def test_a_memory_of_a_year_before_1000_is_removed_as_any_other(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    """The C library writes the year 999 with three digits, and no file or line would be found."""
    old = told("a saga", importance=5).model_copy(
        update={"timestamp": START.replace(year=999, month=6)}
    )
    sync.sync_memory(old)
    files = [tmp_path / "MEMORY.md", *(tmp_path / "memory").glob("0999-06-*.md")]
    assert all("a saga" in file.read_text() for file in files)
    assert len(files) == 2
    assert sync.remove_memory(old.id)
    assert not any("a saga" in file.read_text() for file in files)


def test_nothing_is_removed_without_a_file(sync: WorkspaceMemorySync, tmp_path: Path) -> None:
    assert not sync.remove_memory("mem_000000000000")
    assert sync.erase(Forgotten(told("gone"), erased=True)) == []
    assert [path.name for path in tmp_path.rglob("*.md")] == []


def test_other_markdown_files_are_never_touched(sync: WorkspaceMemorySync, tmp_path: Path) -> None:
    memory = told("known")
    sync.sync_memory(memory)
    notes = [tmp_path / "README.md", tmp_path / "memory" / "notes.md"]
    for path in notes:
        path.write_text(f"see [id:{memory.id}]")
    assert sync.remove_memory(memory.id)
    assert not sync.remove_memory(memory.id)
    assert [path.read_text() for path in notes] == [f"see [id:{memory.id}]"] * 2


def test_a_marker_in_a_text_is_no_marker(sync: WorkspaceMemorySync, tmp_path: Path) -> None:
    victim = told("quotes [id:mem_000000000000] and [id:[id:mem_000000000000]")
    sync.sync_memory(victim)
    assert not sync.remove_memory("mem_000000000000")
    assert victim.id in daily(tmp_path).read_text()


def test_a_file_that_cannot_be_replaced_stays_whole(
    sync: WorkspaceMemorySync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync.sync_memory(told("before"))
    whole = daily(tmp_path).read_bytes()

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        sync.sync_memory(told("after"))
    assert daily(tmp_path).read_bytes() == whole
    assert [path.name for path in (tmp_path / "memory").glob(".*.tmp")] == []


def test_many_writers_lose_no_entry(tmp_path: Path) -> None:
    told_by_many = [told(f"number {n}") for n in range(24)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda one: WorkspaceMemorySync(tmp_path).sync_memory(one), told_by_many))
    lines = daily(tmp_path).read_text().splitlines()
    assert len([line for line in lines if "number" in line]) == 24


def test_a_workspace_that_is_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        WorkspaceMemorySync(tmp_path / "file").check()


def test_a_line_of_ones_own_that_cites_a_memory_stays(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    memory = told("Mia sails.")
    sync.sync_memory(memory)
    mine = f"I wrote about boats, see [id:{memory.id}] and more."
    page = daily(tmp_path)
    page.write_text(page.read_text() + mine + "\n")
    [said] = sync.erase(Forgotten(memory, erased=True))
    assert said == f"a line of {page.name} that is not an entry still names {memory.id}"
    before = page.stat().st_mtime_ns
    assert not sync.remove_memory(memory.id)
    assert page.stat().st_mtime_ns == before
    assert mine in page.read_text()
    assert "Mia sails." not in page.read_text()


def test_a_curated_page_that_is_a_link_stays_one(sync: WorkspaceMemorySync, tmp_path: Path) -> None:
    real = tmp_path / "vault.md"
    real.write_text("# Mine\n")
    (tmp_path / "MEMORY.md").symlink_to(real)
    memory = told("it", importance=5)
    sync.sync_memory(memory)
    assert (tmp_path / "MEMORY.md").is_symlink()
    assert memory.id in real.read_text()
    sync.remove_memory(memory.id)
    assert real.read_text() == "# Mine\n"


def test_a_curated_page_that_is_a_pipe_or_a_device_is_not_waited_for(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "MEMORY.md")
    with pytest.raises(OSError, match="not a regular file"):
        sync.sync_memory(told("it", importance=5))
    (tmp_path / "MEMORY.md").unlink()
    (tmp_path / "MEMORY.md").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="not a regular file"):
        sync.sync_memory(told("it", importance=5))


def test_forgetting_a_short_memory_leaves_anothers_monologue(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    short, thought = told("tired"), told("I am tired of rain.\ntired", category="introspection")
    for memory in (short, thought):
        sync.sync_memory(memory)
    latest = tmp_path / "memory" / "inner-monologue-latest.md"
    assert sync.erase(Forgotten(short, erased=True)) == []
    assert latest.read_text() == thought.content + "\n"
    assert sync.erase(Forgotten(thought, erased=True)) == []
    assert latest.read_text() == ""


def test_forgetting_what_another_monologue_begins_with_leaves_that_one(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    first = told("I was calm.", category="introspection")
    latest_one = told("I was calm.\nThen the storm came.", category="introspection")
    for memory in (first, latest_one):
        sync.sync_memory(memory)
    latest = tmp_path / "memory" / "inner-monologue-latest.md"
    assert sync.erase(Forgotten(first, erased=True)) == []
    assert latest.read_text() == latest_one.content + "\n"


def test_an_edited_monologue_of_a_forgotten_memory_stays_and_is_said(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    memory = told("I was calm.", category="introspection")
    sync.sync_memory(memory)
    latest = tmp_path / "memory" / "inner-monologue-latest.md"
    latest.write_text("I was very calm.\n")
    said = f"{latest.name} was edited: it may still tell of a forgotten memory"
    assert sync.erase(Forgotten(memory, erased=True)) == [said]
    assert latest.read_text() == "I was very calm.\n"


def test_a_line_of_ones_own_that_ends_with_a_marker_stays(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    memory = told("Mia sails.")
    sync.sync_memory(memory)
    page = daily(tmp_path)
    mine = f"Ask her about the harbour fee, see [id:{memory.id}]"
    page.write_text(page.read_text() + mine + "\n")
    assert sync.remove_memory(memory.id)
    assert page.read_text().endswith(f"{mine}\n")
    assert "Mia sails." not in page.read_text()


def test_a_line_of_ones_own_that_ends_with_the_text_of_a_short_memory_stays(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    tea, steam = told("tea"), told("steam")
    for memory in (tea, steam):
        sync.sync_memory(memory)
    page = daily(tmp_path)
    mine = f"I asked about green tea [id:{tea.id}] today"
    seen = f"[id:{steam.id}] like [id:{tea.id}]"
    page.write_text(page.read_text().replace(f"[id:{steam.id}]", seen) + mine + "\n")
    [said] = sync.erase(Forgotten(tea, erased=True))
    assert said == f"a line of {page.name} that is not an entry still names {tea.id}"
    assert page.read_text().endswith(f"steam {seen}\n{mine}\n")


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from memory.agent.workspace_sync import WorkspaceMemorySync
from memory.models import Memory

os.fsync = lambda _handle: os.kill(os.getpid(), signal.SIGKILL)
memory = Memory.model_validate_json(sys.argv[2])
WorkspaceMemorySync(Path(sys.argv[1])).sync_memory(memory)
"""


@pytest.mark.parametrize("importance", [3, 5])
def test_what_a_killed_write_left_goes_with_the_next_memory_that_is_forgotten(
    sync: WorkspaceMemorySync, tmp_path: Path, importance: int
) -> None:
    secret = told("The alarm code is 7788.", importance=importance)
    command = [
        commands.python(),
        "-c",
        KILLED_WHILE_WRITING,
        str(tmp_path),
        secret.model_dump_json(),
    ]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    [part] = [path.name for path in files if b"7788" in path.read_bytes()]
    assert part.endswith(".part")
    assert sync.erase(Forgotten(secret, erased=True)) == []
    assert [path for path in files if path.exists() and b"7788" in path.read_bytes()] == []


@pytest.mark.parametrize("by", ["the user", "another memory", "a server that starts"])
def test_a_process_killed_between_store_and_workspace_leaves_what_the_next_one_erases(
    store: MemoryStore, sync: WorkspaceMemorySync, tmp_path: Path, by: str
) -> None:
    secret = store.add(told("The alarm code is 7788.", user="Mia", category="introspection"))
    other = store.add(told("Mia sails.", user="Mia"))
    for memory in (secret, other):
        sync.sync_memory(memory)
    store.forget(secret.id)  # and killed
    if by == "the user":
        now = store.clock()
        done = forget_everywhere(
            store, sync, lambda: forget_user(store.ledger, store.index, "Mia", now)
        )
        assert done[1] == ""
    elif by == "another memory":
        assert forget_everywhere(store, sync, lambda: store.forget(other.id))[1] == ""
    else:
        config = Config(agent=AgentConfig(workspace_dir=str(tmp_path)))
        keep_workspace(config, store.ledger)
    left = [path for path in tmp_path.rglob("*.md") if "7788" in path.read_text()]
    assert left == []


def test_a_line_of_ones_own_is_said_only_when_its_memory_is_forgotten(
    store: MemoryStore, sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    first, second = store.add(told("Mia sails.")), store.add(told("Mia rows."))
    for memory in (first, second):
        sync.sync_memory(memory)
    page = daily(tmp_path)
    page.write_text(page.read_text() + f"I wrote about [id:{first.id}] once.\n")
    _, said = forget_everywhere(store, sync, lambda: store.forget(first.id))
    assert said == f"a line of {page.name} that is not an entry still names {first.id}"
    assert forget_everywhere(store, sync, lambda: store.forget(second.id))[1] == ""


def test_what_a_person_added_behind_an_entry_stays_and_is_said(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    memory = told("Mia <b>sails</b>.", importance=5, category="introspection")
    sync.sync_memory(memory)
    latest = tmp_path / "memory" / "inner-monologue-latest.md"
    pages = [daily(tmp_path), tmp_path / "MEMORY.md"]
    for page in pages:
        page.write_text(page.read_text().replace("]\n", "] She told me so.\n"))
    latest.write_text(latest.read_text() + "Mine.\n")
    assert sync.erase(Forgotten(memory, erased=True)) == [
        f"an entry of {page.name} had been added to: only what was added stays"
        for page in [*pages, latest]
    ]
    assert pages[0].read_text().endswith(f"- [{DAY:%H:%M}] She told me so.\n")
    assert latest.read_text() == "Mine.\n"
    assert not [page for page in pages if "sails" in page.read_text()]


def test_an_entry_edited_inside_and_behind_loses_its_text_and_marker(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    memory = told("Mia sails to Elba.", importance=5)
    sync.sync_memory(memory)
    pages = [daily(tmp_path), tmp_path / "MEMORY.md"]
    for page in pages:
        edited = page.read_text().replace("to Elba", "to Corsica").replace("]\n", "] Ask her.\n")
        page.write_text(edited)
    said = sync.erase(Forgotten(memory, erased=True))
    assert said == [
        f"an entry of {page.name} had been added to: only what was added stays" for page in pages
    ]
    for page in pages:
        assert "Ask her." in page.read_text()
        assert "sails" not in page.read_text()
        assert memory.id not in page.read_text()


def test_a_missing_workspace_is_made_with_the_first_entry(tmp_path: Path) -> None:
    sync = WorkspaceMemorySync(tmp_path / "notes" / "mine")
    sync.sync_memory(told("Mia sails."))
    assert "Mia sails." in daily(tmp_path / "notes" / "mine").read_text()


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)>"),
        ("[tea](javascript:alert(1))", r"[tea\](javascript:alert(1))"),
        (r"\<script>", r"\\\<script>"),
        ("[tea][1] [1]: javascript:x", r"[tea\][1] [1\]: javascript:x"),
        ("<javascript:alert(1)>", r"\<javascript:alert(1)>"),
        ("1 < 2, [x] done, a_b *c*", "1 < 2, [x] done, a_b *c*"),
        ("pay\u202efdp\u200b.exe\U000e0041", "payfdp.exe"),
        ("mi\u200bra 👩\u200d🔬 می\u200cخواهم", "mira 👩\u200d🔬 می\u200cخواهم"),
    ],
)
def test_a_text_is_written_as_it_was_typed_and_does_nothing(
    sync: WorkspaceMemorySync, tmp_path: Path, typed: str, written: str
) -> None:
    sync.sync_memory(told(typed, category="introspection"))
    for path in (daily(tmp_path), tmp_path / "MEMORY.md"):
        assert f"] {written} [id:" in path.read_text() or f") {written} [id:" in path.read_text()
    assert (tmp_path / "memory" / "inner-monologue-latest.md").read_text() == written + "\n"


def test_a_category_is_on_one_line_and_does_nothing(
    sync: WorkspaceMemorySync, tmp_path: Path
) -> None:
    sync.sync_memory(told("it", importance=5, category="<i>\n# odd"))
    assert r"(\<i> # odd) it [id:" in (tmp_path / "MEMORY.md").read_text()
