"""Questions with several solves: the longest context, and which machines pay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from opweave.problems.constraints import AnyConstraint
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result, Status
from opweave.problems.spec import Count, Seconds, Spec
from opweave.problems.units import readable_seconds
from opweave.solvers.questions.sweep import Sweep, sweep
from opweave.solvers.run import Progress
from opweave.solvers.solve import solve

STEP = 256
"""Contexts are multiples of this, as in llama.cpp."""

LONGEST = 2**22
"""Longest context that is looked at if the model names none."""

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
    seconds: Seconds | None
    result: Result[Schedule] | None


def longest_context(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    *,
    seconds: float | None = None,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> LongestContext:
    """Find the longest context that fits the devices, at a given speed if one is asked for.

    Bytes and seconds grow with the context, so contexts are bisected. Each one tried is settled by a plan or by a
    proof that there is none.

    Parameters
    ----------
    model, rig
        The model and the devices.
    work
        Everything but the context.
    seconds
        Most seconds of a pass, with full caches; None if any plan will do.
    constraints
        More side constraints.
    time_limit
        Seconds for each solve; None for no limit.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.posed.fastest_pass`.
    """
    more = tuple(constraints)

    def posed(context: int) -> Placement:
        return fastest_pass(model, rig, work.model_copy(update={"context": context}), constraints=more)

    most = model.longest or LONGEST
    steps = -(-most // STEP)
    low, high, why, proved = 0, steps + 1, None, True
    while high - low > 1:
        tried = high - 1 if high == steps + 1 and low == 0 else (low + high) // 2
        found = solve(posed(min(tried * STEP, most)), time_limit=time_limit, callback=_enough(seconds))
        if _within(found, seconds):
            low = tried
        else:
            high, why, proved = tried, _why(found, seconds), _refuted(found, seconds)
    context = min(low * STEP, most)
    result = solve(posed(context), time_limit=time_limit) if low else None
    refused = None if high > steps else min(high * STEP, most)
    return LongestContext(context=context, refused=refused, proved=proved, reason=why, seconds=seconds, result=result)


def _enough(seconds: float | None) -> Callable[[Progress], bool]:
    """Whether a solve may stop: it has a plan within the limit, or the proof that there is none."""

    def stop(now: Progress) -> bool:
        if now.objective is not None and (seconds is None or now.objective <= seconds):
            return True
        return seconds is not None and now.bound is not None and now.bound > seconds

    return stop


def _within(found: Result[Schedule], seconds: float | None) -> bool:
    return found.objective is not None and (seconds is None or found.objective <= seconds)


def _refuted(found: Result[Schedule], seconds: float | None) -> bool:
    if found.status is Status.INFEASIBLE:
        return True
    return seconds is not None and found.bound is not None and found.bound > seconds


def _why(found: Result[Schedule], seconds: float | None) -> str:
    if found.status is Status.INFEASIBLE or seconds is None or found.bound is None or found.bound <= seconds:
        return found.reason or "no plan was found in time"
    return f"no plan is faster than {readable_seconds(found.bound)} a pass"


def which_machines(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    *,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> Sweep:
    """Compare the sets of machines: whether a further one pays, and which one.

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
    names, more = tuple(rig.machines), tuple(constraints)
    if not names:
        raise InvalidInputError("the rig names no machines; list the devices of each in machines={...}")
    sizes = range(1, len(names) + 1) if len(names) <= MOST_MACHINES else (1, len(names) - 1, len(names))
    chosen = [used for size in sizes for used in combinations(names, size)]

    def on(used: tuple[str, ...]) -> Callable[[Placement], Placement]:
        gone = frozenset(names) - frozenset(used)
        return lambda _: fastest_pass(model, rig.without(gone) if gone else rig, work, constraints=more)

    whole = fastest_pass(model, rig, work, constraints=more)
    return sweep(whole, {"machines": {" + ".join(used): on(used) for used in chosen}}, time_limit=time_limit)
