"""The command `memory-dedup`, and its subcommands that maintain a store, try a model or serve."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from memory import agent, assembly, config, models, runtime, upkeep
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
from memory.cli.other_stores import import_, write_back
from memory.cli.shell import (
    EXIT_PROBLEM,
    AsJson,
    ConfigFile,
    Debug,
    cost,
    err,
    grid,
    progress,
    read_config,
    run_shell,
    set_up_logging,
    show,
    show_json,
    table,
    version_option,
)
from memory.errors import InputError, WrongArgument, installed
from memory.text import counted

_HEADINGS = ("cosine", "pairs", "asked", "same", "merge", "apart")
_SWITCH_S = 0.0005
"""A call gives up the interpreter some fifty times, and waits this long for it (default: 5 ms)."""


def reembed(context: typer.Context) -> None:
    """Compute all vectors with the configured embedder.

    If that fails, the old vectors stay.
    """
    with assembly.open_existing_ledger(context.obj) as ledger, progress("embedding") as tell:
        count = upkeep.reembed(ledger, assembly.build_embedder(context.obj), tell)
    err().print(f"{counted(count, 'text')} embedded again")


def try_model(context: typer.Context, as_json: AsJson = False) -> None:
    """Ask the configured model about merges, a page and turns with known answers.

    It costs four calls. No memory is sent, and nothing is stored.
    """
    found = asyncio.run(_tried(context.obj))
    money = context.obj.llm.money(found.usage)
    if as_json:
        show_json({**found.model_dump(), "money": money})
        return
    fit = {True: "good enough", False: "not good enough"}
    rows = [
        ("second readings", fit[found.reads_again]),
        (
            "",
            f"{found.accepted} of 4 wrong merges accepted, {found.refused} of 4 right ones refused",
        ),
        ("pages", fit[found.reads_pages]),
        ("", f"{found.pairs_found} of {found.pairs} pairs found, {found.pairs_wrong} wrong ones"),
        ("extraction", fit[found.extracts]),
        ("", f"{found.facts_found} of {found.facts} facts found, {found.noise} useless memories"),
        *((f"no {part}", why) for part, why in found.failures.items()),
        ("model calls", cost(found.model, found.usage, money)),
        ("time", f"{found.seconds:.1f} s"),
    ]
    show(table(rows))


async def _tried(config: config.Config) -> upkeep.ModelTrial:
    async with aclosing(assembly.build_model(config)) as model:
        return await upkeep.try_model(model)


def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Rebuild what the ledger can rebuild.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the ledger and the index, and name remedies.

    Without --fix it only reads. It can also read an older ledger, or one that it may not write.
    """
    runtime.clear_temporary_folders()
    runtime.clear_abandoned(Path(context.obj.memory.data_dir))
    if fix:
        assembly.read_ledger(context.obj).close()  # an older ledger is for `upgrade`
    with assembly.open_to_examine(context.obj) as (store, limit):
        if limit:
            err().print(f"note: {limit}")
        found = upkeep.examine(store)
        mendable = [finding for finding in found if finding.kind == "mendable"]
        if fix and mendable:
            with progress("mending") as tell:
                upkeep.mend(store, tell)
            err().print(f"mended: {'; '.join(finding.what for finding in mendable)}")
            found = upkeep.examine(store)
        if as_json:
            show_json([asdict(finding) for finding in found])
        for finding in () if as_json else found:
            sys.stdout.write(f"{finding.what}; {finding.remedy}\n")
        if any(finding.kind != "yours" for finding in found):
            raise typer.Exit(EXIT_PROBLEM)
        counts = store.counts()
        err().print(
            f"nothing is damaged: {counted(counts.live, 'memory')} live, "
            f"{counts.retired:,} retired, searched by {store.index.name}"
        )


def backup(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="The new file; {date} in its name becomes today's date.")
    ],
) -> None:
    """Back up the whole ledger to one file.

    Other processes can go on working.
    """
    file = Path(str(file).replace("{date}", f"{datetime.now(UTC):%Y-%m-%d}"))
    with assembly.read_ledger(context.obj) as ledger:
        live = upkeep.back_up(ledger, file)
    err().print(f"backed up {counted(live, 'memory')} to {file}")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
) -> None:
    """Restore a backup.

    The ledger must be damaged or empty.
    """
    live = upkeep.restore(file, context.obj.memory.effective_ledger_url)
    err().print(f"restored {counted(live, 'memory')} from {file}")


