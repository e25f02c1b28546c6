"""Clusters by name: two from the literature, and two that people have at home, made of well-known devices."""

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

_ON_ETHERNET = {
    "home": {
        "desktop": ("rtx3060", "12 GiB"),
        "laptop": ("apple-m2", "16 GiB"),
        "jetson": ("jetson-orin-nano", "8 GiB"),
        "board": ("raspberry-pi-5", "8 GiB"),
    },
    "boards": {
        "a": ("raspberry-pi-5", "8 GiB"),
        "b": ("raspberry-pi-5", "8 GiB"),
        "c": ("raspberry-pi-4", "4 GiB"),
        "d": ("raspberry-pi-4", "4 GiB"),
    },
}
"""Device names with their kinds and memory; a switch connects them."""

ETHERNET = 0.94 * GBPS
"""Bytes per second of payload over gigabit Ethernet: TCP with frames of 1,500 bytes."""

ETHERNET_LATENCY = 200e-6
"""Seconds before the first byte arrives; our assumption for a switch and two network stacks."""

CLUSTERS = (*_TESTBEDS, *_ON_ETHERNET)
"""Names that :func:`preset` accepts."""


def preset(name: str, precision: Precision = "fp32") -> Cluster:
    """A cluster by name.

    Parameters
    ----------
    name
        ``"moirai-inter"``: four different GPUs in four servers, connected by InfiniBand. ``"moirai-intra"``: two V100
        and two P100 in one server, connected by NVLink and NVSwitch. Devices are named A to D, as in the paper's Table
        III. ``"home"``: a desktop with an RTX 3060, a MacBook with an M2, a Jetson Orin Nano and a Raspberry Pi 5;
        ``"boards"``: two Raspberry Pi 5 and two Raspberry Pi 4; both on gigabit Ethernet.
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
    if name not in CLUSTERS:
        raise InvalidInputError(f"no cluster is called {name!r:.60}; there are: {', '.join(CLUSTERS)}")
    if name in _ON_ETHERNET:
        kept = _ON_ETHERNET[name].items()
        return Cluster(
            devices=tuple(DEVICES[kind].device(device, kind, precision, memory) for device, (kind, memory) in kept),
            rates=(ETHERNET,) * len(kept),
            latency=ETHERNET_LATENCY,
        )
    kinds, gbps = _TESTBEDS[name]
    return Cluster(
        devices=tuple(DEVICES[kind].device(device, kind, precision) for device, kind in kinds.items()),
        bandwidth=tuple(tuple(rate * GBPS for rate in row) for row in gbps),
    )
