"""The option `--report FILE`: the plan or the decisions of a command as a file."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory.cli.shell import err

if TYPE_CHECKING:
    from memory.deduplicator import Audit
    from memory.ledger import DecisionRecord
    from memory.models import DeduplicationReport, Rules, SimilarityHistogram
    from memory.review import Report
    from memory.store import MemoryStore

ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", help="Write a report; the file's ending says which: .html, .json, .csv or .md."
    ),
]


def check_report(path: Path | None) -> None:
    """Check the name of a report, before any work is done. Raises: InputError."""
    from memory.review import check_report_name

    if path is not None:
        check_report_name(path)


def how_alike(store: MemoryStore) -> SimilarityHistogram:
    """Count all pairs of memories in one scope, by similarity."""
    from memory.decide import similarity_histogram

    return similarity_histogram(store.snapshot(), store.scope_of, store.scale)


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause garbage collection: cards hold no cycles, and there may be many thousands."""
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            gc.enable()


def report_audit(path: Path, store: MemoryStore, found: Audit, rules: Rules) -> None:
    """Write the plan for every group. Raises: InputError."""
    from memory.decide import similarity_histogram
    from memory.review import audit_report, cards_of

    with _gc_paused():
        alike = similarity_histogram(found.snapshot, store.scope_of, store.scale)
        _write(path, audit_report(found.report, cards_of(found.plan), alike, rules, store.clock()))


def report_batch(
    path: Path,
    store: MemoryStore,
    done: DeduplicationReport,
    before: SimilarityHistogram,
    rules: Rules,
) -> None:
    """Write every decision of a run. Raises: InputError."""
    from memory.review import batch_report, recorded_cards

    with store.ledger.reading() as reader:
        cards = recorded_cards(reader, reader.decisions.of_run(done.run))
    _write(path, batch_report(done, cards, before, rules, store.clock()))


def report_history(
    path: Path, store: MemoryStore, recorded: Sequence[DecisionRecord], rules: Rules
) -> None:
    """Write these decisions. Raises: InputError."""
    from memory.review import history_report, recorded_cards

    with store.ledger.reading() as reader:
        cards = recorded_cards(reader, recorded)
    _write(path, history_report(cards, rules, store.clock()))


def _write(path: Path, report: Report) -> None:
    from memory.review import write_report

    write_report(report, path)
    err().print(f"report written to {path}; `forget` cannot erase the texts in it")
