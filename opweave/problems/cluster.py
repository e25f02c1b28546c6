"""The machines: devices with their memory and speeds, and the links between them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from opweave.problems.arrays import FloatArray, FloatMatrix
from opweave.problems.errors import InvalidInputError, check_plausible
from opweave.problems.shown import Bare, HasHtml, ShownInNotebooks, brief, changed_fields
from opweave.problems.spec import (
    Amount,
    BytesOrNone,
    Count,
    FrozenDict,
    Many,
    ManyOrNone,
    Name,
    OperationsOrNone,
    RateGridOrNone,
    RateOrNone,
    RatesOrNone,
    Seconds,
    Spec,
    Table,
    preset,
)
from opweave.problems.words import counted, did_you_mean, repeated


def _ascending(sizes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if sizes is None else tuple(sorted({*sizes}))


def _number_or_matrix(value: object) -> str:
    is_matrix = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return "matrix" if is_matrix else "number"


if TYPE_CHECKING:
    from opweave.problems.spec import Takes

    Latency = Takes[float | str | Iterable[Iterable[float | str]], float | tuple[tuple[float, ...], ...]]
else:
    Latency = Annotated[
        Annotated[Seconds, Tag("number")] | Annotated[Many[Many[Seconds]], Tag("matrix")],
        Discriminator(_number_or_matrix),
    ]
"""Seconds before the first byte arrives: one number for all links, or a matrix [from][to]."""


class Device(HasHtml, Spec):
    """One machine, accelerator or core that runs operators.

    Sizes and speeds are numbers or texts with a unit: ``"8 GB"``, ``"512 MiB"``, ``"40 GFLOP/s"``, ``"900 GB/s"``.
    Implausibly small ones give an :class:`~opweave.problems.errors.ImplausibleWarning`.

    Attributes
    ----------
    name
        Unique in the cluster.
    memory_bytes
        Capacity in bytes; None for no limit.
    flops_per_second
        Peak floating-point operations per second; None when unknown (then no roofline can be computed).
    memory_bandwidth
        Bytes per second between its memory and its cores; None when unknown.
    launch_seconds
        Fixed cost of starting one operator.
    batch_sizes
        Batch sizes that the device supports, ascending; None for any size.
    watts
        Power draw when idle and when running; None when unknown.
    group
        Name of the hardware type, a label.

    Examples
    --------
    >>> Device(name="a", memory_bytes=8 * 2**30, batch_sizes=[4, 1]).batch_sizes
    (1, 4)
    >>> Device(name="a", memory_bytes="512 MiB").memory_bytes
    536870912
    """

    name: Name
    memory_bytes: BytesOrNone = preset(None)
    flops_per_second: Annotated[OperationsOrNone, Field(gt=0.0)] = preset(None)
    memory_bandwidth: Annotated[RateOrNone, Field(gt=0.0)] = preset(None)
    launch_seconds: Seconds = preset(0.0)
    batch_sizes: Annotated[ManyOrNone[Count], Field(min_length=1), AfterValidator(_ascending)] = preset(None)
    watts: Annotated[ManyOrNone[Amount], Field(min_length=2, max_length=2)] = preset(None)
    group: Name | None = None

    @model_validator(mode="after")
    def _plausible(self) -> Self:
        for field in ("memory_bytes", "flops_per_second", "memory_bandwidth", "launch_seconds"):
            check_plausible(f"device {self.name!r}", field, [getattr(self, field)])
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, Bare(text)) for name, text in changed_fields(self)]

    def alike(self, other: Device) -> bool:
        """Whether two devices are identical except for their names."""
        return all(getattr(self, field) == getattr(other, field) for field in Device.model_fields if field != "name")


class Cluster(ShownInNotebooks, Spec):
    """Devices and the links between them.

    With several devices, the links are described in exactly one way: ``bandwidth``, ``rates`` or ``shared``.

    Attributes
    ----------
    devices
        At least one.
    bandwidth
        Matrix of bytes per second (or texts such as ``"10 Gbit/s"``), ``bandwidth[from][to]``. The two
        directions may differ, 0 means no direct link, and the diagonal is ignored.
    rates
        Bytes per second of each device's own connection to one router. Two devices communicate at the smaller rate.
    shared
        Bytes per second of one channel that all devices share. The problem, not the cluster, decides how simultaneous
        transfers affect each other.
    latency
        Seconds before the first byte arrives, for all links or as a matrix ``latency[from][to]``.
    notes
        How numbers were measured, by their names.

    Raises
    ------
    InvalidSpecError
        For duplicate names, a matrix of the wrong size, and links described in no way or in several ways.

    Notes
    -----
    Devices without a direct link communicate over the widest path, which is the path whose slowest link is fastest.
    Data streams through the devices in between, so the slowest link alone sets the rate: 100 MB over 10 MB/s and then 5
    MB/s take 20 s. The latencies along the path add up. If several paths have the same rate, the one with the smallest
    total latency is used. A direct link is always used, even if a detour would be wider.

    Examples
    --------
    >>> cluster = Cluster(
    ...     devices=[Device(name="a"), Device(name="b"), Device(name="c")],
    ...     bandwidth=[[0, 10e6, 0], [10e6, 0, 5e6], [0, 5e6, 0]],
    ... )
    >>> cluster.transfer_seconds(100_000_000, "a", "c")
    20.0
    """

    schema_version: Literal[1] = 1
    devices: Annotated[Many[Device], Field(min_length=1)]
    bandwidth: RateGridOrNone = preset(None)
    rates: RatesOrNone = preset(None)
    shared: RateOrNone = preset(None)
    latency: Latency = preset(0.0)
    notes: Table[str, str] = preset(FrozenDict())

    @model_validator(mode="after")
    def _check(self) -> Self:
        twice = repeated(device.name for device in self.devices)
        if twice is not None:
            raise ValueError(f"device name {twice!r} is used more than once; names must be unique")
        self._check_links()
        for field in ("bandwidth", "rates", "shared", "latency"):
            check_plausible("the cluster", field, np.asarray(getattr(self, field) or 0.0).ravel().tolist())
        return self

    def _check_links(self) -> None:
        count = len(self.devices)
        given = [name for name in ("bandwidth", "rates", "shared") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"the links are described by {' and '.join(given)}; give only one of them")
        if count > 1 and not given:
            raise ValueError(f"{count} devices need a description of their links: bandwidth, rates or shared")
        if self.rates is not None and len(self.rates) != count:
            raise ValueError(
                f"rates has {counted(len(self.rates), 'value')} for {count} devices; give one for each device"
            )
        for what, matrix in (("bandwidth", self.bandwidth), ("latency", self.latency)):
            if not isinstance(matrix, tuple):
                continue
            if len(matrix) != count:
                raise ValueError(f"{what} has {len(matrix)} rows for {count} devices")
            for index, row in enumerate(matrix):
                if len(row) != count:
                    raise ValueError(f"row {index} of {what} has {counted(len(row), 'value')} for {count} devices")

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield None, Bare(f"{counted(len(self.devices), 'device')}: {brief([*self.device_index])[1:-1]}")

    @cached_property
    def device_index(self) -> dict[str, int]:
        """Position of every device name in ``devices``."""
        return {device.name: index for index, device in enumerate(self.devices)}

    @cached_property
    def direct_bandwidth(self) -> FloatMatrix:
        """Bytes per second of the direct links, [from, to], read-only; 0 without a link and on the diagonal."""
        count = len(self.devices)
        if self.bandwidth is not None:
            matrix = np.array(self.bandwidth, dtype=np.float64)
        elif self.rates is not None:
            rates = np.array(self.rates, dtype=np.float64)
            matrix = np.minimum(rates[:, None], rates[None, :])
        else:
            matrix = np.full((count, count), self.shared or 0.0)
        np.fill_diagonal(matrix, 0.0)
        return _read_only(matrix)

    @cached_property
    def direct_latency(self) -> FloatMatrix:
        """Seconds before the first byte arrives over the direct links, [from, to], read-only.

        Infinite without a link, 0 on the diagonal.
        """
        direct = self.direct_bandwidth
        matrix = np.where(direct > 0, np.array(self.latency, dtype=np.float64), np.inf)
        np.fill_diagonal(matrix, 0.0)
        return _read_only(matrix)

    @cached_property
    def effective_bandwidth(self) -> FloatMatrix:
        """Bytes per second from each device to each other device over the path in use, [from, to], read-only.

        0 where no path exists. The diagonal is infinite, because a device has its own data at once.
        """
        matrix = _widest(self.direct_bandwidth)
        np.fill_diagonal(matrix, np.inf)
        return _read_only(matrix)

    @cached_property
    def effective_latency(self) -> FloatMatrix:
        """Seconds before the first byte arrives over the path in use, [from, to], read-only.

        Infinite where no path exists, 0 on the diagonal.
        """
        direct, hop, rate = self.direct_bandwidth, self.direct_latency, self.effective_bandwidth
        matrix = hop.copy()
        indirect = (direct == 0) & (rate > 0) & np.isfinite(rate)
        for slowest in np.unique(rate[indirect]):
            pairs = indirect & (rate == slowest)
            matrix[pairs] = _shortest(np.where(direct >= slowest, hop, np.inf))[pairs]
        return _read_only(matrix)

    @cached_property
    def identical_groups(self) -> tuple[tuple[str, ...], ...]:
        """Names of the devices that can be swapped without changing the cluster; every device is in one group.

        Devices in one group are identical except for their names, and so are their links. Measured costs may still
        differ between them.
        """
        groups: dict[int, list[str]] = {}
        for index, device in enumerate(self.devices):
            alike = (k for k in groups if device.alike(self.devices[k]) and self._swappable(k, index))
            groups.setdefault(next(alike, index), []).append(device.name)
        return tuple(map(tuple, groups.values()))

    def transfer_seconds(self, size: int, source: str, target: str) -> float:
        """Seconds to move ``size`` bytes when nothing else uses the links: latency + size / bandwidth.

        The result is 0 when source and target are the same device.

        Raises
        ------
        InvalidInputError
            For a negative size, an unknown device, or two devices that no path connects.
        """
        if size < 0:
            raise InvalidInputError(f"{size} bytes cannot be moved; a size is 0 or more")
        index = self.device_index
        for name in (each for each in (source, target) if each not in index):
            known = ", ".join(map(repr, index))
            raise InvalidInputError(f"the cluster has no device {name!r}; it has {known}{did_you_mean(name, index)}")
        seconds = float(self.link_seconds(index[source], index[target], size))
        if isnan(seconds):
            raise InvalidInputError(f"no link or chain of links leads from device {source!r} to {target!r}")
        return seconds

    def link_seconds(self, source: Any, target: Any, size: Any) -> FloatArray:
        """Latency + size / bandwidth, elementwise, for devices by position; NaN where no links lead to the target."""
        rate, latency = self.effective_bandwidth[source, target], self.effective_latency[source, target]
        return np.where(rate > 0.0, latency + size / np.where(rate > 0.0, rate, 1.0), np.nan)

    def _swappable(self, first: int, second: int) -> bool:
        if self.rates is not None and self.rates[first] != self.rates[second]:
            return False  # a port may have a higher rate than any single transfer through it
        others = np.ones(len(self.devices), dtype=bool)
        others[[first, second]] = False
        return all(
            matrix[first, second] == matrix[second, first]
            and np.array_equal(matrix[first, others], matrix[second, others])
            and np.array_equal(matrix[others, first], matrix[others, second])
            for matrix in (self.direct_bandwidth, self.direct_latency)
        )


def _read_only(matrix: FloatMatrix) -> FloatMatrix:
    matrix.setflags(write=False)
    return matrix


def _widest(direct: FloatMatrix) -> FloatMatrix:
    """Rate of the widest path for pairs without a direct link; other pairs keep the rate of their link."""
    rate = direct.copy()
    for middle in range(len(rate)):
        np.maximum(rate, np.minimum(rate[:, middle, None], rate[None, middle, :]), out=rate)
    return np.where(direct > 0, direct, rate)


def _shortest(hop: FloatMatrix) -> FloatMatrix:
    """Smallest sum of hops between all pairs (Floyd and Warshall)."""
    total = hop.copy()
    for middle in range(len(total)):
        np.minimum(total, total[:, middle, None] + total[None, middle, :], out=total)
    return total
