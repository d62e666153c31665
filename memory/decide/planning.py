"""One round over a snapshot of a store: exact pairs, groups, what the policy plans for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memory.decide.groups import cohesive, connected
from memory.decide.policy import GroupPlan, plan_group
from memory.index import similar_pairs, similarities, similarity, slack
from memory.ledger import Row, Snapshot
from memory.models import Memory, Rules, Scope, Vector

BANDS = (0.98, 0.95, 0.90)
"""The similarities at which the audit counts pairs."""


@dataclass(frozen=True)
class RoundPlan:
    """What a round would do, and what it saw."""

    groups: tuple[GroupPlan, ...]
    similarity: Callable[[Memory, Memory], float]
    memories: int
    pairs: dict[str, int]
    revision: int


def plan_round(snapshot: Snapshot, rules: Rules, scope_of: Callable[[Memory], Scope]) -> RoundPlan:
    """The groups of one round, oldest first, and the number of pairs in each band.

    Exact pairs inside each scope, among texts (rows of the same text are one node); union-find;
    cohesion: every two members of a group are at or above `lower`, and so is every text that a
    member was synthesised from. Why: whoever survives then is close to every memory that it stands
    for, and no memory is merged because a third one is like both. A pair that was split is split
    again after its neighbours have merged, since their ancestors still count. Which groups they
    are depends on the texts alone, not on the order in which they came in.
    """
    bands: Counter[str] = Counter({f"{band:.2f}": 0 for band in BANDS})
    alike: dict[tuple[str, str], float] = {}
    groups: list[list[Row]] = []
    for scope, nodes in _scopes(snapshot.rows, scope_of).items():
        seen = _edges(nodes, snapshot.vectors, min(rules.lower, BANDS[-1]))
        _count(bands, nodes, seen)
        close = {
            pair: score
            for pair, score in seen.items()
            if score >= rules.lower and (scope.key, *sorted(pair)) not in snapshot.distinct
        }
        alike |= {tuple(sorted(pair)): score for pair, score in close.items()}  # type: ignore[misc]
        groups += _groups(_mergeable(nodes, scope, snapshot), close, snapshot, rules.lower)

    def score_of(a: Memory, b: Memory) -> float:
        return _score(alike, keys[a.id], keys[b.id])

    keys = {row.memory.id: row.text_key for row in snapshot.rows}
    order = {row.memory.id: place for place, row in enumerate(snapshot.rows)}
    groups = [sorted(group, key=lambda row: order[row.memory.id]) for group in groups]
    groups.sort(key=lambda group: order[group[0].memory.id])
    plans = (plan_group([row.memory for row in group], score_of, rules) for group in groups)
    return RoundPlan(tuple(plans), score_of, len(snapshot.rows), dict(bands), snapshot.revision)


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
) -> list[NearCopies]:
    """Every pair above the similarity in which one of these memories is, the most similar first.

    Pairs that are known to be distinct are left out.
    """
    order = {row.memory.id: place for place, row in enumerate(snapshot.rows)}
    found: dict[tuple[str, str], NearCopies] = {}
    for scope, nodes in _scopes(snapshot.rows, scope_of).items():
        rows = [row for same in nodes.values() for row in same if row.text_key in snapshot.vectors]
        asked = [row for row in rows if row.memory.id in names]
        for row, other, score in _alike(asked, rows, snapshot.vectors, min_similarity):
            keys = sorted((row.text_key, other.text_key))
            if (scope.key, *keys) not in snapshot.distinct:
                pair = sorted((row.memory, other.memory), key=lambda one: order[one.id])
                found[pair[0].id, pair[1].id] = NearCopies(pair[0], pair[1], score)
    return sorted(found.values(), key=lambda pair: -pair.similarity)


def _alike(
    asked: Sequence[Row], rows: Sequence[Row], vectors: Mapping[str, Vector], min_similarity: float
) -> Iterator[tuple[Row, Row, float]]:
    """Each of the asked rows with every other row that is similar enough."""
    if not asked:
        return
    matrix = np.stack([vectors[row.text_key] for row in rows])
    for row in asked:
        vector = vectors[row.text_key]
        near = np.flatnonzero(matrix @ vector >= min_similarity - slack(matrix.shape[1]))
        scores = similarities(matrix[near], np.broadcast_to(vector, (len(near), len(vector))))
        for place, score in zip(near.tolist(), scores.tolist(), strict=True):
            if score >= min_similarity and rows[place] is not row:
                yield row, rows[place], score


def alike_pairs(
    snapshot: Snapshot, scope_of: Callable[[Memory], Scope], min_similarity: float
) -> list[tuple[Row, Row, float]]:
    """Every two texts of one scope that are alike: the older's row, the newer's, how alike.

    Of rows with the same text, the oldest stands for all.
    """
    order = {row.memory.id: place for place, row in enumerate(snapshot.rows)}
    found = []
    for nodes in _scopes(snapshot.rows, scope_of).values():
        for (a, b), score in _edges(nodes, snapshot.vectors, min_similarity).items():
            pair = sorted((nodes[a][0], nodes[b][0]), key=lambda row: order[row.memory.id])
            found.append((pair[0], pair[1], score))
    return found


_Nodes = dict[str, list[Row]]
"""The rows of each normalised text in one scope, oldest first, by text key."""
_Edges = dict[tuple[str, str], float]


def _scopes(rows: Iterable[Row], scope_of: Callable[[Memory], Scope]) -> dict[Scope, _Nodes]:
    scopes: dict[Scope, _Nodes] = {}
    for row in rows:
        nodes = scopes.setdefault(scope_of(row.memory), {})
        nodes.setdefault(row.text_key, []).append(row)
    return scopes


def _mergeable(nodes: _Nodes, scope: Scope, snapshot: Snapshot) -> _Nodes:
    """All rows, but of a text that a person keeps several times only the newest."""
    kept = {key for key in nodes if (scope.key, key, key) in snapshot.distinct}
    return {key: rows[-1:] if key in kept else rows for key, rows in nodes.items()}


def _edges(nodes: _Nodes, vectors: Mapping[str, Vector], min_similarity: float) -> _Edges:
    keys = [key for key in nodes if key in vectors]
    if len(keys) < 2:
        return {}
    pairs = similar_pairs(np.stack([vectors[key] for key in keys]), min_similarity)
    return {
        (keys[i], keys[j]): float(score)
        for i, j, score in zip(pairs.i, pairs.j, pairs.similarity, strict=True)
    }


def _count(bands: Counter[str], nodes: _Nodes, edges: _Edges) -> None:
    for band in BANDS:
        across = (len(nodes[a]) * len(nodes[b]) for (a, b), score in edges.items() if score >= band)
        within = (len(rows) * (len(rows) - 1) // 2 for rows in nodes.values())
        bands[f"{band:.2f}"] += sum(across) + sum(within)


def _groups(nodes: _Nodes, close: _Edges, snapshot: Snapshot, lower: float) -> list[list[Row]]:
    keys = sorted(nodes)  # ties go by position: the same groups whatever order they came in
    place = {key: n for n, key in enumerate(keys)}
    edges = [
        (min(place[a], place[b]), max(place[a], place[b]), score) for (a, b), score in close.items()
    ]
    by_pair = {(i, j): score for i, j, score in edges} | {(j, i): s for i, j, s in edges}

    lineages = [_lineage(nodes[key], snapshot) for key in keys]

    def together(i: int, j: int) -> bool:
        return (i, j) in by_pair and _lineages_close(
            lineages[i], lineages[j], snapshot.vectors, lower
        )

    found = []
    components = connected(len(keys), [(i, j) for i, j, _ in edges])
    inside = _edges_by_component(components, edges)
    for component, its_edges in zip(components, inside, strict=True):
        for group in cohesive(component, its_edges, together):
            rows = [row for node in group for row in nodes[keys[node]]]
            if len(rows) > 1:
                found.append(rows)
    return found


def _edges_by_component(
    components: Sequence[Sequence[int]], edges: Sequence[tuple[int, int, float]]
) -> list[list[tuple[int, int, float]]]:
    home = {node: n for n, component in enumerate(components) for node in component}
    inside: list[list[tuple[int, int, float]]] = [[] for _ in components]
    for edge in edges:
        inside[home[edge[0]]].append(edge)
    return inside


def _lineages_close(
    left: Sequence[str], right: Sequence[str], vectors: Mapping[str, Vector], lower: float
) -> bool:
    """Whether every text that either side was synthesised from is close to the other side's."""
    if len(left) == len(right) == 1:
        return True
    return all(similarity(vectors[a], vectors[b]) >= lower for a in left for b in right)


def _lineage(rows: Sequence[Row], snapshot: Snapshot) -> list[str]:
    keys = [row.text_key for row in rows[:1]]
    keys += [key for row in rows for key in snapshot.ancestors.get(row.memory.id, ())]
    return [key for key in dict.fromkeys(keys) if key in snapshot.vectors]


def _score(alike: Mapping[tuple[str, str], float], a: str, b: str) -> float:
    return 1.0 if a == b else alike.get((min(a, b), max(a, b)), 0.0)
