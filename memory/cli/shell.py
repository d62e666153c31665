"""What the command lines share: options, logging, progress, one line for an error, a clean end."""

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
from typing import Annotated, Any, NoReturn, Protocol

import typer
from rich.console import Console, RenderableType

from memory import __version__
from memory.errors import MemoryPipelineError, WrongArgument
from memory.runtime import end_quietly, terminate_as_interrupt
from memory.text import visible

EXIT_PROBLEM = 1
EXIT_USAGE = 2
"""As the option parser itself ends where a command line is wrong."""
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
_STILL_S = 10.0
"""How often a pipe or a log hears that something is still under way."""

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file [default: ./config.yaml].")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Log every decision.")]


def version_option(program: str) -> Any:
    """The option that shows the program's version and exits."""

    def show_version(wanted: bool) -> None:
        if wanted:
            show(f"{program} {__version__}")
            raise typer.Exit

    return typer.Option(
        "--version", callback=show_version, is_eager=True, help="Show the version and exit."
    )


def show(data: RenderableType) -> None:
    """Data go to stdout, without what no eye sees; piped, as plain text of 80 columns.

    Nothing ends with space then.
    """
    console = Console(highlight=False, emoji=False, markup=False)
    with console.capture() as capture:
        console.print(data)
    shown = visible(capture.get())
    if console.is_terminal:
        sys.stdout.write(shown)
        return
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in shown.splitlines())


def show_paged(data: RenderableType) -> None:
    """The same, and at a terminal what is longer than the screen through the reader's pager."""
    console = Console(highlight=False, emoji=False, markup=False)
    if not (console.is_terminal and sys.stdin.isatty()):
        show(data)
        return
    with console.capture() as capture:
        console.print(data)
    os.environ.setdefault("LESS", "FRX")  # colours, and no waiting where all fits on the screen
    pydoc.pager(visible(capture.get()))


def show_json(data: Any) -> None:
    """Data for programs, on stdout."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2, default=str) + "\n")


def err() -> Console:
    """All that is not data goes to stderr."""
    return Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True)


def set_up_logging(debug: bool) -> None:
    """Warnings, or with `debug` everything of ours, on stderr."""
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr
    )
    if debug:
        logging.getLogger("memory").setLevel(logging.DEBUG)


def run_shell(main: Callable[[], None]) -> None:
    """Run a command line: an error of ours is one line on stderr, without a traceback.

    SIGTERM ends it as Ctrl-C does: what is open is closed.
    """
    terminated = terminate_as_interrupt()
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")  # what `export` writes, `import` reads anywhere
    try:
        try:
            main()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be said
    except MemoryPipelineError as exc:
        err().print(f"error: {exc}")
        sys.exit(EXIT_USAGE if isinstance(exc, WrongArgument) else EXIT_PROBLEM)
    except KeyboardInterrupt:
        _interrupted("interrupted", terminated=terminated())
    except SystemExit as exc:  # typer has turned Ctrl-C into its exit code by now
        if exc.code != EXIT_INTERRUPTED:
            raise
        told = "interrupted: what was decided is kept, the rest is untouched"
        _interrupted(told, terminated=terminated())
    except BrokenPipeError:  # the reader of a pipe had enough; nothing more can be said to it
        _give_up_stdout()
    except OSError as exc:
        err().print(f"error: {exc.filename or 'standard output'}: {exc.strerror or exc}")
        _give_up_stdout()
    finally:
        end_quietly()


def _interrupted(told: str, *, terminated: bool) -> NoReturn:
    end_quietly()
    err().print(told)
    sys.exit(EXIT_TERMINATED if terminated else EXIT_INTERRUPTED)


def _give_up_stdout() -> NoReturn:
    """Python would try once more at its end to write what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_PROBLEM)


class Tell(Protocol):
    """Called with how much is done, of how much, and what is counted where that is not plain."""

    def __call__(self, done: int, total: int, counted: str = "") -> None: ...


def compared(tell: Tell) -> Callable[[int, int], None]:
    """What to call while pairs are looked for."""
    return partial(tell, counted="texts compared")


@contextmanager
def progress(label: str, every_s: float = _STILL_S) -> Iterator[Tell]:
    """How far it is, on stderr: a bar on a terminal, else a line every ten seconds.

    Gives what to call, from any thread, with done and total; what is counted otherwise begins anew.
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
            told = f"{label} {counted}".strip()
            if told != bar.tasks[0].description:
                bar.reset(task, description=told)
            bar.update(task, completed=done, total=total)

        yield show


@contextmanager
def _lines_of_progress(label: str, every_s: float) -> Iterator[Tell]:
    """From a thread of its own: what takes long may be a step that tells nothing."""
    over = threading.Event()
    started = begun = time.monotonic()
    what: str | None = None
    said = ""

    def tell(done: int, total: int, counted: str = "") -> None:
        nonlocal said, begun, what
        if counted != what:
            begun, what = time.monotonic(), counted
        so_far = f"{done:,} of {total:,} {counted}".rstrip()
        said = f", {so_far}{_pace(done, total, time.monotonic() - begun)}"

    def say_it_goes_on() -> None:
        while not over.wait(every_s):
            err().print(f"{label}: {time.monotonic() - started:.0f} s{said}")

    thread = threading.Thread(target=say_it_goes_on, name="progress", daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()


def _pace(done: int, total: int, seconds: float) -> str:
    """How many a second, and how long the rest will take at that."""
    if not done or seconds <= 0.0:
        return ""
    rate = done / seconds
    return f", {rate:,.1f} a second, {(total - done) / rate:,.0f} s left"
