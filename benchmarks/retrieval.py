"""Compare embedders by the questions that they cost: do the pairs worth merging come first?

    python -m benchmarks.retrieval --natural FILE --memories FILE [--json]
    python -m benchmarks.retrieval --sentences FILE [--language ja] [--json]

`--memories`: JSON Lines with `user` and `content`. `--natural`: some pairs of memories of one user,
`a` and `b`, with a `label`: same, merge, apart. Every pair of one user's memories is a question,
labelled or not; questions with the highest score come first. Printed is which share of the pairs
labelled `same`, and of those labelled `same` or `merge`, is among the first q questions per memory.
It is also printed for two halves of the pairs, drawn by the hash of their texts, and for all pairs
from similarity 0.90 on. MiniLM is left out if the package of `benchmarks/minilm.py` is not
installed.

`--sentences`: JSON Lines with `a`, `b`, `lang`. 3,000 sentences of one language, drawn by their
hashes, are in one store; printed is how many questions they cost per sentence.
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
from memory.decide import candidate_pairs
from memory.models import COMPARED, LOWER, NEAR_COPY, Embedder, Scale, cosines_of, scale_of
from memory.providers import WordLlamaEmbedder
from memory.text import has_cjk, normalise

QUESTIONS_EACH = (0.05, 0.1, 0.2, 0.5)
SENTENCES = 3_000
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pool:
    """All pairs of memories of one user each, and the labels of some of them."""

    told: Sequence[str]
    i: Ints
    j: Ints
    labels: Mapping[int, str]
    """The known labels, by the position of the pair."""
    half: Flags
    """For each pair (n,), whether the hash of its two texts puts it into the second half."""


@dataclass(frozen=True)
class Found:
    """What the first questions of a ranking find; `by` names the ranking."""

    by: str
    questions_each: float
    same: float
    same_or_merge: float
    same_by_half: tuple[float, float]
    same_or_merge_by_half: tuple[float, float]


@dataclass(frozen=True)
class Asked:
    """The questions that the sentences of one language in one store cost."""

    embedder: str
    language: str
    sentences: int
    pairs_each: float
    """The number of pairs between the two thresholds, per sentence."""
    nearest_each: float
    """The number of such pairs in which one is among the nearest of the other, per sentence."""
    asked_one_by_one: float
    """The share of sentences that cause a question if they are written one by one.

    That is so if the pair with the nearest earlier sentence lies between the thresholds.
    """


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
    """Yield what the first questions of each embedder's ranking find.

    The last figures of an embedder are those of all pairs from the lower threshold on.
    """
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
    cosines = cosines_of(vectors[pool.i], vectors[pool.j])
    return scale_of(embedder.fingerprint).similarities(cosines, strict[pool.i] | strict[pool.j])


def _least(ranking: Floats, questions_each: float, memories: int) -> float:
    """Return the score of the last question that is asked, with `questions_each` per memory."""
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
    """Count the questions about one language's sentences: pairs between the two thresholds.

    From the upper threshold on, the guard decides most pairs without a question.
    """
    drawn = drawn_sentences(rows, language)
    embedder = WordLlamaEmbedder()
    scale = scale_of(embedder.fingerprint)
    asked = _questions(drawn, embedder, scale)
    ranks = np.minimum(_ranks(asked.i, asked.j), _ranks(asked.j, asked.i))
    return Asked(
        embedder="wordllama",
        language=language,
        sentences=len(drawn),
        pairs_each=round(len(asked.i) / len(drawn), 3),
        nearest_each=round(float((ranks < COMPARED).sum()) / len(drawn), 3),
        asked_one_by_one=round(len(set(asked.j.tolist())) / len(drawn), 3),
    )


def drawn_sentences(rows: Sequence[Row], language: str) -> list[str]:
    """Return up to `SENTENCES` different sentences of a language, drawn by their hashes."""
    texts = {normalise(row[side]) for row in rows if row["lang"] == language for side in ("a", "b")}
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:SENTENCES]


@dataclass(frozen=True)
class Questions:
    """The pairs that would be asked about, as positions of two texts, the most similar first."""

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
    """Return, for each question n, how many earlier questions have the text `of[n]` on either side.

    Question n is about the texts `of[n]` and `to[n]`. All arrays have shape (n,).
    """
    seen: dict[int, int] = defaultdict(int)
    ranks = np.empty(len(of), np.int64)
    for n, (one, other) in enumerate(zip(of.tolist(), to.tolist(), strict=True)):
        ranks[n] = seen[one]
        seen[one] += 1
        seen[other] += 1
    return ranks


if __name__ == "__main__":
    main()
