"""Default times for plans on devices: a roofline estimate, for every batch size that may be used, if none are given."""

from __future__ import annotations

from collections.abc import Mapping

from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph

EXPERTS = "experts"
"""Kind of operators that read a part of their parameters; see :mod:`opweave.problems.language.workload`."""

PORTIONS = 16
"""Number of portions of a batch on devices that do not state which sizes they support."""


def missing_costs(graph: OpGraph, fields: Mapping[str, object]) -> dict[str, object]:
    """Estimate the costs of a problem whose fields have a cluster but no costs; empty if no costs are needed.

    Raises
    ------
    InvalidInputError
        For a device whose speed is unknown, and for experts, of which a graph does not say how many are read.
    """
    cluster = fields.get("cluster")
    if not isinstance(cluster, Cluster) or "costs" in fields or fields.get("include_compute") is False:
        return {}
    if any(op.kind == EXPERTS for op in graph.operators):
        raise InvalidInputError(
            f"{graph.name} has experts, of which a token reads only some; plan it with 'opweave llm', or give the "
            "costs that opweave.llm.language_costs estimates"
        )
    batch = fields.get("batch", 1)
    sizes = batch_sizes(cluster, batch) if isinstance(batch, int) and batch > 1 else (1,)
    return {"costs": Costs.roofline(graph, cluster, batches=sizes)}


def batch_sizes(cluster: Cluster, batch: int) -> tuple[int, ...]:
    """List the batch sizes that need a time: those that devices support, or :data:`PORTIONS` steps up to the batch.

    With every size of the steps, the list contains the rest of the batch, so that two devices can share it.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> batch_sizes(Cluster(devices=[Device(name="a", batch_sizes=[1, 4, 64])]), 8)
    (1, 4)
    >>> batch_sizes(Cluster(devices=[Device(name="a")]), 3)
    (1, 2, 3)
    """
    found = {size for device in cluster.devices for size in device.batch_sizes or () if size <= batch}
    if any(device.batch_sizes is None for device in cluster.devices):
        steps = min(batch, PORTIONS)
        portions = {batch * step // steps for step in range(1, steps)}
        found |= portions | {batch - size for size in portions} | {batch}
    return tuple(sorted(found)) or (1,)
