"""Two clusters from the literature, made of well-known devices."""

from __future__ import annotations

from opweave.problems.cluster import Cluster
from opweave.problems.device_sheets import DEVICES, Precision
from opweave.problems.errors import InvalidInputError

GBPS = 1e9 / 8
"""Bytes per second in a gigabit per second."""

# Zhang et al., "Moirai", Table III: measured Gbps from the row's device to the column's.
_INTER_SERVER = (
    (0, 44.26, 32.92, 44.28),
    (42.39, 0, 35.32, 44.51),
    (33.2, 35.31, 0, 32.95),
    (42.08, 43.22, 33.28, 0),
)
_INTRA_SERVER = (
    (0, 1170.04, 626.10, 610.56),
    (1148.16, 0, 618.98, 581.09),
    (630.43, 609.82, 0, 571.96),
    (622.67, 575.08, 581.35, 0),
)

_TESTBEDS = {
    "moirai-inter": ({"A": "rtx2080ti", "B": "t4", "C": "p4", "D": "rtx3060ti"}, _INTER_SERVER),
    "moirai-intra": ({"A": "v100", "B": "v100", "C": "p100", "D": "p100"}, _INTRA_SERVER),
}
"""Device names with their kinds, and the Gbps between them."""

CLUSTERS = tuple(_TESTBEDS)
"""Names that :func:`preset` accepts."""


def preset(name: str, precision: Precision = "fp32") -> Cluster:
    """A cluster from the literature.

    Parameters
    ----------
    name
        ``"moirai-inter"``: four different GPUs in four servers, connected by InfiniBand. ``"moirai-intra"``: two V100
        and two P100 in one server, connected by NVLink and NVSwitch. Devices are named A to D, as in the paper's Table
        III.
    precision
        Precision whose peak becomes the devices' speed.

    Raises
    ------
    InvalidInputError
        For an unknown name, or a device whose speed in that precision is not known.

    Examples
    --------
    >>> cluster = preset("moirai-inter")
    >>> round(cluster.transfer_seconds(44_260_000_000, "A", "B"), 9)
    8.0
    """
    if name not in _TESTBEDS:
        raise InvalidInputError(f"no cluster is called {name!r:.60}; there are: {', '.join(CLUSTERS)}")
    kinds, gbps = _TESTBEDS[name]
    return Cluster(
        devices=tuple(DEVICES[kind].device(device, kind, precision) for device, kind in kinds.items()),
        bandwidth=tuple(tuple(rate * GBPS for rate in row) for row in gbps),
    )
