"""Published instances as placements: task graphs, flexible job shops, and msr-fiddle/dnn-partitioning.

The files are those of their collections, which are trusted: a broken one ends in an error of Python. Sources: the
Standard Task Graph Set of Kasahara's laboratory, Mastrolilli's and SchedulingLab's collections (``.fjs``),
PyJobShop/Experiments (the matrix), and Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
Operators" (NeurIPS 2020).
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import opweave as ow
from opweave.adapters.files import read_json

ANY_RATE = 1e30
"""Bytes per second of devices to which nothing has to be sent."""

Choice = dict[int, float]
"""The time of an operation on each machine that can run it."""


class Entry(NamedTuple):
    """An instance of a public set: its name, what makes its problem, and the best objective known, or what tells it."""

    name: str
    make: Callable[[], ow.extend.Problem[Any, Any]]
    known: float | Callable[[Any], float] | None = None


def folder_of(collection: str) -> Path:
    """The folder of a collection's files, in the folder that the environment variable ``OPWEAVE_INSTANCES`` names."""
    return Path(os.environ.get("OPWEAVE_INSTANCES", "instances")) / collection


def on_machines(
    name: str, before: Mapping[str, Sequence[str]], seconds: Mapping[str, Mapping[str, float]]
) -> ow.Placement:
    """Tasks after others, with their times on the machines that can run them; nothing has to be sent."""
    machines = sorted({machine for row in seconds.values() for machine in row}, key=lambda each: (len(each), each))
    operators = [
        ow.Operator(id=task, kind="task", inputs=[f"of {each}" for each in earlier], outputs=[f"of {task}"])
        for task, earlier in before.items()
    ]
    return ow.Placement(
        graph=ow.OpGraph(
            name=name, operators=operators, tensors=[ow.Tensor(id=f"of {task}", bytes=0) for task in before]
        ),
        cluster=ow.Cluster(devices=[ow.Device(name=each) for each in machines], rates=[ANY_RATE] * len(machines)),
        costs=ow.Costs.from_table(seconds),
        transfers="delay",
    )


def read_task_graph(text: str, machines: int, name: str = "task graph") -> ow.Placement:
    r"""Read a graph of the Standard Task Graph Set for equal machines; a unit of time is a second.

    A line has the number of a task, its time, the number of its predecessors, and these. The first task and the last
    one stand for the beginning and the end, and are left out.

    Examples
    --------
    >>> read_task_graph("2\n 0 0 0\n 1 4 1 0\n 2 5 2 0 1\n 3 0 1 2\n# end", 1).known_seconds
    {'task1': {'machine1': 4.0}, 'task2': {'machine1': 5.0}}
    """
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    last = int(rows[0][0])
    tasks = [row for row in rows[1:] if 1 <= int(row[0]) <= last]
    before = {f"task{row[0]}": [f"task{each}" for each in row[3:] if each != "0"] for row in tasks}
    seconds = {f"task{row[0]}": {f"machine{k + 1}": float(row[1]) for k in range(machines)} for row in tasks}
    return on_machines(name, before, seconds)


def load_job_shop(path: Path) -> ow.Placement:
    """Read a flexible job shop from a file; see :func:`read_job_shop`."""
    return read_job_shop(path.read_text(encoding="utf-8-sig"), path.name.split(".", maxsplit=1)[0])


def read_job_shop(text: str, name: str = "job shop") -> ow.Placement:
    r"""Read a flexible job shop: machines are devices, a job is a chain of operators, a unit of time is a second.

    The common layout has a line for every job: its operations, and for each the number of its machines and pairs of
    machine and time; machines are numbered from 1, or from 0 if a 0 occurs. The other one, a matrix, has a line for
    every operation, job by job, with its time on every machine, and 0 where it cannot run.

    Examples
    --------
    >>> read_job_shop("1 2\n2  2 1 4 2 5  1 2 6").known_seconds
    {'job1.1': {'machine1': 4.0, 'machine2': 5.0}, 'job1.2': {'machine2': 6.0}}
    >>> read_job_shop("1\n2\n2\n4 5\n0 6") == read_job_shop("1 2\n2  2 0 4 1 5  1 1 6")
    True
    """
    rows = [line.split() for line in text.splitlines() if line.strip()]
    if len(rows[0]) == 1:
        times = iter(rows[3:])
        jobs = [[_able(enumerate(map(float, next(times)))) for _ in range(int(size))] for size in rows[2]]
    else:
        jobs = [list(_operations(row)) for row in rows[1:]]
        first = min(k for job in jobs for choice in job for k in choice)
        jobs = [[{k - min(first, 1): time for k, time in choice.items()} for choice in job] for job in jobs]
    before, seconds = {}, {}
    for j, job in enumerate(jobs, start=1):
        for i, choice in enumerate(job, start=1):
            before[f"job{j}.{i}"] = [f"job{j}.{i - 1}"] if i > 1 else []
            seconds[f"job{j}.{i}"] = {f"machine{k + 1}": time for k, time in choice.items()}
    return on_machines(name, before, seconds)


