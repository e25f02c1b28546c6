"""Plans where a device may have several stages: mirrored orders, annealing, and proofs.

A tied embedding is a common case: ``Colocate`` keeps the first and the last layer on one device, which then has the
first and the last stage. Training is another: forward and backward pass of a layer are on one device. In both, devices
are visited in mirrored order. So the order is folded where the ties meet, and what is a pair of stages becomes one
stage of a chain, for which the search for chains is exact. Where cuts lie in one order, plans are annealed
(:mod:`~opweave.solvers.pipeline.layouts`), labels refute thresholds where links are slow
(:mod:`~opweave.solvers.pipeline.revisits`), and programs over walks prove bounds where they are fast
(:mod:`~opweave.solvers.pipeline.walks`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance, lower
from opweave.problems.constraints import Colocate, means
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.pipeline.assignments import Assignments, units_of
from opweave.solvers.pipeline.auto import search_chain
from opweave.solvers.pipeline.baselines import filling, one_device
from opweave.solvers.pipeline.blocks import BlockMaker
from opweave.solvers.pipeline.exact import is_too_long
from opweave.solvers.pipeline.folding import Fold, Layout, folded, folds_of, unfolded
from opweave.solvers.pipeline.layouts import LayoutArrays, anneal_layout
from opweave.solvers.pipeline.plans import Best, attempt
from opweave.solvers.pipeline.revisits import FOUND, NOTHING, OUT, SHARES, Revisits
from opweave.solvers.pipeline.revisits import MOST_STAGES as MOST_LABELLED
from opweave.solvers.pipeline.walks import MOST_COLUMNS, SLACK
from opweave.solvers.registry import Feature, go_on_with, named_solver
from opweave.solvers.rules import plans_of
from opweave.solvers.run import Outcome, Run

SINGLE_SHARE, SINGLE_SECONDS = 0.2, 5.0
"""Share of the time for plans with one stage for each device, and seconds when there is no time limit."""

FIRST_SHARE, THRESHOLD_SHARE, PROOF_SHARE, PROOF_SECONDS = 0.15, 0.5, 0.5, 20.0
"""Shares of the time left for the search before the proofs and for both proofs, and their seconds without a limit."""

AGAIN_SHARE = 0.25
"""Share of the time left for annealings before thresholds are tested again, if a better plan was found."""

NEAR, LOWEST, MOST_UNKNOWN = 0.005, 0.01, 2
"""Relative difference of thresholds that are not told apart, the lowest one tested, as a share of the best plan, and
most tests without an answer."""

STALE, ANNEALINGS = 400, 3
"""Changes in a row without a better plan, and annealings, after which the search ends when there is no time limit."""

STEPS = 100_000
"""Moves of one annealing."""

UNTIMED_STEPS, STEPS_OF_A_PIECE = 10_000, 300
"""Most moves of one annealing without a time limit, and moves for each piece: the same ones, compiled or not."""

HOT = (0.05, 1.0, 0.01, 0.2, 0.002)
"""First temperatures of annealings, in turn, as shares of the objective."""

MOST_STAGES = 64
"""Most stages while annealing."""

LARGEST_CHANGE = 0.2
"""Share of the points by which a cut moves at most."""


@dataclass(eq=False)
class VisitSearch:
    """The state of the search."""

    problem: Pipeline
    run: Run

    def __post_init__(self) -> None:
        apart = tuple(each for each in self.problem.constraints if not means(each, Colocate))
        self._apart = self.problem.model_copy(update={"max_visits": 1, "constraints": apart})
        self._annealed = 0
        self.instance: PipelineInstance = lower(self._apart)  # a Colocate forbids no cut here

    def search(self) -> Outcome:
        """Search until time is up."""
        self.run.proved(0.0, "trivial")  # the search ends with a plan that takes no time
        single = self._single()
        self._share_out()
        rng = np.random.default_rng(self.run.seed)
        if self.problem.delivery == "host" and self.problem.cuts == "ideals" and self.problem.max_visits is None:
            self._assign(single, rng)
        elif beyond_links(self.problem):
            self._change(single, rng)
        else:
            self._anneal_and_prove(single)
        return Outcome(self.run.termination(), reason=None if self.run.best else "no pipeline was found")

    def _anneal_and_prove(self, single: Stages | None) -> None:
        """Anneal, test thresholds and walk; then anneal, and test again whenever that has helped."""
        with self.run.share(FIRST_SHARE):
            self._anneal(single)
        if not self._over():
            self._test_thresholds()
        if not self._over():
            with self.run.share(PROOF_SHARE, PROOF_SECONDS):
                go_on_with(self.problem, "walks", self.run)
        while not self._over() and self.run.time_limit is not None:
            before = self.run.objective
            with self.run.share(AGAIN_SHARE):
                self._anneal(single)
            if self.run.objective != before and not self._over():
                self._test_thresholds()

    def _share_out(self) -> None:
        """Prove what groups of tied operators take where nothing is sent."""
        cells, known = self.instance.last * len(self.instance.devices), self.run.objective
        if self.problem.objective == "bottleneck" and known and cells <= MOST_COLUMNS:
            self.run.proved(BlockMaker(self.problem, self.instance).shared_out(float(known)), "loads shared out")

    def _single(self) -> Stages | None:
        """The best plan found with one stage for each device, or in mirrored order."""
        self.run.enter("one stage for each device")
        self._mirrored()
        found: Stages | None = None
        for single in (self.problem.model_copy(update={"max_visits": 1}), self._apart):
            left = self.run.remaining()
            scout = Run(time_limit=SINGLE_SECONDS if left is None else SINGLE_SHARE * left, seed=self.run.seed)
            try:
                go_on_with(single, "auto", scout)
            except ContradictionError:
                continue  # of single stages only
            if isinstance(scout.best, Stages):
                found = scout.best
                if self._report(found) is not None:
                    break
        return self.run.best if isinstance(self.run.best, Stages) else found

    def _fill(self, around: PipelineInstance, fold: Fold) -> None:
        """Report simple splits of a folded order, which take no time."""
        for plan in plans_of(partial(attempt, rule, around, self.run.seed) for rule in (one_device, filling)):
            self._report(self._stages(unfolded(fold, plan)))

    def _mirrored(self) -> None:
        """Report plans that visit devices in mirrored order: the last stage is on the first device, and so on."""
        if beyond_links(self.problem):
            return
        folds = list(folds_of(self.problem, self.instance))
        if folds:
            self._fill(folded(self._apart, self.instance, folds[0]), folds[0])
        left = self.run.remaining()
        seconds = (SINGLE_SECONDS if left is None else SINGLE_SHARE * left) / max(1, len(folds))
        for fold in folds:
            if self._over():
                return
            scout = Run(time_limit=seconds, seed=self.run.seed)
            known = Best(folded(self._apart, self.instance, fold), scout)
            search_chain(self._apart, known.instance, known)
            if known.plan is not None:
                self._report(self._stages(unfolded(fold, known.plan)))

    def _report(self, stages: Stages) -> float | None:
        """Report a plan; its objective, or None if the referee objects to it."""
        judged = self.problem.evaluate(stages)
        if not judged.feasible or judged.objective is None:
            return None
        self.run.found(stages, judged.objective)
        return float(judged.objective)

    def _over(self) -> bool:
        return self.run.should_stop() or is_too_long(self.run)

    def _assign(self, single: Stages | None, rng: np.random.Generator) -> None:
        """Anneal assignments of operators to devices."""
        self.run.enter("assignments")
        devices, index = self.problem.usable_devices, self.problem.graph.operator_index
        where = rng.integers(len(devices), size=len(units_of(self.problem))).tolist()
        assignments = Assignments(self.problem, where)
        if single is not None:
            home = {index[name]: devices.index(one.device) for one in single.stages for name in one.operators}
            assignments.where = [home[unit[0]] for unit in assignments.units]
        done = 0
        while not self._over() and (done < ANNEALINGS or self.run.time_limit is not None):
            assignments.where = assignments.anneal(self.run, rng)
            self._report(assignments.stages(assignments.where))
            done += 1

    def _has_thresholds(self) -> bool:
        """Whether :mod:`~opweave.solvers.pipeline.revisits` can test thresholds."""
        problem = self.problem
        usual = problem.objective == "bottleneck" and problem.channel == "dedicated" and problem.load == "overlap"
        return usual and problem.max_replicas == 1 and problem.stage_limit <= MOST_LABELLED

    def _test_thresholds(self) -> None:
        """Test just below the best plan, which is improved or proved; then bisect for a better bound."""
        if self._has_thresholds():
            with self.run.share(THRESHOLD_SHARE, PROOF_SECONDS):
                self._bisect()

    def _bisect(self) -> None:
        self.run.enter("thresholds with several stages")
        blocks = BlockMaker(self.problem, self.instance)
        tests = Revisits(blocks, self.run.halt)
        high, unknown = math.inf, 0
        while self.run.objective and unknown < MOST_UNKNOWN and not self._over():
            top = math.nextafter(float(self.run.objective) * (1.0 - SLACK), 0.0)
            low = max(float(self.run.bound or 0.0), LOWEST * top)
            limit = top if high > top else math.sqrt(low * high)
            if high <= top and high < low * (1.0 + NEAR):
                break
            before = self.run.objective
            for shares in SHARES:
                answer, layout = tests.test(limit, shares)
                if answer == FOUND:
                    self._report(self._stages(layout))
                if answer != FOUND or self.run.objective != before or self._over():
                    break
            self.run.proved(blocks.least, "loads shared out")
            if answer == NOTHING:
                self.run.proved(limit, "labels of walks")
            elif self.run.objective == before:
                high = limit
                unknown += answer == OUT

    def _anneal(self, single: Stages | None) -> None:
        """Anneal the best layout, and layouts from scratch, in turn."""
        self.run.enter("devices with several stages")
        arrays = LayoutArrays.of(self.problem, self.instance)
        room, scale = min(self.problem.stage_limit, MOST_STAGES), float(self.instance.elapsed.max()) or 1.0
        stale = 0
        while not self._over() and (stale < ANNEALINGS or self.run.time_limit is not None):
            layout, steps = self._start(single), STEPS
            if self.run.time_limit is None:
                steps = min(UNTIMED_STEPS, STEPS_OF_A_PIECE * self.instance.last)
            ends, devices = np.zeros((2, max(room, len(layout)) + 1), dtype=np.int64)
            ends[: len(layout)], devices[: len(layout)] = np.array(layout).T
            start = scale if self.run.objective is None else float(self.run.objective)
            heat = np.array([HOT[self._annealed % len(HOT)] * start, 10.0 * scale, steps])
            count = anneal_layout(
                arrays, ends, devices, len(layout), heat, self.run.seed + self._annealed, self.run.halt
            )[1]
            self._annealed += 1
            before = self.run.objective
            self._report(self._stages(list(zip(ends[:count].tolist(), devices[:count].tolist(), strict=True))))
            stale = 0 if self.run.objective != before else stale + 1

    def _change(self, single: Stages | None, rng: np.random.Generator) -> None:
        """Move cuts, exchange devices, insert and remove stages."""
        self.run.enter("devices with several stages")
        kept = self._first(single)
        self._report(self._stages(kept))
        value, stale = self._value(kept), 0
        while not self._over() and (stale < STALE or self.run.time_limit is not None):
            changed = self._changed(kept, rng)
            found = self._value(changed)
            stale = 0 if found < value else stale + 1
            if found < value:
                self._report(self._stages(changed))
            if found <= value:
                kept, value = changed, found

    def _start(self, single: Stages | None) -> Layout:
        """The best layout, or everything on one device, in turn."""
        turn, scratch = divmod(self._annealed, 2)
        if scratch:
            return [(self.instance.last, turn % len(self.instance.devices))]
        return self._first(self.run.best if isinstance(self.run.best, Stages) else single)

    def _first(self, single: Stages | None) -> Layout:
        last = self.instance.last
        if single is None:
            return [(last, 0)]
        position = np.searchsorted(self.instance.position, np.cumsum([len(one.operators) for one in single.stages]))
        devices = [self.instance.devices.index(one.device) for one in single.stages]
        return list(zip(np.minimum(position, last).tolist(), devices, strict=True))

    def _stages(self, layout: Layout) -> Stages:
        ends = [int(self.instance.position[end]) for end, _ in layout]
        names = self.instance.names
        return Stages(
            stages=tuple(
                Stage(device=self.instance.devices[v], operators=names[a:b])
                for (_, v), a, b in zip(layout, [0, *ends[:-1]], ends, strict=True)
            )
        )

    def _value(self, layout: Layout) -> float:
        """The referee's objective, and a large penalty for every violation."""
        judged = self.problem.evaluate(self._stages(layout))
        if judged.objective is None:
            return math.inf
        penalty = sum(1.0 + math.log1p(max(0.0, each.excess or 0.0)) for each in judged.violations)
        return judged.objective + penalty * 1e6 * max(1.0, judged.objective)

    def _changed(self, layout: Layout, rng: np.random.Generator) -> Layout:
        """A layout with one to three random changes; stages in a row on one device become one."""
        ends, devices = [end for end, _ in layout], [v for _, v in layout]
        for _ in range(int(rng.integers(1, 4))):
            k, v = int(rng.integers(len(ends))), int(rng.integers(len(self.instance.devices)))
            kind = int(rng.integers(5))
            if kind <= 1 and k < len(ends) - 1:
                reach = max(1, int(LARGEST_CHANGE * self.instance.last * rng.random() ** 3))
                ends[k] += int(rng.integers(-reach, reach + 1))
            elif kind == 2:
                devices[k] = v
            elif kind == 3:
                begin = ends[k - 1] if k else 0
                if ends[k] - begin > 1:
                    ends.insert(k, int(rng.integers(begin + 1, ends[k])))
                    devices.insert(k + int(rng.integers(2)), v)
            elif len(ends) > 1:
                del devices[k]
                del ends[min(k, len(ends) - 2)]
        return _mended(ends, devices, self.instance.last)


