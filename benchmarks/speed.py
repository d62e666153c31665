"""Measure the speed of single parts, and of other programs that could take their place.

    python -m benchmarks.speed --pairs 93640 --texts FILE... [--rounds 3] [--json]
    python -m benchmarks.speed --import 20000 [--database URL] [--json]
    python -m benchmarks.speed --upkeep 20000 [--json]
    python -m benchmarks.speed --write 50000 [--json]
    python -m benchmarks.speed --batch 100000 [--texts FILE...] [--json]
    python -m benchmarks.speed --alike 3000 [--json]
    python -m benchmarks.speed --start [--json]

`--texts`: JSON Lines; every string under `a`, `b`, `content` or `text` is a sentence. If there are
too few different ones, further texts are made of the first half of one and the second half of
another; the report says how many. WordLlama embeds them before the clock starts.

`--pairs` finds every pair with a cosine of at least 0.90 in several ways. The baseline is the plain
matrix product in tiles of 2,048 rows, with a scan and no check in float64. It is compared with
SemHash, which is approximate (its index of the same vectors, and the query that its deduplication
makes), with FAISS's flat range search, and with the calls that a batch makes: `batch` is the call
by rules alone, and `batch with pages` the one that also finds the 10 nearest of each row. Recall
compares up to 2,000 random rows with all others in float64. SemHash and FAISS
need `pip install semhash faiss-cpu`, and are left out if they are not installed.

The clock runs from the vectors to the pairs. `cpu` is the time of all threads, which is the better
figure if other programs use the machine too. Each figure is the shortest of the rounds; the ways
take turns within a round.

The other options need no texts. They are described in `benchmarks/importing.py`,
`benchmarks/upkeeping.py`, `benchmarks/writing.py` and, for `--batch`, `--alike`
and `--start`, `benchmarks/batching.py`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import batching, importing, upkeeping, writing
from memory.decide import PairSearch, PlanSettings
from memory.models import NEIGHBOURS, Rules, Vectors, VectorTable, scale_of
from memory.providers import WordLlamaEmbedder
from memory.text import has_cjk, normalise, text_key

THRESHOLD = 0.90
UPPER = 0.95
BANDS = (0.98, UPPER, THRESHOLD)
TILE = 2_048
SAMPLE = 2_000

Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""The positions i and j of each pair's vectors, two arrays (n,), with `i < j`."""


@dataclass(frozen=True)
class Way:
    """One way to find pairs from a threshold on, and the module that it needs.

    `find`: a function of n texts and their vectors (n, dim).
    """

    find: Callable[[Sequence[str], Vectors], Found]
    module: str = "numpy"
    threshold: float = THRESHOLD


