"""The command `memory-dedup`: its options, and its subcommands in the order of --help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from memory.cli.cleaning import apply, audit, dedup, retry, review_groups
from memory.cli.importing import import_
from memory.cli.keeping import backup, calibrate, doctor, reembed, restore, upgrade
from memory.cli.memories import export, forget, history, runs, search, show_memory, stats, undo
from memory.cli.serving import serve
from memory.cli.shell import (
    ConfigFile,
    Debug,
    read_config,
    run_shell,
    set_up_logging,
    version_option,
)
from memory.cli.write_back import changes, write_back

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


@app.callback()
def _common(
    context: typer.Context,
    config: ConfigFile = None,
    debug: Debug = False,
    version: Annotated[bool, version_option("memory-dedup")] = False,  # noqa: ARG001 - typer calls back
) -> None:
    set_up_logging(debug)
    context.obj = read_config(config)


_COMMANDS: dict[str, Callable[..., None]] = {
    "import": import_,
    "show": show_memory,
    "export": export,
    "search": search,
    "stats": stats,
    "audit": audit,
    "history": history,
    "calibrate": calibrate,
    "dedup": dedup,
    "undo": undo,
    "runs": runs,
    "retry": retry,
    "forget": forget,
    "reembed": reembed,
    "doctor": doctor,
    "backup": backup,
    "restore": restore,
    "upgrade": upgrade,
    "review": review_groups,
    "apply": apply,
    "changes": changes,
    "write-back": write_back,
    "serve": serve,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
