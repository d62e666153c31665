"""The chatbot as a process: at a pseudo-terminal, from a pipe, from a transcript, with Gemini."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.coverage import differs
from tests import commands
from tests.gemini_server import Asked, GeminiServer, failed
from tests.loopback import Raw
from tests.readings import memories_shown

ROOT = Path(__file__).parent.parent
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("memory:\n  data_dir: data\n")
    return tmp_path


def environment(gemini: GeminiServer | None = None, timeout_s: float = 20.0) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if k not in ("GEMINI_API_KEY", "GOOGLE_API_KEY")}
    keep |= {"PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "80"}
    if gemini is not None:
        keep |= {"GEMINI_API_KEY": "secret-key", "MEMORY_LLM_BASE_URL": gemini.url}
        keep |= {"MEMORY_LLM_MAX_ATTEMPTS": "2", "MEMORY_LLM_TIMEOUT_S": str(timeout_s)}
    return keep


def chat(
    folder: Path,
    *args: str,
    said: str = "",
    gemini: GeminiServer | None = None,
    timeout_s: float = 20.0,
) -> subprocess.CompletedProcess[str]:
    env = environment(gemini, timeout_s)
    done = commands.run("orchestrator", *args, cwd=folder, env=env, said=said)
    assert "Traceback" not in done.stderr, done.stderr
    assert "secret-key" not in done.stderr + done.stdout
    return done


def memories(folder: Path) -> list[tuple[str, str]]:
    done = commands.run("memory", "export", cwd=folder, env=environment())
    rows = map(json.loads, done.stdout.splitlines())
    return sorted((row["user"], row["content"]) for row in rows)


# --- lines from a pipe ----------------------------------------------------------------------------


def test_a_piped_conversation_is_answered_and_remembered(folder: Path) -> None:
    said = "I moved to Porto in 2021.\nWhere did I move to in 2021?\n/memories\n/nonsense\n"
    done = chat(folder, "--user", "Mia", said=said)
    first, second, listed = done.stdout.splitlines()
    assert first == "I see."
    assert second == "I remember: Mia moved to Porto in 2021."
    assert listed.endswith("Mia moved to Porto in 2021.")
    assert "/memories [WORDS]" in done.stderr
    assert memories(folder) == [("Mia", "Mia moved to Porto in 2021.")]


def test_forget_erases_a_memory_of_mine_and_nobody_elses(folder: Path) -> None:
    chat(folder, "--user", "Mia", said="I moved to Porto in 2021.\n")
    shown = chat(folder, "--user", "Mia", said="/memories\n").stdout
    name = shown.split()[0]
    refused = chat(folder, "--user", "Jonas", said=f"/forget {name}\n/memories\n")
    assert "is not about Jonas" in refused.stderr
    assert "nothing yet" in refused.stderr
    assert "forgotten: Mia moved" in chat(folder, "--user", "Mia", said=f"/forget {name}\n").stderr
    assert "no live memory" in chat(folder, "--user", "Mia", said=f"/forget {name}\n").stderr
    assert memories(folder) == []
    found = [path for path in (folder / "data").rglob("*") if path.is_file()]
    assert not any(b"Porto" in path.read_bytes() for path in found)


def test_bytes_that_are_no_text_do_not_end_the_chat(folder: Path) -> None:
    done = subprocess.run(
        [commands.python(), "-m", "orchestrator", "--user", "Mia"],
        cwd=folder, env=environment(), input=b"bad \xff line\nI moved to Porto in 2021.\n",
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert memories(folder) == [("Mia", "Mia moved to Porto in 2021.")]


def test_a_name_is_needed(folder: Path) -> None:
    done = chat(folder, "--user", " ")
    assert (done.returncode, done.stderr.startswith("error: --user: is empty")) == (2, True)


def test_dedup_runs_before_the_chat(folder: Path) -> None:
    done = chat(folder, "--deduplicate-memories", said="I bake bread on Fridays.\n")
    assert done.stdout.startswith("memories        0")
    assert done.stdout.endswith("\nI see.\n")
    assert memories(folder) == [("User", "User bakes bread on Fridays.")]


def test_a_transcript_is_not_left_out_of_a_dry_run_in_silence(folder: Path) -> None:
    done = chat(folder, "--dedup-dry-run", "--transcript", transcript(folder))
    assert done.returncode == 2
    assert done.stderr.startswith("error: --dedup-dry-run: changes nothing")


# --- a transcript ---------------------------------------------------------------------------------

TURNS = [
    ("Mia", "Hi Jonas! I adopted a cat named Pepper in 2023."),
    ("Jonas", "Lovely! I bake bread every Friday."),
    ("Mia", "I really adopted a cat named Pepper in 2023, you know?"),
    ("Jonas", "My daughter Ida starts school in August."),
    ("Mia", "Remember that I am allergic to walnuts."),
]


def transcript(folder: Path, turns: list[tuple[str, str]] = TURNS) -> str:
    path = folder / "talk.jsonl"
    rows = (
        {"user": user, "text": text, "timestamp": f"2026-05-01T08:00:{n:02}Z", "id": f"D{n}"}
        for n, (user, text) in enumerate(turns)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


def test_a_transcript_is_remembered_once(folder: Path) -> None:
    first = chat(folder, "--transcript", transcript(folder)).stdout
    assert "turns      5, of which 0 were known" in first
    assert "pending    0" in first
    kept = memories(folder)
    assert kept == [
        ("Jonas", "Jonas bakes bread every Friday."),
        ("Jonas", "Jonas's daughter Ida starts school in August."),
        ("Mia", "Mia adopted a cat named Pepper in 2023."),
        ("Mia", "Mia is allergic to walnuts."),
    ]
    second = chat(folder, "--transcript", transcript(folder)).stdout
    assert "turns      5, of which 5 were known" in second
    assert "memories   4 -> 4" in second
    assert memories(folder) == kept


def test_transcripts_of_one_name_and_other_people_share_no_conversation(folder: Path) -> None:
    """The same line in both files is new in the second."""
    for user, known in (("Mia", 0), ("Eve", 0), ("Mia", 1)):
        name = transcript(folder, [(user, "I bake bread every Friday.")])
        assert f"of which {known} were known" in chat(folder, "--transcript", name).stdout
    assert memories(folder) == [
        ("Eve", "Eve bakes bread every Friday."),
        ("Mia", "Mia bakes bread every Friday."),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        ('{"user": "Mia", "text": "x"}', "timestamp is missing"),
        ('{"text": "x", "timestamp": "2026-05-01T08:00:00Z"}', "speaker: must be"),
        ('{"user": "Mia", "timestamp": "2026-05-01T08:00:00Z"}', "text: must be"),
    ],
)
def test_a_broken_transcript_is_refused_whole_with_its_line(
    folder: Path, line: str, problem: str
) -> None:
    name = transcript(folder)
    with (folder / name).open("a") as file:
        file.write(line + "\n")
    done = chat(folder, "--transcript", name)
    assert done.returncode == 1
    [said] = done.stderr.splitlines()
    assert said.startswith(f"error: {name}:6: ")
    assert problem in said
    assert not (folder / "data").exists()


# --- with Gemini ----------------------------------------------------------------------------------


def scripted(asked: Asked) -> str:
    """What a model would say: a memory for every turn that states one, and merges as asked."""
    data = asked.data
    if "turns" in data and "memories" not in data:
        return json.dumps(
            {
                "memories": [
                    {"content": f"{one['speaker']} said: {one['text']}", "user": one["speaker"],
                     "category": "fact", "intensity": 0.6, "turns": [one["number"]]}
                    for one in data["turns"]
                    if one["speaker"] != "bot" and "?" not in one["text"]
                ]
            }
        )  # fmt: skip
    if "turns" in data:
        return f"You said: {data['turns'][-1]['text']}"
    numbers, texts = zip(*memories_shown(data), strict=True)
    newest = texts[-1]
    if any("/" in differs(text, newest) for text in texts):
        return json.dumps({"groups": [], "reason": "values differ"})
    return json.dumps({"groups": [{"members": numbers, "text": newest}], "reason": "same"})


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer(default=scripted).running() as server:
        yield server


MANY = [
    (("Mia", "Jonas")[n % 2], f"I saw bird number {n} near the lake, and it was a {bird}.")
    for n, bird in enumerate(["heron", "kite", "wren", "owl", "swift", "crane"] * 8)
]


def test_a_conversation_with_gemini(folder: Path, gemini: GeminiServer) -> None:
    done = chat(folder, "--user", "Mia", said="I moved to Porto.\n", gemini=gemini)
    assert done.stdout == "You said: I moved to Porto.\n"
    assert memories(folder) == [("Mia", "Mia said: I moved to Porto.")]
    assert all(asked.headers["x-goog-api-key"] == "secret-key" for asked in gemini.asked)


def test_a_transcript_through_gemini_says_what_it_cost(folder: Path, gemini: GeminiServer) -> None:
    done = chat(folder, "--transcript", transcript(folder, MANY), gemini=gemini).stdout
    assert "extracted  48" in done
    calls = len(gemini.asked)
    assert f"gemini-3-flash-preview: {calls:,} calls, {11 * calls:,} tokens in" in done
    again = chat(folder, "--transcript", transcript(folder, MANY), gemini=gemini).stdout
    assert "of which 48 were known" in again
    assert len(gemini.asked) == calls


@pytest.mark.drill
def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_memories(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for one in (whole, killed):
        one.mkdir()
        (one / "config.yaml").write_text("memory:\n  data_dir: data\n")
        transcript(one, MANY)
    chat(whole, "--transcript", "talk.jsonl", gemini=gemini)
    for calls in (2, 3):
        before = len(gemini.asked)
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "--transcript", "talk.jsonl"],
            cwd=killed, env=environment(gemini), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while len(gemini.asked) < before + calls and time.monotonic() < deadline:
            time.sleep(0.005)
        process.kill()
        process.wait()
    done = chat(killed, "--transcript", "talk.jsonl", gemini=gemini).stdout
    assert "pending    0" in done
    assert memories(killed) == memories(whole)
    assert len(memories(killed)) > 20


@pytest.mark.drill
def test_while_gemini_is_down_nothing_is_lost_and_nothing_hangs(
    folder: Path, gemini: GeminiServer
) -> None:
    gemini.default = failed(503, "overloaded")
    done = chat(folder, "--user", "Mia", said="I moved to Porto.\nI sail.\n", gemini=gemini)
    assert done.returncode == 0
    assert done.stdout.count("(no answer: Gemini answered 503") == 2
    assert "4 turns left for the next start" in done.stderr
    assert memories(folder) == []
    gemini.default = scripted
    chat(folder, "--user", "Mia", said="", gemini=gemini)
    assert memories(folder) == [
        ("Mia", "Mia said: I moved to Porto."),
        ("Mia", "Mia said: I sail."),
    ]


@pytest.mark.drill
def test_a_server_that_hangs_does_not_hang_the_chat(folder: Path, gemini: GeminiServer) -> None:
    gemini.default = Raw(200, b"{}", hang_s=120.0)
    said = "I moved to Porto.\n"
    done = chat(folder, "--user", "Mia", said=said, gemini=gemini, timeout_s=0.5)
    assert "(no answer within 0.5 s)" in done.stdout
    assert " left for the next start" in done.stderr


@pytest.mark.drill
def test_a_model_that_fails_again_and_again_is_not_asked_and_the_reply_says_so(
    folder: Path,
) -> None:
    said = "".join(f"I have {n} boats.\n" for n in range(8))
    with GeminiServer(failed(503)).running() as server:
        done = chat(folder, "--user", "Mia", said=said, gemini=server)
    assert "(no answer: the model is not asked: 5 questions in a row failed" in done.stdout
    assert len(server.asked) <= 14, "five questions and two under way, two tries each"


def test_gemini_without_a_key_is_one_clear_line(folder: Path) -> None:
    (folder / "config.yaml").write_text("llm:\n  provider: gemini\n")
    done = chat(folder, said="hello\n")
    assert done.returncode == 1
    assert done.stderr == "error: llm.provider: gemini needs an API key; set GEMINI_API_KEY\n"


# --- at a terminal --------------------------------------------------------------------------------


class Terminal:
    """A chat at a pseudo-terminal."""

    def __init__(self, folder: Path, *args: str, gemini: GeminiServer | None = None) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [commands.python(), "-m", "orchestrator", *args],
            cwd=folder, env=environment(gemini), stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def until(self, text: str, seconds: float = 20.0) -> str:
        """What was shown up to and with this text; it must come."""
        start, deadline = len(self.seen), time.monotonic() + seconds
        while text not in self.seen[start:]:
            assert time.monotonic() < deadline, f"{text!r} not in {self.seen[start:]!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._ours, 4096).decode()
                except OSError:
                    assert text in self.seen[start:], self.seen
        return self.seen[start:]

    def say(self, line: str) -> None:
        os.write(self._ours, line.encode() + b"\n")

    def ended(self) -> int:
        code = self.process.wait(20)
        while select.select([self._ours], [], [], 0.1)[0]:
            try:
                self.seen += os.read(self._ours, 4096).decode()
            except OSError:
                break
        os.close(self._ours)
        return code


def test_the_chat_at_a_terminal(folder: Path) -> None:
    terminal = Terminal(folder, "--user", "Mia")
    assert "offline" in terminal.until("you> ")
    terminal.say("I moved to Porto in 2021.")
    terminal.until("bot> I see.")
    terminal.until("remembered: Mia moved to Porto in 2021.")
    terminal.say("Where did I move to in 2021?")
    terminal.until("bot> I remember: Mia moved to Porto in 2021.")
    terminal.say("/quit")
    assert terminal.ended() == 0
    assert "Traceback" not in terminal.seen


def test_the_user_does_not_wait_for_the_hook(folder: Path, gemini: GeminiServer) -> None:
    answered_again = threading.Event()

    def slow_extraction(asked: Asked) -> Raw | str:
        if "You extract memories" in asked.system:
            assert answered_again.wait(20)
        return scripted(asked)

    gemini.default = slow_extraction
    terminal = Terminal(folder, "--user", "Mia", gemini=gemini)
    terminal.until("you> ")
    terminal.say("I moved to Porto.")
    terminal.until("bot> You said: I moved to Porto.")
    terminal.say("I sail.")
    shown = terminal.until("bot> You said: I sail.")
    answered_again.set()
    assert "remembered" not in shown
    terminal.say("/quit")
    assert terminal.ended() == 0
    assert len(memories(folder)) == 2, "what is pending is finished at the end"


def test_ctrl_c_ends_the_chat_while_a_reply_is_awaited_and_keeps_what_was_said(
    folder: Path, gemini: GeminiServer
) -> None:
    gemini.default = failed(429, "slow down", retry_after="100")
    terminal = Terminal(folder, "--user", "Mia", gemini=gemini)
    terminal.until("you> ")
    terminal.say("I moved to Porto.")
    deadline = time.monotonic() + 20
    while not gemini.asked and time.monotonic() < deadline:
        time.sleep(0.02)
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("Ctrl-C leaves them")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 0
    assert "1 turn left for the next start" in terminal.seen


def test_a_second_ctrl_c_leaves_the_rest_for_the_next_start(
    folder: Path, gemini: GeminiServer
) -> None:
    gemini.default = lambda asked: (
        Raw(200, b"{}", hang_s=30.0) if "You extract memories" in asked.system else scripted(asked)
    )
    terminal = Terminal(folder, "--user", "Mia", gemini=gemini)
    terminal.until("you> ")
    terminal.say("I moved to Porto.")
    terminal.until("bot> You said")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("Ctrl-C leaves them")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 0
    assert " left for the next start" in terminal.seen
    gemini.default = scripted
    chat(folder, "--user", "Mia", said="", gemini=gemini)
    assert memories(folder) == [("Mia", "Mia said: I moved to Porto.")]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_chat_whose_pipe_stays_open(folder: Path, sent: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--user", "Mia"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("I adopted a parrot.\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(sent)
    process.wait(60)
    said = process.communicate()[1]
    assert (process.returncode, "Fatal" in said) == (0, False), said
