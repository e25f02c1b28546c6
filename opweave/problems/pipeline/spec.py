"""Pipeline: cut a model into consecutive stages and give each stage a device, so that results follow quickly.

Source: Parthasarathy and Krishnamachari, "Partitioning and Placement of Deep Neural Networks on Distributed Edge
Devices to Maximize Inference Throughput" (2022). The paper ignores computing time and gives every device the smallest
device's memory; both are settings here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import isnan
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from opweave.problems import on_cluster
from opweave.problems.arrays import IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import MaxDevices, means
from opweave.problems.costs import Costs
from opweave.problems.on_cluster import ClusterProblem, MemoryModel
from opweave.problems.pipeline.order import Crossings, CutPoint, Cuts, Entrance, running_order
from opweave.problems.pipeline.referee import PipelineDetails, PlayedStages, StageUse, unusable
from opweave.problems.problem import Problem
from opweave.problems.solution import Referee, Solution, grouped
from opweave.problems.spec import Amount, Count, FrozenDict, Many, ManyOrNone, Name, Spec, preset

__all__ = ["CutPoint", "Pipeline", "PipelineDetails", "Stage", "StageUse", "Stages"]


Compression = Annotated[Amount, Field(ge=1e-6)]
"""A factor from 1e-6 to 1e30, so that quotients stay finite."""

PAPER_COMPRESSION = 1.44 * 2.1
"""The factor of ZFP times that of LZ4, as in the paper (equation 4)."""


class Stage(Spec):
    """A device and the operators that it runs for every input.

    Attributes
    ----------
    device
    operators
        Consecutive in the problem's order.
    replicas
        Further devices that hold the same operators and take turns with ``device``, input by input.
    """

    device: Name
    operators: Many[Name]
    replicas: Many[Name] = preset(())

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices that run the stage, in the order of their turns."""
        return (self.device, *self.replicas)


class Stages(Solution):
    """The stages in pipeline order; each device has at most one."""

    stages: Many[Stage]

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        """Devices of the stages that run each operator."""
        return self._where

    @cached_property
    def _where(self) -> Mapping[str, frozenset[str]]:
        # every side constraint asks for them
        return grouped((op, device) for stage in self.stages for op in stage.operators for device in stage.devices)


