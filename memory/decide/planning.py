"""One round over a snapshot of a store: exact pairs, groups, what the policy plans for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.decide.groups import cohesive, connected
from memory.decide.nominate import FLOOR, Embed, OwnedText, scores
from memory.decide.policy import GroupPlan, nomination, plan_group
from memory.index import (
    Pairs,
    candidate_pairs,
    chosen,
    joined,
    similarities,
    similarity,
    slack,
)
from memory.ledger import Row, Snapshot
from memory.models import (
    COPIES_FROM,
    PLAIN,
    JustBelow,
    Memory,
    Rules,
    Scale,
    Scope,
    SearchResult,
    Vector,
)
from memory.text import has_kana_or_han

Floats = npt.NDArray[np.float64]
BANDS = (0.98, 0.95, 0.90)
"""The similarities at which the audit counts pairs."""


@dataclass(frozen=True)
class Matching:
    """How pairs of texts are found."""

    scale: Scale = PLAIN
    neighbours: int = 5
    """Below `upper`, of each text only so many of its nearest are compared with it."""
    words: Embed | None = None
    """Embeds single words, where these may nominate pairs below `lower` for the judge."""
    just_below: float = 0.0
    """How far below `lower` pairs are counted, for an audit; 0 counts none."""

    @property
    def floor(self) -> float:
        """The similarity below which no pair is looked at, however low the thresholds are."""
        return 1.0 if self.words is None else FLOOR


@dataclass(frozen=True)
class RoundPlan:
    """What a round would do, and what it saw."""

    groups: tuple[GroupPlan, ...]
    similarity: Callable[[Memory, Memory], float]
    memories: int
    pairs: dict[str, int]
    revision: int
    waiting: int = 0
    """Pairs that a model failed at and that are not asked about now."""
    just_below: JustBelow | None = None


def plan_round(
    snapshot: Snapshot,
    rules: Rules,
    scope_of: Callable[[Memory], Scope],
    matching: Matching | None = None,
) -> RoundPlan:
    """The groups of one round, oldest first, and the number of pairs in each band.

    Inside each scope, among texts (rows of the same text are one node): every pair at or above
    `upper`, and below it of each text its nearest at or above `lower`; union-find; cohesion: every
    two members of a group are at or above `lower`, and so is every text that a member was
    synthesised from. Why: whoever survives then is close to every memory that it stands for, and no
    memory is merged because a third one is like both. A pair that was split is split again after
    its neighbours have merged, since their ancestors still count. Which groups they are depends on
    the texts alone, not on the order in which they came in. Pairs that words nominate follow, each
    by itself, where no group has one of the two: below `lower`, or split.
    """
    matching = matching or Matching()
    order = {row.memory.id: place for place, row in enumerate(snapshot.rows)}
    bands: Counter[float] = Counter()
    groups: list[list[Row]] = []
    nominated: list[_Nominated] = []
    similarity = _Similarities(snapshot, matching.scale)
    for scope, nodes in _scopes(snapshot.rows, scope_of).items():
        found = _Scope(scope, nodes, snapshot, matching, rules)
        bands.update(found.bands)
        groups += found.groups(similarity)
        nominated += found.nominated()
    groups = [sorted(group, key=lambda row: order[row.memory.id]) for group in groups]
    groups.sort(key=lambda group: order[group[0].memory.id])
    plans = [
        similarity.with_cosine(plan_group([row.memory for row in group], similarity.of, rules))
        for group in groups
    ]
    plans += _singly(nominated, {row.memory.id for group in groups for row in group}, order)
    return RoundPlan(
        tuple(plans),
        similarity.of,
        len(snapshot.rows),
        {f"{band:.2f}": bands[band] for band in BANDS},
        snapshot.revision,
        snapshot.waiting,
        _just_below(bands, rules.lower, matching.just_below),
    )


def plan_again(snapshot: Snapshot, rules: Rules, scale: Scale = PLAIN) -> RoundPlan:
    """The plan of one group: of all the memories in a snapshot, however alike they are."""
    similarity = _Similarities(snapshot, scale)
    members = [row.memory for row in snapshot.rows]
    plan = similarity.with_cosine(plan_group(members, similarity.of, rules))
    return RoundPlan((plan,), similarity.of, len(members), {}, snapshot.revision)


def _just_below(bands: Counter[float], lower: float, reach: float) -> JustBelow | None:
    """What a threshold that much lower would find besides."""
    if reach <= 0.0:
        return None
    low = _lowered(lower, reach)
    return JustBelow(low=low, high=lower, pairs=bands[low] - bands[lower])


def _lowered(threshold: float, reach: float) -> float:
    return max(0.0, round(threshold - reach, 6))


class NearCopies(NamedTuple):
    """Two live memories of one scope, and how alike their texts are."""

    older: Memory
    newer: Memory
    similarity: float


def near_copies(
    snapshot: Snapshot,
    names: Collection[str],
    scope_of: Callable[[Memory], Scope],
    min_similarity: float,
    scale: Scale = PLAIN,
) -> list[NearCopies]:
    """Every pair at or above the similarity in which one of these memories is, most similar first.

    Pairs that are known to be distinct are left out.
    """
    order = {row.memory.id: place for place, row in enumerate(snapshot.rows)}
    found: dict[tuple[str, str], NearCopies] = {}
    for scope, nodes in _scopes(snapshot.rows, scope_of).items():
        rows = [row for same in nodes.values() for row in same if row.text_key in snapshot.vectors]
        asked = [row for row in rows if row.memory.id in names]
        for row, other, score in _alike(asked, rows, snapshot.vectors, min_similarity, scale):
            keys = sorted((row.text_key, other.text_key))
            if (scope.key, *keys) not in snapshot.distinct:
                pair = sorted((row.memory, other.memory), key=lambda one: order[one.id])
                found[pair[0].id, pair[1].id] = NearCopies(pair[0], pair[1], score)
    return sorted(found.values(), key=lambda pair: -pair.similarity)


def _alike(
    asked: Sequence[Row],
    rows: Sequence[Row],
    vectors: Mapping[str, Vector],
    min_similarity: float,
    scale: Scale,
) -> Iterator[tuple[Row, Row, float]]:
    """Each of the asked rows with every other row that is similar enough."""
    if not asked:
        return
    matrix = np.stack([vectors[row.text_key] for row in rows])
    strict = np.array([has_kana_or_han(row.memory.content) for row in rows], np.bool_)
    min_cosine = scale.cosine(min_similarity) - slack(matrix.shape[1])
    for row in asked:
        vector = vectors[row.text_key]
        near = np.flatnonzero(matrix @ vector >= min_cosine)
        cosines = similarities(matrix[near], np.broadcast_to(vector, (len(near), len(vector))))
        own = has_kana_or_han(row.memory.content)
        found = scale.similarities(cosines, strict[near] | own)
        for place, score in zip(near.tolist(), found.tolist(), strict=True):
            if score >= min_similarity and rows[place] is not row:
                yield row, rows[place], score


_Nodes = dict[str, list[Row]]
"""The rows of each normalised text in one scope, oldest first, by text key."""


class _Nominated(NamedTuple):
    """Two rows below `lower` whose words are alike."""

    score: float
    a: Row
    b: Row
    similarity: float
    cosine: float


def _scopes(rows: Iterable[Row], scope_of: Callable[[Memory], Scope]) -> dict[Scope, _Nodes]:
    scopes: dict[Scope, _Nodes] = {}
    for row in rows:
        nodes = scopes.setdefault(scope_of(row.memory), {})
        nodes.setdefault(row.text_key, []).append(row)
    return scopes


class _Similarities:
    """How alike any two live memories of a snapshot are, from their vectors."""

    def __init__(self, snapshot: Snapshot, scale: Scale) -> None:
        self._vectors = snapshot.vectors
        self._keys = {row.memory.id: row.text_key for row in snapshot.rows}
        self._scale = scale

    def of(self, a: Memory, b: Memory) -> float:
        """On the scale; 1 for the same text, 0 where one has no vector."""
        if self._keys[a.id] == self._keys[b.id]:
            return 1.0
        cosine = self._cosine(a, b)
        return 0.0 if cosine is None else self._scale.similarity(cosine, a.content, b.content)

    def with_cosine(self, plan: GroupPlan) -> GroupPlan:
        """The plan, its question with the least cosine, and which of its members are copies."""
        if plan.question is None:
            return plan
        pairs = combinations(enumerate(plan.question.members), 2)
        cosines = {
            (n, m): cosine for (n, a), (m, b) in pairs if (cosine := self._cosine(a, b)) is not None
        }
        question = replace(
            plan.question,
            cosine=min(cosines.values(), default=None),
            copies=frozenset(pair for pair, cosine in cosines.items() if cosine >= COPIES_FROM),
        )
        return replace(plan, question=question)

    def lineage_is_close(
        self, left: Sequence[str], right: Sequence[str], lower: float, *, strict: bool
    ) -> bool:
        """Whether every text that one side was made from is close to the other side's."""
        cosines = [
            similarity(self._vectors[a], self._vectors[b]) for a in left for b in right if a != b
        ]
        scores = self._scale.similarities(np.array(cosines), strict)
        return bool((scores >= lower).all())

    def _cosine(self, a: Memory, b: Memory) -> float | None:
        left, right = (self._vectors.get(self._keys[one.id]) for one in (a, b))
        return None if left is None or right is None else similarity(left, right)


