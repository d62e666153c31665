"""What the command lines share: logging, progress, one line for an error, a clean end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console, RenderableType

from memory.errors import MemoryPipelineError
from memory.signals import terminate_as_interrupt
from memory.text import visible

EXIT_PROBLEM = 1
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


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
    try:
        try:
            main()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be said
    except MemoryPipelineError as exc:
        err().print(f"error: {exc}")
        sys.exit(EXIT_PROBLEM)
    except KeyboardInterrupt:
        err().print("interrupted")
        sys.exit(EXIT_TERMINATED if terminated() else EXIT_INTERRUPTED)
    except SystemExit as exc:  # typer has turned Ctrl-C into its exit code by now
        if exc.code != EXIT_INTERRUPTED:
            raise
        err().print("interrupted: what was decided is kept, the rest is untouched")
        sys.exit(EXIT_TERMINATED if terminated() else EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe had enough; nothing more can be said to it
        _give_up_stdout()
    except OSError as exc:
        err().print(f"error: {exc.filename or 'standard output'}: {exc.strerror or exc}")
        _give_up_stdout()


def _give_up_stdout() -> NoReturn:
    """Python would try once more at its end to write what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_PROBLEM)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, where stderr is a terminal; gives what to call with done and total."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import Progress

    with Progress(console=err(), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
