"""How long every operator takes on every device, for every batch size that was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError, warn_once_built
from opweave.problems.roofline import bytes_moved, variants
from opweave.problems.shown import Bare, ShownInNotebooks, brief
from opweave.problems.spec import (
    Amount,
    Count,
    FrozenDict,
    Many,
    Name,
    SecondsGrid,
    SecondsOrNone,
    Share,
    Spec,
    Table,
    preset,
)
from opweave.problems.words import counted, repeated

if TYPE_CHECKING:
    from opweave.problems.graph import OpGraph

MAX_SECONDS = 1e15

IMPLAUSIBLE_SECONDS = 10.0
"""A time that the shortest operator of a model hardly takes on anything that runs one."""


class Efficiency(Spec):
    """How much of a device's peak the operators of one kind reach.

    Attributes
    ----------
    arithmetic
        Share of ``flops_per_second``, above 0 and at most 1.
    traffic
        Share of ``memory_bandwidth``, above 0 and at most 1.
    launch_seconds
        Fixed cost of starting one operator of the kind; None to use the device's own.
    overlap
        Share of the shorter of arithmetic and traffic that takes no time of its own because it happens during the
        longer one: 1 for a roofline, 0 if the two follow each other.
    """

    arithmetic: Share = 1.0
    traffic: Share = 1.0
    launch_seconds: SecondsOrNone = preset(None)
    overlap: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0


class Costs(ShownInNotebooks, Spec):
    """Seconds for (operator, device, batch size), as one compact table.

    Build it with :meth:`from_table` or :meth:`roofline`. An entry that the table lacks is unknown, not free. Problems
    refuse to plan with unknown times.

    Attributes
    ----------
    operators, devices, batches
        The labels of the rows and columns; batch sizes ascend.
    table
        One row of seconds for each operator. Entry ``device * len(batches) + batch`` of a row, by position, is the time
        of one whole batch; None when it is unknown.
    notes
        How the times of each device were measured.

    Raises
    ------
    InvalidSpecError
        For duplicate names, a table of the wrong size, and times that are not finite numbers of 0 or more.

    Examples
    --------
    >>> costs = Costs.from_table({"conv1": {"a": {1: 0.001, 4: 0.003}, "b": 0.002}})
    >>> costs.seconds("conv1", "a", batch=4)
    0.003
    """

    schema_version: Literal[1] = 1
    operators: Many[Name]
    devices: Many[Name]
    batches: Annotated[Many[Count], Field(min_length=1)] = preset((1,))
    table: SecondsGrid
    notes: Table[str, str] = preset(FrozenDict())

    @field_validator("table", mode="wrap")
    @classmethod
    def _name_bad_entries(cls, value: object, check: Callable[[object], object], info: ValidationInfo) -> object:
        """Name operator and device of an entry that is no duration."""
        try:
            return check(value)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            row, column, *_ = (*found["loc"], None, None)
            operators, devices, batches = (info.data.get(name, ()) for name in ("operators", "devices", "batches"))
            labels = [(device, batch) for device in devices for batch in batches]
            if row is None or column is None or row >= len(operators) or column >= len(labels):
                raise
            (device, batch), given = labels[column], found["input"]
            raise ValueError(
                f"the time of operator {operators[row]!r} on device {device!r} for batch {batch} is {given!r}; "
                "give finite seconds of 0 or more, a text such as '3 ms', or None for unknown"
            ) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for what, names in (("operator", self.operators), ("device", self.devices)):
            twice = repeated(names)
            if twice is not None:
                raise ValueError(f"{what} {twice!r} is listed more than once")
        if list(self.batches) != sorted(set(self.batches)):
            raise ValueError(f"batches must ascend, each size once, but are {list(self.batches)}")
        if len(self.table) != len(self.operators):
            raise ValueError(f"table has {len(self.table)} rows for {len(self.operators)} operators")
        for operator, row in zip(self.operators, self.table, strict=True):
            if len(row) != len(self.devices) * len(self.batches):
                raise ValueError(f"the row of operator {operator!r} has {len(row)} entries, not one a device and batch")
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield None, Bare(f"{counted(len(self.operators), 'operator')} on {counted(len(self.devices), 'device')}")
        yield "devices", Bare(brief(self.devices))
        if self.batches != (1,):
            yield "batches", Bare(brief(self.batches))

    @classmethod
    def from_table(
        cls, table: Mapping[str, Mapping[str, float | str | Mapping[int, float | str | None] | None]]
    ) -> Costs:
        """Costs from nested mappings: operator -> device -> seconds, or operator -> device -> batch size -> seconds.

        A plain number or text (``"3 ms"``) is the time for batch size 1. Entries that are None or missing are unknown.

        Raises
        ------
        InvalidSpecError
            For times that are not finite numbers of 0 or more; the message names operator and device.

        Examples
        --------
        >>> Costs.from_table({"conv1": {"a": 0.0013, "b": 0.0021}}).seconds("conv1", "b")
        0.0021
        """
        times: dict[str, dict[str, Mapping[int, float | str | None]]] = {}
        for operator, row in table.items():
            if not isinstance(row, Mapping):
                raise InvalidInputError(f"operator {operator!r} needs a mapping of devices to seconds, not {row!r}")
            times[operator] = {name: each if isinstance(each, Mapping) else {1: each} for name, each in row.items()}
        devices = tuple(dict.fromkeys(device for row in times.values() for device in row))
        sizes = dict.fromkeys(batch for row in times.values() for entry in row.values() for batch in entry)
        for size in sizes:
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise InvalidInputError(f"{size!r} is not a batch size; a batch size is a whole number from 1")
        batches = tuple(sorted(sizes)) or (1,)
        cells: Any = ([row.get(name, {}).get(batch) for name in devices for batch in batches] for row in times.values())
        made = cls(operators=tuple(times), devices=devices, batches=batches, table=tuple(map(tuple, cells)))
        shortest = min((each for row in made.table for each in row if each), default=0.0)
        if shortest >= IMPLAUSIBLE_SECONDS:
            said = f"costs: every operator takes {shortest:g} s or more"
            warn_once_built(f"{said}; if these are milliseconds, write '{shortest:g} ms'")
        return made

    @classmethod
    def roofline(
        cls,
        graph: OpGraph,
        cluster: Cluster,
        *,
        efficiency: Mapping[str, float | Efficiency] | None = None,
        default_efficiency: float | Efficiency = 1.0,
        batches: Iterable[int] = (1,),
        parameters_read: Mapping[str, float] | None = None,
    ) -> Costs:
        """Estimate costs: the slower of arithmetic and memory traffic, plus the cost of launching the operator.

        seconds = max(flops / (flops_per_second * arithmetic), bytes / (memory_bandwidth * traffic)) + launch_seconds,
        and with an ``overlap`` below 1, the rest of the smaller of the two as well. The bytes are those of every tensor
        read or written and of the parameters, each counted once. Of an embedding table (:data:`LOOKUPS`), only the rows
        that are picked count. FLOPs and tensors grow with the batch, parameters do not. An operator that only makes a
        view (it writes only aliases and has no FLOPs) moves nothing.

        Parameters
        ----------
        graph, cluster
            The model, for one input, and the devices.
        efficiency
            Efficiency by operator kind, or by a variant of it (:func:`variants`): an :class:`Efficiency`, such as
            ``opweave.calibrate`` measures, or one number that is the share of both arithmetic and traffic, above 0 and
            at most 1.
        default_efficiency
            The efficiency of kinds that ``efficiency`` does not list.
        batches
            Batch sizes. The times of sizes that a device does not support are unknown on that device.
        parameters_read
            Bytes of parameters that operators read, where these are not all of their parameters once.

        Raises
        ------
        InvalidInputError
            For a device without ``flops_per_second`` or ``memory_bandwidth``, or a share outside (0, 1].

        Examples
        --------
        >>> from opweave.problems.cluster import Cluster, Device
        >>> from opweave.problems.graph import Operator, OpGraph, Tensor
        >>> graph = OpGraph(
        ...     tensors=[Tensor(id="x", bytes=100), Tensor(id="y", bytes=100)],
        ...     operators=[Operator(id="relu", kind="Relu", inputs=["x"], outputs=["y"], flops=25)],
        ... )
        >>> cluster = Cluster(devices=[Device(name="a", flops_per_second=100.0, memory_bandwidth=50.0)])
        >>> Costs.roofline(graph, cluster, efficiency={"Relu": 0.5}).seconds("relu", "a")
        8.0
        """
        kinds = {kind: _efficiency(kind, given) for kind, given in (efficiency or {}).items()}
        default = _efficiency("default", default_efficiency)
        reached = [
            next((kinds[name] for name in names if name in kinds), default) if kinds else default
            for names in variants(graph)
        ]
        arithmetic = np.array([one.arithmetic for one in reached], dtype=np.float64)
        traffic = np.array([one.traffic for one in reached], dtype=np.float64)
        exposed = 1.0 - np.array([one.overlap for one in reached], dtype=np.float64)
        flops = np.array([op.flops for op in graph.operators], dtype=np.float64)
        activations, parameters = bytes_moved(graph, parameters_read or {})
        sizes = tuple(sorted(set(batches)))
        columns = []
        for device in cluster.devices:
            speed, bandwidth = _speeds(device)
            launch = np.array(
                [device.launch_seconds if one.launch_seconds is None else one.launch_seconds for one in reached]
            )
            for size in sizes:
                if device.batch_sizes is not None and size not in device.batch_sizes:
                    columns.append([None] * len(graph.operators))
                    continue
                moved = (size * activations + parameters) / bandwidth / traffic
                computed = size * flops / speed / arithmetic
                after = exposed * np.minimum(computed, moved)
                columns.append((np.maximum(computed, moved) + after + launch).tolist())
        return cls(
            operators=graph.operator_ids,
            devices=tuple(device.name for device in cluster.devices),
            batches=sizes,
            table=tuple(zip(*columns, strict=True)),
        )

    @cached_property
    def operator_index(self) -> dict[str, int]:
        """Row of every operator."""
        return {name: index for index, name in enumerate(self.operators)}

    @cached_property
    def device_index(self) -> dict[str, int]:
        """Position of every device name in ``devices``."""
        return {name: index for index, name in enumerate(self.devices)}

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The whole table in seconds, shape (operators, devices, batches), read-only; NaN where unknown."""
        shape = (len(self.operators), len(self.devices), len(self.batches))
        values = np.array(self.table, dtype=np.float64).reshape(shape)
        values.setflags(write=False)
        return values

    def seconds(self, operator: str, device: str, batch: int = 1) -> float:
        """Seconds that an operator takes on a device for one batch.

        Raises
        ------
        InvalidInputError
            When the time is unknown; the message names operator, device and batch size.
        """
        row, column = self.operator_index.get(operator), self.device_index.get(device)
        if row is not None and column is not None and batch in self.batches:
            entry = self.table[row][column * len(self.batches) + self.batches.index(batch)]
            if entry is not None:
                return entry
        what = f"the time of operator {operator!r} on device {device!r} for batch {batch}"
        raise InvalidInputError(f"{what} is not known")

    def array(self, operators: Iterable[str], devices: Iterable[str], batch: int = 1) -> NDArray[np.float64]:
        """Seconds for some operators and devices, shape (operators, devices), read-only; NaN where unknown.

        Operators, devices and batch sizes that the table does not list are unknown.
        """
        # one row and one column of NaN at the end stand for everything that is not listed
        known = np.full((len(self.operators) + 1, len(self.devices) + 1), np.nan)
        if batch in self.batches:
            known[:-1, :-1] = self.values[:, :, self.batches.index(batch)]
        names = tuple(operators)
        rows = np.arange(len(names))
        if names != self.operators:
            rows = np.array([self.operator_index.get(name, -1) for name in names], dtype=np.intp)
        columns = np.array([self.device_index.get(name, -1) for name in devices], dtype=np.intp)
        chosen = known[np.ix_(rows, columns)]
        chosen.setflags(write=False)
        return chosen


