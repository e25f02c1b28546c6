"""What verifications share: parts of a plan that run one after the other, promised times, and comparing outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.adapters.runtimes.groups import Group, places_of, schedule_groups
from opweave.adapters.runtimes.plan_exports import stage_groups
from opweave.adapters.verify.report import CLOSE, MemoryCheck, OperatorTime, Verification
from opweave.problems.graph import OpGraph
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    from numpy.typing import NDArray

# factors of CLOSE: some units of the last place, because runtimes may keep more places between operators
WIDE = {"float16": 400.0, "torch.float16": 400.0, "torch.bfloat16": 3200.0}


class Output(NamedTuple):
    """An array that a model returned: element type, shape, content bit for bit, and its numbers, if it has some."""

    kind: str
    shape: tuple[int, ...]
    bits: object
    numbers: NDArray[np.float64] | None


class Ran(NamedTuple):
    """A run of a planned model.

    Attributes
    ----------
    outputs
        What it returned.
    order, seconds
        Operators in the order in which they ran, and seconds of each.
    memory
        Predicted and measured bytes, for an order.
    obeyed
        Whether the operators ran as planned.
    pieces
        Parts in which it ran.
    notes
        Remarks for the reader.
    """

    outputs: Mapping[str, Output]
    order: Sequence[str]
    seconds: Mapping[str, float]
    obeyed: bool = True
    memory: MemoryCheck | None = None
    pieces: int = 1
    notes: tuple[str, ...] = ()


def verdict(
    ran: Ran,
    plain: Mapping[str, Output],
    solution: Solution,
    problem: Problem[Any, Any] | None,
    **about: Any,
) -> Verification:
    """Compare a planned run with the outputs of the model as it was.

    Parameters
    ----------
    ran, plain
        The planned run, and the outputs of the original model with optimisations off.
    solution, problem
        The plan, and the problem whose costs predict the times.
    about
        What the runtime knows beyond that: fields of the verification.
    """
    return Verification(
        solution=solution.kind,
        pieces=ran.pieces,
        order_obeyed=ran.obeyed,
        outputs_equal=are_equal(ran.outputs, plain),
        memory=ran.memory,
        times=operator_times(ran.order, ran.seconds, problem, solution),
        notes=ran.notes,
        **about,
    )


def outputs_of(outputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Output]:
    """The arrays that a run returned, by names."""
    rows = outputs.items() if isinstance(outputs, Mapping) else enumerate(outputs)
    return dict(pair for name, value in rows for pair in _named_outputs(str(name), value))


def _named_outputs(name: str, value: Any) -> Iterator[tuple[str, Output]]:
    if isinstance(value, Mapping):  # a classifier returns a list of maps
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _named_outputs(f"{name}/{index}", each)
        return
    if hasattr(value, "untyped_storage"):  # a tensor of PyTorch, which has more element types than NumPy
        import torch

        flat = value.detach().contiguous().reshape(-1)
        numbers = None if value.is_complex() else flat.double().reshape(value.shape).numpy()
        yield name, Output(str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().tobytes(), numbers)
        return
    array = np.asarray(value)
    numbers = array.astype(np.float64) if array.dtype.kind in "fiub" else None
    bits = array.tolist() if array.dtype.hasobject else array.tobytes()
    yield name, Output(str(array.dtype), array.shape, bits, numbers)


def are_equal(ours: Mapping[str, Output], theirs: Mapping[str, Output]) -> bool:
    """Whether all outputs are equal bit for bit."""
    return ours.keys() <= theirs.keys() and all(each[:3] == theirs[name][:3] for name, each in ours.items())


def difference(ours: Mapping[str, Output], theirs: Mapping[str, Output]) -> tuple[bool, float | None]:
    """Whether all outputs are close, and the largest difference; texts and NaNs do not count for the latter."""
    if any(name not in theirs or each.shape != theirs[name].shape for name, each in ours.items()):
        return False, None
    worst, close = 0.0, True
    for name, each in ours.items():
        first, second = each.numbers, theirs[name].numbers
        if first is None or second is None:
            close = close and each.bits == theirs[name].bits
            continue
        scale = max(1.0, float(np.max(np.abs(second), initial=0.0, where=np.isfinite(second)))) * WIDE.get(each.kind, 1)
        close = close and bool(np.allclose(first, second, rtol=0.0, atol=CLOSE * scale, equal_nan=True))
        with np.errstate(invalid="ignore"):
            apart = np.abs(first - second)
        worst = max(worst, float(np.max(apart, initial=0.0, where=np.isfinite(apart))))
    return close, worst


def parts_of(graph: OpGraph, solution: Schedule | Stages) -> tuple[Group, ...]:
    """Cut a placement into as many groups as it needs, and a pipeline at its stages.

    Raises
    ------
    InvalidInputError
        When a schedule belongs to another model.
    """
    if isinstance(solution, Schedule):
        return schedule_groups(graph, solution)
    place = dict(zip(graph.operator_index, places_of(graph), strict=True))
    return tuple(
        Group(group.device, tuple(sorted(group.operators, key=lambda name: place.get(name, len(place)))))
        for group in stage_groups(solution)
    )


def operator_times(
    order: Sequence[str], measured: Mapping[str, float], problem: Problem[Any, Any] | None, solution: Solution
) -> tuple[OperatorTime, ...]:
    """Pair measured times with those that the problem's costs predict for the planned device."""
    known: Mapping[str, Mapping[str, float]] = {}
    if getattr(problem, "costs", None) is not None:
        known = getattr(problem, "known_seconds", {})
    placed = solution.devices_by_operator() if isinstance(solution, Schedule | Stages) else {}
    device = {name: next(iter(where)) for name, where in placed.items()}
    return tuple(
        OperatorTime(operator=name, measured=measured[name], predicted=known.get(name, {}).get(device.get(name, "")))
        for name in order
        if name in measured
    )
