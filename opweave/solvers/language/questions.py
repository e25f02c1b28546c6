"""Questions with several solves: the longest context, and which machines pay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations

from opweave.problems.constraints import AnyConstraint
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass, in_blocks
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result, Status
from opweave.problems.spec import Count, SecondsOrNone, Spec
from opweave.problems.units import readable_seconds
from opweave.solvers.questions.sweep import Sweep, sweep
from opweave.solvers.run import Progress
from opweave.solvers.solve import solve

MOST_MACHINES = 4
"""Most machines of which all sets are compared; of more, each alone, all but one, and all."""


class LongestContext(Spec):
    """The longest context for which there is a plan.

    Attributes
    ----------
    context
        Tokens; 0 if there is no plan even for the shortest context.
    refused
        The next context, for which there is no plan; None if the model was not trained for more.
    proved
        Whether it is proved that there is no plan for ``refused``.
    reason
        Why not.
    seconds
        Most seconds for one token; None for any number.
    result
        The fastest plan for ``context``.
    """

    context: int
    refused: Count | None
    proved: bool
    reason: str | None
    seconds: SecondsOrNone
    result: Result[Schedule] | None


def longest_context(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    *,
    seconds: float | None = None,
    constraints: Iterable[AnyConstraint] = (),
    step: int = 256,
    time_limit: float | None = None,
) -> LongestContext:
    """Find the longest context that fits the devices, at a given speed if one is asked for.

    Bytes and seconds grow with the context, so contexts are bisected. Each one tried is settled by a plan or by a
    proof that there is none.

    Parameters
    ----------
    model, rig
        The model, of which at most 4,194,304 tokens are asked if it names no longest context, and the devices.
    work
        Everything but the context.
    seconds
        Most seconds of a pass, with full caches; None if any plan will do.
    constraints
        More side constraints, such as :func:`~opweave.problems.language.posed.in_stages`.
    step
        Contexts are multiples of this; 256 in llama.cpp, 16 in vLLM.
    time_limit
        Seconds for each solve; None for no limit.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.posed.fastest_pass`.
    """
    more = tuple(constraints)
    most, limit = model.longest or 2**22, math.inf if seconds is None else seconds

    def settled(now: Progress) -> bool:
        """Whether there is a plan within the limit, or the proof that there is none."""
        return (now.objective is not None and now.objective <= limit) or (now.bound is not None and now.bound > limit)

    def answer(context: int, callback: Callable[[Progress], bool] | None) -> Result[Schedule]:
        problem = fastest_pass(model, rig, work.model_copy(update={"context": context}), constraints=more)
        return solve(problem, solver="layers", time_limit=time_limit, callback=callback)

    steps = -(-most // step)
    low, high, why, proved = 0, steps + 1, None, True
    while high - low > 1:
        tried = high - 1 if high == steps + 1 and low == 0 else (low + high) // 2
        found = answer(min(tried * step, most), settled)
        if found.objective is not None and found.objective <= limit:
            low = tried
        elif found.bound is not None and found.bound > limit:
            high, proved, why = tried, True, f"no plan is faster than {readable_seconds(found.bound)} a pass"
        else:
            high, proved, why = tried, found.status is Status.INFEASIBLE, found.reason or "no plan was found in time"
    context = min(low * step, most)
    return LongestContext(
        context=context,
        refused=None if high > steps else min(high * step, most),
        proved=proved,
        reason=why,
        seconds=seconds,
        result=answer(context, None) if low else None,
    )


def fastest_in_blocks(
    model: LanguageModel, rig: Rig, work: Workload, *, time_limit: float | None = None, seed: int = 0
) -> Result[Schedule]:
    """Find the fastest plan that llama.cpp's options can carry out: blocks of layers, parts in host memory.

    Parameters
    ----------
    model, rig, work
        As for :func:`~opweave.problems.language.posed.fastest_pass`, with the rules of
        :func:`~opweave.problems.language.posed.in_blocks`.
    time_limit
        Seconds; None for no limit.
    seed
        Seed of the solver.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.posed.fastest_pass`.
    """
    problem = fastest_pass(model, rig, work, constraints=in_blocks(model, rig, work))
    return solve(problem, solver="layers", time_limit=time_limit, seed=seed)


def which_machines(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    *,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> Sweep:
    """Compare all sets of machines, to see whether a further one helps.

    Parameters
    ----------
    model, rig, work, constraints
        As for :func:`~opweave.problems.language.posed.fastest_pass`. The rig names the machines.
    time_limit
        Seconds for each solve; None for no limit.

    Returns
    -------
    Sweep
        One row for each set, with its fastest plan and its bound. A set pays if its objective is below the bounds of
        all smaller sets.

    Raises
    ------
    InvalidInputError
        If the rig names no machines.
    """
    names = tuple(rig.machines)
    if not names:
        raise InvalidInputError("the rig names no machines; list the devices of each in machines={...}")
    sizes = range(1, len(names) + 1) if len(names) <= MOST_MACHINES else (1, len(names) - 1, len(names))
    chosen = [frozenset(used) for size in sizes for used in combinations(names, size)]
    rigs = {" + ".join(filter(used.__contains__, names)): rig.without(frozenset(names) - used) for used in chosen}
    return _compared(model, work, rig, ("machines", rigs), tuple(constraints), time_limit)


def _compared(
    model: LanguageModel,
    work: Workload,
    whole: Rig,
    choices: tuple[str, Mapping[str, Rig]],
    kept: tuple[AnyConstraint, ...],
    time_limit: float | None,
) -> Sweep:
    """One row for each rig."""

    def on(rig: Rig) -> Callable[[Placement | None], Placement]:
        return lambda _: fastest_pass(model, rig, work, constraints=kept)

    what, rigs = choices
    ways = {what: {name: on(rig) for name, rig in rigs.items()}}
    return sweep(on(whole)(None), ways, solver="layers", time_limit=time_limit)


def next_bytes(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    *,
    more: int = 2**30,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> Sweep:
    """Compute what more memory on a device would bring.

    Parameters
    ----------
    model, rig, work, constraints
        As for :func:`~opweave.problems.language.posed.fastest_pass`.
    more
        Bytes that a device gets.
    time_limit
        Seconds for each solve; None for no limit.

    Returns
    -------
    Sweep
        One row as it is ("none"), and one for every device with limited memory.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.posed.fastest_pass`.
    """
    sizes = {device.name: device.memory_bytes for device in rig.cluster.devices}
    larger = {name: rig.with_memory(name, more) for name, size in sizes.items() if size is not None}
    choices = "more memory", {"none": rig} | larger
    return _compared(model, work, rig, choices, tuple(constraints), time_limit)
