"""The smallest largest load: exact over sets of devices, else walks for the bound and local search for plans."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.pipeline.loads import ANY, Crew, Loads, SequenceLoads, SetLoads, WalkLoads, next_threshold
from opweave.solvers.pipeline.plans import BestPlan, finished, nothing_fits
from opweave.solvers.pipeline.sets import Sets, StageSteps
from opweave.solvers.run import Outcome, Run

PLAN_SHARE = 0.6
"""Share of the time for plans, before walks bound them."""

UNTIMED_TESTS = 3_000
"""Sequences of devices that are tested where there is no time limit."""

MOST_CHANGES = 4
"""Most changes of a sequence at once."""

WORTH = 1e-4
"""Relative gain that a change of the sequence of devices must bring."""


@dataclass(eq=False)
class LoadSearch:
    """The state of the search."""

    problem: Pipeline
    instance: PipelineInstance
    run: Run
    best: BestPlan

    def __post_init__(self) -> None:
        self._loads, self._tested = Loads(self.instance, StageSteps(self.instance)), 0

    def search(self) -> Outcome:
        """Run until the optimum is proved or time is up."""
        sets = Sets.of(self.instance, self.problem.max_replicas)
        if sets is None:
            return self._beyond_sets()
        self.run.enter("sets of devices")
        table = SetLoads(self._loads, sets, self.run.should_stop)
        low, proves = 0.0, self._counts_stages(sets)
        while (limit := next_threshold(low, self.best.value)) is not None:
            if not proves and limit <= low:
                break
            found = table.test(limit)
            if found is None or (found[0] is None and limit == ANY and not proves):
                break
            crew, refused = found
            if crew is not None:
                self._take(crew, limit)
            elif limit == ANY:
                return Outcome(infeasible=True, reason=nothing_fits(self.problem, self.instance))
            else:
                low = max(limit, min(refused, self.best.value)) if proves else limit
        if proves:
            self.best.proved(self.best.value if found_all(low, self.best.value) else low, "sets of devices")
        return finished(self.run, proved=self.run.closed())

    def _counts_stages(self, sets: Sets) -> bool:
        """Whether every set of devices has the number of stages that the table assumes, or any number will do."""
        instance = self.instance
        return bool((sets.turns == 1).all()) or (instance.least <= 1 and instance.most >= instance.most_devices)

    def _take(self, crew: Crew, limit: float) -> None:
        """Report a plan that keeps a limit."""
        value = min(limit, self._loads.value(crew))
        if value >= self.best.value:
            return
        if all(len(each) == 1 for each in crew.devices):
            self.best.consider(crew.plan)
        else:
            stages = self._stages(crew)
            self.best.plan = None
            self.run.found(stages, self.problem.evaluate(stages).objective or 0.0)
        self.best.value = min(value, self.best.value)

    def _stages(self, crew: Crew) -> Stages:
        names = self.instance.devices
        plain = self.instance.stages(crew.cuts, crew.plan.devices).stages
        return Stages(
            stages=tuple(
                Stage(device=one.device, operators=one.operators, replicas=tuple(names[v] for v in devices[1:]))
                for one, devices in zip(plain, crew.devices, strict=True)
            )
        )

    def _beyond_sets(self) -> Outcome:
        """Improve the sequence of devices, bound it, and improve it by larger changes in the time left."""
        self.run.enter("sequences of devices")
        rng = np.random.default_rng(self.run.seed)
        with self.run.share(PLAN_SHARE):
            self._improve(rng)
        if self.problem.max_replicas == 1:
            self.run.enter("walks along the pipeline")
            self._bound()
        if self.run.time_limit is not None:
            self.run.enter("sequences of devices")
            self._leap(rng)
        return finished(self.run, proved=self.run.closed())

    def _bound(self) -> None:
        """Bisect from below what even walks refuse."""
        walks, low, high = WalkLoads(self._loads, self.run.should_stop), 0.0, self.best.value
        while not self._over() and (limit := next_threshold(low, high)) is not None:
            refused = walks.test(limit)
            if self.run.should_stop():
                break
            if refused is None:
                high = limit
            else:
                low = max(limit, min(refused, high))
                if low == math.inf:
                    break  # no walk at all; whether there is a plan is for others to say
                self.best.proved(min(low, self.best.value), "walks along the pipeline")

    def _improve(self, rng: np.random.Generator) -> None:
        """Begin with simple orders, then change the best sequence of devices."""
        starts = [list(self.best.plan.devices)] if self.best.plan is not None else []
        starts += [np.argsort(key, kind="stable").tolist() for key in self._orders()]
        for start in starts:
            if self._over():
                return
            self._settle(start)
        self._descend(rng)

    def _descend(self, rng: np.random.Generator) -> None:
        """Change the sequence of devices as long as that keeps a smaller threshold."""
        while not self._over() and self.best.plan is not None:
            devices = list(self.best.plan.devices)
            if not any(self._settle(changed) for changed in self._changes(devices, rng) if not self._over()):
                break

    def _leap(self, rng: np.random.Generator) -> None:
        """Make several changes at once, which no single one leads to, until time is up."""
        while not self._over() and self.best.plan is not None:
            devices = list(self.best.plan.devices)
            for _ in range(rng.integers(2, MOST_CHANGES + 1)):
                devices = next(self._changes(devices, rng), devices)
            if self._settle(devices):
                self._descend(rng)

    def _orders(self) -> Iterator[np.ndarray]:
        """Keys by which devices make first sequences."""
        instance = self.instance
        yield np.arange(len(instance.devices))
        yield instance.elapsed[:, -1]
        yield -instance.capacity.astype(np.float64)
        yield -instance.rate.sum(axis=1)

    def _settle(self, devices: list[int]) -> bool:
        """Find the best cuts of a sequence, if it has better ones than the best plan."""
        if not max(1, self.instance.least) <= len(devices) <= min(self.instance.most, self.instance.most_devices):
            return False
        test, better = SequenceLoads(self._loads, devices).test, False
        self._tested += 1
        low, high = 0.0, self.best.value
        limit = high * (1.0 - WORTH) if high < math.inf else ANY
        while not self._over():
            found = test(limit)
            if found is None or (found[0] is None and not better):
                return better
            if found[0] is not None:
                better = True
                self._take(found[0], limit)
                high = min(high, self.best.value)
            else:
                low = max(limit, min(found[1], high))
            following = next_threshold(low, high)
            if following is None:
                return better
            limit = following
        return better

    def _changes(self, devices: list[int], rng: np.random.Generator) -> Iterator[list[int]]:
        """Sequences with one device more, less, another one, or two exchanged, in random order."""
        unused = [v for v in range(len(self.instance.devices)) if v not in set(devices)]
        places = range(len(devices))
        changes = [(kind, i, j) for kind in range(2) for i in places for j in range(i + 1, len(devices))]
        changes += [(2, i, v) for i in range(len(devices) + 1) for v in unused]
        changes += [(3, i, v) for i in places for v in unused] + [(4, i, 0) for i in places]
        for kind, i, j in (changes[k] for k in rng.permutation(len(changes))):
            changed = devices.copy()
            if kind == 0:
                changed[i], changed[j] = changed[j], changed[i]
            elif kind == 1:
                changed.insert(j, changed.pop(i))
            elif kind == 2:
                changed.insert(i, j)
            elif kind == 3:
                changed[i] = j
            else:
                del changed[i]
            yield changed

    def _over(self) -> bool:
        self.best.look()
        return self.run.should_stop() or (self._tested > UNTIMED_TESTS and self.run.remaining() is None)


def found_all(low: float, value: float) -> bool:
    """Whether nothing is left between a bound and a plan's value."""
    return next_threshold(low, value) is None
