"""Slicing: cut every operator over several edge devices so that one input is processed as fast as possible.

Source: "MemoriaNova: Optimizing Memory-Aware Model Inference for Edge Computing", section 3.3 (GenEFlow).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import warn_once_built
from opweave.problems.on_cluster import ClusterProblem, check_order
from opweave.problems.problem import Problem
from opweave.problems.slicing.columns import SlicingColumns, columns_of
from opweave.problems.slicing.geometry import GEOMETRY_UNKNOWN, Cutting, Extent, Geometry, Layout, cutting_of, extent_of
from opweave.problems.slicing.play import PlayedSlices, SlicedStep, SlicingDetails, unusable
from opweave.problems.solution import Referee, Solution
from opweave.problems.spec import FrozenDict, Many, ManyOrNone, Name, Spec, Table, preset
from opweave.problems.words import refuse_unknown

__all__ = ["Geometry", "Slice", "SlicedStep", "Slices", "Slicing", "SlicingDetails"]

Dimension = Literal["rows", "channels", "whole"]


class Slice(Spec):
    """How one operator is cut.

    Attributes
    ----------
    dimension
        ``"rows"`` (height of the feature map), ``"channels"`` (of the output), or ``"whole"`` for an operator that
        cannot be cut, whose length is 1.
    cuts
        Positions 0 = cuts[0] <= ... <= cuts[devices] = length. Device k computes [cuts[k], cuts[k + 1]), and idles if
        that range is empty.
    """

    dimension: Dimension
    cuts: Many[int]


class Slices(Solution):
    """How every operator is cut, and the order in which the operators run.

    Attributes
    ----------
    devices
        Names of the devices in the order in which they take their parts, which is the cluster's order.
    slices
        The slice of every operator.
    order
        All operators, producers first.
    """

    devices: Many[Name]
    slices: Table[Name, Slice]
    order: Many[Name]

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        """Devices that compute a part of each operator."""
        return {
            name: frozenset(
                device for device, first, end in zip(self.devices, cut.cuts, cut.cuts[1:], strict=False) if first != end
            )
            for name, cut in self.slices.items()
        }


class Slicing(ClusterProblem, Problem[Slices, SlicingDetails]):
    """Divide every operator among the devices so that the sum of the operators' times is smallest.

    Operators run one after another. For each operator, a device first receives the cells that its part needs and that
    it does not hold, and then computes. Graph inputs come from outside to whoever needs them, and graph outputs stay
    where they are made. The operator takes as long as its slowest device. For a share of an operator
    that takes it ``seconds`` as a whole, device k needs ``launch + (seconds - launch) * share``; ``launch`` is its
    ``launch_seconds``. A device holds
    what it has computed until no operator reads it any more. It drops what it has received after the operator.

    Attributes
    ----------
    cluster
        The devices and the router between them. A device receives at its own rate (``Cluster.rates``), at the shared
        rate, or over its slowest incoming link. The latency counts once for every tensor that it receives.
    costs
        Seconds of whole operators for batch size 1. A device takes no part in operators whose time on it is unknown.
    geometry
        How operators read their inputs. Elementwise operators (recognised by their kind) need no geometry; other
        operators without a geometry stay whole. An :class:`~opweave.problems.errors.ImplausibleWarning` says so when
        none is given and most of the work is of that kind.
    layout
        Which dimensions of the tensors' shapes are channels and rows.
    order
        The order of the operators; None lets the solver choose. It matters only for memory.
    dimension
        Who chooses the dimension of the cuts. ``"free"``: the solver, among those along which an operator can be cut.
        ``"rule"``: the paper's rule, which also limits the number of parts (:mod:`opweave.problems.slicing.geometry`).
    transfers
        Which cells a device receives. ``"refined"``: those that its part needs and that it does not hold. ``"paper"``:
        as printed. Parts of the channels need all of every input, whatever the operator. Parts of the rows whose input
        was also cut along the rows receive the needed rows above and below their own part, even if those do not touch
        it. (The paper takes the larger of this and of all needed rows, held or not. That is a slip, because a single
        device would pay for it too.)
    weights
        Which weights a device holds. ``"resident"``: those of all its parts, all the time. ``"streamed"``: only those
        of the running operator. A part of the rows needs all weights, a part of the channels only its share.

    Raises
    ------
    InvalidSpecError
        When names do not fit, an operator has no known time on any device, a geometry does not fit the shapes, a device
        cannot receive, or a constraint does not fit.

    Notes
    -----
    Memory is counted in whole bytes. While an operator runs, a device holds the operator's weights, its own parts of
    all tensors that are still to be read, its parts of the operator's outputs and workspace, and the data that it has
    received. Each operator counts its own share of a parameter even if other operators share it. An alias counts like
    any tensor, because its parts may lie on other devices than the parts of the tensor that it is a view of.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=32, shape=[1, 8, 4]) for name in ("x", "y", "z")],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"]), Operator(id="q", inputs=["y"], outputs=["z"])],
    ... )
    >>> problem = Slicing(
    ...     graph=graph,
    ...     cluster=Cluster(devices=[Device(name="a"), Device(name="b")], rates=[4.0, 4.0]),
    ...     costs=Costs.from_table({"p": {"a": 8.0, "b": 8.0}, "q": {"a": 8.0, "b": 8.0}}),
    ...     geometry={"p": Geometry(kernel=3, padding=1), "q": Geometry(kernel=3, padding=1)},
    ... )
    >>> half = Slice(dimension="rows", cuts=[0, 4, 8])
    >>> problem.evaluate(Slices(devices=["a", "b"], slices={"p": half, "q": half}, order=["p", "q"])).objective
    9.0
    """

    solution_type: ClassVar[type[Solution]] = Slices
    referee: ClassVar[Referee] = unusable, PlayedSlices
    goal: ClassVar[str] = "latency"
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict({"order": None, "dimension": "free"})
    _unruled: ClassVar[frozenset[str]] = frozenset({"cuttings", "extents", "columns", "known_seconds", "tensor_bytes"})

    schema_version: Literal[1] = 1
    cluster: Cluster = Field(kw_only=False)
    costs: Costs = Field(kw_only=False)
    geometry: Table[Name, Geometry] = preset(FrozenDict())
    layout: Layout = "channels_first"
    order: ManyOrNone[Name] = preset(None)
    dimension: Literal["free", "rule"] = "free"
    transfers: Literal["refined", "paper"] = "refined"
    weights: Literal["resident", "streamed"] = "resident"

    @model_validator(mode="after")
    def _check(self) -> Slicing:
        self._check_costs()
        refuse_unknown("the geometry names", "operator", self.geometry, self.graph.operator_index)
        if len(self.cluster.devices) > 1:
            for device, rate in zip(self.cluster.devices, self.rates, strict=True):
                if rate <= 0:
                    raise ValueError(f"device {device.name!r} can receive nothing: its rate is 0")
        if self.order is not None:
            check_order(self.graph, self.order)
        _ = self.cuttings  # raises if a geometry does not fit
        self._warn_if_uncut()
        return self

    def _warn_if_uncut(self) -> None:
        """Say when most of the work cannot be shared only because geometries are not known."""
        least = {name: min(times.values()) for name, times in self.known_seconds.items()}
        unknown = [name for name, cut in self.cuttings.items() if cut.why_whole == GEOMETRY_UNKNOWN]
        share = sum(least[name] for name in unknown) / (sum(least.values()) or 1)
        if len(self.cluster.devices) > 1 and not self.geometry and share > 0.5:
            warn_once_built(
                f"Slicing: {len(unknown):,} operators with {share:.0%} of the work stay whole, because their geometry "
                "is not known; geometry=ow.geometry(model) reads it from a model"
            )

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """Bytes per second at which every device receives."""
        count = len(self.cluster.devices)
        if self.cluster.rates is not None:
            return self.cluster.rates
        if self.cluster.shared is not None:
            return (self.cluster.shared,) * count
        into = self.cluster.effective_bandwidth
        return tuple(min((float(into[q, k]) for q in range(count) if q != k), default=0.0) for k in range(count))

    @cached_property
    def latencies(self) -> tuple[float, ...]:
        """Seconds before the first byte of a tensor arrives at every device, from the most distant other device."""
        count = len(self.cluster.devices)
        if isinstance(self.cluster.latency, float | int):
            return (float(self.cluster.latency),) * count
        into = np.asarray(self.cluster.effective_latency)
        return tuple(max((float(into[q, k]) for q in range(count) if q != k), default=0.0) for k in range(count))

    @cached_property
    def extents(self) -> dict[str, Extent]:
        """Every tensor as cells of channels and rows."""
        return {tensor.id: extent_of(tensor, self.layout) for tensor in self.graph.tensors}

    @cached_property
    def cuttings(self) -> dict[str, Cutting]:
        """How every operator can be cut."""
        return {op.id: cutting_of(self, op) for op in self.graph.operators}

    @cached_property
    def columns(self) -> SlicingColumns:
        """Operators, tensors and inputs as columns, for the referee and solvers."""
        return columns_of(self)

    @cached_property
    def tensor_bytes(self) -> dict[str, int]:
        """Bytes of every tensor."""
        return {tensor.id: tensor.bytes for tensor in self.graph.tensors}

    def weight_bytes(self, op: str) -> int:
        """Bytes of all parameters of an operator."""
        used = self.graph.operators[self.graph.operator_index[op]].parameters
        return sum(self.graph.parameter_bytes[name] for name in set(used))

    def intervals(self, solution: Slices) -> Mapping[str, tuple[float, float]]:
        """Start and end of every operator in seconds; positions in the order if the plan cannot be replayed."""
        if any(self.unusable(solution)):
            return {name: (float(step), float(step + 1)) for step, name in enumerate(solution.order)}
        return PlayedSlices(self, solution).intervals()

    def memory_by_device(self, solution: Slices) -> Mapping[str, int]:
        """The most bytes that every device holds at a time; empty if the plan cannot be replayed."""
        return {} if any(self.unusable(solution)) else PlayedSlices(self, solution).peak
