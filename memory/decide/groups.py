"""Which members of a store belong together: union-find, and the cohesion of what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def connected(n: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Union-find: the connected components of n nodes, each sorted, singles included."""
    parent = list(range(n))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    members: dict[int, list[int]] = {}
    for node in range(n):
        members.setdefault(root(node), []).append(node)
    return list(members.values())


def cohesive(
    component: Sequence[int],
    edges: Sequence[tuple[int, int, float]],
    together: Callable[[Sequence[int], Sequence[int]], bool],
) -> list[list[int]]:
    """Split a component so that within each group every two members belong together.

    A chain a~b~c whose ends are unlike must not be merged on b's word: a merge would state of one
    text what only another said. So groups grow by complete linkage: the closest pair first, and
    two groups join only where all of one are `together` with all of the other; of two singles it is
    asked only where they have an edge. Ties go by position,
    so members in a canonical order give the same groups whatever order they arrived in.
    """
    group_of = {member: member for member in component}
    members_of = {member: [member] for member in component}
    apart: set[tuple[int, int]] = set()
    fresh = max(component, default=0) + 1
    for a, b, _ in sorted(edges, key=lambda edge: (-edge[2], edge[0], edge[1])):
        left, right = sorted((group_of[a], group_of[b]))
        if left == right or (left, right) in apart:
            continue
        if not together(members_of[left], members_of[right]):
            apart.add((left, right))
            continue
        members_of[fresh] = sorted(members_of.pop(left) + members_of.pop(right))
        group_of.update(dict.fromkeys(members_of[fresh], fresh))
        fresh += 1
    return list(members_of.values())
