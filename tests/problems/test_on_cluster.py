"""What devices hold, for all of them at once and one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.on_cluster import bytes_held, held_by_device
from tests.strategies.specs import op_graphs


@given(net=op_graphs(max_operators=8), data=st.data())
def test_all_devices_at_once_hold_what_each_holds(net: OpGraph, data: st.DataObject) -> None:
    run = st.tuples(st.integers(0, len(net.operators) - 1), st.integers(0, 2))  # one operator may run on several
    runs = data.draw(st.lists(run, max_size=12)) if net.operators else []
    operator, device = np.asarray(runs, dtype=np.int64).reshape(-1, 2).T
    for memory in ("additive", "parameters"):
        names = [{net.operators[v].id for v, k in runs if k == where} for where in range(3)]
        alone = [bytes_held(net, each, memory) for each in names]
        assert held_by_device(net, operator, device, 3, memory) == alone


def test_sums_beyond_64_bits_are_exact() -> None:
    count = 2_000
    net = OpGraph(
        tensors=[Tensor(id="y", bytes=1)],
        parameters=[Parameter(id=f"w{k}", bytes=2**53) for k in range(count)],
        operators=[Operator(id="p", outputs=["y"], parameters=[f"w{k}" for k in range(count)])],
    )
    zero = np.zeros(1, dtype=np.int64)
    assert held_by_device(net, zero, zero, 2, "additive") == [count * 2**53 + 1, 0]
