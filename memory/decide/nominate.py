"""Which pairs below the lower threshold are worth a question all the same. Pure.

A mean of word vectors dilutes what two texts have in common in what each says besides: "Mia has
taken up pottery" and "Mia finds that pottery calms her" are far apart by cosine. Here each word
looks for its nearest in the other text. It nominates for the judge alone, never for a replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.models import Memory, SearchResult, Vectors
from memory.text import has_kana_or_han, telling_words

WORDS_COUNT = 0.3
"""The share of the words' overlap in a question's score; the rest is the similarity."""
NOMINATED = 0.73
"""The score from which a pair below the lower threshold is asked about (benchmarks/README.md)."""
FLOOR = (NOMINATED - WORDS_COUNT) / (1.0 - WORDS_COUNT)
"""No pair that is less similar can be nominated, whatever its words."""
_MOST_WORDS = 64
"""Of a longer text only so many are looked at."""
_CHUNK = 512

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Embed = Callable[[Sequence[str]], Vectors]
"""Words to unit vectors (n, dim)."""


class OwnedText(NamedTuple):
    """A text, and the user it is about."""

    text: str
    user: str | None = None


@dataclass(frozen=True)
class Scores:
    """Of each pair, (m,): how alike its words are, 0..1, and how much it is worth asking, 0..1."""

    overlap: Floats
    score: Floats

    @property
    def nominated(self) -> Flags:
        """Which of them are worth a question, even below the lower threshold."""
        return self.score >= NOMINATED


def scores(told: Sequence[OwnedText], i: Ints, j: Ints, similarity: Floats, embed: Embed) -> Scores:
    """The pairs (i[n], j[n]) of texts of one scope, whose similarity is known.

    The score ranks questions: on natural memories it finds more of what is the same than the
    similarity alone. For a new text: itself first, the k nearest after it, `i` all 0.
    """
    overlap = overlaps(told, i, j, embed)
    return Scores(overlap, (1.0 - WORDS_COUNT) * similarity + WORDS_COUNT * overlap)


def overlaps(told: Sequence[OwnedText], i: Ints, j: Ints, embed: Embed) -> Floats:
    """How near, on average, each content word of one text finds one in the other: (m,), 0..1.

    0 where a text has no such word, and where kana or Han stands in either: words of these are not
    judged yet.
    """
    words = [_words(one) for one in told]
    rows = {word: n for n, word in enumerate(sorted({w for some in words for w in some}), start=1)}
    if not rows:
        return np.zeros(len(i))
    vectors = embed(list(rows))
    padded = np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors])
    of_text = _table([[rows[word] for word in some] for some in words])
    chunks = [
        _aligned(padded, of_text[i[start : start + _CHUNK]], of_text[j[start : start + _CHUNK]])
        for start in range(0, len(i), _CHUNK)
    ]
    return np.concatenate(chunks) if chunks else np.zeros(0)


def _words(told: OwnedText) -> tuple[str, ...]:
    if has_kana_or_han(told.text):
        return ()
    return telling_words(told.text, told.user)[:_MOST_WORDS]


def _table(rows: Sequence[Sequence[int]]) -> Ints:
    """One row a text, filled up with 0, which is no word."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for n, some in enumerate(rows):
        table[n, : len(some)] = some
    return table


def _aligned(vectors: Vectors, left: Ints, right: Ints) -> Floats:
    """The mean of both directions; a filled-up place is 0 to everything, and counts as no word."""
    left, right = left[:, : _width(left)], right[:, : _width(right)]
    near = np.matmul(vectors[left], vectors[right].transpose(0, 2, 1)).clip(0.0, 1.0)
    one = near.max(axis=2, initial=0.0).sum(axis=1) / np.maximum((left > 0).sum(axis=1), 1)
    other = near.max(axis=1, initial=0.0).sum(axis=1) / np.maximum((right > 0).sum(axis=1), 1)
    mean: Floats = ((one + other) / 2.0).astype(np.float64)
    return mean


def _width(table: Ints) -> int:
    return int((table > 0).sum(axis=1).max(initial=0))


def nominate(
    new: Memory, matches: Sequence[SearchResult], lower: float, embed: Embed
) -> SearchResult | None:
    """Of the nearest of a new memory, none of them similar enough, the one to ask about, if any."""
    if not matches or matches[0].similarity >= lower:
        return None
    told = [OwnedText(one.content, one.user) for one in (new, *(hit.memory for hit in matches))]
    others = np.arange(1, len(told))
    similarity = np.array([hit.similarity for hit in matches])
    found = scores(told, np.zeros(len(matches), np.int64), others, similarity, embed)
    best = int(np.argmax(found.score))
    return matches[best] if found.nominated[best] else None
