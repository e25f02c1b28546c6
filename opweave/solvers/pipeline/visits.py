"""Plans where a device may have several stages: local search from the best plan with one stage for each device.

A tied embedding is the common case: ``Colocate`` keeps the first and the last layer on one device, which then has the
first and the last stage. Where cuts lie in one order, programs over walks prove bounds, and often the optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import PipelineInstance, lower
from opweave.problems.constraints import Colocate, means
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.pipeline.assignments import Assignments, units_of
from opweave.solvers.pipeline.exact import is_too_long
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Outcome, Run

SINGLE_SHARE, SINGLE_SECONDS = 0.2, 5.0
"""Share of the time for plans with one stage for each device, and seconds when there is no time limit."""

FIRST_SHARE, PROOF_SHARE, PROOF_SECONDS = 0.2, 0.7, 20.0
"""Shares of the time for the search before the proof, and for the proof, and its seconds when there is no limit."""

STALE, ANNEALINGS = 400, 3
"""Changes in a row without a better plan, and annealings, after which the search ends when there is no time limit."""

LARGEST_CHANGE = 0.2
"""Share of the points by which a cut moves at most."""

Layout = list[tuple[int, int]]
"""The point where each stage ends, and its device."""


@dataclass(eq=False)
class VisitSearch:
    """The state of the search."""

    problem: Pipeline
    run: Run

    def __post_init__(self) -> None:
        apart = tuple(each for each in self.problem.constraints if not means(each, Colocate))
        self._apart = self.problem.model_copy(update={"max_visits": 1, "constraints": apart})
        self.instance: PipelineInstance = lower(self._apart)  # a Colocate forbids no cut here

    def search(self) -> Outcome:
        """Search until time is up."""
        single = self._single()
        rng = np.random.default_rng(self.run.seed)
        if self.problem.delivery == "host" and self.problem.cuts == "ideals" and self.problem.max_visits is None:
            self._assign(single, rng)
        elif self.problem.cuts == "ideals" or self.problem.delivery == "host":
            self._change(single, rng)
        else:
            with self.run.share(FIRST_SHARE):
                self._change(single, rng)
            if not self._over():
                with self.run.share(PROOF_SHARE, PROOF_SECONDS):
                    go_on_with(self.problem, "walks", self.run)
            if not self._over() and self.run.time_limit is not None:
                self._change(self.run.best if isinstance(self.run.best, Stages) else single, rng)
        return Outcome(self.run.termination(), reason=None if self.run.best else "no pipeline was found")

    def _single(self) -> Stages | None:
        """The best plan with one stage for each device, if there is one."""
        self.run.enter("one stage for each device")
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
                    return found
        return found

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

    def _change(self, single: Stages | None, rng: np.random.Generator) -> None:
        """Move cuts, exchange devices, insert and remove stages."""
        self.run.enter("devices with several stages")
        kept = self._first(single)
        value, stale = self._value(kept), 0
        while not self._over() and (stale < STALE or self.run.time_limit is not None):
            changed = self._changed(kept, rng)
            found = self._value(changed)
            stale = 0 if found < value else stale + 1
            if found <= value:
                kept, value = changed, found
                self._report(self._stages(changed))

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
