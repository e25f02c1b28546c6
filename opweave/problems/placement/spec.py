"""Placement: choose a device and a start for every operator so that the makespan, the end of the last one, is smallest.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from opweave.problems import on_cluster
from opweave.problems.arrays import IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Precede, means
from opweave.problems.costs import Costs
from opweave.problems.device_play import DeviceDetails
from opweave.problems.on_cluster import ClusterProblem, MemoryModel
from opweave.problems.placement.referee import Calls, PlayedSchedule, check_calls, unusable
from opweave.problems.problem import Problem
from opweave.problems.solution import Referee, Solution
from opweave.problems.spec import Count, Many, Name, Seconds, SecondsByName, Spec, Table, preset

__all__ = ["Placement", "Schedule", "Transfer", "TransferModel"]

TransferModel = Literal["one_port_tensor", "one_port_edge", "delay", "blocking"]


class Transfer(Spec):
    """A tensor on its way from the device that made it to a device that reads it.

    Attributes
    ----------
    tensor
        The tensor that is sent.
    consumer
        The operator that it is sent for; None if it is sent once for all readers on ``target``.
    source, target
        Device names.
    start, end
        Seconds.
    """

    tensor: Name
    consumer: Name | None = None
    source: Name
    target: Name
    start: Seconds
    end: Seconds


class Schedule(Solution):
    """Where and when every operator runs, and when every transfer happens.

    Attributes
    ----------
    device
        Device name of every operator.
    start
        Start of every operator, in seconds. If the problem's transfers are ``"blocking"``, operators of one call have
        the same start: that of the call.
    transfers
        In any order. They may be omitted if the problem's transfers are ``"delay"``, and must be if they are
        ``"blocking"``.
    """

    device: Table[Name, Name]
    start: SecondsByName
    transfers: Many[Transfer] = preset(())

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        """The one device of every operator."""
        return {name: frozenset((device,)) for name, device in self.device.items()}


class Placement(ClusterProblem, Problem[Schedule, DeviceDetails]):
    """Give every operator a device and a start so that the makespan, the end of the last operator, is smallest.

    An operator runs without interruption for its cost in seconds on its device, and a device runs one operator at a
    time. Graph inputs and parameters are on every device from the beginning. A tensor that is consumed on a device
    other than that of its producer is sent after its producer has ended; its consumers wait for it. The transfer takes
    latency + bytes / bandwidth seconds and starts at the device of the producer, because other devices do not pass
    tensors on. Computing and transfers overlap.

    Attributes
    ----------
    cluster
        The devices, their memory and links; devices without a direct link use the widest path.
    costs
        Seconds of the operators for batch size 1. An operator cannot run where its time is unknown.
    transfers
        How simultaneous transfers affect each other. ``"one_port_tensor"``: a tensor is sent once to each device that
        reads it, and every device sends one thing at a time and receives one thing at a time. ``"one_port_edge"``: the
        same ports, but a tensor is sent once for each operator that reads it on another device (the paper).
        ``"delay"``: any number of transfers at the same time. ``"blocking"``: every device but the host is an
        accelerator and works in calls. A call brings in, one after the other, every tensor that its operators read and
        other operators make; then its operators run one after the other; then it returns every tensor that other
        operators read. It begins when all its inputs are in host memory, its outputs are there when it ends, and
        its accelerator does nothing else meanwhile. No data may leave a call and come back into it. The host runs any
        number of operators at the same time, and its operators use host memory directly.
    host
        With ``"blocking"``, the device whose memory all tensors pass through; None for the other modes.
    max_calls
        With ``"blocking"``, the largest number of calls of each accelerator; None for any number.
    memory
        What a device holds all the time. ``"additive"``: the parameters of its operators (a shared one counted once),
        the storages that they write (an alias owns none), and their workspaces. ``"parameters"``: only the parameters.
    objective
        What is minimised. ``"makespan"``: the end of the last operator. ``"memory"``: the most bytes on any device, at
        whatever times.

    Raises
    ------
    InvalidSpecError
        When costs name an operator or device that the graph or the cluster does not have, an operator has no known time
        on any device, all times add up to more than 1e15 seconds, a constraint does not fit, or ``"blocking"`` is used
        with a ``Precede``, without a host, or with an unknown host.

    Notes
    -----
    Of two operators on a device, or two transfers at a port, one must end no later than the other starts. An activity
    of 0 seconds follows the same rule: it may run at the moment when another activity starts or ends, but not in the
    middle of it. Times are compared with a tolerance of :data:`~opweave.problems.solution.TIME_TOLERANCE`, relative to
    the makespan.

    ``"blocking"`` is the model of Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators"
    (NeurIPS 2020), for the latency of a single input; parameters are where their operators run.

    No schedule obeys ``Precede`` constraints that form a cycle, among themselves or with the data. An operator does not
    precede itself, even if all operators of the cycle take 0 seconds.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=1), Tensor(id="y", bytes=6), Tensor(id="z", bytes=1)],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"]), Operator(id="q", inputs=["y"], outputs=["z"])],
    ... )
    >>> problem = Placement(
    ...     graph=graph,
    ...     cluster=Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 3], [3, 0]]),
    ...     costs=Costs.from_table({"p": {"a": 1.0, "b": 4.0}, "q": {"a": 9.0, "b": 2.0}}),
    ... )
    >>> sent = Transfer(tensor="y", source="a", target="b", start=1.0, end=3.0)
    >>> plan = Schedule(device={"p": "a", "q": "b"}, start={"p": 0.0, "q": 3.0}, transfers=[sent])
    >>> problem.evaluate(plan).objective
    5.0
    """

    solution_type: ClassVar[type[Solution]] = Schedule
    referee: ClassVar[Referee] = unusable, PlayedSchedule

    schema_version: Literal[1] = 1
    cluster: Cluster = Field(kw_only=False)
    costs: Costs = Field(kw_only=False)
    transfers: TransferModel = "one_port_tensor"
    memory: MemoryModel = "additive"
    objective: Literal["makespan", "memory"] = "makespan"
    host: Name | None = None
    max_calls: Count | None = 1

    @model_validator(mode="after")
    def _check(self) -> Placement:
        self._check_costs()
        running = math.fsum(max(known.values()) for known in self.known_seconds.values())
        on_cluster.check_total_time(self.graph, self.cluster, running)
        check_calls(self)
        return self

    @property
    def mode(self) -> str | None:
        return "transfers='blocking'" if self.transfers == "blocking" else super().mode

    @cached_property
    def turned_round(self) -> Precede | None:
        """The first ``Precede`` whose opposite follows from the data and the other constraints; None without one."""
        precedes = [each for each in self.constraints if means(each, Precede)]
        if not precedes:
            return None
        import networkx as nx  # takes a tenth of a second, and most problems have no Precede

        arcs = nx.DiGraph(self.graph.digraph)
        arcs.add_edges_from((each.before, each.after) for each in precedes)
        circles = [circle for circle in nx.strongly_connected_components(arcs) if len(circle) > 1]
        closing = (each for each in precedes if any({each.before, each.after} <= circle for circle in circles))
        return next(closing, None)

    def intervals(self, solution: Schedule) -> Mapping[str, tuple[float, float]]:
        """Start and end in seconds of every operator that the schedule assigns to a device that can run it.

        Under ``"blocking"``, those of its call if it runs on an accelerator.
        """
        if self.transfers == "blocking":
            return {} if any(self.unusable(solution)) else Calls(self, solution).intervals()
        when = {}
        for name, costs in self.known_seconds.items():
            device, start = solution.device.get(name), solution.start.get(name)
            if device in costs and start is not None:
                when[name] = (start, start + costs[device])
        return when

    def runs(self, solution: Schedule) -> tuple[IntArray, IntArray, IntArray]:
        number = self.cluster.device_index
        devices = (solution.device.get(name) for name in self.graph.operator_ids)
        device = np.asarray([-1 if each is None else number.get(each, -1) for each in devices], dtype=np.int64)
        there = np.flatnonzero(device >= 0)
        return there, device[there], np.ones_like(there)

    def carry_out(self, solution: Schedule) -> Calls | PlayedSchedule:
        return Calls(self, solution) if self.transfers == "blocking" else PlayedSchedule(self, solution)
