"""Well-known devices by their public data sheets, and clusters made of them.

The figures stand in ``device_sheets.toml``: accelerators, graphics cards, laptops, phones and small boards. Every row
names where its figures are published. Rows with ``compared`` were compared with a second, public table, and agree with
it. Other figures of NVIDIA, AMD, Intel, Jetson, Coral and microcontrollers were written from knowledge of these
documents and not compared with them line by line, so check the rows that a decision depends on. Rates are peaks; a
roofline takes an efficiency to come closer to measured times. The sheets set no launch cost, because no data sheet
states one. Speeds that a source states as cores and clocks are their product: "16 FLOP per cycle" means two 128-bit
units for multiply-add. Devices that compute in half precision no faster than in single precision have the same rate for
both. Some of them only store half precision and convert it, as do Pascal graphics cards of the P4's kind and most
processors.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError
from opweave.problems.units import read_size

Precision = Literal["fp32", "fp16", "int8"]

GIGABIT = 1e9 / 8
"""Bytes per second in a gigabit per second."""

ETHERNET = 0.94 * GIGABIT
"""Bytes per second of payload over gigabit Ethernet: TCP with frames of 1,500 bytes."""

ETHERNET_LATENCY = 200e-6
"""Seconds before the first byte arrives; our assumption for a switch and two network stacks."""


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
    speeds
        Peak operations per second by precision, where a source is known. ``"fp32"``: without tensor cores. ``"fp16"``:
        dense, with tensor cores if it has them; the single-precision rate where half precision is no faster.
        ``"int8"``: on 8-bit integers.
    source
        Where the figures stand.
    compared
        A second table that agrees, within one percent and rounding; empty if none was looked up.
    """

    title: str
    memory_bandwidth: float
    memory_bytes: int | None
    speeds: dict[str, float]
    source: str
    compared: str

    @classmethod
    def read(cls, row: dict[str, Any]) -> Sheet:
        """A row of the file, in GB/s and tera-operations per second."""
        speeds = {each: float(round(row[each] * 1e12)) for each in get_args(Precision) if each in row}
        memory = read_size(row["memory"]) if "memory" in row else None
        return cls(row["title"], row["bandwidth"] * 1e9, memory, speeds, row["source"], row.get("compared", ""))

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
        if precision not in self.speeds:
            known = " or ".join(map(repr, self.speeds))
            advice = f"take {known}" if known else "make a Device with the speed that you measured"
            raise InvalidInputError(f"the {precision} speed of {self.title} is not known here; {advice}")
        memory = self.memory_bytes if memory_bytes is None else memory_bytes
        if memory is None:
            raise InvalidInputError(f"{self.title} comes with several sizes of memory; say memory_bytes='16 GiB'")
        return Device(
            name=name,
            memory_bytes=memory,
            flops_per_second=self.speeds[precision],
            memory_bandwidth=self.memory_bandwidth,
            group=group,
        )


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

DEVICES = {kind: Sheet.read(row) for kind, row in _DATA["devices"].items()}
"""Data sheets by short name."""

CLUSTERS = tuple(_DATA["clusters"])
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
    row = _DATA["clusters"][name]
    devices = tuple(
        DEVICES[each["kind"]].device(each["name"], each["kind"], precision, each.get("memory"))
        for each in row["devices"]
    )
    if "gigabits" not in row:
        return Cluster(devices=devices, rates=(ETHERNET,) * len(devices), latency=ETHERNET_LATENCY)
    return Cluster(devices=devices, bandwidth=tuple(tuple(rate * GIGABIT for rate in line) for line in row["gigabits"]))
