"""The layers of a placement problem: operators of one module that follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Placement
from opweave.solvers.rules import NoPlanError

EXPERTS = "experts"
"""Kind of the operators whose weights llama.cpp moves to host memory first."""


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """What runtimes that think in layers see.

    Attributes
    ----------
    before, after
        Operators before the first layer and after the last one.
    layers
        Operators of every layer, in order.
    experts
        Whether each operator holds experts. Shape (operators,).
    """

    before: IntArray
    layers: list[IntArray]
    after: IntArray
    experts: IntArray

    def devices(self, homes: list[int], first: int, last: int, able: BoolArray) -> IntArray:
        """The device of every operator, given those of the layers and of what is before and after them.

        Operators outside layers that may not run there go to the first device that may run them; ``able`` says which
        may. Shape (operators, devices).
        """
        device = np.full(len(self.experts), first, dtype=np.int64)
        for members, home in zip(self.layers, homes, strict=True):
            device[members] = home
        device[self.after] = last
        for v in (*self.before, *self.after):
            if not able[v, device[v]]:
                device[v] = int(able[v].argmax())
        return device


def layers_of(problem: Placement, instance: PlacementInstance) -> Layers:
    """Find the layers: a layer is a run of operators whose modules are in the same module, such as "layers.3".

    Raises
    ------
    NoPlanError
        If there are none.
    """
    operators = problem.graph.operators
    order = topological_order(instance.after).tolist()
    runs = [
        (home, np.asarray(list(members), dtype=np.int64))
        for home, members in groupby(order, key=lambda v: operators[v].module.rpartition(".")[0])
    ]
    places = [number for number, (home, _) in enumerate(runs) if home]
    if not places:
        raise NoPlanError("the operators' modules name no layers, such as 'layers.3.attention'")
    first, last = places[0], places[-1]
    nothing = np.zeros(0, dtype=np.int64)
    return Layers(
        before=np.concatenate([nothing, *(members for _, members in runs[:first])]),
        layers=[members for _, members in runs[first : last + 1]],
        after=np.concatenate([nothing, *(members for _, members in runs[last + 1 :])]),
        experts=np.asarray([op.kind == EXPERTS for op in operators], dtype=bool),
    )