def upgrade(context: typer.Context) -> None:
    """Upgrade the ledger of an earlier version.

    It keeps a copy of the old ledger.
    """
    copy = assembly.upgrade_ledger(context.obj)
    if copy is None:
        err().print("the ledger is up to date already")
    else:
        err().print(f"upgraded; the old ledger is kept in {copy}")


# --- calibrate ------------------------------------------------------------------------------------


def calibrate(
    context: typer.Context,
    person: Annotated[
        bool,
        typer.Option(
            "--person", help="Ask you instead of the model: y, m, n, s (skip) or q (quit)."
        ),
    ] = False,
    questions: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="The most pairs to ask about, over all days."),
    ] = 120,
    wanted: Annotated[
        float,
        typer.Option(
            min=0.5, max=1.0, help="The share of unasked replacements that must be right."
        ),
    ] = 0.99,
    from_reviews: Annotated[
        bool,
        typer.Option("--from-reviews", help="Use the answers of reviews and ask nobody."),
    ] = False,
) -> None:
    """Suggest a scale of similarity for this store.

    It asks whether pairs of memories say the same, and changes nothing.
    """
    settings: config.Config = context.obj
    with assembly.read_store(settings) as store:
        pairs = upkeep.pairs_of(store)
        of_reviews, answers = upkeep.reviewed(store) if from_reviews else ([], {})
    pairs = [*(pair for pair in pairs if pair.key not in answers), *of_reviews]
    if not from_reviews:
        answers = _collect_answers(pairs, settings, questions, person=person)
    for title, cjk in (("", False), ("kana or Han in either text", True)):
        if chosen := [pair for pair in pairs if pair.has_cjk is cjk]:
            _show_bands(title, chosen, answers)
    now = settings.memory.scale_for(assembly.build_embedder(settings).fingerprint)
    scale = upkeep.suggest_scale(pairs, answers, now)
    upper = upkeep.suggest_upper(pairs, answers, wanted, guard=settings.memory.dedup_guard)
    sys.stdout.writelines(f"{line}\n" for line in upkeep.lines(scale, upper, wanted))


def _collect_answers(
    pairs: Sequence[upkeep.AlikePair], config: config.Config, questions: int, *, person: bool
) -> dict[str, upkeep.Answer]:
    model = assembly.build_model(config)
    if model.name == models.OFFLINE and not person:
        raise InputError(
            "calibrate",
            "the offline judge only compares words, which cannot fit a threshold",
            "answer yourself with --person, use --from-reviews, or configure a model",
        )
    file = Path(config.memory.data_dir) / "calibration.jsonl"
    log = upkeep.CalibrationLog(file, "person" if person else model.name)
    if person:
        upkeep.ask_person(pairs, log, questions, err().print, sys.stdin.readline)
    else:
        with progress("asking") as tell:
            upkeep.ask_model(pairs, model, log, questions, config.llm.concurrency, tell)
    return log.read()


def _show_bands(
    title: str, pairs: Sequence[upkeep.AlikePair], answers: Mapping[str, upkeep.Answer]
) -> None:
    rows: list[Sequence[str]] = [_HEADINGS]
    for low, high, members in zip(
        upkeep.EDGES, upkeep.EDGES[1:], upkeep.by_band(pairs), strict=False
    ):
        said = upkeep.answers_about(members, answers)
        counts = (len(members), said.total(), *(said[answer] for answer in upkeep.Answer))
        if members:
            rows.insert(1, (f"{low:.2f}-{high:.2f}", *(f"{count:,}" for count in counts)))
    if title:
        show(title)
    show(grid(rows, fixed=5, gap=2, right=range(1, 5)))


# --- serve ----------------------------------------------------------------------------------------


def serve(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Serve only this user's memories.")] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="A folder that gets a Markdown copy of public memories.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve over HTTP, at /mcp, instead of stdio."),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="With --http: a file of lines TOKEN USER [default: MEMORY_AGENT_TOKENS]."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="With --http: a host name that clients use; repeatable."),
    ] = None,
    quiet_scaffolds: Annotated[
        bool,
        typer.Option("--quiet-scaffolds", help="Leave out the questions that end the answers."),
    ] = False,
) -> None:
    """Serve the agent's tools over MCP.

    The client starts this command and talks over stdio, or connects over HTTP.
    """
    if user is not None and not user.strip():
        raise WrongArgument("--user", "is empty", "name the user, or leave it out")
    given = {
        "user": user,
        "workspace_dir": str(workspace.absolute()) if workspace else None,
        "quiet_scaffolds": quiet_scaffolds or None,
    }
    config = _with_agent(context.obj, {key: value for key, value in given.items() if value})
    if config.agent.user is not None:
        config.memory.check_users_apart("serve without --user and agent.user")
    if http is not None:
        _over_http(config, http, tokens, allow_host or [])
    elif tokens is not None or allow_host:
        raise WrongArgument("--tokens, --allow-host", "are for HTTP", "give --http HOST:PORT too")
    else:
        _over_stdio(config)


