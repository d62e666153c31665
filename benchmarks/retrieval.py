"""Which pairs reach the judge first: embedders and ideas compared by the questions they cost.

    python -m benchmarks.retrieval --natural FILE --memories FILE [--json]
    python -m benchmarks.retrieval --sentences FILE [--language ja] [--json]

`--memories`: JSON Lines with `user` and `content`. `--natural`: some of the pairs of one user, `a`
and `b`, with a `label`: same, merge, apart. A question is any pair of one user in the whole of the
memories, labelled or not, the highest score first; printed is the share of `same`, and of `same`
and `merge`, among the first q questions per memory; then the same by half, drawn by the hash of the
two texts. Then every pair from 0.90 on its embedder's scale. MiniLM is left out where the package
of `benchmarks/minilm.py` is not installed.

`--sentences`: JSON Lines with `a`, `b`, `lang`: 3,000 sentences of one language in one store, drawn
by their hashes, and how many questions a sentence they cost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.minilm import embedders
from benchmarks.rows import Row, print_table, read_rows
from memory.config import MemoryConfig
from memory.models import LOWER, NEAR_COPY, Scale, scale_of
from memory.protocols import Embedder
from memory.providers import WordLlamaEmbedder
from memory.search import candidate_pairs, similarities
from memory.text import has_cjk, normalise

QUESTIONS_EACH = (0.05, 0.1, 0.2, 0.5)
SENTENCES = 3_000
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pool:
    """All pairs of one user, and what is known of some of them."""

    told: Sequence[str]
    i: Ints
    j: Ints
    labels: Mapping[int, str]
    """By the pair's place."""
    half: Flags
    """Of each pair whether it is of the second half, by the hash of its two texts."""


@dataclass(frozen=True)
class Found:
    """What the first questions of one ranking find."""

    by: str
    questions_each: float
    same: float
    same_or_merge: float
    same_by_half: tuple[float, float]
    same_or_merge_by_half: tuple[float, float]


@dataclass(frozen=True)
class Asked:
    """What the sentences of one language in one store cost."""

    embedder: str
    language: str
    sentences: int
    pairs_each: float
    """Pairs between the thresholds, for each sentence."""
    nearest_each: float
    """Those among the nearest of one of the two."""
    asked_one_by_one: float
    """The share of sentences whose nearest earlier one is a question: at write time one each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--natural", type=Path)
    parser.add_argument("--memories", type=Path)
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--language", default="ja")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results: list[Found | Asked] = []
    if args.natural and args.memories:
        results += natural(read_rows(args.memories), read_rows(args.natural))
    if args.sentences:
        results.append(crowd(read_rows(args.sentences), args.language))
    if args.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        for kind in (Found, Asked):
            print()
            print_table([asdict(one) for one in results if isinstance(one, kind)])


# --- natural pairs --------------------------------------------------------------------------------


def natural(memories: Sequence[Row], pairs: Sequence[Row]) -> Iterator[Found]:
    """Each embedder's ranking, and what is at or above the lower threshold."""
    pool = pool_of(memories, pairs)
    for name, embedder in embedders().items():
        alike = _alike(pool, embedder)
        for share in QUESTIONS_EACH:
            yield found(pool, name, alike >= _least(alike, share, len(pool.told)))
        yield found(pool, f"{name}: asked", alike >= LOWER)


def pool_of(memories: Sequence[Row], pairs: Sequence[Row]) -> Pool:
    by_user: dict[str, list[int]] = defaultdict(list)
    place: dict[tuple[str, str], int] = {}
    for n, row in enumerate(memories):
        by_user[row["user"]].append(n)
        place.setdefault((row["user"], normalise(row["content"])), n)
    corners = [np.array(some)[np.array(np.triu_indices(len(some), 1))] for some in by_user.values()]
    i, j = np.concatenate(corners, axis=1)
    at = {pair: n for n, pair in enumerate(zip(i.tolist(), j.tolist(), strict=True))}
    labels = {}
    for row in pairs:
        ends = sorted(place[row["user"], normalise(row[side])] for side in ("a", "b"))
        labels[at[ends[0], ends[1]]] = str(row["label"])
    told = [row["content"] for row in memories]
    lots = [in_second_half(told[a], told[b]) for a, b in at]
    return Pool(told, i, j, labels, np.array(lots))


