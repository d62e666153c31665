"""What all commands share: options, output, tables, progress, logging, and exit on errors."""

from __future__ import annotations

import io
import json
import logging
import os
import pydoc
import sys
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memory import __version__, assembly, config, models, upkeep
from memory.errors import MemoryPipelineError, UnnamedFile, WrongArgument
from memory.runtime import terminate_as_interrupt
from memory.text import clean, counted, one_line, shortened, visible

if TYPE_CHECKING:
    from rich.progress import Progress


EXIT_PROBLEM = 1
EXIT_USAGE = 2
_MOST_CHARACTERS = 2_000
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
_FATE_STYLE = {"keep": "green", "retire": "red", "judge": "yellow"}
_INDENTED = (0, 0, 0, 2)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file [default: ./config.yaml].")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Log every decision.")]
MaxCalls = Annotated[
    int | None,
    typer.Option(min=0, help="The most calls to the model [default: memory.dedup_calls_per_run]."),
]


ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        callback=lambda path: path and upkeep.check_report_name(path),  # before the work begins
        help="Write a report; the file's ending says which: .html, .json, .csv or .md.",
    ),
]


def version_option(program: str) -> Any:
    def show_version(wanted: bool) -> None:
        if wanted:
            show(f"{program} {__version__}")
            raise typer.Exit

    return typer.Option(
        "--version", callback=show_version, is_eager=True, help="Show the version and exit."
    )


def show(data: RenderableType, *, paged: bool = False) -> None:
    """Print data on stdout, without invisible characters.

    If stdout is not a terminal, the output is plain text, 80 columns wide. `paged`: at a terminal,
    show output that is longer than the screen in a pager.
    """
    console = Console(highlight=False, emoji=False, markup=False)
    with console.capture() as capture:
        console.print(data)
    shown = visible(capture.get())
    if not console.is_terminal:
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in shown.splitlines())
    elif paged and sys.stdin.isatty():
        os.environ.setdefault("LESS", "FRX")  # colours, and no waiting if all fits on the screen
        pydoc.pager(shown)
    else:
        sys.stdout.write(shown)


def show_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2, default=str) + "\n")


def err() -> Console:
    """Return a console for stderr, where everything that is not data is printed."""
    return Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True)


# --- tables, at most 80 columns wide -------------------------------------------------------------


