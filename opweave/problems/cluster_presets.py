"""Well-known accelerators by their public data sheets, and two clusters from the literature.

Every number has its source beside it, and numbers without a known source are None. Rates are peaks; a roofline takes an
efficiency to come closer to measured times. The presets set no launch cost, because no data sheet states one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError

Precision = Literal["fp32", "fp16"]

GIB = 2**30
GBPS = 1e9 / 8
"""Bytes per second in a gigabit per second."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The figures that a data sheet states for an accelerator.

    Attributes
    ----------
    title
        Full name.
    memory_bytes
        Memory on the board.
    fp32
        Peak FLOP/s in single precision, without tensor cores.
    fp16
        Peak FLOP/s in half precision, dense, with tensor cores if it has them; None if no source is known.
    memory_bandwidth
        Peak bytes per second.
    """

    title: str
    memory_bytes: int
    fp32: float
    fp16: float | None
    memory_bandwidth: float

    def device(self, name: str, group: str, precision: Precision = "fp32") -> Device:
        """A device of this kind.

        Raises
        ------
        InvalidInputError
            When the speed in that precision is not known.
        """
        speed = self.fp32 if precision == "fp32" else self.fp16
        if speed is None:
            raise InvalidInputError(f"the {precision} speed of {self.title} is not known here; take 'fp32'")
        return Device(
            name=name,
            memory_bytes=self.memory_bytes,
            flops_per_second=speed,
            memory_bandwidth=self.memory_bandwidth,
            group=group,
        )


DEVICES = {
    # NVIDIA, "Turing GPU Architecture" (WP-09183-001), table of the RTX 2080 Ti, reference clocks: 11 GB, 13.4 TFLOPS
    # FP32, 107.6 TFLOPS FP16 tensor (FP16 accumulate), 616 GB/s.
    "rtx2080ti": Sheet("GeForce RTX 2080 Ti", 11 * GIB, 13.4e12, 107.6e12, 616e9),
    # NVIDIA, "T4 Tensor Core Product Brief": 16 GB, 8.1 TFLOPS FP32, 65 TFLOPS mixed precision, 320 GB/s.
    "t4": Sheet("Tesla T4", 16 * GIB, 8.1e12, 65e12, 320e9),
    # NVIDIA, "Tesla P4" data sheet: 8 GB, 5.5 TFLOPS FP32, 192 GB/s; it lists no FP16 rate.
    "p4": Sheet("Tesla P4", 8 * GIB, 5.5e12, None, 192e9),
    # NVIDIA, GeForce RTX 3060 Ti (GDDR6) as tabled by scan.co.uk (TekSpek): 8 GB, 16,197 GFLOPS FP32, 448 GB/s.
    "rtx3060ti": Sheet("GeForce RTX 3060 Ti", 8 * GIB, 16.2e12, None, 448e9),
    # NVIDIA, GeForce RTX 3090 in the same table: 24 GB, 35,581 GFLOPS FP32, 936 GB/s.
    "rtx3090": Sheet("GeForce RTX 3090", 24 * GIB, 35.6e12, None, 936e9),
    # NVIDIA, "Tesla P100" data sheet, NVLink version: 16 GB, 10.6 TFLOPS FP32, 21.2 TFLOPS FP16, 732 GB/s.
    "p100": Sheet("Tesla P100 SXM2", 16 * GIB, 10.6e12, 21.2e12, 732e9),
    # NVIDIA, "V100" data sheet, SXM2 version: 32 GB, 15.7 TFLOPS FP32, 125 TFLOPS tensor, 900 GB/s.
    "v100": Sheet("Tesla V100 SXM2", 32 * GIB, 15.7e12, 125e12, 900e9),
    # NVIDIA, "A10" data sheet: 24 GB, 31.2 TFLOPS FP32, 125 TFLOPS FP16 tensor (dense), 600 GB/s.
    "a10": Sheet("A10", 24 * GIB, 31.2e12, 125e12, 600e9),
    # NVIDIA, "A100" data sheet, SXM4 40 GB version: 19.5 TFLOPS FP32, 312 TFLOPS FP16 tensor (dense), 1,555 GB/s.
    "a100-40gb": Sheet("A100 SXM4 40 GB", 40 * GIB, 19.5e12, 312e12, 1555e9),
    # NVIDIA, "A100" data sheet, SXM4 80 GB version: 19.5 TFLOPS FP32, 312 TFLOPS FP16 tensor (dense), 2,039 GB/s.
    "a100-80gb": Sheet("A100 SXM4 80 GB", 80 * GIB, 19.5e12, 312e12, 2039e9),
    # NVIDIA, "H100" data sheet, SXM5 version: 80 GB, 67 TFLOPS FP32, 989 TFLOPS FP16 tensor (half of the 1,979 with
    # sparsity), 3,350 GB/s.
    "h100": Sheet("H100 SXM5", 80 * GIB, 67e12, 989e12, 3350e9),
}
"""Data sheets by short name."""

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