class Calibration(Spec):
    """A device and the efficiency of operator kinds on it, fitted to measured times.

    Attributes
    ----------
    device
        Its rates are the best that any operator kind reached, so no efficiency exceeds 1.
    efficiency
        Efficiency by operator kind, or by a variant of it (:func:`variants`).
    default
        Efficiency of kinds that were not measured.
    errors
        Median relative error of the fitted times, by kind or variant, 0.1 for 10 %; only what was measured.

    Examples
    --------
    >>> device = Device(name="cpu", flops_per_second=100.0, memory_bandwidth=50.0)
    >>> calibration = Calibration(device=device, efficiency={"Relu": Efficiency(traffic=0.5, launch_seconds=1.0)})
    >>> from opweave.problems.graph import OpGraph
    >>> graph = OpGraph.model_validate({
    ...     "tensors": [{"id": "x", "bytes": 100}, {"id": "y", "bytes": 100}],
    ...     "operators": [{"id": "relu", "kind": "Relu", "inputs": ["x"], "outputs": ["y"]}],
    ... })
    >>> calibration.costs(graph).seconds("relu", "cpu")
    9.0
    """

    schema_version: Literal[1] = 1
    device: Device
    efficiency: Table[Name, Efficiency]
    default: Efficiency = Efficiency.model_construct()  # no validator is built by an import
    errors: Table[Name, Amount] = preset(FrozenDict())

    def costs(self, graph: OpGraph) -> Costs:
        """Estimated times of a graph's operators on this device alone; see :meth:`Costs.roofline`."""
        cluster = Cluster(devices=(self.device,))
        return Costs.roofline(graph, cluster, efficiency=self.efficiency, default_efficiency=self.default)


def _efficiency(kind: str, given: float | Efficiency) -> Efficiency:
    if isinstance(given, Efficiency):
        return given
    if not 0.0 < given <= 1.0:
        raise InvalidInputError(f"the efficiency of {kind!r} is {given!r}; it must be above 0 and at most 1")
    return Efficiency(arithmetic=given, traffic=given)


def _speeds(device: Device) -> tuple[float, float]:
    for field in ("flops_per_second", "memory_bandwidth"):
        if getattr(device, field) is None:
            raise InvalidInputError(
                f"device {device.name!r} has no {field}; a roofline needs it, so add it or give costs"
            )
    return cast("float", device.flops_per_second), cast("float", device.memory_bandwidth)
