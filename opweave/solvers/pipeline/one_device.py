"""The floor: do not split. Nothing is sent then, and the bottleneck is the time of the whole model."""

from __future__ import annotations

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.solvers.pipeline.plans import NoPlanError, Plan
from opweave.solvers.pipeline.rules import register_rule


def one_device(instance: PipelineInstance, _seed: int) -> Plan:
    """The fastest single device that may run and holds everything."""
    able = instance.reach[:, 0] == instance.last
    if not able.any():
        raise NoPlanError("no single device may run the whole model and holds it")
    return Plan((), (int(np.argmin(np.where(able, instance.elapsed[:, -1], np.inf))),))


register_rule("one_device", one_device, "does not split: everything on the fastest device that holds it")
