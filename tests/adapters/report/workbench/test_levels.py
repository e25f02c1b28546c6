"""Drawings of graphs: levels that follow the data, modules that make no cycle, and no two nodes in one place."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.adapters.report.workbench.levels import drawings
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


def test_a_chain_fills_lines_like_a_text() -> None:
    graph = graph_of([[k - 1] for k in range(60)], [""] * 60)
    (drawn,) = drawings(graph)
    assert drawn.names[:3] == ("o0", "o1", "o2")
    wide, tall = max(drawn.x) + 1, max(drawn.y) + 1
    assert 60 <= wide * tall <= 240
    assert all(x in (before + 1, 0) for before, x in zip(drawn.x, drawn.x[1:], strict=False))


def test_modules_come_first_and_operators_last() -> None:
    coarse, fine = drawings(ladder())
    assert coarse.names == tuple(f"layers.{layer}" for layer in range(10))
    assert [coarse.node[op] for op in range(40)] == [op // 4 for op in range(40)]
    assert len(fine.names) == 40


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=3), st.sampled_from(["", "a", "a.b", "c/d"])), max_size=30)
)
@settings(max_examples=40, deadline=None)
def test_every_drawing_shows_the_whole_graph(rows: list[tuple[list[int], str]]) -> None:
    graph = graph_of([reads for reads, _ in rows], [module for _, module in rows])
    found = drawings(graph)
    assert bool(found) == bool(rows)
    for drawn in found:
        assert len(drawn.node) == len(graph.operators)
        assert set(drawn.node.tolist()) == set(range(len(drawn.names)))
        assert len(set(zip(drawn.x, drawn.y, strict=True))) == len(drawn.names)
        edges = {
            (node, drawn.node[after])
            for node, row in zip(drawn.node, graph.arrays.successors.lists(), strict=True)
            for after in row
        }
        order = in_order(len(drawn.names), {(int(a), int(b)) for a, b in edges if a != b})
        assert len(order) == len(drawn.names), "modules make a cycle"
    assert not found or found[-1].names == tuple(graph.operators[op].id for op in inverse(found[-1].node.tolist()))


def inverse(node: list[int]) -> list[int]:
    return sorted(range(len(node)), key=node.__getitem__)


def in_order(count: int, edges: set[tuple[int, int]]) -> list[int]:
    """Nodes in an order that follows the edges, as many as have one."""
    done: list[int] = []
    while True:
        free = [n for n in range(count) if n not in done and all(a in done for a, b in edges if b == n)]
        if not free:
            return done
        done += free
