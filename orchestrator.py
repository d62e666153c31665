"""The command `memory-chat`: a chatbot with memory, and options that deduplicate the memories."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from memory import agent, assembly, interchange, models, upkeep
from memory.cli import (
    ConfigFile,
    Debug,
    ReportFile,
    compared,
    end_if_nothing_was_answered,
    err,
    progress,
    read_config,
    run_shell,
    save_report,
    say_cost,
    set_up_logging,
    show,
    show_audit,
    table,
    version_option,
    view,
)
from memory.errors import InputError, MemoryPipelineError, ModelError, WrongArgument
from memory.runtime import in_thread, read_objects, stop_event
from memory.text import clean, counted

if TYPE_CHECKING:
    from memory import ChatMemory, Config, LanguageModel, MemoryStore
    from memory.agent import WorkspaceMemorySync
    from memory.models import ExtractionResult, Memory, Outcome, Turn

app = typer.Typer(
    name="memory-chat",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_CONTEXT = 8
"""How many of the latest turns the model sees when it writes a reply."""
_HELP = "/memories [WORDS], /forget ID, /quit; anything else is said to the bot"

DeduplicateFirst = Annotated[
    bool, typer.Option("--deduplicate-memories", help="Run batch dedup before starting.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dedup-dry-run", help="Show what would be merged or retired without acting, and exit."
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls", min=0, help="Calls of the model in the batch [default: as configured]."
    ),
]
Transcript = Annotated[
    Path | None,
    typer.Option("--transcript", help="Remember the conversation in a JSON Lines file, and exit."),
]
Speaker = Annotated[str, typer.Option("--user", help="The name of the person who is talking.")]


def main() -> None:
    run_shell(app)


@app.command()
def chat(
    deduplicate_memories: DeduplicateFirst = False,
    dedup_dry_run: DryRun = False,
    max_calls: MaxCalls = None,
    transcript: Transcript = None,
    user: Speaker = "User",
    report: ReportFile = None,
    config: ConfigFile = None,
    debug: Debug = False,
    version: Annotated[bool, version_option("memory-chat")] = False,  # noqa: ARG001 - typer calls back
) -> None:
    """Talk to a chatbot whose memory does not fill up with near-copies.

    Lines from a pipe are answered too.
    """
    set_up_logging(debug)
    if not user.strip():
        raise WrongArgument("--user", "is empty", "name who is talking")
    settings = read_config(config).with_calls_per_run(max_calls)
    if dedup_dry_run:
        if transcript is not None:
            raise WrongArgument(
                "--dedup-dry-run", "changes nothing", "remember the transcript first, without it"
            )
        show_audit(settings, report=report)
        return
    if report is not None and not deduplicate_memories:
        raise WrongArgument("--report", "has nothing to tell", "give --deduplicate-memories too")
    turns = _read_transcript(transcript, settings) if transcript is not None else None
    with assembly.open_store(settings) as store:
        asyncio.run(_run(store, settings, deduplicate_memories, report, turns, user))


async def _run(
    store: MemoryStore,
    settings: Config,
    deduplicate: bool,
    report: Path | None,
    turns: Sequence[Turn] | None,
    user: str,
) -> None:
    async with aclosing(assembly.build_model(settings)) as model:
        if deduplicate:
            await _deduplicate(store, settings, model, report)
        if turns is not None:
            no_pages = settings.memory.model_copy(update={"background_pages": False})
            settings = settings.model_copy(update={"memory": no_pages})
            async with assembly.build_chat_memory(store, settings, model) as memory:
                await _replay(store, memory, model.name, turns)
            return
        workspace = agent.build_workspace(settings, store.ledger)
        chat = Chat(store, model, user, settings.llm.timeout_s, workspace)
        # One person talks, and should see at once what is remembered.
        at_once = settings.memory.model_copy(update={"extraction_wait": 0.0})
        settings = settings.model_copy(update={"memory": at_once})
        async with assembly.build_chat_memory(
            store, settings, model, on_extracted=chat.say
        ) as memory:
            await chat.run(memory)


async def _deduplicate(
    store: MemoryStore, settings: Config, model: LanguageModel, report: Path | None
) -> None:
    before = None
    if report is not None:
        before = assembly.similarity_histogram(store.snapshot(), store.scope_of, store.scale)
    with progress("deduplicating") as tell:
        deduplicator = assembly.build_deduplicator(store, settings, model)
        done = await deduplicator.deduplicate_all(
            on_progress=tell, on_plan=say_cost, on_compared=compared(tell)
        )
    show(view(done, groups=False))
    if report is not None and before is not None:
        with store.ledger.reading() as reader:
            cards = upkeep.recorded_cards(reader, reader.decisions.of_run(done.run))
        save_report(
            report, upkeep.batch_report(done, cards, before, settings.memory.rules, store.clock())
        )
    end_if_nothing_was_answered(done)


# --- a recorded conversation ----------------------------------------------------------------------


def _read_transcript(path: Path, settings: Config) -> list[Turn]:
    """Return the turns of a JSON Lines file.

    A turn without a conversation is put into one that is named after the file and the first person
    who speaks in the file. So two people's files of the same name do not share a conversation.

    Raises: InputError, which names the wrong line.
    """
    turns = list(_turns(path, settings))
    first = next((turn.speaker for turn in turns if not turn.is_bot), "")
    name = {"conversation": f"{path.stem}/{first}"[: models.MAX_NAME]}
    return [
        turn if "conversation" in turn.model_fields_set else turn.model_copy(update=name)
        for turn in turns
    ]


def _turns(path: Path, settings: Config) -> Iterator[Turn]:
    for number, fields in read_objects(path):
        try:
            if isinstance(fields, ValueError):
                raise fields
            yield interchange.to_turn(fields, settings.memory.zone)
        except ValueError as exc:
            raise InputError(path, str(exc), "nothing was imported from this file", number) from exc


async def _replay(
    store: MemoryStore, memory: ChatMemory, model: str, turns: Sequence[Turn]
) -> None:
    """Store recorded turns, extract memories and print a summary; the bot does not reply."""
    before, started = store.counts().live, time.monotonic()
    known = await memory.hear_all(turns)
    with progress("remembering") as tell:
        result = await memory.settle(tell)
    seconds = time.monotonic() - started
    actions = Counter(outcome.action.value for outcome in result.outcomes)
    usage = result.usage
    rate = f"{result.extracted / max(seconds, 1e-9):,.1f} a second"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    rows = [
        ("turns", f"{len(turns):,}, of which {known:,} were known"),
        ("extracted", f"{result.extracted:,} in {seconds:.1f} s, {rate}"),
        ("pending", f"{result.pending:,}" + (f": {result.problem}" if result.problem else "")),
        ("decisions", ", ".join(f"{n:,} {name}" for name, n in actions.most_common()) or "none"),
        ("memories", f"{before:,} -> {store.counts().live:,}"),
        ("model", f"{model}: {counted(usage.calls, 'call')}, {tokens}"),
    ]
    show(table(rows))


# --- a live conversation --------------------------------------------------------------------------


class Chat:
    """A conversation with one user.

    For each line, the bot recalls memories, replies with their help, and stores both turns. At a
    terminal, memories are extracted in the background. If the input is a pipe, memories are
    extracted from each line before the next line is read, so that the next reply can use them.
    """

    def __init__(
        self,
        store: MemoryStore,
        model: LanguageModel,
        user: str,
        patience_s: float,
        workspace: WorkspaceMemorySync | None,
    ) -> None:
        """Prepare a conversation; `patience_s` is the most seconds to wait for a reply."""
        self._workspace = workspace
        self._patience_s = patience_s
        self._store = store
        self._model = model
        self._user = clean(user)
        self._conversation = "chat_" + secrets.token_hex(6)
        self._turns: list[Turn] = []
        self._tty = sys.stdin.isatty()

    async def run(self, memory: ChatMemory) -> None:
        """Talk until the input ends, or until /quit or Ctrl-C; then extract the last turns."""
        self._greet()
        with stop_event() as interrupted:
            lines = _Lines("you> " if self._tty else "")
            while (line := await _unless_interrupted(lines.next(), interrupted)) is not None:
                if not line.strip():
                    continue
                command = await _unless_interrupted(
                    self._answer_or_run(memory, line.strip()), interrupted
                )
                if command in ("/quit", None):
                    break
        with stop_event() as interrupted:
            await self._wait_for(memory, interrupted)

    def _greet(self) -> None:
        if self._tty:
            keyless = self._model.name == models.OFFLINE
            note = " (offline: set GEMINI_API_KEY for a real conversation)" if keyless else ""
            _dim(f"{self._model.name}{note}. {_HELP}")

    async def _wait_for(self, memory: ChatMemory, interrupted: asyncio.Event) -> None:
        waiting = await memory.waiting()
        if waiting:
            last = counted(waiting, "turn")
            _dim(f"remembering the last {last} (Ctrl-C leaves them for the next start)")
        await _unless_interrupted(self._settled(memory), interrupted)
        if left := await memory.waiting():
            err().print(f"{counted(left, 'turn')} left for the next start")

    async def _settled(self, memory: ChatMemory) -> None:
        try:
            await memory.settle()
        except MemoryPipelineError as exc:
            err().print(f"not remembered yet: {exc}")

    # --- a turn ---

    async def _answer_or_run(self, memory: ChatMemory, line: str) -> str:
        """Run a line that is a command, or reply to the line; return the line's first word."""
        command, _, rest = line.partition(" ")
        if command == "/memories":
            await self._list(memory, rest)
        elif command == "/forget":
            for said in await in_thread(self._forget, rest.strip()):
                _dim(said)
        elif command.startswith("/") and command != "/quit":
            _dim(_HELP)
        elif command != "/quit":
            await self._answer(memory, line)
        return command

    async def _answer(self, memory: ChatMemory, text: str) -> None:
        if len(text) > models.MAX_CONTENT:
            _dim(f"too long: {len(text):,} characters, at most {models.MAX_CONTENT:,}")
            return
        recalled = await self._recall(memory, text)
        said = self._turn(self._user, text, recalled, is_bot=False)
        await memory.hear(said)
        try:
            async with asyncio.timeout(self._patience_s):
                answer = (await self._model.reply(self._turns[-_CONTEXT:], recalled)).text
        except ModelError as exc:
            answer = f"(no answer: {exc})"
        except TimeoutError:
            answer = f"(no answer within {self._patience_s:g} s)"
        show(Text(f"bot> {answer}" if self._tty else answer))
        replied = self._turn("bot", answer, recalled, is_bot=True)
        await memory.hear(replied)
        if not self._tty:
            await self._settled(memory)

    def _turn(self, speaker: str, text: str, recalled: Sequence[Memory], *, is_bot: bool) -> Turn:
        turn = models.Turn(
            speaker=speaker,
            text=text,
            at=self._store.now(),
            is_bot=is_bot,
            id=str(len(self._turns)),
            conversation=self._conversation,
            recalled_ids=tuple(memory.id for memory in recalled),
        )
        self._turns.append(turn)
        return turn

    async def _recall(self, memory: ChatMemory, text: str) -> Sequence[Memory]:
        try:
            return await memory.recall(text, user=self._user)
        except MemoryPipelineError as exc:
            err().print(f"nothing recalled: {exc}")
            return []

    async def _list(self, memory: ChatMemory, words: str) -> None:
        mine = await self._recall(memory, words) if words else await in_thread(self._mine)
        for one in mine:
            show(Text(f"{one.id}  {one.timestamp:%Y-%m-%d}  {one.content}"))
        if not mine:
            _dim("nothing yet")

    def _mine(self) -> list[Memory]:
        return [memory for memory in self._store.memories() if memory.user == self._user]

    def _forget(self, memory_id: str) -> list[str]:
        try:
            mine = self._store.get(memory_id)
            if mine is not None and mine.user != self._user:
                return [f"{memory_id} is not about {self._user}"]
            forgotten, problem = agent.forget_everywhere(
                self._store, self._workspace, lambda: self._store.forget(memory_id)
            )
        except MemoryPipelineError as exc:
            return [str(exc)]
        left = "" if forgotten.erased else " (index pending)"
        return [f"forgotten{left}: {forgotten.memory.content}", *filter(None, [problem])]

    # --- the hook ---

    def say(self, result: ExtractionResult) -> None:
        """Print what an extraction did to the user's memories, but only at a terminal."""
        if self._tty:
            for outcome in result.outcomes:
                if outcome.memory.user == self._user:
                    _dim(_what_became(outcome))