def _with_agent(config: config.Config, values: Mapping[str, object]) -> config.Config:
    return config.model_copy(update={"agent": config.agent.model_copy(update=values)})


def _over_stdio(config: config.Config) -> None:
    with installed("agent", "memory-dedup serve"):
        make_server = agent.AgentServer

    def opened() -> agent.Opened:
        store = assembly.open_store(config)
        return _opened(store, config, None)

    agent.run_and_exit(make_server(ThreadPoolExecutor(1, "opening").submit(opened)))


def _over_http(config: config.Config, http: str, file: Path | None, names: list[str]) -> None:
    with installed("agent", "memory-dedup serve"):
        make_server = agent.AgentServer
    from memory.config import TOKENS_VARIABLE

    address = runtime.Address.read(http)
    tokens = agent.read_tokens(file) if file is not None else None
    if tokens is None and (lines := os.environ.get(TOKENS_VARIABLE, "")).strip():
        tokens = agent.Tokens.read(TOKENS_VARIABLE, lines)
    _check_http(config, address, tokens, names)
    with address.listen() as listening, assembly.open_store(config) as store:
        opening: Future[agent.Opened] = Future()
        opening.set_result(_opened(store, config, tokens))
        server = make_server(opening)

        def check() -> None:
            with store.ledger.reading() as reader:
                reader.revision()

        err().print(f"serving at http://{address.name}:{listening.getsockname()[1]}/mcp")
        app = agent.token_gate(server.over_http(address, names), tokens, check)
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            asyncio.run(agent.serve_over_http(server, app, listening))
        finally:
            sys.setswitchinterval(before)


def _check_http(
    config: config.Config, address: runtime.Address, tokens: agent.Tokens | None, names: list[str]
) -> None:
    """Check that `serve --http` would show no memories to strangers.

    Without tokens, only this machine may reach the server. With tokens, each client sees the
    memories of one user. The configuration must then set neither `agent.user` nor
    `agent.workspace_dir`, and memories of different users must never be compared. If the server
    listens at all addresses of this machine, `names` must contain the host names that clients use.

    Raises: InputError if there are tokens, but memories of different users may be compared.
    WrongArgument if another condition is not met.
    """
    if tokens is None:
        if not address.is_loopback:
            raise WrongArgument(
                "--http",
                f"others can reach {address.host}, and no token is asked for",
                "give --tokens FILE, or listen on 127.0.0.1",
            )
        return
    if address.is_every and not names:
        raise WrongArgument(
            "--http",
            f"clients cannot call {address.host}",
            "give their name for it with --allow-host",
        )
    if config.agent.user is not None:
        raise WrongArgument("--user", "and tokens both name users", "leave out one of them")
    if config.agent.workspace_dir is not None:
        raise WrongArgument(
            "--workspace", "shows the memories of all users of the tokens", "leave it out"
        )
    config.memory.check_users_apart("use no tokens")


def _opened(
    store: assembly.MemoryStore, config: config.Config, tokens: agent.Tokens | None
) -> agent.Opened:
    """Build a set of tools for each user of `tokens`, or one shared set if `tokens` is None.

    If the configuration names a folder for Markdown copies, first record the folder in the ledger.
    All commands read it there, and so keep the copies up to date.
    """
    workspace = agent.build_workspace(config)
    try:
        if workspace is not None:
            workspace.check()
    except InputError as exc:
        err().print(f"warning: {exc}; until then memories are stored without their entries")
    agent.keep_workspace(config, store.ledger)
    propose = assembly.Proposer(store, config)
    if tokens is None:
        shared = agent.build_tools(store, config, propose=propose)
        return agent.Opened(lambda _user: shared, store.close, propose.aclose)
    own: dict[str | None, agent.AgentTools] = {
        user: agent.build_tools(store, _with_agent(config, {"user": user}), propose=propose)
        for user in tokens.users
    }
    return agent.Opened(own.__getitem__, store.close, propose.aclose)


# --- the command itself ---------------------------------------------------------------------------


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
