"""Reports: the same figures in every format, and no text that becomes more than text."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import stat
from html import unescape
from pathlib import Path

import pytest

from memory.decide import similarity_histogram
from memory.deduplicator import MemoryDeduplicator
from memory.errors import InputError
from memory.models import Rules
from memory.store import MemoryStore
from memory.upkeep.cards import cards_of, recorded_cards
from memory.upkeep.report import (
    Report,
    audit_report,
    check_report_name,
    history_report,
    write_report,
)
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder

HOSTILE = "</script><!--<img src=x onerror=alert(1)> & \u2028 `[x](javascript:1)` \u202eevil"


def audited(store: MemoryStore, deduplicator: MemoryDeduplicator) -> Report:
    found = asyncio.run(deduplicator.audit())
    alike = similarity_histogram(found.plan.snapshot, store.scope_of, store.scale)
    return audit_report(found.report, cards_of(found.plan), alike, Rules(), START)


@pytest.fixture
def report(store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory) -> Report:
    store.add_batch(
        [
            make_memory("=1+1"),
            make_memory("=1+1"),
            make_memory("Bob works."),
            *[make_memory(HOSTILE)] * 1,
        ]
    )
    store.add_batch([make_memory(HOSTILE)])
    return audited(store, deduplicator)


def written(report: Report, path: Path) -> str:
    write_report(report, path)
    return path.read_text(encoding="utf-8")


def test_the_headline_and_the_figures_say_what_would_be(report: Report) -> None:
    assert report.headline == "2 groups of near-copies among 5 memories"
    assert [(one.value, one.name) for one in report.figures[:3]] == [
        ("3", "kept as they are"),
        ("2", "replaced by one that says as much"),
        ("0", "need a decision"),
    ]


def test_the_page_runs_its_own_scripts_alone_and_no_text_is_markup(
    report: Report, tmp_path: Path
) -> None:
    page = written(report, tmp_path / "audit.html")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert unescape(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert "\u202e" not in page
    markup, _, rest = page.partition('<script type="application/json" id="data">')
    data = rest.partition("</script>")[0]
    assert not set("<>&\u2028\u202e") & set(data)
    texts = {"".join(one["text"]) for card in json.loads(data)["cards"] for one in card["members"]}
    assert texts == {"=1+1", HOSTILE.replace("\u202e", "")}
    assert not re.search(r"\s(style|on\w+)=|https?://", markup)


def test_json_holds_all_that_the_page_shows(report: Report, tmp_path: Path) -> None:
    told = json.loads(written(report, tmp_path / "audit.json"))
    assert Report.model_validate_json(json.dumps(told)) == report
    assert [len(card["members"]) for card in told["cards"]] == [2, 2]


def test_a_spreadsheet_takes_no_text_for_a_formula(report: Report, tmp_path: Path) -> None:
    text = written(report, tmp_path / "audit.csv").removeprefix("\ufeff")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["text"] for row in rows if "1+1" in row["text"]] == ["'=1+1", "'=1+1"]
    assert {row["fate"] for row in rows} == {"keep", "retire"}


def test_markdown_shows_a_text_as_it_is(report: Report, tmp_path: Path) -> None:
    page = written(report, tmp_path / "audit.md")
    assert r"\<img src=x onerror=alert(1)\>" in page
    assert r"\[x\](javascript:1)" in page
    assert "cannot erase them" in page


def test_another_ending_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in none of .html, .json, .csv, .md"):
        check_report_name(tmp_path / "audit.pdf")
    with pytest.raises(InputError, match="folder does not exist"):
        check_report_name(tmp_path / "none" / "audit.html")


def test_only_its_owner_may_read_a_report(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "audit.md")
    assert stat.S_IMODE((tmp_path / "audit.md").stat().st_mode) == 0o600


def test_the_spread_counts_every_pair_that_may_be_compared(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    deduplicator: MemoryDeduplicator,
    make_memory: MakeMemory,
) -> None:
    for text, cosine in (("b", 0.92), ("c", 0.5)):
        embedder.place(text, cosine, to="a")
    store.add_batch(
        [
            make_memory("a"),
            make_memory("b"),
            make_memory("c"),
            make_memory("a", user="Mia"),
            make_memory("a"),
        ]
    )
    spread = audited(store, deduplicator).spread
    assert spread is not None
    assert (spread.pairs, sum(spread.counts), spread.exact) == (6, 6, True)
    assert (spread.counts[39], spread.counts[36], spread.counts[20]) == (1, 2, 2)


def test_a_large_store_is_estimated_from_some_of_its_memories(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add_batch([make_memory(f"{'same' if n % 2 else 'other'}") for n in range(60)])
    found = similarity_histogram(store.snapshot(), store.scope_of, store.scale, most_pairs=600)
    assert not found.exact
    assert found.pairs == 1770
    assert found.counts[39] == pytest.approx(870, rel=0.1)


def test_a_history_tells_who_decided(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory, tmp_path: Path
) -> None:
    store.add_batch([make_memory("Bob works."), make_memory("bob works")])
    asyncio.run(deduplicator.deduplicate_all())
    with store.ledger.reading() as reader:
        cards = recorded_cards(reader, reader.decisions.all_but_additions())
    page = written(history_report(cards, Rules(), START), tmp_path / "history.md")
    assert page.startswith("# 1 decision\n\nNone was taken back.")
    assert "by the rules, without a model." in page
