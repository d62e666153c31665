"""What all commands share: common options, output, progress, logging, and exit on errors."""

from __future__ import annotations

import io
import json
import logging
import os
import pydoc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich.console import Console, RenderableType

from memory import __version__, review
from memory.errors import MemoryPipelineError, WrongArgument
from memory.runtime import end_quietly, terminate_as_interrupt
from memory.text import visible

if TYPE_CHECKING:
    from memory.store import MemoryStore

EXIT_PROBLEM = 1
EXIT_USAGE = 2
"""The exit status for a wrong command line, the same as the option parser's."""
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file [default: ./config.yaml].")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Log every decision.")]
MaxCalls = Annotated[
    int | None,
    typer.Option(min=0, help="The most calls of the model [default: memory.dedup_calls_per_run]."),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", help="Write a report; the file's ending says which: .html, .json, .csv or .md."
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

    If stdout is not a terminal, the output is plain text, 80 columns wide. `paged`: whether to use
    a pager if stdout is a terminal and the output is longer than the screen.
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
    """Return a console that prints on stderr, for everything that is not data."""
    return Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True)


def confirm(yes: bool, question: str, refused: str) -> None:
    """Ask a question on stderr, and return if the answer is y; otherwise print `refused` and exit.

    `yes`: if true, return without asking.

    Raises: typer.Exit, with status 1, if the answer is not y.
    """
    if yes:
        return
    err().print(f"{question} y or n")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        err().print(refused)
        raise typer.Exit(EXIT_PROBLEM)


def check_report(path: Path | None) -> None:
    """Check whether a report can be written to `path`, before the work begins.

    None means that no report is wanted.

    Raises: InputError if the file's extension is not known or its folder does not exist.
    """
    if path is not None:
        review.check_report_name(path)


def save_report(path: Path, report: review.Report) -> None:
    """Write a report to a file, and print the file's name.

    Raises: InputError if the file cannot be written.
    """
    review.write_report(report, path)
    err().print(f"report written to {path}; `forget` cannot erase the texts in it")


def warn_of_missing_vectors(store: MemoryStore) -> None:
    """Print a warning if texts have no vector, because searches do not find their memories."""
    with store.ledger.reading() as reader:
        say_missing_vectors(len(reader.vectors.missing_texts()))


def say_missing_vectors(missing: int) -> None:
    if missing:
        err().print(
            f"warning: {missing:,} texts have no vector: their memories are kept, but nothing is "
            "found near them; run `memory-dedup doctor --fix`"
        )


def set_up_logging(debug: bool) -> None:
    """Log warnings to stderr; with `debug`, also everything that this package logs."""
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr
    )
    if debug:
        logging.getLogger("memory").setLevel(logging.DEBUG)


def run_shell(main: Callable[[], None]) -> None:
    """Run `main`, a command-line program, and turn its errors into messages and an exit status.

    An error of this package is printed as one line on stderr, without a traceback. SIGTERM ends the
    program as Ctrl-C does, so that open files and connections are closed.
    """
    terminated = terminate_as_interrupt()
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")  # what `export` writes, `import` reads anywhere
    try:
        try:
            main()
        finally:
            sys.stdout.flush()  # here a full disk can still be reported
    except MemoryPipelineError as exc:
        err().print(f"error: {exc}")
        sys.exit(EXIT_USAGE if isinstance(exc, WrongArgument) else EXIT_PROBLEM)
    except (KeyboardInterrupt, SystemExit) as exc:
        message = "interrupted"
        if isinstance(exc, SystemExit):
            if exc.code != EXIT_INTERRUPTED:
                raise
            # typer has turned Ctrl-C into its exit code, so a command had begun
            message = "interrupted: what was decided is kept, the rest is untouched"
        end_quietly()
        err().print(message)
        sys.exit(EXIT_TERMINATED if terminated() else EXIT_INTERRUPTED)
    except OSError as exc:
        if not isinstance(exc, BrokenPipeError):  # then nobody reads the pipe any more
            err().print(f"error: {exc.filename or 'standard output'}: {exc.strerror or exc}")
        # Else Python tries to flush stdout once more, which would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PROBLEM)
    finally:
        end_quietly()


class ProgressCallback(Protocol):
    """A function that is called with the amount done and the total.

    `counted` is the name of what is counted, such as "texts compared"; "" if it needs no name.
    """

    def __call__(self, done: int, total: int, counted: str = "") -> None: ...


def compared(tell: ProgressCallback) -> Callable[[int, int], None]:
    """Return a function that reports the progress of the search for pairs to `tell`.

    The returned function takes the number of texts compared and the number of all texts.
    """
    return partial(tell, counted="texts compared")


@contextmanager
def progress(label: str, every_s: float = 10.0) -> Iterator[ProgressCallback]:
    """Show progress on stderr while the block runs: a bar on a terminal, otherwise lines of text.

    Yield a callback that any thread may call, with the number of things done, the number of all,
    and their name (`counted`). With another name, the bar starts again from zero. `label`: the name
    of the work. `every_s`: the seconds between two lines of text.
    """
    if not sys.stderr.isatty():
        with _lines_of_progress(label, every_s) as tell:
            yield tell
        return
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def show(done: int, total: int, counted: str = "") -> None:
            description = f"{label} {counted}".strip()
            if description != bar.tasks[0].description:
                bar.reset(task, description=description)
            bar.update(task, completed=done, total=total)

        yield show


@contextmanager
def _lines_of_progress(label: str, every_s: float) -> Iterator[ProgressCallback]:
    """Print a line of progress every `every_s` seconds while the block runs.

    Yield the progress callback. A thread prints the lines, so that they also appear during a long
    step that does not call the callback. `label`: the name of the work, which begins each line.
    """
    over = threading.Event()
    started = begun = time.monotonic()
    last_counted: str | None = None
    so_far = ""

    def tell(done: int, total: int, counted: str = "") -> None:
        nonlocal so_far, begun, last_counted
        if counted != last_counted:
            begun, last_counted = time.monotonic(), counted
        so_far = f", {f'{done:,} of {total:,} {counted}'.rstrip()}"
        seconds = time.monotonic() - begun
        if done and seconds > 0.0:
            rate = done / seconds
            so_far += f", {rate:,.1f} a second, {(total - done) / rate:,.0f} s left"

    def print_lines() -> None:
        while not over.wait(every_s):
            err().print(f"{label}: {time.monotonic() - started:.0f} s{so_far}")

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()