class Pipeline(ClusterProblem, Problem[Stages, PipelineDetails]):
    """Cut a model into stages and place them so that the slowest stage or transfer is as fast as possible.

    The operators have one order. A stage is a run of consecutive operators, and every stage has a device of its own.
    Inputs follow each other through the stages. Tensors that are made before a cut and read after it cross the cut as
    one message, each tensor once, in latency + bytes / compression / bandwidth seconds. A tensor that is read several
    stages later is passed on by every stage in between, so it crosses every cut on its way. A graph output leaves from
    the stage that makes it and is not passed on. Small shared tensors such as attention masks may cross a cut, too:
    they add a few bytes to the message and never rule out a cut. A parameter that several stages read, such as a tied
    embedding, is copied to each of them; ``Colocate`` keeps its readers in one stage.

    Attributes
    ----------
    cluster
        The devices, their memory and links; devices without a direct link use the widest path.
    costs
        Seconds of the operators for batch size 1. An operator cannot run where its time is unknown. May be None when
        ``include_compute`` is False.
    cuts
        Where the model may be cut. ``"prefix"``: everywhere in the order, across any number of live tensors.
        ``"dominators"``: behind operators that every path from a source to a result passes through (the paper's
        candidate points, corrected for graphs with several results).
    order
        All operator ids, with every operator after its producers; None for the order of :attr:`running_order`.
    memory
        What a device holds all the time. ``"additive"``: the parameters of its operators (a shared one counted once),
        the storages that they write (an alias owns none), and their workspaces. ``"parameters"``: only the parameters.
    compression
        Factor by which transfers shrink; the paper's is 1.44 * 2.1.
    include_compute
        Whether computing takes time. False follows the paper; then costs are ignored.
    channel
        Whether transfers share a channel. ``"dedicated"``: every transfer of the pipeline has a link of its own.
        ``"shared"``: one channel carries all transfers, one at a time, so their times add up.
    objective
        What is minimised. ``"bottleneck"``: seconds between two results, which is the longest stage or transfer (with
        ``"shared"``: the longest stage or the sum of all transfers). ``"transfers"``: the sum of all transfers.
        ``"latency"``: the seconds that one input takes through all stages and transfers. ``"memory"``: the most bytes
        on any device.
    load
        What delays the next input of a device. ``"overlap"``: it computes while it sends and receives. ``"sum"``: it
        does one thing at a time, so a stage takes its computing and what it receives and sends together.
    max_replicas
        Largest number of devices of a stage. They are interchangeable (:attr:`Cluster.identical_groups`, with equal
        times) and take turns, so each computes, sends and receives for its share of the inputs.
    inputs
        Where graph inputs arrive. ``"first"``: at the first stage, which passes them on to the stages that read them.
        ``"everywhere"``: every device has the graph inputs.
    min_stages
        Smallest number of stages.
    max_stages
        Largest number of stages; None for the number of devices.

    Raises
    ------
    InvalidSpecError
        When names are unknown, costs are missing, ``order`` is not an order of the operators, or a constraint does not
        fit.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=1), Tensor(id="y", bytes=6), Tensor(id="z", bytes=1)],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"]), Operator(id="q", inputs=["y"], outputs=["z"])],
    ... )
    >>> problem = Pipeline(
    ...     graph=graph,
    ...     cluster=Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 3], [3, 0]]),
    ...     costs=Costs.from_table({"p": {"a": 1.0, "b": 4.0}, "q": {"a": 9.0, "b": 1.5}}),
    ... )
    >>> plan = Stages(stages=[Stage(device="a", operators=["p"]), Stage(device="b", operators=["q"])])
    >>> problem.evaluate(plan).objective
    2.0
    """

    solution_type: ClassVar[type[Solution]] = Stages
    referee: ClassVar[Referee] = unusable, PlayedStages
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict(
        {"min_stages": 1, "max_stages": None, "cuts": "prefix"}
    )

    schema_version: Literal[2] = 2
    cluster: Cluster = Field(kw_only=False)
    costs: Costs | None = Field(None, kw_only=False)
    cuts: Cuts = "prefix"
    order: ManyOrNone[Name] = preset(None)
    memory: MemoryModel = "additive"
    compression: Compression = 1.0
    include_compute: bool = True
    channel: Literal["dedicated", "shared"] = "dedicated"
    objective: Literal["bottleneck", "transfers", "latency", "memory"] = "bottleneck"
    load: Literal["overlap", "sum"] = "overlap"
    inputs: Entrance = "first"
    max_replicas: Count = 1
    min_stages: Count = 1
    max_stages: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_earlier(cls, data: object) -> object:
        """Read what version 1 left out as it was meant there: cuts at dominators."""
        if isinstance(data, Mapping) and data.get("cuts") == "ideals":
            raise ValueError("cuts='ideals' is no longer available: use cuts='prefix' and give an order")
        if isinstance(data, Mapping) and data.get("schema_version") == 1:
            return {"cuts": "dominators", **data, "schema_version": 2}
        return data

    @model_validator(mode="after")
    def _check(self) -> Pipeline:
        if self.costs is not None:
            self._check_costs()
        elif self.include_compute and self.objective != "memory":
            advice = "give costs=Costs.roofline(graph, cluster) or set include_compute=False"
            raise ValueError(f"include_compute=True needs costs; {advice}")
        self._check_readings()
        if self.order is not None:
            on_cluster.check_order(self.graph, self.order)
        if self.max_stages is not None and self.max_stages < self.min_stages:
            raise ValueError(f"at least {self.min_stages} stages are required, but at most {self.max_stages}")
        return self

    def _check_readings(self) -> None:
        asked = {"load='sum'": self.load == "sum", "max_replicas": self.max_replicas > 1}
        for what, there in asked.items():
            if there and self.channel == "shared":
                raise ValueError(f"{what} counts the time of every device's own connection: use channel='dedicated'")
        if self.max_replicas > 1 and self.objective != "bottleneck":
            raise ValueError(f"replicas help only objective='bottleneck'; with {self.objective!r} use max_replicas=1")

    @cached_property
    def running_order(self) -> tuple[str, ...]:
        """The order of the operators; every stage is a run of it."""
        return running_order(self.graph) if self.order is None else self.order

    @cached_property
    def crossings(self) -> Crossings:
        """What crosses every place of the order."""
        return Crossings.of(self.graph, self.running_order, self.inputs)

    @cached_property
    def cut_positions(self) -> tuple[int, ...]:
        """Places where the order may be cut, before side constraints, by number of operators before them."""
        if self.cuts == "prefix":
            return tuple(range(1, len(self.running_order)))
        return tuple((np.flatnonzero(self.crossings.dominates[1:-1]) + 1).tolist())

    @cached_property
    def cut_points(self) -> tuple[CutPoint, ...]:
        """The places of :attr:`cut_positions`, with the tensors that cross them."""
        return self.crossings.points(self.cut_positions)

    def interchangeable(self, first: str, second: str) -> bool:
        """Whether two devices have equal properties, links and times, so that they can take turns in a stage."""
        together = any(first in group and second in group for group in self.cluster.identical_groups)
        return together and all(row.get(first) == row.get(second) for row in self.known_seconds.values())

    @cached_property
    def known_seconds(self) -> dict[str, dict[str, float]]:
        """Seconds of every operator on each device that can run it; 0 on all devices if computing is ignored."""
        if self.costs is None or not self.include_compute:
            devices = [device.name for device in self.cluster.devices]
            return {op.id: dict.fromkeys(devices, 0.0) for op in self.graph.operators}
        return super().known_seconds

    @cached_property
    def stage_limit(self) -> int:
        """Largest possible number of stages, given the devices, ``max_stages`` and ``MaxDevices``."""
        return self.device_limit if self.max_stages is None else min(self.device_limit, self.max_stages)

    @cached_property
    def device_limit(self) -> int:
        """Largest possible number of devices in use."""
        return min([len(self.cluster.devices), *(each.count for each in self.constraints if means(each, MaxDevices))])

    def transfer_seconds(self, size: int, source: str, target: str) -> float | None:
        """Seconds to send ``size`` bytes (before compression) from one device to another; None without a link."""
        index = self.cluster.device_index
        seconds = float(self.cluster.link_seconds(index[source], index[target], size / self.compression))
        return None if isnan(seconds) else seconds

    def runs(self, solution: Stages) -> tuple[IntArray, IntArray, IntArray]:
        known, index = self.cluster.device_index, self.graph.operator_index
        pairs = [
            (index[name], known[device])
            for stage in solution.stages
            for device in stage.devices
            for name in stage.operators
            if name in index and device in known
        ]
        operator, device = np.asarray(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2).T
        return operator, device, np.ones_like(operator)
