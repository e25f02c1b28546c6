"""Instances of device placement: a graph on equal accelerators beside a host, as in msr-fiddle/dnn-partitioning.

The layout, as a JSON object::

    {"maxFPGAs": 6, "maxSizePerFPGA": 17185374208, "maxCPUs": 1,
     "nodes": [{"id": 4, "name": "node4", "fpgaLatency": 0.14, "cpuLatency": 1.4, "size": 145489920,
                "supportedOnFpga": true, "colorClass": 4, "isBackwardNode": false}],
     "edges": [{"sourceId": 1, "destId": 4, "cost": 0.5, "size": 1048576}]}

Times and costs are in milliseconds. ``cost`` is the time in which a node's output moves between an accelerator and host
memory, which it does at most once in each direction. Nodes of one ``colorClass`` run on one device.

Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opweave.adapters.error_messages import complaint, validated
from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Colocate
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, MAX_BYTES, Limits
from opweave.problems.placement.spec import Placement

MILLISECONDS = 1e-3

NOMINAL_RATE = float(2**31)
"""Bytes per second of an accelerator's connection where a file states no sizes."""

FREE_RATE = 1e30
"""Bytes per second of the host's own devices: what they read lies in their memory."""

MARK = "maxFPGAs"
"""A key that only such files have."""

_Time = Annotated[float, Field(ge=0.0, le=1e15)]
_Size = Annotated[float, Field(ge=0.0, le=float(MAX_BYTES))]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)


class _Node(_Part):
    id: int | str
    name: str = ""
    cpuLatency: _Time  # noqa: N815 - the format's word
    fpgaLatency: _Time  # noqa: N815
    supportedOnFpga: bool = True  # noqa: N815
    isBackwardNode: bool = False  # noqa: N815
    colorClass: int | str | None = None  # noqa: N815
    size: _Size = 0.0


class _Edge(_Part):
    sourceId: int | str  # noqa: N815
    destId: int | str  # noqa: N815
    cost: _Time = 0.0
    size: _Size = 0.0


class _Instance(_Part):
    maxFPGAs: Annotated[int, Field(ge=0, le=10_000)]  # noqa: N815
    maxSizePerFPGA: _Size | None = None  # noqa: N815
    maxCPUs: Annotated[int, Field(ge=0, le=10_000)] = 1  # noqa: N815
    nodes: list[_Node]
    edges: list[_Edge]


class DevicePlacement(NamedTuple):
    """What such an instance says, for any problem.

    Attributes
    ----------
    graph, cluster, costs
        ``cluster.rates`` are the connections to the host's memory.
    together
        A constraint for every class of operators that run on one device.
    backward
        Operators of the backward pass.
    """

    graph: OpGraph
    cluster: Cluster
    costs: Costs
    together: tuple[Colocate, ...]
    backward: tuple[str, ...]


