"""The trivial bound of serving flow; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import numpy as np

from opweave.formulations.serving_flow.instance import lower
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.trivial import own_bound


@own_bound(ServingFlow)
def _(problem: ServingFlow) -> float:
    """The time of a token if all devices did nothing but their best work."""
    most = lower(problem).bounded
    return 1.0 / most * (1.0 - SUMMATION) if 0.0 < most < np.inf else 0.0
