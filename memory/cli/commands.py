"""The command `memory-dedup`: its options, and its subcommands in the order of --help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from memory.cli.cleaning import apply, audit, clean, retry, review_groups
from memory.cli.memories import (
    conflicts,
    export,
    forget,
    history,
    list_,
    recall,
    remember,
    runs,
    show_memory,
    stats,
    undo,
)
from memory.cli.operating import (
    backup,
    calibrate,
    doctor,
    reembed,
    restore,
    serve,
    try_model,
    upgrade,
)
from memory.cli.other_stores import import_, write_back
from memory.cli.shell import (
    ConfigFile,
    Debug,
    read_config,
    run_shell,
    set_up_logging,
    version_option,
)

app = typer.Typer(
    name="memory-dedup",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Memories that do not fill up with near-copies: remember, recall, audit, clean.",
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


Commands = dict[str, Callable[..., None]]
_COMMANDS: Commands = {
    "remember": remember,
    "recall": recall,
    "list": list_,
    "forget": forget,
    "history": history,
    "undo": undo,
    "show": show_memory,
    "audit": audit,
    "clean": clean,
    "review": review_groups,
    "import": import_,
    "export": export,
    "write-back": write_back,
    "serve": serve,
    "doctor": doctor,
}
_OF_THE_STORE: Commands = {
    "stats": stats,
    "conflicts": conflicts,
    "backup": backup,
    "restore": restore,
    "upgrade": upgrade,
    "reembed": reembed,
    "calibrate": calibrate,
    "try-model": try_model,
}
_ALIASES: Commands = {
    "search": recall,
    "dedup": clean,
    "retry": retry,
    "runs": runs,
    "apply": apply,
    **_OF_THE_STORE,
}
"""Earlier names of commands, and shorter ones; --help does not show them."""

_store = typer.Typer(
    no_args_is_help=True, help="Back up, restore or upgrade the store; try a model."
)
app.add_typer(_store, name="store")
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
for _name, _command in _OF_THE_STORE.items():
    _store.command(_name)(_command)
for _name, _command in _ALIASES.items():
    app.command(_name, hidden=True)(_command)
