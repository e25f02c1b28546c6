"""Measurements of one machine: its peak rates, and the efficiency of each operator kind."""

from __future__ import annotations

from typing import Literal

from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs, Efficiency
from opweave.problems.graph import OpGraph
from opweave.problems.spec import SCHEMA_VERSION, FrozenDict, Name, Spec


class Calibration(Spec):
    """A device and the efficiency of operator kinds on it, fitted to measured times.

    Attributes
    ----------
    device
        Its rates are the best that any operator kind reached, so no efficiency exceeds 1.
    efficiency
        Efficiency by operator kind.
    default
        Efficiency of kinds that were not measured.

    Examples
    --------
    >>> device = Device(name="cpu", flops_per_second=100.0, memory_bandwidth=50.0)
    >>> calibration = Calibration(device=device, efficiency={"Relu": Efficiency(traffic=0.5, launch_seconds=1.0)})
    >>> graph = OpGraph.model_validate({
    ...     "tensors": [{"id": "x", "bytes": 100}, {"id": "y", "bytes": 100}],
    ...     "operators": [{"id": "relu", "kind": "Relu", "inputs": ["x"], "outputs": ["y"]}],
    ... })
    >>> calibration.costs(graph).seconds("relu", "cpu")
    9.0
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    device: Device
    efficiency: FrozenDict[Name, Efficiency]
    default: Efficiency = Efficiency()

    def costs(self, graph: OpGraph) -> Costs:
        """Estimated times of a graph's operators on this device alone; see :meth:`Costs.roofline`."""
        cluster = Cluster(devices=(self.device,))
        return Costs.roofline(graph, cluster, efficiency=self.efficiency, default_efficiency=self.default)
