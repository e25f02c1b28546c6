"""What devices hold is the sum of what their operators hold, exactly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.on_cluster import held
from tests.strategies.specs import op_graphs


@given(net=op_graphs(max_operators=8), data=st.data())
def test_devices_hold_what_their_operators_hold(net: OpGraph, data: st.DataObject) -> None:
    run = st.tuples(st.integers(0, len(net.operators) - 1), st.integers(0, 2))  # one operator may run on several
    runs = data.draw(st.lists(run, max_size=12, unique=True)) if net.operators else []
    operator, device = np.asarray(runs, dtype=np.int64).reshape(-1, 2).T
    for memory in ("additive", "parameters"):
        expected = []
        for where in range(3):
            here = [net.operators[v] for v, k in runs if k == where]
            expected.append(sum(net.parameter_bytes[name] for name in {name for op in here for name in op.parameters}))
            if memory == "additive":
                expected[-1] += sum(op.workspace_bytes + sum(net.owned_bytes[t] for t in op.outputs) for op in here)
        assert held(net, operator, device, np.ones_like(operator), memory).by_device(3) == expected


def test_sums_beyond_64_bits_are_exact() -> None:
    count = 2_000
    net = OpGraph(
        tensors=[Tensor(id="y", bytes=1)],
        parameters=[Parameter(id=f"w{k}", bytes=2**53) for k in range(count)],
        operators=[Operator(id="p", outputs=["y"], parameters=[f"w{k}" for k in range(count)])],
    )
    zero = np.zeros(1, dtype=np.int64)
    assert held(net, zero, zero, zero + 1, "additive").by_device(2) == [count * 2**53 + 1, 0]