def _what_became(outcome: Outcome) -> str:
    verbs = {"add": "remembered", "keep_both": "remembered", "merge": "merged"}
    return f"{verbs.get(outcome.action.value, 'updated')}: {outcome.memory.content}"


def _dim(text: str) -> None:
    err().print(Text(text, style="dim"))


# --- the terminal ---------------------------------------------------------------------------------


class _Lines:
    """Reads lines from standard input in a thread, so that the event loop is not blocked."""

    def __init__(self, prompt: str) -> None:
        typed = sys.stdin.isatty() or not _has_descriptor()
        self._ask = partial(input, prompt) if typed else _PipedLines()
        self._wanted = threading.Semaphore(0)
        self._read: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._serve, daemon=True).start()

    async def next(self) -> str | None:
        self._wanted.release()
        return await self._read.get()

    def _serve(self) -> None:
        while True:
            self._wanted.acquire()
            try:
                line: str | None = self._ask()
            except EOFError:
                line = None
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._read.put_nowait, line)


def _has_descriptor() -> bool:
    try:
        sys.stdin.fileno()
    except OSError:  # a calling program may have replaced stdin
        return False
    return True


class _PipedLines:
    """Reads lines from a pipe with `os.read`; bytes that are not UTF-8 become U+FFFD.

    A waiting read of `sys.stdin` would hold a lock that Python needs to exit; `os.read` holds none.
    """

    def __init__(self) -> None:
        self._read = b""

    def __call__(self) -> str:
        while b"\n" not in self._read:
            more = os.read(sys.stdin.fileno(), 65_536)
            if not more and not self._read:
                raise EOFError
            self._read += more or b"\n"
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace").removesuffix("\r")


async def _unless_interrupted(
    awaited: Coroutine[None, None, str | None], interrupted: asyncio.Event
) -> str | None:
    """Return the coroutine's result, or cancel it and return None if `interrupted` is set first."""
    running = asyncio.create_task(awaited)
    stopped = asyncio.create_task(interrupted.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if running.done():
        return running.result()
    running.cancel()
    return None


if __name__ == "__main__":
    main()
