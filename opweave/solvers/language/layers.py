"""Solver "layers": the best plan of a chain of equal layers, by counts of layers for each device, with proof.

The chain (:mod:`.chain`) becomes a small integer program over counts (:mod:`.program`), whose size does not grow with
the number of layers. HiGHS finds counts; where they are not one walk through the chain, rows that connect them are
added, and HiGHS is asked again. The bound comes from opweave's own tree (:mod:`~opweave.solvers.tree`), which proves
every leaf.

Source: integer flows that are Eulerian trails, as in the rural postman problem (Corberan and Laporte, "Arc Routing",
chapter 5).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower_unless_short
from opweave.problems.arrays import IntArray
from opweave.problems.constraints import Constraint, means
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.placement.spec import Placement
from opweave.problems.result import Termination
from opweave.solvers.language.blocks import BlockSearch
from opweave.solvers.language.chain import ModuleChain, chain_of
from opweave.solvers.language.program import CountProgram
from opweave.solvers.linear import minimise, proved_value
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import carry_out, fill, one_device
from opweave.solvers.placement.plans import fits, no_plan_found, plan_of, solution_of
from opweave.solvers.registry import Feature, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.rules import solve_by
from opweave.solvers.run import Outcome, Run
from opweave.solvers.tree import least_whole, whole_point

MOST_ROUNDS = 50
"""Most times that HiGHS is asked for counts."""

NARROWER = 1e-9
"""Relative part of the memory that is left free when counts exceed it by rounding; ten times more with each round."""

MOST_NARROWINGS, FAR_LESS = 4, 0.01
"""Most searches among ever shorter options, and the part of the plan before below which a plan calls for another."""

CERTAIN = 2.0
"""The longest plan times this is the ceiling of the proof that there is none."""

UNTIMED_SECONDS = 60.0
"""Seconds of the proof when there is no time limit."""

SHARP = 1e-6
"""Relative difference between a proof and its ceiling that counts as none."""

EQUAL = 1e-12
"""Relative difference of seconds that is rounding: of equal plans the first one is kept."""

SOURCE = "counts of layers"

TARGET = "layers"
"""The target of side constraints that only chains know."""


class Counting:
    """The search on one chain."""

    def __init__(self, problem: Placement, instance: PlacementInstance, chain: ModuleChain, run: Run) -> None:
        self.problem, self.instance, self.chain, self.run = problem, instance, chain, run
        self.arrays = arrays_of(instance, problem)
        self.program = CountProgram(chain)

    def solve(self) -> Outcome:
        """Find the best plan, then prove it."""
        self.run.enter("counts")
        if not self._first_plan():
            return Outcome(infeasible=True, reason="no cut into one block of layers for each device fits their memory")
        for _ in range(MOST_NARROWINGS):
            before = self.run.objective
            if before is not None:
                self.program.narrow(float(before))
            self._first_bound()
            if self.run.should_stop():
                break
            self._find()
            now = self.run.objective
            if now is None or (before is not None and now > FAR_LESS * before):
                break
        self.run.enter("proof")
        none = self.run.objective is None
        ceiling = CERTAIN * self.chain.longest if none else (1.0 - self.run.gap) * float(self.run.objective or 0.0)
        proof = self._proved(ceiling)
        if none:
            if proof >= ceiling * (1.0 - SHARP):
                return Outcome(infeasible=True, reason="no counts of equal layers fit the memory of the devices")
            return Outcome(self.run.termination(), reason=no_plan_found(self.problem))
        Best(self.run).report(proof, SOURCE)
        budget = self.run.time_limit is None and not self.run.closed()
        return Outcome(Termination.BUDGET if budget else self.run.termination())

    def _first_plan(self) -> bool:
        """Cut the layers into blocks if a rule asks for them, or fill the devices; whether there may be a plan."""
        rules = [rule for rule in self.problem.constraints if means(rule, Beside, InOrder)]
        if any(means(rule, InOrder) for rule in rules):
            plans, none = BlockSearch(self.problem, self.instance, self.arrays).plans()
            for device in filter(partial(fits, self.arrays), plans):
                self._take(device)
            return not none
        if self.run.objective is None and not rules:
            for simple in (one_device, fill):
                solve_by(partial(carry_out, simple), self.problem, self.run)
        return True

    def _first_bound(self) -> None:
        """Report what the linear program proves."""
        linear = self.program.linear()
        found = minimise(linear, self.run.remaining())
        if found is not None:
            prices = np.concatenate([found.most_price, found.equal_price])
            value = proved_value(linear.cost, *linear.rows(), (linear.lower, linear.upper), prices)
            Best(self.run).report(max(0.0, value) * self.program.unit, SOURCE)

    def _find(self) -> None:
        """Ask for counts until they are a plan, and report it."""
        spare = 0.0
        for _ in range(MOST_ROUNDS):
            point = self._counts(spare)
            if point is None or self.run.should_stop():
                return
            stranded = self.program.stranded(point)
            for r, nodes in stranded:
                self.program.connect(r, nodes)
            if stranded:
                continue
            device = self.chain.devices_of(*_options_in_order(self.chain, self.program, point))
            if fits(self.arrays, device):
                self._take(device)
                return
            spare = 10.0 * spare or NARROWER

    def _take(self, device: IntArray) -> None:
        """Report the plan with these devices, if it meets all requirements."""
        plan = plan_of(self.arrays, self.chain.order, device)
        if np.isfinite(plan.makespan):
            schedule = solution_of(self.instance, self.arrays, plan)
            judged = self.problem.evaluate(schedule)
            now = np.inf if self.run.objective is None else self.run.objective
            if judged.feasible and judged.objective is not None and judged.objective < now * (1.0 - EQUAL):
                self.run.found(schedule, judged.objective)

    def _counts(self, spare: float) -> IntArray | None:
        """Counts as HiGHS finds them, with a part of the memory left free."""
        program = self.program.linear(spare)
        whole = np.ones(len(program.cost), dtype=bool)
        found = whole_point(program, whole, self.run.remaining(), self.run.should_stop, mip_rel_gap=0.0)
        return None if found is None else np.round(found).astype(np.int64)

    def _proved(self, ceiling: float) -> float:
        """What opweave's tree proves of the program, in seconds; at most the ceiling."""
        program, left = self.program.linear(), self.run.remaining()
        whole, endless = np.ones(len(program.cost), dtype=np.int64), np.zeros(len(program.cost), dtype=bool)
        seconds = UNTIMED_SECONDS if left is None else left
        unit = self.program.unit
        proof = least_whole(program, whole, endless, ceiling / unit, seconds, lambda _: self.run.should_stop())
        return max(0.0, min(proof.bound * unit, ceiling))


