"""A formulation in plain Pyomo, of a problem of one's own: engines, starts, side constraints and extensions."""

from __future__ import annotations

from typing import ClassVar

import pyomo.environ as pyo
import pytest

import opweave as ow
from opweave.formulations import formulation
from opweave.formulations.expressions import express
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.pyomo import PyomoFormulation
from opweave.problems.pipeline.spec import Pipeline, Stages
from tests.oracles.pipeline import best_pipeline
from tests.problems.pipeline.test_spec import four


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> str:
    ow.list_solvers("pipeline")
    monkeypatch.setattr(formulation, "_FORMULATIONS", dict(formulation._FORMULATIONS))

    @register_formulation
    class Plain(PyomoFormulation[Pipeline, Stages]):
        """Which devices run prefixes of the order, for a pipeline of two stages: x[device, cut] and y[device, cut]."""

        name: ClassVar[str] = "plain"
        problem_type: ClassVar[type[Pipeline]] = Pipeline
        supports: ClassVar[tuple[str, ...]] = ("plain",)

        def write(self, problem: Pipeline) -> pyo.ConcreteModel:
            model = pyo.ConcreteModel()
            names = problem.running_order
            self.names, devices = names, tuple(problem.cluster.device_index)
            seconds = {d: [problem.costs.seconds(op, d) for op in names] for d in devices}
            cuts = range(1, len(names))
            model.x = pyo.Var(devices, cuts, domain=pyo.Binary)
            model.y = pyo.Var(devices, cuts, domain=pyo.Binary)
            model.beta = pyo.Var(domain=pyo.NonNegativeReals)
            model.one = pyo.Constraint(expr=sum(model.x.values()) == 1)
            model.same = pyo.Constraint(
                cuts, rule=lambda m, c: sum(m.x[d, c] for d in devices) == sum(m.y[d, c] for d in devices)
            )
            model.apart = pyo.Constraint(devices, rule=lambda m, d: sum(m.x[d, c] + m.y[d, c] for c in cuts) <= 1)
            model.first = pyo.Constraint(
                expr=sum(sum(seconds[d][:c]) * model.x[d, c] for d in devices for c in cuts) <= model.beta
            )
            model.second = pyo.Constraint(
                expr=sum(sum(seconds[d][c:]) * model.y[d, c] for d in devices for c in cuts) <= model.beta
            )
            model.objective = pyo.Objective(expr=model.beta)
            model.on = lambda op, d: sum((model.x if names.index(op) < c else model.y)[d, c] for c in cuts)
            return model

        def read(self, model: pyo.ConcreteModel) -> Stages:
            ((d, c),) = (key for key, x in model.x.items() if x.value > 0.5)
            ((e, _),) = (key for key, y in model.y.items() if y.value > 0.5)
            stages = (ow.Stage(device=d, operators=self.names[:c]), ow.Stage(device=e, operators=self.names[c:]))
            return Stages(stages=stages)

        def begin(self, model: pyo.ConcreteModel, solution: Stages) -> None:
            first, second = solution.stages
            cut = len(first.operators)
            for key, x in model.x.items():
                x.set_value(float(key == (first.device, cut)))
            for key, y in model.y.items():
                y.set_value(float(key == (second.device, cut)))
            model.beta.set_value(100.0)

        def objective_bound(self, problem: Pipeline, value: float) -> float:
            return value

    return Plain.name


class Unused(ow.Constraint):
    """A device runs nothing."""

    device: str

    def violations(self, problem, solution):
        if any(stage.device == self.device for stage in solution.stages):
            yield self.broken("the device is used")


@express(Unused, "plain")
@express(Unused, "flow")
def _unused(_formulation, model, constraint) -> None:
    for op in "PQRS":
        model.add(model.on(op, constraint.device) <= 0)


TWO = {"min_stages": 2, "max_stages": 2, "channel": "dedicated"}


def problem(**more) -> Pipeline:
    return four(cluster=ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], shared=1e12), **TWO, **more)


def test_it_agrees_with_the_other_formulation(plain: str) -> None:
    result = ow.solve(problem(), solver="highs", formulation=plain)
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(best_pipeline(problem())[0])


def test_side_constraints_starts_and_extensions(plain: str) -> None:
    def extend(model, _problem) -> None:
        model.add(model.on("P", "c") <= 0)
        model.late = pyo.Constraint(expr=model.on("P", "b") <= 0)

    ruled = problem(constraints=[Unused(device="c")])
    flow = ow.solve(
        ruled, solver="highs", formulation="flow", extend=lambda model, _: model.add(model.on("P", "b") <= 0)
    )
    result = ow.solve(ruled, solver="highs", formulation=plain, extend=extend, start=flow.solution)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(flow.objective))
    assert result.solution.stages[0].device == "a"
