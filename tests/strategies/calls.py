"""Placement problems with blocking calls."""

from __future__ import annotations

import opweave as ow
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn
from tests.strategies.specs import placements


@st.composite
def call_placements(draw: DrawFn, max_operators: int = 4, max_devices: int = 3, *, free: bool = False) -> ow.Placement:
    """Problems with a host and up to ``max_devices - 1`` accelerators; feasible or not."""
    problem = draw(placements(max_operators, max_devices, free=free))
    names = [device.name for device in problem.cluster.devices]
    return ow.Placement.model_validate(
        {
            **problem.model_dump(exclude={"constraints"}),
            "constraints": problem.constraints,
            "transfers": "blocking",
            "host": draw(st.sampled_from(names)),
            "max_calls": draw(st.sampled_from([1, 2, None])),
        }
    )
