"""What all views share."""

from __future__ import annotations

import pytest

import opweave as ow


def test_a_result_of_another_problem_is_not_shown():
    placed = ow.Result(problem="placement", status="unknown", termination="completed", solver="none")
    graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=1)], operators=[ow.Operator(id="p", outputs=["x"])])
    with pytest.raises(ow.InvalidInputError, match="one of 'placement', the problem is 'memory_ordering'"):
        ow.explain(ow.MemoryOrdering(graph=graph), placed)
