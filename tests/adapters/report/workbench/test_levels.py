"""Drawings of graphs: levels that follow the data, modules that make no cycle, and no two items in one place."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.adapters.report.workbench.levels import Drawing, drawing
from tests.adapters.report.workbench.conftest import ladder


def graph_of(reads: list[list[int]], modules: list[str]) -> ow.OpGraph:
    tensors = [ow.Tensor(id=f"t{k}", bytes=1) for k in range(len(reads))]
    ops = [
        ow.Operator(
            id=f"o{k}", inputs=sorted({f"t{each % k}" for each in row} if k else ()), outputs=[f"t{k}"], module=m
        )
        for k, (row, m) in enumerate(zip(reads, modules, strict=True))
    ]
    return ow.OpGraph(tensors=tensors, operators=ops)


def test_modules_have_what_stands_in_them() -> None:
    found = drawing(ladder())
    assert found.names == ["", *(f"layers.{layer}" for layer in range(10))]
    assert found.inside == [-1] + [0] * 10 + [1 + op // 4 for op in range(40)]
    norm, conv, act, add = found.column[11:15]
    assert norm == conv - 1 == act - 2 == add - 3 == 0


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 30), max_size=3), st.sampled_from(["", "a", "a.b", "a.b.x", "a.c", "c/d", "."])
        ),
        max_size=30,
    ),
    st.integers(0, 2**12 - 1),
)
@settings(max_examples=60, deadline=None)
def test_every_drawing_shows_the_whole_graph(rows: list[tuple[list[int], str]], folded: int) -> None:
    """Whatever is folded, what is shown makes no cycle, and columns follow the data."""
    graph = graph_of([reads for reads, _ in rows], [module for _, module in rows])
    found = drawing(graph)
    modules = len(found.names)
    assert len(found.inside) == len(found.column) == len(found.row) == modules + len(rows)
    assert all(-1 <= outer < min(item, modules) for item, outer in enumerate(found.inside))
    places = list(zip(found.inside, found.column, found.row, strict=True))
    for item, (module, column, row) in enumerate(places):
        others = [other for k, other in enumerate(places) if k != item and other[:2] == (module, column)]
        assert all(abs(row - other[2]) >= 1 for other in others)
    shut = {module for module in range(1, modules) if folded >> module % 12 & 1}
    pairs = [(k, after) for k, row in enumerate(graph.arrays.successors.lists()) for after in row]
    edges = {(seat(found, a, shut), seat(found, b, shut)) for a, b in pairs}
    assert acyclic({(a, b) for a, b in edges if a != b}), "modules make a cycle"
    for a, b in pairs:
        one, other = siblings(found, modules + a, modules + b)
        assert one == other or found.column[one] < found.column[other]


def seat(found: Drawing, op: int, shut: set[int]) -> int:
    """The outermost folded module around an operator, or the operator."""
    shown = item = len(found.names) + op
    while item >= 0:
        shown = item if item in shut else shown
        item = found.inside[item]
    return shown


def siblings(found: Drawing, one: int, other: int) -> tuple[int, int]:
    while found.inside[one] != found.inside[other]:
        if found.inside[one] > found.inside[other]:
            one = found.inside[one]
        else:
            other = found.inside[other]
    return one, other


def acyclic(edges: set[tuple[int, int]]) -> bool:
    while edges:
        free = {a for a, _ in edges} - {b for _, b in edges}
        if not free:
            return False
        edges = {(a, b) for a, b in edges if a not in free}
    return True
