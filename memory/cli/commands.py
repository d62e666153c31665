"""The command `memory-dedup`: its common options, and its commands in the order of --help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory import __version__
from memory.cli.calibrating import calibrate
from memory.cli.importing import import_
from memory.cli.keeping import (
    backup,
    doctor,
    forget,
    reembed,
    restore,
    retry,
    runs,
    undo,
    upgrade,
)
from memory.cli.looking import audit, export, history, search, stats
from memory.cli.serving import serve
from memory.cli.shell import run_shell, set_up_logging, show
from memory.config import load_config

app = typer.Typer(
    name="memory-dedup",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Memories that do not fill up with near-copies: import, search, audit, export.",
)


def main() -> None:
    run_shell(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"memory-dedup {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file [default: ./config.yaml].")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log every decision.")] = False,
    version: Annotated[  # noqa: ARG001 - typer calls back
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    set_up_logging(debug)
    context.obj = load_config(config)


app.command("import")(import_)
for _command in (
    *(export, search, stats, audit, history, calibrate),
    *(undo, runs, retry, forget, reembed, doctor, backup, restore, upgrade),
    serve,
):
    app.command()(_command)
