"""Hypothesis strategies for serving flows: few layers and devices, with everything that limits a flow."""

from __future__ import annotations

import opweave as ow
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn

RATES = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 0.5])
LINKS = st.sampled_from([0.0, 4.0, 8.0, 12.0, 100.0, 1000.0])


@st.composite
def serving_flows(draw: DrawFn, layers: int = 4, devices: int = 3) -> ow.ServingFlow:
    """A problem with up to so many layers and devices."""
    count, names = draw(st.integers(1, layers)), [f"d{k}" for k in range(draw(st.integers(1, devices)))]
    graph = ow.layer_chain(
        count,
        activation_bytes=draw(st.sampled_from([0, 4, 4])),
        token_bytes=draw(st.sampled_from([0, 1])),
        layer_bytes=draw(st.sampled_from([0, 10])),
    )
    memory = [draw(st.sampled_from([None, None, 10, 25])) for _ in names]
    between = [[0.0 if a == b else draw(LINKS) for b in names] for a in names]
    return ow.ServingFlow(
        graph=graph,
        cluster=ow.Cluster(
            devices=[ow.Device(name=name, memory_bytes=size) for name, size in zip(names, memory, strict=True)],
            bandwidth=between,
        ),
        rates={name: draw(st.lists(RATES, max_size=count + 1)) for name in names},
        entry=draw(st.sampled_from(["first", "first", "any"])),
    )
