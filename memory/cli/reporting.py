"""`--report FILE`: what a command tells, as a file to look at."""

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
        "--report", help="Also write a report: .html, .json, .csv or .md by the file's ending."
    ),
]


def check_report(path: Path | None) -> None:
    """Before any work is done. Raises: InputError where it cannot become a report."""
    from memory.review import check_report_name

    if path is not None:
        check_report_name(path)


def how_alike(store: MemoryStore) -> SimilarityHistogram:
    """Every two memories that may be compared, by similarity."""
    from memory.decide import similarity_histogram

    return similarity_histogram(store.snapshot(), store.scope_of, store.scale)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Cards hold no cycles; a search for some would walk over every memory, again and again."""
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            gc.enable()


def report_audit(path: Path, store: MemoryStore, found: Audit, rules: Rules) -> None:
    """Write what would be done about every group. Raises: InputError."""
    from memory.decide import similarity_histogram
    from memory.review import audit_report, cards_of

    with _collector_at_rest():
        alike = similarity_histogram(found.snapshot, store.scope_of, store.scale)
        told = audit_report(found.report, cards_of(found.plan), alike, rules, store.clock())
        _write(path, told)


def report_batch(
    path: Path,
    store: MemoryStore,
    done: DeduplicationReport,
    before: SimilarityHistogram,
    rules: Rules,
) -> None:
    """Write what a run did, decision by decision. Raises: InputError."""
    from memory.review import batch_report, recorded_cards

    with store.ledger.reading() as reader:
        cards = recorded_cards(reader, reader.decisions.of_run(done.run))
    _write(path, batch_report(done, cards, before, rules, store.clock()))


def report_history(
    path: Path, store: MemoryStore, recorded: Sequence[DecisionRecord], rules: Rules
) -> None:
    """Write what was ever decided. Raises: InputError."""
    from memory.review import history_report, recorded_cards

    with store.ledger.reading() as reader:
        cards = recorded_cards(reader, recorded)
    _write(path, history_report(cards, rules, store.clock()))


def _write(path: Path, told: Report) -> None:
    from memory.review import write_report

    write_report(told, path)
    err().print(f"report written to {path}; it holds texts that a later `forget` cannot reach")