def _able(times: Iterator[tuple[int, float]]) -> Choice:
    return {k: time for k, time in times if time}


def _operations(row: Sequence[str]) -> Iterator[Choice]:
    words = iter(row)
    for _ in range(int(next(words))):
        yield {int(next(words)): float(next(words)) for _ in range(int(next(words)))}


def load_calls(path: Path) -> ow.Placement:
    """Read an instance of device placement from a file; see :func:`read_calls`."""
    data = read_json(path)
    assert isinstance(data, dict)
    return read_calls(data, path.name)


def read_calls(data: dict[str, Any], name: str = "instance") -> ow.Placement:
    """Read an instance of device placement, scored as there for latency: the time of one input.

    Times and costs are in milliseconds. The cost of an edge is the time in which a node's output moves between an
    accelerator and host memory. An accelerator is called once, with all its inputs in host memory, and returns its
    outputs at the end. The host runs any number of operators at the same time, as in the authors' integer program.

    Examples
    --------
    >>> node = {"fpgaLatency": 1, "cpuLatency": 8, "size": 64}
    >>> nodes = [{"id": 1, **node, "supportedOnFpga": False}, {"id": 2, **node}]
    >>> problem = read_calls({"maxFPGAs": 1, "nodes": nodes, "edges": [{"sourceId": 1, "destId": 2, "cost": 2}]})
    >>> plan = ow.Schedule(device={"1": "host 1", "2": "accelerator 1"}, start={"1": 0.0, "2": 0.008})
    >>> round(problem.evaluate(plan).objective, 6)
    0.011
    """
    nodes, edges = {str(node["id"]): node for node in data["nodes"]}, data["edges"]
    if any(node.get("isBackwardNode") for node in nodes.values()):
        raise ValueError(f"{name}: it has a backward pass, and latency is that of inference")
    stated = [edge["size"] / edge["cost"] for edge in edges if edge.get("size") and edge.get("cost")]
    rate = statistics.median(stated) if stated else 2.0**31 / 1e3  # bytes per millisecond
    cost: dict[str, float] = {}
    reads: dict[str, dict[str, None]] = {key: {} for key in nodes}
    for edge in edges:
        source = str(edge["sourceId"])
        cost[source] = max(edge.get("cost", 0.0), cost.get(source, 0.0))
        reads[str(edge["destId"])][f"of {source}"] = None
    classes: dict[object, list[str]] = {}
    for key, node in nodes.items():
        classes.setdefault(node.get("colorClass"), []).append(key)
    accelerators = [f"accelerator {k + 1}" for k in range(data["maxFPGAs"])]
    room = data.get("maxSizePerFPGA")
    return ow.Placement(
        graph=ow.OpGraph(
            name=name,
            tensors=[ow.Tensor(id=f"of {key}", bytes=round(each * rate)) for key, each in cost.items()],
            parameters=[
                ow.Parameter(id=f"in {key}", bytes=round(node["size"])) for key, node in nodes.items() if _size(node)
            ],
            operators=[
                ow.Operator(
                    id=key,
                    kind=node.get("name", ""),
                    inputs=list(reads[key]),
                    outputs=[f"of {key}"] if key in cost else [],
                    parameters=[f"in {key}"] if _size(node) else [],
                )
                for key, node in nodes.items()
            ],
        ),
        cluster=ow.Cluster(
            devices=[
                *(ow.Device(name=each, memory_bytes=None if room is None else int(room)) for each in accelerators),
                ow.Device(name="host 1"),
            ],
            rates=[*(rate * 1e3 for _ in accelerators), ANY_RATE],
        ),
        costs=ow.Costs.from_table(
            {
                key: {
                    **{each: _seconds(node, "fpgaLatency", node.get("supportedOnFpga", True)) for each in accelerators},
                    "host 1": _seconds(node, "cpuLatency", data.get("maxCPUs", 1)),
                }
                for key, node in nodes.items()
            }
        ),
        constraints=[ow.Colocate(ops=keys) for word, keys in classes.items() if word is not None and len(keys) > 1],
        transfers="blocking",
        host="host 1",
        memory="parameters",
    )


def _size(node: dict[str, Any]) -> float:
    return float(node.get("size", 0.0))


def _seconds(node: dict[str, Any], word: str, possible: object) -> float | None:
    return node[word] * 1e-3 if possible else None
