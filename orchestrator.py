"""The chatbot: builds everything once, runs the batch and, in a version to come, the turn loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from memory import __version__, assembly
from memory.cli import show_audit
from memory.config import Config, load_config
from memory.shell import err, progress, run_shell, set_up_logging, show

app = typer.Typer(
    name="memory-chat",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    run_shell(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"memory-chat {__version__}")
        raise typer.Exit


@app.command()
def chat(
    deduplicate_memories: Annotated[
        bool, typer.Option("--deduplicate-memories", help="Run batch dedup before starting.")
    ] = False,
    dedup_dry_run: Annotated[
        bool,
        typer.Option(
            "--dedup-dry-run", help="Show what would be merged or retired without acting, and exit."
        ),
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file [default: ./config.yaml].")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log every decision.")] = False,
    version: Annotated[  # noqa: ARG001 - typer calls back
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say it.")
    ] = False,
) -> None:
    """A chatbot whose memory does not fill up with near-copies."""
    set_up_logging(debug)
    settings = load_config(config)
    if dedup_dry_run:
        show_audit(settings)
    elif deduplicate_memories:
        deduplicate(settings)
    else:
        err().print("nothing to do: the chat comes in the next version; see --help")


def deduplicate(settings: Config) -> None:
    """Run the batch and print its report."""
    from memory.report import view

    with assembly.open_store(settings) as store, progress("deduplicating") as tell:
        deduplicator = assembly.build_deduplicator(store, settings)
        report = asyncio.run(deduplicator.deduplicate_all(on_progress=tell))
    show(view(report, groups=False))


if __name__ == "__main__":
    main()
