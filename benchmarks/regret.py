"""Regret of ``auto``: its plan of every problem, compared with each solver and engine that it could have called.

Run ``python -m benchmarks.regret``; ``--problem``, ``--sizes``, ``--seeds``, ``--first-seed``, ``--limit`` and
``--solvers`` select. ``--shapes`` uses networks of other shapes, and real ones on clusters of unlike devices.
``--large`` uses random instances of 2,000 to 10,000 operators alone.
``--smoke`` uses tiny instances, takes at most 20 s, and fails only on gross regret. All solvers get the same time
limit, one after another. Targets: the objective is at most 0.5 % worse than the best of the others, the bound at most 1
%, and a proof comes no later than 1.5 times the first proof of another solver plus half a second. Seconds are wall time
of the whole call; if ``auto`` reaches no proof, the time limit counts as its proof time. If ``auto`` misses a target,
it runs once more and the better of its two results counts, because machines do other work and first calls load loops.
On busy machines, ``--processor`` counts this process's processor seconds instead; then engines in processes of their
own have the wall time that their waiting parent allows them, and say little.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import opweave as ow
from benchmarks import regret_shapes
from benchmarks.regret_instances import BY_PROBLEM, instances
from benchmarks.tables import show, timed

OBJECTIVE_TARGET, BOUND_TARGET = 0.005, 0.01
LATER, LATER_SECONDS = 1.5, 0.5
GROSS = 0.25
"""Regret at which the smoke run fails. With one second per solve on a shared machine, smaller regret says little."""

LARGE_SIZES = (2_000, 5_000, 10_000)
SMOKE_SIZES, SMOKE_LIMIT, SMOKE_SECONDS = (8, 16), 1.0, 12.0
SMOKE_SOLVERS = ("exact", "decompose", "local", "heft", "search", "highs", "cp-sat")
PROVED = (ow.Status.OPTIMAL, ow.Status.INFEASIBLE)
HEADER = ("instance", "auto", "best of others", "regret", "bound", "best of others ", "regret ", "proof s",
          "first of others", "s", "misses")  # fmt: skip
ROUNDING = 1e-6
"""Relative difference below which two objectives or bounds count as equal."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one solver; ``proved`` in seconds, None without a proof."""

    solver: str
    objective: float | None
    bound: float | None
    proved: float | None


@dataclass(frozen=True, slots=True)
class Regret:
    """An instance, the outcome of ``auto``, and the best of the others, separately for each criterion."""

    instance: str
    auto: Answer
    plan: Answer | None
    bound: Answer | None
    proof: Answer | None
    limit: float

    @property
    def objective(self) -> float:
        """How much worse the objective is, as a share; infinite if another solver has a plan and ``auto`` has none."""
        if self.plan is None or self.plan.objective is None or self.auto.proved is not None:
            return 0.0
        if self.auto.objective is None:
            return math.inf
        return share(self.auto.objective - self.plan.objective, self.plan.objective)

    @property
    def bounding(self) -> float:
        """How much lower the bound is, as a share of the best other bound."""
        if self.bound is None or self.bound.bound is None or self.auto.proved is not None:
            return 0.0
        return share(self.bound.bound - (self.auto.bound or 0.0), self.bound.bound)

    @property
    def lateness(self) -> float:
        """Seconds until the proof divided by those of the first other proof."""
        if self.proof is None or self.proof.proved is None:
            return 0.0
        return self._proof_seconds() / max(self.proof.proved, 1e-3)

    def _proof_seconds(self) -> float:
        return self.limit if self.auto.proved is None else self.auto.proved

    def misses(self) -> list[str]:
        """The targets that are missed."""
        found = []
        if self.objective > OBJECTIVE_TARGET:
            found.append("objective")
        if self.bounding > BOUND_TARGET:
            found.append("bound")
        first = None if self.proof is None else self.proof.proved
        if first is not None and self._proof_seconds() > LATER * first + LATER_SECONDS:
            found.append("proof")
        return found


def share(difference: float, of: float) -> float:
    """A difference as a share; 0 if it is only rounding."""
    if difference <= ROUNDING * abs(of):
        return 0.0
    return difference / abs(of) if of else math.inf


def answer(problem: ow.Problem[Any, Any], solver: str, limit: float) -> Answer | None:
    """One solve; None if the solver refuses the problem."""
    with timed() as clock:
        try:
            result = ow.solve(problem, solver=solver, time_limit=limit)
        except ow.OpweaveError:
            return None
    proved = clock.seconds if result.status in PROVED else None
    return Answer(solver, result.objective, result.bound, proved)


def regret(name: str, problem: ow.Problem[Any, Any], limit: float, chosen: Sequence[str]) -> Regret:
    """Run ``auto`` and then all others on one instance, and ``auto`` once more if it misses a target."""
    first = against(others(problem, limit, chosen), name, problem, limit)
    if not first.misses():
        return first
    second = replace(first, auto=plan_of(problem, limit))
    return min(first, second, key=lambda row: (len(row.misses()), row.objective, row.bounding, row.lateness))


def plan_of(problem: ow.Problem[Any, Any], limit: float) -> Answer:
    """The outcome of ``auto``."""
    found = answer(problem, "auto", limit)
    assert found is not None
    return found


def others(problem: ow.Problem[Any, Any], limit: float, chosen: Sequence[str]) -> list[Answer]:
    """The outcomes of all other solvers."""
    rows = [row for row in ow.list_solvers(problem) if row.available and row.kind != "plan"]
    names = [row.name for row in rows if not chosen or row.name in chosen]
    return [found for found in (answer(problem, other, limit) for other in names) if found is not None]