def read_device_placement(
    data: Mapping[str, object], *, where: str = "instance", hosts: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> DevicePlacement:
    """Read an instance.

    Parameters
    ----------
    hosts
        Number of host devices; None for that of the file. Where the file has none, nothing can run on them.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the place.

    Examples
    --------
    >>> node = {"fpgaLatency": 1, "cpuLatency": 8, "size": 64}
    >>> read = read_device_placement(
    ...     {
    ...         "maxFPGAs": 1,
    ...         "nodes": [{"id": 1, **node}, {"id": 2, **node}],
    ...         "edges": [{"sourceId": 1, "destId": 2, "cost": 2}],
    ...     }
    ... )
    >>> read.costs.seconds("1", "accelerator 1"), read.cluster.device_index
    (0.001, {'accelerator 1': 0, 'host 1': 1})
    """
    for key in ("nodes", "edges"):
        rows = data.get(key)
        most = limits.operators if key == "nodes" else limits.edges
        if isinstance(rows, list) and len(rows) > most:
            raise LimitExceededError(f"{where}: {len(rows):,} {key} are more than the limit of {most:,}")
    instance = validated(_Instance, data, where)
    _check(instance, where)
    idle = not instance.maxCPUs
    if hosts is not None:
        instance = instance.model_copy(update={"maxCPUs": hosts})
    try:
        return DevicePlacement(
            graph=_graph(instance, where),
            cluster=_cluster(instance),
            costs=_costs(instance, idle=idle),
            together=_together(instance),
            backward=tuple(str(node.id) for node in instance.nodes if node.isBackwardNode),
        )
    except ValidationError as error:
        raise complaint(error, where) from None


def latency_from_device_placement(
    data: Mapping[str, object], *, where: str = "instance", limits: Limits = DEFAULT_LIMITS
) -> Placement:
    """Make a placement of an instance, scored as there for latency: the time of one input.

    An accelerator is called once, with all its inputs in host memory, and returns its outputs at the end. The host
    runs any number of operators at the same time, whatever ``maxCPUs`` says, as in the authors' integer program.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the place.

    Examples
    --------
    >>> node = {"fpgaLatency": 1, "cpuLatency": 8, "size": 64}
    >>> problem = latency_from_device_placement(
    ...     {
    ...         "maxFPGAs": 1,
    ...         "nodes": [{"id": 1, **node, "supportedOnFpga": False}, {"id": 2, **node}],
    ...         "edges": [{"sourceId": 1, "destId": 2, "cost": 2}],
    ...     }
    ... )
    >>> from opweave.problems.placement.spec import Schedule
    >>> plan = Schedule(device={"1": "host 1", "2": "accelerator 1"}, start={"1": 0.0, "2": 0.008})
    >>> round(problem.evaluate(plan).objective, 6)
    0.011
    """
    read = read_device_placement(data, where=where, hosts=1, limits=limits)
    if read.backward:
        raise InvalidInputError(
            f"{where}: node {read.backward[0]} is of a backward pass, and latency is that of inference"
        )
    try:
        return Placement(
            graph=read.graph,
            cluster=read.cluster,
            costs=read.costs,
            constraints=read.together,
            transfers="blocking",
            host=read.cluster.devices[-1].name,
            memory="parameters",
        )
    except ValidationError as error:
        raise complaint(error, where) from None


def _check(instance: _Instance, where: str) -> None:
    known = [str(node.id) for node in instance.nodes]
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise InvalidInputError(f"{where}: two nodes have the id {twice}; ids must be unique")
    for edge in instance.edges:
        for end in (edge.sourceId, edge.destId):
            if str(end) not in known:
                raise InvalidInputError(f"{where}: an edge names node {end}, which is not among the nodes")
    if not instance.maxFPGAs + instance.maxCPUs:
        raise InvalidInputError(f"{where}: there is no device; maxFPGAs and maxCPUs are both 0")


def _rate(instance: _Instance) -> float:
    """Bytes per millisecond that the sizes and costs of the edges imply."""
    found = [edge.size / edge.cost for edge in instance.edges if edge.size > 0.0 and edge.cost > 0.0]
    return statistics.median(found) if found else NOMINAL_RATE * MILLISECONDS


def _graph(instance: _Instance, where: str) -> OpGraph:
    rate = _rate(instance)
    cost: dict[str, float] = {}
    reads: dict[str, list[str]] = {}
    for edge in instance.edges:
        source = str(edge.sourceId)
        cost[source] = max(edge.cost, cost.get(source, 0.0))
        reads.setdefault(str(edge.destId), []).append(source)
    largest = max(cost.values(), default=0.0) * rate
    if largest > MAX_BYTES:
        raise InvalidInputError(
            f"{where}: a transfer costs {largest / rate:g} ms, which is {largest:.3g} bytes: too many"
        )
    return OpGraph(
        name=where,
        tensors=tuple(Tensor(id=f"of {name}", bytes=round(each * rate)) for name, each in cost.items()),
        parameters=tuple(Parameter(id=f"in {node.id}", bytes=round(node.size)) for node in instance.nodes if node.size),
        operators=tuple(
            Operator(
                id=str(node.id),
                kind=node.name,
                inputs=tuple(f"of {name}" for name in dict.fromkeys(reads.get(str(node.id), ()))),
                outputs=(f"of {node.id}",) if str(node.id) in cost else (),
                parameters=(f"in {node.id}",) if node.size else (),
            )
            for node in instance.nodes
        ),
    )


def _names(instance: _Instance) -> dict[str, Literal["fpgaLatency", "cpuLatency"]]:
    accelerators = {f"accelerator {k + 1}": "fpgaLatency" for k in range(instance.maxFPGAs)}
    return {**accelerators, **{f"host {k + 1}": "cpuLatency" for k in range(instance.maxCPUs)}}  # type: ignore[dict-item]


def _cluster(instance: _Instance) -> Cluster:
    size = None if instance.maxSizePerFPGA is None else int(instance.maxSizePerFPGA)
    names = _names(instance)
    devices = [Device(name=name, memory_bytes=size if kind == "fpgaLatency" else None) for name, kind in names.items()]
    outside = _rate(instance) / MILLISECONDS
    rates = [outside if kind == "fpgaLatency" else FREE_RATE for kind in names.values()]
    return Cluster(devices=tuple(devices), rates=tuple(rates))


def _costs(instance: _Instance, *, idle: bool) -> Costs:
    """Seconds; on idle hosts nothing can run."""
    names = _names(instance)
    return Costs.from_table(
        {
            str(node.id): {
                name: None
                if (idle if kind == "cpuLatency" else not node.supportedOnFpga)
                else getattr(node, kind) * MILLISECONDS
                for name, kind in names.items()
            }
            for node in instance.nodes
        }
    )


def _together(instance: _Instance) -> tuple[Colocate, ...]:
    classes: dict[int | str, list[str]] = {}
    for node in instance.nodes:
        if node.colorClass is not None:
            classes.setdefault(node.colorClass, []).append(str(node.id))
    return tuple(Colocate(ops=tuple(names)) for names in classes.values() if len(names) > 1)
