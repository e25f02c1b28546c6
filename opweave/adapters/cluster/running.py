"""Carry a plan out on a Dask cluster, and compare what was predicted with what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from opweave.adapters.cluster.carry import Emulation, Observer, carry_out, random_inputs, same
from opweave.adapters.cluster.compare import ClusterRun, compared, measured_timeline, with_measured_times
from opweave.adapters.cluster.parts import parts_of, predicted_seconds, whole_model
from opweave.adapters.cluster.station import Tensors, open_part
from opweave.adapters.files import PathLike
from opweave.problems.cluster import Cluster
from opweave.problems.errors import InvalidInputError
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    from distributed import Client

RESOLVE_SECONDS = 10.0
"""Time limit of the solve with measured times."""


def run(
    model: PathLike,
    result: Result[Solution] | Stages | Schedule,
    client: Client,
    *,
    problem: Pipeline | Placement | None = None,
    inputs: int | Sequence[Tensors] = 100,
    emulate: Cluster | None = None,
    one_by_one: bool | None = None,
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    check: bool = True,
    progress: Observer | None = None,
) -> ClusterRun:
    """Carry a pipeline or a placement out on workers, and measure it.

    Stages are Dask actors that hold sessions of ONNX Runtime; they hand tensors to each other directly, with two inputs
    at most waiting in front of each. If a worker dies, the inputs that were in flight run again: on a worker with the
    same name, if one comes back, or on a device that the plan does not use, if the problem's constraints allow it.

    Parameters
    ----------
    model
        The ONNX file that was planned.
    result
        The result, or its solution.
    client
        A client of ``distributed``; workers have the names of the plan's devices, or are taken in the order of names.
    problem
        What was solved. Without it nothing is predicted, no devices are emulated, and no spare device takes over.
    inputs
        The model's inputs, or a number of random ones.
    emulate
        A cluster whose devices and links are emulated: every part sleeps for the rest of what its device would take,
        every message for the rest of what its link would take.
    one_by_one
        Whether each input waits for the one before to leave; None for plans that were made for latency.
    dims, threads
        Sizes for open dimensions, as planned, and threads within an operator.
    check
        Whether the outputs are compared with those of the whole model, which is run here.
    progress
        Called with the number of finished inputs and of all.

    Returns
    -------
    ClusterRun
        Numbers as predicted and as measured, outputs, and a timeline.

    Raises
    ------
    InvalidInputError
        When the plan fits neither the model nor the workers, and when ``problem`` is needed.
    EngineError
        When a worker lacks a package or refuses its part of the model.
    """
    solution = result.solution if isinstance(result, Result) else result
    if not isinstance(solution, Stages | Schedule):
        raise InvalidInputError("only pipelines and placements with a plan can be carried out")
    details = None if problem is None else problem.evaluate(solution).details  # type: ignore[arg-type]
    stages = predicted_seconds(details, problem, solution)
    if emulate is not None and stages is None:
        raise InvalidInputError("to emulate devices, pass the problem: it says how long operators take on them")
    if one_by_one is None:
        one_by_one = isinstance(solution, Schedule) or (
            isinstance(problem, Pipeline) and problem.objective == "latency"
        )
    plan = parts_of(
        model,
        solution,
        problem=problem,
        seconds=stages if emulate is not None else None,
        dims=dims,
        one_by_one=one_by_one,
    )
    whole = whole_model(model, dims)
    feeds = random_inputs(whole, inputs) if isinstance(inputs, int) else list(inputs)
    emulation = None
    if emulate is not None and isinstance(problem, Pipeline):
        emulation = Emulation(emulate, problem.compression, problem.channel == "shared", problem.load == "sum")
    elif emulate is not None:
        emulation = Emulation(emulate)
    spare = None if problem is None else partial(_spare, problem, solution)
    carried = carry_out(client, plan, feeds, threads=threads, emulation=emulation, spare=spare, progress=progress)
    rows = compared(carried, plan, predictions(result, details, solution), stages)
    difference = None
    if check and carried.outputs:
        session = open_part(whole, threads)
        difference = max(
            same(dict(zip(plan.outputs, session.run(list(plan.outputs), dict(feeds[index])), strict=True)), found)
            for index, found in carried.outputs.items()
        )
    better = None
    if problem is not None and carried.reason is None:
        better = with_measured_times(problem, solution, rows, plan, RESOLVE_SECONDS)
    return ClusterRun(
        rows,
        carried.outputs,
        difference,
        len(feeds),
        carried.moved,
        carried.reason,
        measured_timeline(carried, plan, None if problem is None else problem.play(solution)),
        better,
        None if problem is None or not isinstance(result, Result) else (problem, result),
    )


def predictions(
    result: Result[Solution] | Stages | Schedule, details: object, solution: Stages | Schedule
) -> dict[str, float | None]:
    """What the plan says of the whole and of its links."""
    found: dict[str, float | None] = {}
    if isinstance(details, PipelineDetails) and isinstance(solution, Stages):
        found |= {"seconds between results": details.bottleneck_seconds, "latency": details.latency_seconds}
        for each, planned in zip(solution.stages, details.stages, strict=True):
            found |= {f"memory of {device}": float(planned.memory_bytes) for device in each.devices}
        for stage, (source, target) in zip(details.stages, pairwise(solution.stages), strict=False):
            for here, there in _turns(source.devices, target.devices):
                found[f"link {here} to {there}"] = stage.send_seconds
                found[f"link {here} to {there}, bytes"] = float(stage.sent_bytes)
    elif isinstance(result, Result) and result.objective is not None:
        found["latency"] = float(result.objective)
    return found


def _turns(sources: Sequence[str], targets: Sequence[str]) -> set[tuple[str, str]]:
    """Pairs of devices that meet when both sides take turns."""
    return {(sources[k % len(sources)], targets[k % len(targets)]) for k in range(len(sources) * len(targets))}


def _spare(problem: Pipeline | Placement, solution: Stages | Schedule, lost: str, alive: Sequence[str]) -> str | None:
    """The device that takes over: the lost one if it has come back, or an unused one that the problem allows."""
    if lost in alive:
        return lost
    for device in problem.cluster.device_index:
        if device in alive and replaced(solution, device, "") == solution:  # not in use
            moved = replaced(solution, lost, device)
            if problem.evaluate(moved).feasible:  # type: ignore[arg-type]
                return device
    return None


def replaced(solution: Stages | Schedule, lost: str, taken: str) -> Stages | Schedule:
    """A plan with one device in the place of another; the times of a schedule stay as they are."""

    def other(device: str) -> str:
        return taken if device == lost else device

    if isinstance(solution, Stages):
        moved_stages = (
            stage.model_copy(update={"device": other(stage.device), "replicas": tuple(map(other, stage.replicas))})
            for stage in solution.stages
        )
        return Stages(stages=tuple(moved_stages))
    moved = {name: other(device) for name, device in solution.device.items()}
    return solution.model_copy(update={"device": type(solution.device)(moved)})
