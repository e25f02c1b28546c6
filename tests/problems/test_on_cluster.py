"""What devices hold is the sum of what their operators hold, exactly."""

from __future__ import annotations

import numpy as np

from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.on_cluster import held


def test_sums_beyond_64_bits_are_exact() -> None:
    count = 2_000
    net = OpGraph(
        tensors=[Tensor(id="y", bytes=1)],
        parameters=[Parameter(id=f"w{k}", bytes=2**53) for k in range(count)],
        operators=[Operator(id="p", outputs=["y"], parameters=[f"w{k}" for k in range(count)])],
    )
    zero = np.zeros(1, dtype=np.int64)
    assert held(net, zero, zero, zero + 1, "additive").by_device(2) == [count * 2**53 + 1, 0]