def _options_in_order(chain: ModuleChain, program: CountProgram, point: IntArray) -> tuple[int, list[int]]:
    """The first operator's device, and the option of every module, for counts that are a walk.

    Each stretch is a trail (Hierholzer) from the device where it begins to the one where it ends. At every step, an
    option that stays on the device is preferred, so that layers stay together.
    """
    hands = [int(np.argmax(point[hand])) for hand in program.hand]
    found = []
    for r in range(len(chain.stretches)):
        modules = program.modules[r]
        left: dict[tuple[int, int], dict[int, int]] = {}
        for k, columns in enumerate(program.place[r]):
            for o in np.flatnonzero(point[columns]).tolist():
                left.setdefault((k, int(modules[k].entry[o])), {})[o] = int(point[columns[o]])
        exits = [module.exit.tolist() for module in modules]
        found += _trail(left, exits, hands[r])
    return hands[0], found


def _trail(left: dict[tuple[int, int], dict[int, int]], exits: list[list[int]], device: int) -> list[int]:
    """All options on one trail from place 0 on a device; ``left`` counts them and is used up."""
    period = len(exits)
    stack: list[tuple[int, int, int]] = [(0, device, -1)]
    trail: list[int] = []
    while stack:
        k, d, came = stack[-1]
        options = left.get((k, d))
        if options:
            o = max(options, key=lambda o: (exits[k][o] == d, -exits[k][o]))
            options[o] -= 1
            if not options[o]:
                del options[o]
            stack.append(((k + 1) % period, exits[k][o], o))
        else:
            stack.pop()
            if came >= 0:
                trail.append(came)
    return trail[::-1]


@express(InOrder, TARGET)
@express(Beside, TARGET)
def _taken_in(_: Placement, __: Constraint) -> None:
    """Add nothing: the options of a chain obey it, or plans are judged."""


@named_solver(
    Placement,
    "layers",
    "a chain of equal layers: how many of them each device takes, by an integer program over counts",
    proves="optimum",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=(*SUPPORTS, TARGET),
)
def solve_layers(problem: Placement, run: Run) -> Outcome:
    """Count layers; solver "layers"."""
    instance = lower_unless_short(problem)
    besides = [rule for rule in problem.constraints if means(rule, Beside)]
    chain = chain_of(instance, besides)
    if chain is None:
        run.should_stop()  # whoever watches is told of every run
        reason = "the operators do not run one after the other, or too many lie between cut points"
        return Outcome(run.termination(), reason=reason)
    return Counting(problem, instance, chain, run).solve()