def against(found: Sequence[Answer], name: str, problem: ow.Problem[Any, Any], limit: float) -> Regret:
    """Compare ``auto`` with the best of the others for each criterion."""
    return Regret(
        name,
        plan_of(problem, limit),
        min(
            (each for each in found if each.objective is not None), key=lambda each: each.objective or 0.0, default=None
        ),
        max((each for each in found if each.bound is not None), key=lambda each: each.bound or 0.0, default=None),
        min((each for each in found if each.proved is not None), key=lambda each: each.proved or 0.0, default=None),
        limit,
    )


def number(value: float | None) -> str:
    """A number of any unit."""
    return "-" if value is None else f"{value:,.0f}" if value >= 1e6 else f"{value:,.5g}"


def percentage(value: float) -> str:
    """A regret as a percentage."""
    return "none" if math.isinf(value) else f"{100 * value:.2f} %" if value else "0"


def told(row: Regret) -> tuple[object, ...]:
    """A row of a problem's table."""
    cells: list[object] = [row.instance, number(row.auto.objective)]
    cells += [row.plan.solver if row.plan else "-", percentage(row.objective), number(row.auto.bound)]
    cells += [row.bound.solver if row.bound else "-", percentage(row.bounding), number(row.auto.proved)]
    cells += [row.proof.solver if row.proof else "-", number(row.proof.proved if row.proof else None)]
    return (*cells, ", ".join(row.misses()) or "")


def summary(problem: str, rows: Sequence[Regret]) -> tuple[object, ...]:
    """A row of the last table."""
    worst = (
        percentage(max(row.objective for row in rows)),
        percentage(max(row.bounding for row in rows)),
        f"{max(row.lateness for row in rows):.2f}",
    )
    missed = [sum(target in row.misses() for row in rows) for target in ("objective", "bound", "proof")]
    return problem, len(rows), *worst, *missed


def warm_up(problem: str) -> None:
    """Load or compile loops, so that the tables show only solve times."""
    for _, tiny in instances(problem, (10,), range(1), real=False):
        for row in ow.list_solvers(tiny):
            if row.available and row.kind != "engine":
                answer(tiny, row.name, 0.3)


def measured(problem: str, arguments: argparse.Namespace) -> Iterator[Regret]:
    """The rows of one problem."""
    real = not (arguments.smoke or arguments.large)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    source = regret_shapes.BY_PROBLEM if arguments.shapes else BY_PROBLEM
    for name, instance in instances(problem, arguments.sizes, seeds, source=source, real=real):
        yield regret(name, instance, arguments.limit, arguments.solvers)


def in_turns(kinds: Sequence[str], arguments: argparse.Namespace) -> dict[str, list[Regret]]:
    """One row of every problem in turn, so that none is omitted when the time of a smoke run is up."""
    ends = time.perf_counter() + SMOKE_SECONDS
    rows = {problem: measured(problem, arguments) for problem in kinds}
    found: dict[str, list[Regret]] = {problem: [] for problem in kinds}
    while rows and time.perf_counter() < ends:
        for problem in list(rows):
            row = next(rows[problem], None)
            if row is None:
                del rows[problem]
            elif time.perf_counter() < ends:
                found[problem].append(row)
    return found


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", action="append", choices=list(BY_PROBLEM), help="default: all")
    parser.add_argument("--sizes", type=int, nargs="+", default=(10, 30, 100, 300, 1_000, 2_000), metavar="OPERATORS")
    parser.add_argument("--seeds", type=int, default=1, metavar="COUNT")
    parser.add_argument("--first-seed", type=int, default=0, metavar="SEED")
    parser.add_argument("--limit", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--solvers", nargs="+", default=[], metavar="NAME", help="compare only with these")
    parser.add_argument("--processor", action="store_true", help="processor seconds instead of wall time")
    parser.add_argument("--large", action="store_true", help="2,000 to 10,000 operators, no real graphs")
    parser.add_argument("--shapes", action="store_true", help="other shapes; real graphs on unlike devices")
    parser.add_argument("--smoke", action="store_true", help="tiny instances, at most 20 s")
    arguments = parser.parse_args()
    arguments.sizes = LARGE_SIZES if arguments.large else tuple(arguments.sizes)
    if arguments.smoke:
        arguments.sizes, arguments.limit, arguments.solvers = SMOKE_SIZES, SMOKE_LIMIT, SMOKE_SOLVERS
    return arguments


def main() -> None:
    """Run what the command line selects; exit with 1 on gross regret in a smoke run."""
    arguments = read_arguments()
    if arguments.processor:
        time.perf_counter = time.process_time
    kinds = arguments.problem or list(regret_shapes.BY_PROBLEM if arguments.shapes else BY_PROBLEM)
    found = in_turns(kinds, arguments) if arguments.smoke else {}
    for problem in kinds:
        if not arguments.smoke:
            warm_up(problem)
            found[problem] = list(measured(problem, arguments))
        show(f"{problem}, {arguments.limit:g} s each", HEADER, map(told, found[problem]))
    header = ("problem", "instances", "objective", "bound", "proof ratio", "missed: objective", "bound ", "proof")
    show("Worst regret", header, [summary(problem, rows) for problem, rows in found.items() if rows])
    gross = [row for rows in found.values() for row in rows if max(row.objective, row.bounding) > GROSS]
    if arguments.smoke and gross:
        sys.exit(f"regret above {100 * GROSS:.0f} %: {', '.join(row.instance for row in gross)}")


if __name__ == "__main__":
    main()