def grid(
    rows: Iterable[Sequence[str | Text]],
    fixed: int,
    *,
    gap: int = 1,
    right: Container[int] = (),
) -> Table:
    """Return a table for the terminal. Only its last column is wrapped; nothing is cut off.

    `fixed`: the number of columns before the last one. `gap`: the number of spaces between columns.
    `right`: the positions, from 0, of the columns that are aligned right.
    """
    made = Table.grid(padding=(0, gap))
    for column in range(fixed):
        made.add_column(no_wrap=True, justify="right" if column in right else "left")
    made.add_column(overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def table(rows: Iterable[tuple[str, str]]) -> Table:
    return grid(((Text(name), Text(value)) for name, value in rows), fixed=1, gap=2)


def excerpt(text: str) -> str:
    """Return a text whole, or its beginning and its length if it has many pages."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{shortened(text, _MOST_CHARACTERS)} ({len(text):,} characters; see export)"


def members_view(
    title: Text,
    members: Iterable[models.MemberReport | upkeep.CardMember],
    facts: Iterable[tuple[str, str]],
) -> RenderableType:
    """Return a view of a group of memories, or of the memories of a decision.

    Below the title stands an entry for each memory: its fate, date, text and id. A table of the
    `facts`, which are pairs (name, value), comes last.
    """
    rows = [
        (
            Text(f"{member.fate:6}", style=_FATE_STYLE.get(member.fate, "")),
            f"{member.timestamp:%Y-%m-%d}",
            Text.assemble(excerpt(member.content), (f"  {member.id}", "dim")),
        )
        for member in members
    ]
    return Group(title, Padding(grid(rows, fixed=2), _INDENTED), Padding(table(facts), _INDENTED))


def cost(model: str, usage: models.Usage, money: float | None) -> str:
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    paid = "" if money is None else f", {money:,.2f} in all" if money >= 0.01 else ", below 0.01"
    return f"{usage.calls:,} ({model}), {tokens}{paid}"


def event_shown(tell: ProgressCallback) -> Callable[[models.RunEvent], None]:
    """Return a callback that shows with `tell` how far a run over the whole store is."""

    def shown(event: models.RunEvent) -> None:
        counted = {"rules": "groups", "questions": "questions", "pages": "pages"}[event.stage]
        tell(event.done, event.total, counted, _detail(event))

    return shown


def _detail(event: models.RunEvent) -> str:
    usage, left_s = event.usage, event.left_s
    facts = [
        f"{n:,} {what}"
        for n, what in (
            (event.groups, "groups found"),
            (event.readings, "second readings"),
            (event.retries, "asked again"),
            (usage.input_tokens + usage.output_tokens, "tokens"),
        )
        if n
    ]
    if event.money:
        facts.append(f"{event.money:.3f} paid")
    if left_s:
        facts.append(
            f"about {left_s:.0f} s left" if left_s < 90 else f"about {left_s / 60:.0f} min left"
        )
    return ", ".join(facts)


# --- questions, reports and warnings --------------------------------------------------------------


def confirm(yes: bool, question: str, refused: str) -> None:
    """Ask a question on stderr, unless `yes` is true; end the command if the answer is not y.

    Raises: typer.Exit, with status 1, after printing the message `refused`.
    """
    if yes:
        return
    err().print(f"{question} y or n")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        err().print(refused)
        raise typer.Exit(EXIT_PROBLEM)


def read_config(path: Path | None) -> config.Config:
    """Read the configuration; at a terminal, ask once about a file that nobody named.

    Raises: UnnamedFile if there is no terminal; ConfigError.
    """
    while True:
        try:
            return config.load_config(path)
        except UnnamedFile as exc:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            confirm(False, f"{exc.source}: {exc.key} {exc.problem}. Use it, now and later?", "no")
            config.approve(exc.file, exc.target)


def save_report(path: Path, report: upkeep.Report) -> None:
    """Write a report to a file, and print the file's name.

    Raises: InputError if the file cannot be written.
    """
    upkeep.write_report(report, path)
    err().print(f"report written to {path}; `forget` cannot erase the texts in it")


def warn_of_missing_vectors(store: assembly.MemoryStore) -> None:
    with store.ledger.reading() as reader:
        say_missing_vectors(len(reader.vectors.missing_texts()))


def say_missing_vectors(missing: int) -> None:
    if missing:
        err().print(
            f"warning: {counted(missing, 'text')} without a vector: their memories are kept, but "
            "nothing is found near them; run `memory-dedup doctor --fix`"
        )


class OneLineFormatter(logging.Formatter):
    """Formats each message on one line, without characters that a terminal obeys.

    A message may quote a name that somebody else chose.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = one_line(clean(record.message))
        return super().formatMessage(record)


def set_up_logging(debug: bool) -> None:
    """Log warnings to stderr; with `debug`, also everything that this package logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    if debug:
        logging.getLogger("memory").setLevel(logging.DEBUG)


def run_shell(main: Callable[[], None]) -> None:
    """Run a command-line program, and turn its errors into messages and an exit status.

    An error of this package is printed as one line on stderr, without a traceback. SIGTERM ends the
    program as Ctrl-C does, so that open files and connections are closed.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")  # what `export` writes, `import` reads anywhere
    with terminate_as_interrupt() as terminated:
        try:
            try:
                main()
            finally:
                sys.stdout.flush()  # here a full disk can still be reported
        except MemoryPipelineError as exc:
            err().print(f"error: {one_line(clean(str(exc)))}")
            sys.exit(EXIT_USAGE if isinstance(exc, WrongArgument) else EXIT_PROBLEM)
        except (KeyboardInterrupt, SystemExit) as exc:
            message = "interrupted"
            if isinstance(exc, SystemExit):
                if exc.code != EXIT_INTERRUPTED:
                    raise
                # typer has turned Ctrl-C into its exit code, so a command had begun
                message = "interrupted: what was decided is kept, the rest is untouched"
            err().print(message)
            sys.exit(EXIT_TERMINATED if terminated() else EXIT_INTERRUPTED)
        except OSError as exc:
            if not isinstance(exc, BrokenPipeError):  # after that, nobody reads the output
                err().print(f"error: {exc.filename or 'standard output'}: {exc.strerror or exc}")
            # Else Python tries to flush stdout once more, which would fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EXIT_PROBLEM)


class ProgressCallback(Protocol):
    """A function that takes the amount done, the total, and what is counted, such as "page".

    `detail`: further words, which are shown behind the numbers.
    """

    def __call__(self, done: int, total: int, counted: str = "", detail: str = "") -> None: ...


def compared(tell: ProgressCallback) -> Callable[[int, int], None]:
    """Return `tell` with its argument `counted` set to "texts compared"."""
    return partial(tell, counted="texts compared")


@contextmanager
def progress(label: str, every_s: float = 10.0) -> Iterator[ProgressCallback]:
    """Show progress on stderr while the block runs: a bar on a terminal, otherwise lines of text.

    Yield a callback, which any thread may call. If the callback's argument `counted` is not the
    same as in its previous call, the progress starts again from zero. `label`: the name of the
    work, shown with its progress. `every_s`: the seconds between two lines of text.
    """
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    terminal = sys.stderr.isatty()
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err(), transient=True, disable=not terminal)
    task = bar.add_task(label, total=None)
    over = threading.Event()
    thread = threading.Thread(
        target=_print_lines, args=(bar, label, every_s, over), name="progress", daemon=True
    )

    def tell(done: int, total: int, counted: str = "", detail: str = "") -> None:
        fields = bar.tasks[0].fields
        if counted != fields.get("counted"):
            bar.reset(task)
        shown = ", ".join(filter(None, (f"{label} {counted}".strip(), detail)))
        bar.update(
            task, completed=done, total=total, description=shown, counted=counted, detail=detail
        )

    (bar if terminal else thread).start()
    try:
        yield tell
    finally:
        over.set()
        if terminal:
            bar.stop()
        else:
            thread.join()


def _print_lines(bar: Progress, label: str, every_s: float, over: threading.Event) -> None:
    started = time.monotonic()
    task = bar.tasks[0]
    while not over.wait(every_s):
        line = f"{label}: {time.monotonic() - started:.0f} s"
        if task.total is not None:
            counted, detail = (task.fields.get(name, "") for name in ("counted", "detail"))
            line += f", {task.completed:,} of {task.total:,} {counted}".rstrip()
            if detail:
                line += f", {detail}"
            elif task.completed and task.elapsed:
                rate = task.completed / task.elapsed
                line += (
                    f", {rate:,.1f} a second, {(task.total - task.completed) / rate:,.0f} s left"
                )
        err().print(line)