@dataclass(frozen=True)
class Figure:
    """The shortest times of one way over the rounds, and what it found."""

    name: str
    seconds: float
    cpu: float
    pairs: int
    recall: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--pairs", type=int)
    wanted.add_argument("--import", dest="imported", type=int)
    wanted.add_argument("--upkeep", dest="kept", type=int)
    wanted.add_argument("--write", dest="written", type=int)
    wanted.add_argument("--batch", dest="batched", type=int)
    wanted.add_argument("--alike", type=int)
    wanted.add_argument("--start", dest="started", action="store_true")
    parser.add_argument("--texts", type=Path, nargs="+", default=[])
    parser.add_argument("--database", help="a ledger URL for --import [default: a SQLite file]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.pairs is None:
        print_bulk(args)
        return
    if not args.texts:
        parser.error("--pairs needs --texts")
    texts, real = enough(sentences(args.texts), args.pairs)
    figures = measure(texts, embedded(texts), installed(args.only), args.rounds)
    report = {
        "machine": machine(),
        "rows": len(texts),
        "real_sentences": real,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "pairs": [asdict(figure) for figure in figures],
    }
    print(json.dumps(report, indent=1) if args.json else table(report, figures))


def print_bulk(args: argparse.Namespace) -> None:
    """Run the measurements other than `--pairs`; print a line for each, or JSON."""
    if args.imported is not None:
        found: Sequence[object] = importing.measure(args.imported, args.database)
    elif args.kept is not None:
        found = upkeeping.measure(args.kept)
    elif args.written is not None:
        found = writing.measure_all(args.written)
    elif args.batched is not None:
        texts = enough(sentences(args.texts), args.batched)[0] if args.texts else []
        found = batching.measure(args.batched, texts)
    elif args.alike is not None:
        found = batching.cleaned(args.alike)
    else:
        found = batching.starts()
    if args.json:
        told = {"machine": machine(), "measured": [vars(one) for one in found]}
        print(json.dumps(told, indent=1))
        return
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print(*found, sep="\n")


def sentences(files: Iterable[Path]) -> list[str]:
    """Return all different sentences of the files, normalised as for the embedder."""
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    fields = (json.loads(line).get(key) for line in lines for key in ("a", "b", "content", "text"))
    return list(dict.fromkeys(normalise(text) for text in fields if isinstance(text, str)))


def enough(texts: Sequence[str], wanted: int) -> tuple[list[str], int]:
    """Return `wanted` different texts in random order, and how many of them are real sentences."""
    drawn = random.Random(5)
    kept = dict.fromkeys(drawn.sample(texts, min(wanted, len(texts))))
    real = len(kept)
    while len(kept) < wanted:
        head, tail = drawn.choice(texts).split(), drawn.choice(texts).split()
        kept[" ".join(head[: len(head) // 2 + 1] + tail[len(tail) // 2 :])] = None
    order = list(kept)
    drawn.shuffle(order)
    return order, real


def embedded(texts: Sequence[str]) -> Vectors:
    """Return the vectors (n, dim) of texts, which are embedded in parts to save memory."""
    embedder = WordLlamaEmbedder()
    vectors: Vectors = np.empty((len(texts), 256), np.float32)
    for start in range(0, len(texts), 10_000):
        vectors[start : start + 10_000] = embedder.embed(texts[start : start + 10_000])
    return vectors


def installed(names: Iterable[str]) -> dict[str, Way]:
    chosen = {name: WAYS[name] for name in names}
    return {name: way for name, way in chosen.items() if importlib.util.find_spec(way.module)}


def measure(
    texts: Sequence[str], vectors: Vectors, found_by: dict[str, Way], rounds: int
) -> list[Figure]:
    rows, truth = sample(vectors)
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in found_by}
    results: dict[str, tuple[int, float]] = {}
    for _ in range(rounds):
        for name, way in found_by.items():
            wall, cpu = time.perf_counter(), time.process_time()
            i, j = way.find(texts, vectors)
            took[name].append((time.perf_counter() - wall, time.process_time() - cpu))
            results[name] = len(i), recall(rows, truth, i, j, way.threshold)
    return [
        Figure(name, min(wall for wall, _ in times), min(cpu for _, cpu in times), *results[name])
        for name, times in took.items()
    ]


def sample(vectors: Vectors) -> tuple[npt.NDArray[np.int64], dict[tuple[int, int], float]]:
    """Return the positions of some vectors, and all their pairs with a cosine of 0.90 or more.

    The cosines, by pair (i, j), are computed in float64.
    """
    some = np.sort(np.random.default_rng(6).permutation(len(vectors))[:SAMPLE])
    wide = vectors[some].astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    truth = {}
    for start in range(0, len(vectors), TILE):
        part = vectors[start : start + TILE].astype(np.float64)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
        cosines = np.round(wide @ part.T, 6)
        for a, b in zip(*np.nonzero(cosines >= THRESHOLD), strict=True):
            i, j = int(some[a]), start + int(b)
            if i != j:
                truth[min(i, j), max(i, j)] = float(cosines[a, b])
    return some, truth


def recall(
    rows: npt.NDArray[np.int64],
    truth: dict[tuple[int, int], float],
    i: npt.NDArray[np.int64],
    j: npt.NDArray[np.int64],
    threshold: float,
) -> float:
    """Return the share of the sample's pairs that was found."""
    of_sample = np.isin(i, rows) | np.isin(j, rows)
    found = set(zip(i[of_sample].tolist(), j[of_sample].tolist(), strict=True))
    wanted = {pair for pair, cosine in truth.items() if cosine >= threshold}
    return len(wanted & found) / max(1, len(wanted))


def by_rules(texts: Sequence[str], vectors: Vectors) -> Found:
    return batch(texts, vectors, Rules().lower, PlanSettings(Rules()).neighbours)


def with_pages(texts: Sequence[str], vectors: Vectors) -> Found:
    return batch(texts, vectors, 0.0, NEIGHBOURS)


def batch(texts: Sequence[str], vectors: Vectors, floor: float, neighbours: int) -> Found:
    """Find the pairs of texts as a batch does, with WordLlama's scale."""
    keys, rules = tuple(map(text_key, texts)), Rules()
    table = VectorTable(keys, vectors)
    is_cjk = np.array([has_cjk(text) for text in texts])
    scale = scale_of(WordLlamaEmbedder.fingerprint)
    once = np.ones(len(texts), np.int64)
    search = PairSearch(keys, is_cjk, once, scale, rules.upper, floor, neighbours, BANDS)
    found = search.find(table).upper
    return found.i, found.j


def plain(_texts: Sequence[str], vectors: Vectors) -> Found:
    found = [
        tile_pairs(vectors, row, column)
        for row in range(0, len(vectors), TILE)
        for column in range(row, len(vectors), TILE)
    ]
    return np.concatenate([i for i, _ in found]), np.concatenate([j for _, j in found])


def tile_pairs(vectors: Vectors, row: int, column: int) -> Found:
    products = vectors[row : row + TILE] @ vectors[column : column + TILE].T
    i, j = np.nonzero(products >= THRESHOLD)
    above = i + row < j + column
    return i[above] + row, j[above] + column


def semhash(_texts: Sequence[str], vectors: Vectors) -> Found:
    library: Any = importlib.import_module("semhash")
    names = [str(n) for n in range(len(vectors))]
    index = library.SemHash.from_embeddings(vectors, names, model=None).index
    near = index.query_threshold(index.vectors, threshold=THRESHOLD)
    return once((i, others) for i, (others, _) in enumerate(near))


def faiss_flat(_texts: Sequence[str], vectors: Vectors) -> Found:
    faiss: Any = importlib.import_module("faiss")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    limits, _, others = index.range_search(vectors, THRESHOLD)
    return once((i, others[limits[i] : limits[i + 1]]) for i in range(len(vectors)))


def once(near: Iterable[tuple[int, npt.NDArray[Any]]]) -> Found:
    """Return each pair of a vector and a neighbour of it once.

    `near` has, for each vector, its position and the positions of its neighbours. A vector that is
    named as its own neighbour is left out.
    """
    parts = [(np.full(len(others), i), np.asarray(others, np.int64)) for i, others in near]
    rows = np.concatenate([row for row, _ in parts])
    others = np.concatenate([other for _, other in parts])
    apart = rows != others
    low, high = np.minimum(rows, others)[apart], np.maximum(rows, others)[apart]
    codes = np.unique(low * len(parts) + high)
    return codes // len(parts), codes % len(parts)


WAYS = {
    "batch": Way(by_rules, threshold=UPPER),
    "batch with pages": Way(with_pages, threshold=UPPER),
    "plain product": Way(plain),
    "SemHash": Way(semhash, "semhash"),
    "FAISS flat": Way(faiss_flat, "faiss"),
}


def machine() -> dict[str, Any]:
    names = ("numpy", "wordllama", "semhash", "faiss-cpu")
    modules = {"faiss-cpu": "faiss"}
    there = [name for name in names if importlib.util.find_spec(modules.get(name, name))]
    blas: Any = np.show_config(mode="dicts")
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": sys.version.split()[0],
        "blas": blas["Build Dependencies"]["blas"]["name"],
    } | {name: version(name) for name in there}


def table(report: dict[str, Any], figures: Sequence[Figure]) -> str:
    return "\n".join(lines(report, {figure.name: figure for figure in figures}))


def lines(report: dict[str, Any], figures: dict[str, Figure]) -> Iterator[str]:
    yield ", ".join(f"{key} {value}" for key, value in report["machine"].items())
    yield f"{report['rows']:,} rows, {report['real_sentences']:,} of them real sentences"
    yield f"peak memory {report['peak_mb']:,} MB, embedding and peers included"
    yield ""
    yield "| way | seconds | ratio | CPU seconds | ratio | pairs | recall |"
    yield "|---|---|---|---|---|---|---|"
    base = figures.get("plain product")
    for figure in figures.values():
        ratio = f"{figure.seconds / base.seconds:.2f}" if base else ""
        cpu_ratio = f"{figure.cpu / base.cpu:.2f}" if base else ""
        yield (
            f"| {figure.name} | {figure.seconds:.1f} | {ratio} | {figure.cpu:.1f} | {cpu_ratio}"
            f" | {figure.pairs:,} | {figure.recall:.4f} |"
        )


if __name__ == "__main__":
    main()
