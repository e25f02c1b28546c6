"""Carry a plan out on a Dask cluster, and compare what was predicted with what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.cluster.carry import PATIENCE, Observer, carry_out
from opweave.adapters.cluster.compare import ClusterRun, compared, measured_timeline, with_measured_times
from opweave.adapters.cluster.parts import ClusterPlan, plan_of
from opweave.adapters.cluster.station import Tensors
from opweave.adapters.files import PathLike
from opweave.adapters.onnx.session import Arrays, open_part, random_batch, run_session
from opweave.adapters.verify.parts import are_equal, difference, outputs_of
from opweave.problems.cluster import Cluster
from opweave.problems.errors import InvalidInputError
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from opweave.problems.solution import Solution
from opweave.problems.spec import FrozenDict

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
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    progress: Observer | None = None,
) -> ClusterRun:
    """Carry a pipeline or a placement out on workers, and measure it.

    Stages are Dask actors that hold sessions of ONNX Runtime; they hand tensors to each other directly, with two inputs
    at most waiting in front of each. Plans for latency, and placements, run one input at a time. The inputs are on the
    first worker before the clock starts. If a worker dies, the inputs that were in flight run again: on a worker with
    the same name, if one comes back, or on a device that the plan does not use, if the problem's constraints allow it.
    All outputs are compared with those of the whole model, which is run here.

    Parameters
    ----------
    model
        The ONNX file that was planned.
    result
        The result, or its solution.
    client
        A client of ``distributed``; its workers have the names of the plan's devices.
    problem
        What was solved, unless the result knows it.
    inputs
        The model's inputs, or a number of random ones.
    emulate
        A cluster whose devices and links are emulated: every part sleeps for the rest of what its device would take,
        every message for the rest of what its link would take.
    dims, threads
        Sizes for open dimensions, as planned, and threads within an operator.
    progress
        Called with the number of finished inputs and of all.

    Returns
    -------
    ClusterRun
        Numbers as predicted and as measured, outputs, and a timeline.

    Raises
    ------
    InvalidInputError
        When the plan fits the problem, the model or the workers not at all, and when ``problem`` is needed.
    EngineError
        When a worker lacks a package or refuses its part of the model.
    """
    asked = problem or (result.answers if isinstance(result, Result) else None)
    solution = result.plan if isinstance(result, Result) else result
    if not isinstance(asked, Pipeline | Placement) or not isinstance(solution, Stages | Schedule):
        raise InvalidInputError("only pipelines and placements can be carried out; pass one of them as problem=")
    planned = asked.play(solution)
    if planned is None:
        wrong = asked.evaluate(solution).violations[0]  # type: ignore[arg-type]
        raise InvalidInputError(f"this plan cannot be carried out: {wrong.message}")
    cut = partial(plan_of, model, asked, emulate=emulate, dims=dims)
    plan = cut(solution)
    given = random_batch(plan.whole, inputs) if isinstance(inputs, int) else inputs
    feeds = [{name: np.asarray(value) for name, value in each.items()} for each in given]
    if not feeds:
        raise InvalidInputError("no input is given; ask for at least one")
    session = open_part(plan.whole, threads)
    expected = [run_session(session, each, plan.outputs) for each in feeds]  # refuses inputs that do not fit
    now: Stages | Schedule = solution

    def spare(lost: str, there: Sequence[str]) -> tuple[str, ClusterPlan] | None:
        """The lost device if it has come back, or an unused one that the problem allows."""
        nonlocal now
        for device in (lost, *asked.cluster.device_index):
            moved, free = replaced(now, lost, device), device == lost or replaced(now, device, "") == now
            if device in there and free and asked.evaluate(moved).feasible:  # type: ignore[arg-type]
                now = moved
                return device, cut(moved)
        return None

    patience = max(PATIENCE, 2.0 * planned.end)
    carried, plan = carry_out(client, plan, feeds, threads=threads, patience=patience, spare=spare, progress=progress)
    timeline = measured_timeline(carried, plan, planned)
    rows = compared(asked, now, timeline, carried, plan)
    apart = max((_difference(found, expected[index]) for index, found in carried.outputs.items()), default=None)
    moved, reason, both = carried.moved, carried.reason, (asked, result) if isinstance(result, Result) else None
    better = None if moved or reason else with_measured_times(asked, now, rows, RESOLVE_SECONDS)
    return ClusterRun(rows, carried.outputs, apart, len(feeds), moved, reason, timeline, better, both)


def _difference(ours: Tensors, theirs: Arrays) -> float:
    """The largest difference between two sets of outputs; 0 if they agree bit for bit, infinite if not even closely."""
    first, second = outputs_of(ours), outputs_of(theirs)
    if are_equal(first, second):
        return 0.0
    close, worst = difference(first, second)
    return max(worst or 0.0, 1e-300) if close else math.inf


def replaced(solution: Stages | Schedule, lost: str, taken: str) -> Stages | Schedule:
    """A plan with one device in the place of another; the times of a schedule stay as they are."""

    def other(device: str) -> str:
        return taken if device == lost else device

    if isinstance(solution, Schedule):
        moved = {name: other(device) for name, device in solution.device.items()}
        return solution.model_copy(update={"device": FrozenDict(moved)})
    moved_stages = (
        stage.model_copy(update={"device": other(stage.device), "replicas": tuple(map(other, stage.replicas))})
        for stage in solution.stages
    )
    return Stages(stages=tuple(moved_stages))