def beyond_links(problem: Pipeline) -> bool:
    """Whether stages have no order, or no links between them."""
    return problem.cuts == "ideals" or problem.delivery == "host"


def _mended(ends: list[int], devices: list[int], last: int) -> Layout:
    """Ends in ascending order, without empty stages and without two in a row on one device."""
    ends = [*np.clip(ends[:-1], 1, max(1, last - 1)).tolist(), last]
    layout: Layout = []
    for end, v in sorted(zip(ends, range(len(ends)), strict=True)):
        if layout and layout[-1][0] == end:
            continue
        if layout and layout[-1][1] == devices[v]:
            layout[-1] = (end, devices[v])
        else:
            layout.append((end, devices[v]))
    if layout[-1][0] < last:
        layout[-1] = (last, layout[-1][1])
    return layout


@named_solver(
    Pipeline,
    "visits",
    "devices with several stages: folded orders, annealing, thresholds refuted by labels, walks",
    kind="plan",
    proves="optimum",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=SUPPORTS,
)
def solve_visits(problem: Pipeline, run: Run) -> Outcome:
    """Search plans where devices may have several stages."""
    if problem.max_visits == 1 or not problem.running_order or not problem.usable_devices:
        return go_on_with(problem.model_copy(update={"max_visits": 1}), "exact", run)
    return VisitSearch(problem, run).search()
