"""The floor: everything on the one device that is fastest alone."""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.insertion import NoPlanError
from opweave.solvers.placement.lists import register_rule
from opweave.solvers.placement.plans import Plan, memory_used, plan_of, shortage
from opweave.solvers.placement.ranks import order_of_graph


def one_device(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """The best single device that may run every operator and holds them all."""
    order = order_of_graph(arrays)
    reasons = []
    total = arrays.seconds.sum(axis=0)
    for k in np.argsort(total, kind="stable").tolist():
        device = np.full(len(order), k, dtype=np.int64)
        if not np.isfinite(total[k]):
            refused = instance.names[int(np.isinf(arrays.seconds[:, k]).argmax())]
            reasons.append(f"device {instance.devices[k]!r} cannot run operator {refused!r}")
        elif memory_used(arrays, device)[k] > arrays.capacity[k]:
            reasons.append(str(shortage(instance, arrays, device)))
        else:
            return plan_of(arrays, order, device)
    raise NoPlanError(f"no single device is enough: {'; '.join(reasons)}")


register_rule("one_device", one_device, "everything on the best single device that holds it")