class _Scope:
    """The texts of one scope, and the pairs of them that are worth a look."""

    def __init__(
        self, scope: Scope, nodes: _Nodes, snapshot: Snapshot, matching: Matching, rules: Rules
    ) -> None:
        self._scope = scope
        self._nodes = nodes
        self._snapshot = snapshot
        self._matching = matching
        self._lower = rules.lower
        # Ties go by position: the same groups whatever order they came in.
        self._keys = sorted(key for key in nodes if key in snapshot.vectors)
        self._texts = [nodes[key][0].memory.content for key in self._keys]
        self._strict = np.array([has_kana_or_han(text) for text in self._texts], np.bool_)
        within = (len(rows) * (len(rows) - 1) // 2 for rows in nodes.values())
        reach = matching.just_below
        below = (rules.lower, _lowered(rules.lower, reach)) if reach > 0.0 else ()
        self.bands = Counter(dict.fromkeys((*BANDS, *below), sum(within)))
        self._pairs = _NO_PAIRS
        if len(self._keys) > 1:
            self._pairs = self._look(rules)

    def _look(self, rules: Rules) -> Pairs:
        """The pairs above the floor, on the scale; and how many there are in each band."""
        scale, matching = self._matching.scale, self._matching
        floor = min(rules.lower, matching.floor)
        found = candidate_pairs(
            np.stack([self._snapshot.vectors[key] for key in self._keys]),
            scale.cosines(rules.upper, self._strict),
            matching.neighbours,
            scale.cosines(floor, self._strict),
            [scale.cosines(band, self._strict) for band in self.bands],
            np.array([len(self._nodes[key]) for key in self._keys]),
        )
        for band, count in zip([*self.bands], found.counts.tolist(), strict=True):
            self.bands[band] += count
        pairs = joined([found.upper, found.nearest])
        return self._but_the_distinct(pairs) if self._snapshot.distinct else pairs

    def _but_the_distinct(self, pairs: Pairs) -> Pairs:
        among = zip(pairs.i.tolist(), pairs.j.tolist(), strict=True)
        return chosen(pairs, np.array([not self._are_distinct(i, j) for i, j in among], np.bool_))

    def _are_distinct(self, i: int, j: int) -> bool:
        low, high = sorted((self._keys[i], self._keys[j]))
        return (self._scope.key, low, high) in self._snapshot.distinct

    @property
    def _scores(self) -> Floats:
        strict = self._strict[self._pairs.i] | self._strict[self._pairs.j]
        return self._matching.scale.similarities(self._pairs.similarity, strict)

    # --- groups ---

    def groups(self, similarities: _Similarities) -> list[list[Row]]:
        """Rows that belong together: of one text, and of texts that are all alike."""
        scores = self._scores
        close = scores >= self._lower
        pairs = chosen(self._pairs, close)
        edges = list(zip(pairs.i.tolist(), pairs.j.tolist(), scores[close].tolist(), strict=True))
        components = connected(len(self._keys), [(i, j) for i, j, _ in edges])
        grouped = [
            group
            for component, its_edges in zip(
                components, _edges_by_component(components, edges), strict=True
            )
            for group in cohesive(component, its_edges, self._together(similarities))
        ]
        texts = [[self._keys[n] for n in group] for group in grouped]
        texts += [[key] for key in self._nodes if key not in self._snapshot.vectors]
        rows = [[row for key in group for row in self._mergeable(key)] for group in texts]
        return [group for group in rows if len(group) > 1]

    def _mergeable(self, key: str) -> list[Row]:
        """All rows of a text, but where a person keeps it several times only the newest."""
        kept = (self._scope.key, key, key) in self._snapshot.distinct
        return self._nodes[key][-1:] if kept else self._nodes[key]

    def _together(self, similarities: _Similarities) -> Callable[[int, int], bool]:
        """Whether two texts may be in one group, whether or not their pair was kept."""
        lineages: dict[int, list[str]] = {}

        def lineage(n: int) -> list[str]:
            if n not in lineages:
                lineages[n] = self._lineage(self._keys[n])
            return lineages[n]

        def together(i: int, j: int) -> bool:
            strict = bool(self._strict[i] or self._strict[j])
            return not self._are_distinct(i, j) and similarities.lineage_is_close(
                lineage(i), lineage(j), self._lower, strict=strict
            )

        return together

    def _lineage(self, key: str) -> list[str]:
        """The text, and all that one of its rows was synthesised from."""
        ancestors = self._snapshot.ancestors
        keys = [key, *(a for row in self._nodes[key] for a in ancestors.get(row.memory.id, ()))]
        return [one for one in dict.fromkeys(keys) if one in self._snapshot.vectors]

    # --- nominations ---

    def nominated(self) -> list[_Nominated]:
        """The pairs whose words say that they are worth a question by themselves.

        They are below `lower`, or no group could take both, since a text that one of them was made
        from is unlike the other: whoever is shown both can tell.
        """
        if self._matching.words is None:
            return []
        pairs, similar = self._pairs, self._scores
        texts = [OwnedText(text, self._user) for text in self._texts]
        found = scores(texts, pairs.i, pairs.j, similar, self._matching.words)
        return [
            _Nominated(
                float(found.score[n]),
                self._nodes[self._keys[pairs.i[n]]][-1],
                self._nodes[self._keys[pairs.j[n]]][-1],
                float(similar[n]),
                float(pairs.similarity[n]),
            )
            for n in np.flatnonzero(found.nominated).tolist()
        ]

    @property
    def _user(self) -> str | None:
        return next(iter(self._nodes.values()))[0].memory.user


_NO_PAIRS = joined([])


def _edges_by_component(
    components: Sequence[Sequence[int]], edges: Sequence[tuple[int, int, float]]
) -> list[list[tuple[int, int, float]]]:
    home = {node: n for n, component in enumerate(components) for node in component}
    inside: list[list[tuple[int, int, float]]] = [[] for _ in components]
    for edge in edges:
        inside[home[edge[0]]].append(edge)
    return inside


def _singly(
    nominated: Iterable[_Nominated], taken: set[str], order: Mapping[str, int]
) -> list[GroupPlan]:
    """A question about each pair, best first, no memory in two of them."""
    plans = []
    for pair in sorted(nominated, key=lambda one: (-one.score, one.a.text_key, one.b.text_key)):
        ids = {pair.a.memory.id, pair.b.memory.id}
        if not ids & taken:
            taken |= ids
            older, newer = sorted((pair.a.memory, pair.b.memory), key=lambda one: order[one.id])
            found = SearchResult(older, pair.similarity, pair.cosine)
            plans.append(GroupPlan((older, newer), None, nomination((older, newer), found)))
    return plans