def in_second_half(a: str, b: str) -> bool:
    return hashlib.sha256(" ".join(sorted((a, b))).encode()).digest()[0] >= 128


def _alike(pool: Pool, embedder: Embedder) -> Floats:
    vectors = embedder.embed([normalise(text) for text in pool.told])
    strict = np.array([has_cjk(text) for text in pool.told])
    cosines = similarities(vectors[pool.i], vectors[pool.j])
    return scale_of(embedder.fingerprint).similarities(cosines, strict[pool.i] | strict[pool.j])


def _least(ranking: Floats, questions_each: float, memories: int) -> float:
    """The score of the last question that is still asked."""
    return float(np.sort(ranking)[-max(1, int(questions_each * memories))])


def found(pool: Pool, by: str, asked: Flags) -> Found:
    return Found(
        by=by,
        questions_each=round(float(asked.sum()) / len(pool.told), 3),
        same=_share(pool, asked, {"same"}),
        same_or_merge=_share(pool, asked, {"same", "merge"}),
        same_by_half=_halves(pool, asked, {"same"}),
        same_or_merge_by_half=_halves(pool, asked, {"same", "merge"}),
    )


def _halves(pool: Pool, asked: Flags, wanted: set[str]) -> tuple[float, float]:
    first, second = (_share(pool, asked, wanted, second=half) for half in (False, True))
    return first, second


def _share(pool: Pool, asked: Flags, wanted: set[str], second: bool | None = None) -> float:
    places = [
        place
        for place, label in pool.labels.items()
        if label in wanted and second in (None, pool.half[place])
    ]
    return round(float(asked[places].mean()), 3) if places else 0.0


# --- one language in one store --------------------------------------------------------------------


def crowd(rows: Sequence[Row], language: str) -> Asked:
    """Between the thresholds: from the upper one on the guard decides, and the judge seldom."""
    drawn = drawn_sentences(rows, language)
    embedder = WordLlamaEmbedder()
    scale = scale_of(embedder.fingerprint)
    asked = _questions(drawn, embedder, scale)
    nearest = MemoryConfig().dedup_candidates
    ranks = np.minimum(_ranks(asked.i, asked.j), _ranks(asked.j, asked.i))
    return Asked(
        embedder="wordllama",
        language=language,
        sentences=len(drawn),
        pairs_each=round(len(asked.i) / len(drawn), 3),
        nearest_each=round(float((ranks < nearest).sum()) / len(drawn), 3),
        asked_one_by_one=round(len(set(asked.j.tolist())) / len(drawn), 3),
    )


def drawn_sentences(rows: Sequence[Row], language: str) -> list[str]:
    """Some of a language's sentences, by their hashes."""
    texts = {normalise(row[side]) for row in rows if row["lang"] == language for side in ("a", "b")}
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:SENTENCES]


@dataclass(frozen=True)
class Questions:
    """Pairs that would be asked about, `i < j`, the most similar first."""

    i: Ints
    j: Ints


def _questions(texts: Sequence[str], embedder: Embedder, scale: Scale) -> Questions:
    least = scale.cosine(LOWER)
    found = candidate_pairs(embedder.embed(texts), least, 0, least).upper
    strict = np.array([has_cjk(text) for text in texts])
    alike = scale.similarities(found.similarity, strict[found.i] | strict[found.j])
    order = np.argsort(-alike, kind="stable")
    order = order[((alike >= LOWER) & (alike < NEAR_COPY))[order]]
    return Questions(found.i[order], found.j[order])


def _ranks(of: Ints, to: Ints) -> Ints:
    """The how-manieth question of `of[n]` the n-th one is, in either place."""
    seen: dict[int, int] = defaultdict(int)
    ranks = np.empty(len(of), np.int64)
    for n, (one, other) in enumerate(zip(of.tolist(), to.tolist(), strict=True)):
        ranks[n] = seen[one]
        seen[one] += 1
        seen[other] += 1
    return ranks


if __name__ == "__main__":
    main()
