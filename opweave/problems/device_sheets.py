"""Well-known devices by their public data sheets: accelerators, graphics cards, laptops, phones and small boards.

Every row names where its figures are published, and numbers without a known source are None. The rows in
:data:`COMPARED` were compared with a second, public table, and agree with it. Other figures of NVIDIA, AMD, Intel,
Jetson, Coral and microcontrollers were written from knowledge of these documents and not compared with them line by
line, so check the rows that a decision depends on. Rates are peaks; a roofline takes an efficiency to come closer to
measured times. The sheets set no launch cost, because no data sheet states one. Speeds that a source
states as cores and clocks are their product: "16 FLOP per cycle" means two 128-bit units for multiply-add.
Devices that compute in half precision no faster than in single precision have the same rate for both. Some of them
only store half precision and convert it, as do Pascal graphics cards of the P4's kind and most processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError

Precision = Literal["fp32", "fp16", "int8"]

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Sheet:
    """The figures that public sources state for a device.

    Attributes
    ----------
    title
        Full name.
    memory_bandwidth
        Peak bytes per second.
    memory_bytes
        Memory on the board or in the module; None where each machine has its own size.
    fp32
        Peak FLOP/s in single precision, without tensor cores; None if no source is known.
    fp16
        Peak FLOP/s in half precision, dense, with tensor cores if it has them; the single-precision rate where half
        precision is no faster; None if no source is known.
    int8
        Peak operations per second on 8-bit integers; None if no source is known.
    source
        Where the figures stand.
    """

    title: str
    memory_bandwidth: float
    memory_bytes: int | None = None
    fp32: float | None = None
    fp16: float | None = None
    int8: float | None = None
    source: str = ""

    def device(
        self, name: str, group: str, precision: Precision = "fp32", memory_bytes: int | str | None = None
    ) -> Device:
        """A device of this kind.

        Parameters
        ----------
        name, group
            Name of the device, and of the hardware type.
        precision
            The precision whose peak becomes the device's speed.
        memory_bytes
            Memory of the machine, where the kind does not determine it, or what of it is free.

        Raises
        ------
        InvalidInputError
            When the speed in that precision or the memory is not known.
        """
        speeds = {"fp32": self.fp32, "fp16": self.fp16, "int8": self.int8}
        speed = speeds[precision]
        if speed is None:
            known = [repr(other) for other in get_args(Precision) if speeds[other] is not None]
            advice = f"take {' or '.join(known)}" if known else "make a Device with the speed that you measured"
            raise InvalidInputError(f"the {precision} speed of {self.title} is not known here; {advice}")
        memory = self.memory_bytes if memory_bytes is None else memory_bytes
        if memory is None:
            raise InvalidInputError(f"{self.title} comes with several sizes of memory; say memory_bytes='16 GiB'")
        return Device.model_validate(
            {
                "name": name,
                "memory_bytes": memory,
                "flops_per_second": speed,
                "memory_bandwidth": self.memory_bandwidth,
                "group": group,
            }
        )


def _sheet(
    title: str,
    gbps: float,
    memory: int | None = None,
    *,
    fp32: float | None = None,
    fp16: float | None = None,
    int8: float | None = None,
    source: str,
) -> Sheet:
    """A sheet from GB/s and TFLOP/s, as data sheets write them."""
    return Sheet(title, gbps * 1e9, memory, _tera(fp32), _tera(fp16), _tera(int8), source)


def _tera(speed: float | None) -> float | None:
    """Operations per second, a whole number of them."""
    return None if speed is None else float(round(speed * 1e12))


_ADA = 'NVIDIA, "Ada GPU Architecture" (V2), tensor cores with FP32 accumulate, without sparsity'
_BLACKWELL = 'NVIDIA, "RTX Blackwell GPU Architecture", tensor cores with FP32 accumulate, without sparsity'
_AMPERE = 'NVIDIA, "Ampere GA102 GPU Architecture" (V2), tensor cores with FP32 accumulate, without sparsity'
_FP32_ACCUMULATE = (
    "FP16: tensor cores times 128 multiply-adds times boost clock, with FP32 accumulate, from the white paper"
)
_GEFORCE = f"NVIDIA's product page: cores times boost clock times 2, and memory clock times bus; {_FP32_ACCUMULATE}"
_TEKSPEK = f"NVIDIA's figures as tabled by scan.co.uk (TekSpek); {_FP32_ACCUMULATE}"
_SINGLE = "FP16 as FP32: no faster units"
_LANES = "FP16 as FP32: philipturner/metal-benchmarks, operations of 16 and 32 bit"
_APPLE = f"Apple's press release on the chip; GPU cores of 128 lanes times their clock times 2; {_LANES}"
_APPLE_MEMORY = "Apple's press release on the chip, which states no FLOP/s"
_ORIN = (
    "NVIDIA, Jetson Orin data sheet: CUDA cores times maximum clock times 2; tensor cores at a quarter (FP16) and half "
    "(INT8) of the sparse INT8 rate"
)

DEVICES = {
    # NVIDIA, data centre and workstation
    "t4": _sheet(
        "Tesla T4", 320, 16 * GIB, fp32=8.1, fp16=65, int8=130, source='NVIDIA, "T4 Tensor Core Product Brief"'
    ),
    "p4": _sheet("Tesla P4", 192, 8 * GIB, fp32=5.5, fp16=5.5, source=f'NVIDIA, "Tesla P4" data sheet; {_SINGLE}'),
    "p40": _sheet("Tesla P40", 346, 24 * GIB, fp32=12, fp16=12, source=f'NVIDIA, "Tesla P40" data sheet; {_SINGLE}'),
    "p100": _sheet(
        "Tesla P100 SXM2", 732, 16 * GIB, fp32=10.6, fp16=21.2, source='NVIDIA, "Tesla P100" data sheet, NVLink'
    ),
    "v100": _sheet("Tesla V100 SXM2", 900, 32 * GIB, fp32=15.7, fp16=125, source='NVIDIA, "V100" data sheet, SXM2'),
    "a10": _sheet("A10", 600, 24 * GIB, fp32=31.2, fp16=125, source='NVIDIA, "A10" data sheet, without sparsity'),
    "a100-40gb": _sheet(
        "A100 SXM4 40 GB",
        1555,
        40 * GIB,
        fp32=19.5,
        fp16=312,
        int8=624,
        source='NVIDIA, "A100" data sheet, without sparsity',
    ),
    "a100-80gb": _sheet(
        "A100 SXM4 80 GB",
        2039,
        80 * GIB,
        fp32=19.5,
        fp16=312,
        int8=624,
        source='NVIDIA, "A100" data sheet, without sparsity',
    ),
    "a6000": _sheet(
        "RTX A6000", 768, 48 * GIB, fp32=38.7, fp16=154.8, source='NVIDIA, "RTX A6000" data sheet, without sparsity'
    ),
    "l4": _sheet("L4", 300, 24 * GIB, fp32=30.3, fp16=121, source='NVIDIA, "L4" data sheet, without sparsity'),
    "l40s": _sheet("L40S", 864, 48 * GIB, fp32=91.6, fp16=362, source='NVIDIA, "L40S" data sheet, without sparsity'),
    "h100": _sheet(
        "H100 SXM5", 3350, 80 * GIB, fp32=67, fp16=989, source='NVIDIA, "H100" data sheet, SXM5, without sparsity'
    ),
    "h200": _sheet(
        "H200 SXM", 4800, 141 * 10**9, fp32=67, fp16=989, source='NVIDIA, "H200" data sheet, without sparsity'
    ),
    # Graphics cards
    "rtx2080ti": _sheet(
        "GeForce RTX 2080 Ti",
        616,
        11 * GIB,
        fp32=13.4,
        fp16=107.6,
        source='NVIDIA, "Turing GPU Architecture" (WP-09183-001), reference clocks, tensor cores with FP16 accumulate',
    ),
    "rtx3060": _sheet("GeForce RTX 3060", 360, 12 * GIB, fp32=12.7, fp16=25.5, source=_GEFORCE),
    "rtx3060ti": _sheet("GeForce RTX 3060 Ti", 448, 8 * GIB, fp32=16.2, fp16=32.4, source=_TEKSPEK),
    "rtx3080": _sheet("GeForce RTX 3080 10 GB", 760, 10 * GIB, fp32=29.8, fp16=59.5, source=_AMPERE),
    "rtx3090": _sheet("GeForce RTX 3090", 936, 24 * GIB, fp32=35.6, fp16=71, source=_TEKSPEK),
    "rtx4060": _sheet("GeForce RTX 4060", 272, 8 * GIB, fp32=15.1, fp16=30.2, source=_GEFORCE),
    "rtx4060ti-16gb": _sheet("GeForce RTX 4060 Ti 16 GB", 288, 16 * GIB, fp32=22.1, fp16=44.1, source=_GEFORCE),
    "rtx4070": _sheet("GeForce RTX 4070", 504, 12 * GIB, fp32=29.1, fp16=58.3, source=_GEFORCE),
    "rtx4080": _sheet("GeForce RTX 4080", 716.8, 16 * GIB, fp32=48.7, fp16=97.5, source=_ADA),
    "rtx4090": _sheet("GeForce RTX 4090", 1008, 24 * GIB, fp32=82.6, fp16=165.2, source=_ADA),
    "rtx5070ti": _sheet("GeForce RTX 5070 Ti", 896, 16 * GIB, fp32=43.9, fp16=87.9, source=_GEFORCE),
    "rtx5080": _sheet("GeForce RTX 5080", 960, 16 * GIB, fp32=56.3, fp16=112.6, source=_BLACKWELL),
    "rtx5090": _sheet("GeForce RTX 5090", 1792, 32 * GIB, fp32=104.8, fp16=209.5, source=_BLACKWELL),
    "rx7900xtx": _sheet(
        "Radeon RX 7900 XTX", 960, 24 * GIB, fp32=61.4, fp16=122.8, source="AMD's product page of the RX 7900 XTX"
    ),
    # Apple: processor and GPU share the memory, whose size is the machine's
    "apple-m1": _sheet(
        "Apple M1",
        68.3,
        fp32=2.6,
        fp16=2.6,
        source=f"Apple, November 2020: 2.6 teraflops; LPDDR4X-4266, 128 bit; {_LANES}",
    ),
    "apple-m1-pro": _sheet("Apple M1 Pro", 200, fp32=5.2, fp16=5.2, source=_APPLE),
    "apple-m1-max": _sheet("Apple M1 Max", 400, fp32=10.4, fp16=10.4, source=_APPLE),
    "apple-m1-ultra": _sheet("Apple M1 Ultra", 800, fp32=20.8, fp16=20.8, source=_APPLE),
    "apple-m2": _sheet(
        "Apple M2", 100, fp32=3.6, fp16=3.6, source=f"Apple, June 2022: 100 GB/s, 3.6 teraflops; {_LANES}"
    ),
    "apple-m2-pro": _sheet("Apple M2 Pro", 200, fp32=6.8, fp16=6.8, source=_APPLE),
    "apple-m2-max": _sheet("Apple M2 Max", 400, fp32=13.6, fp16=13.6, source=_APPLE),
    "apple-m2-ultra": _sheet("Apple M2 Ultra", 800, fp32=27.2, fp16=27.2, source=_APPLE),
    "apple-m3": _sheet("Apple M3", 100, source=_APPLE_MEMORY),
    "apple-m3-max": _sheet("Apple M3 Max, 40 GPU cores", 400, source=_APPLE_MEMORY),
    "apple-m4": _sheet("Apple M4", 120, source=_APPLE_MEMORY),
    "apple-m4-pro": _sheet("Apple M4 Pro", 273, source=_APPLE_MEMORY),
    "apple-m4-max": _sheet("Apple M4 Max, 40 GPU cores", 546, source=_APPLE_MEMORY),
    # Processors of laptops and desktops, at their base clocks
    "core-i7-1165g7": _sheet(
        "Core i7-1165G7",
        68.3,
        fp32=0.358,
        fp16=0.358,
        source=f"Intel ARK: 4 cores, 2.8 GHz, LPDDR4X-4267, 128 bit; 32 FLOP per cycle (one 512-bit unit); {_SINGLE}",
    ),
    "core-i9-13900k": _sheet(
        "Core i9-13900K",
        89.6,
        fp32=1.33,
        fp16=1.33,
        source=f"Intel ARK: 8 cores at 3.0 GHz, 16 at 2.2 GHz, DDR5-5600, 128 bit; 32 and 16 FLOP per cycle; {_SINGLE}",
    ),
    "ryzen-7-7840u": _sheet(
        "Ryzen 7 7840U",
        120,
        fp32=0.845,
        fp16=0.845,
        source=f"AMD's product page: 8 cores, 3.3 GHz, LPDDR5X-7500, 128 bit; 32 FLOP per cycle; {_SINGLE}",
    ),
    "ryzen-9-7950x": _sheet(
        "Ryzen 9 7950X",
        83.2,
        fp32=2.3,
        fp16=2.3,
        source=f"AMD's product page: 16 cores, 4.5 GHz, DDR5-5200, 128 bit; 32 FLOP per cycle; {_SINGLE}",
    ),
    "ryzen-ai-max-395": _sheet(
        "Ryzen AI Max+ 395",
        256,
        fp32=3.07,
        fp16=3.07,
        source=f"AMD's product page: 16 cores, 3.0 GHz, LPDDR5X-8000, 256 bit; 64 FLOP per cycle; {_SINGLE}",
    ),
    # Phones: their processors' cores, not their GPUs
    "snapdragon-8-gen-3": _sheet(
        "Snapdragon 8 Gen 3",
        76.8,
        fp32=0.392,
        fp16=0.784,
        source="Qualcomm's product brief: LPDDR5X at 4,800 MHz, 64 bit; Cortex-X4 at 3.3 GHz, 3 and 2 Cortex-A720 at "
        "3.2 and 3.0 GHz, 2 Cortex-A520 at 2.3 GHz; 32, 16 and 8 FLOP per cycle, twice in FP16 (Armv9)",
    ),
    # Boards
    "raspberry-pi-4": _sheet(
        "Raspberry Pi 4 Model B",
        12.8,
        fp32=0.048,
        fp16=0.048,
        source="Raspberry Pi 4 product brief: 4 Cortex-A72 at 1.5 GHz, LPDDR4-3200, 32 bit; 8 FLOP per cycle; "
        "FP16 as FP32: Armv8.0 has no arithmetic in half precision",
    ),
    "raspberry-pi-5": _sheet(
        "Raspberry Pi 5",
        17.1,
        fp32=0.1536,
        fp16=0.3072,
        source="Raspberry Pi 5 product brief: 4 Cortex-A76 at 2.4 GHz, LPDDR4X-4267, 32 bit; 16 FLOP per cycle, "
        "twice in FP16 (Armv8.2)",
    ),
    "jetson-nano": _sheet(
        "Jetson Nano",
        25.6,
        4 * GIB,
        fp32=0.236,
        fp16=0.472,
        source="NVIDIA, Jetson Nano data sheet: 128 CUDA cores at 921 MHz, 25.6 GB/s",
    ),
    "jetson-xavier-nx": _sheet(
        "Jetson Xavier NX",
        59.7,
        8 * GIB,
        fp32=0.845,
        fp16=6,
        source="NVIDIA, Jetson Xavier NX data sheet: 384 CUDA cores at 1,100 MHz, 59.7 GB/s; product page: 6 TFLOPS in "
        "FP16",
    ),
    "jetson-orin-nano": _sheet("Jetson Orin Nano 8 GB", 68, 8 * GIB, fp32=1.28, fp16=10, int8=20, source=_ORIN),
    "jetson-orin-nano-super": _sheet(
        "Jetson Orin Nano Super", 102, 8 * GIB, fp32=2.09, fp16=16.7, int8=33.5, source=_ORIN
    ),
    "jetson-agx-orin": _sheet("Jetson AGX Orin 64 GB", 204.8, 64 * GIB, fp32=5.32, fp16=42.5, int8=85, source=_ORIN),
    # Small ones
    "coral-usb": _sheet(
        "Coral USB Accelerator",
        0.625,
        8 * MIB,
        int8=4,
        source="coral.ai: 4 TOPS, about 8 MB of memory for parameters; the rest comes over USB 3.0 at 5 Gbit/s",
    ),
    "stm32h743": _sheet(
        "STM32H743",
        1.92,
        1 * MIB,
        fp32=0.00096,
        source="ST, DS12110: Cortex-M7 at 480 MHz, 1 MB of RAM, 64-bit bus at 240 MHz; 2 FLOP per cycle",
    ),
    "nrf52840": _sheet(
        "nRF52840",
        0.256,
        256 * 1024,
        fp32=0.000128,
        source="Nordic, nRF52840 product specification: Cortex-M4F at 64 MHz, 256 kB of RAM, 32 bit; 2 FLOP per cycle",
    ),
}
"""Data sheets by short name."""

_RTX_50 = "thetechfeed.site, RTX 50 series compared to prior generations: bandwidths and cores"
_RTX_40 = "guru3d.com, specifications of NVIDIA graphics cards: bandwidths"
_AKUNU = "akunu.prabod.rathnayaka.me, chapter 5, the M1 family: bandwidths and FP32"
_CRAFT = "craftrigs.pages.dev, Apple silicon benchmarks: bandwidths"

COMPARED = {
    "t4": "sysrqmts.com, A100 SXM4 40 GB beside T4; hmc-tech.com, A800 40GB vs T4: INT8",
    "a100-40gb": "sysrqmts.com, A100 SXM4 40 GB beside T4; hmc-tech.com, H100 vs A100 SXM 40GB: INT8, dense",
    "a100-80gb": "ozyphus.github.io, GPU architectural foundations",
    "h100": "ozyphus.github.io, GPU architectural foundations; its FP16 is with sparsity",
    "v100": "ozyphus.github.io, GPU architectural foundations",
    "a10": "calwoo.github.io, NVIDIA GPU hardware for deep learning: FP32",
    "a6000": "calwoo.github.io, NVIDIA GPU hardware for deep learning: FP32",
    "l4": "grokipedia.com, L4 beside L40S: bandwidth, FP16 with sparsity",
    "l40s": "mullet.se, L40 and L40S",
    "p4": "cpu-gpu.alldbin.com, Tesla P4 beside P40",
    "p40": "cpu-gpu.alldbin.com, Tesla P4 beside P40",
    "h200": "llmbook.apartsin.com, appendix G: 141 GB, bandwidth, BF16",
    "rtx3060": "siliconcat.net, RTX 3060 beside RTX 2060 12 GB",
    "rtx3060ti": "cputronic.com, RTX 3060 Ti beside its GDDR6X form; topcpu.net: FP32",
    "rx7900xtx": "pcspecchart.com: memory and bandwidth; tweaktown.com of November 2022: FP32",
    "ryzen-ai-max-395": "svethardware.cz, AMD Ryzen AI Max: cores, clock, bandwidth",
    "jetson-nano": "cpu-gpu.alldbin.com, Jetson TX2 beside Jetson Nano: cores, clock, bandwidth",
    "jetson-orin-nano": "brojogopalsapui.com, Jetson Orin Nano Super: clock and bandwidth before and after",
    "jetson-orin-nano-super": "brojogopalsapui.com, Jetson Orin Nano Super: cores, clock, bandwidth",
    "apple-m2": "llmperf.net, Apple M2 series: bandwidth",
    "rtx3080": _RTX_50,
    "rtx3090": "holynerdvana.blogspot.com, GeForce RTX 3090 specifications",
    "rtx4060": _RTX_40,
    "rtx4060ti-16gb": _RTX_40,
    "rtx4070": _RTX_40,
    "rtx4080": _RTX_40,
    "rtx4090": _RTX_50,
    "rtx5070ti": _RTX_50,
    "rtx5080": _RTX_50,
    "rtx5090": _RTX_50,
    "apple-m1": _AKUNU,
    "apple-m1-pro": _AKUNU,
    "apple-m1-max": _AKUNU,
    "apple-m1-ultra": _AKUNU,
    "apple-m2-pro": _CRAFT,
    "apple-m4-pro": "gpuhunter.io, M4 Pro: bandwidth",
    "apple-m4-max": _CRAFT,
}
"""Rows that agree with a second table, within one percent and rounding, and where that stands."""


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
