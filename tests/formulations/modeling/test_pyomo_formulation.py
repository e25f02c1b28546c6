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
        """One stage on one device: x[device] is 1 where it runs."""

        name: ClassVar[str] = "plain"
        problem_type: ClassVar[type[Pipeline]] = Pipeline
        supports: ClassVar[tuple[str, ...]] = ("plain",)

        def write(self, problem: Pipeline) -> pyo.ConcreteModel:
            model, devices = pyo.ConcreteModel(), tuple(problem.cluster.device_index)
            self.names = problem.running_order
            seconds = {d: sum(problem.costs.seconds(op, d) for op in self.names) for d in devices}
            model.x = pyo.Var(devices, domain=pyo.Binary)
            model.beta = pyo.Var(domain=pyo.NonNegativeReals)
            model.one = pyo.Constraint(expr=sum(model.x.values()) == 1)
            model.takes = pyo.Constraint(expr=sum(seconds[d] * model.x[d] for d in devices) <= model.beta)
            model.objective = pyo.Objective(expr=model.beta)
            model.on = lambda op, d: model.x[d]
            return model

        def read(self, model: pyo.ConcreteModel) -> Stages:
            (device,) = (d for d, x in model.x.items() if x.value > 0.5)
            return Stages(stages=[ow.Stage(device=device, operators=self.names)])

        def begin(self, model: pyo.ConcreteModel, solution: Stages) -> None:
            for device, x in model.x.items():
                x.set_value(float(device == solution.stages[0].device))
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


def problem(**more) -> Pipeline:
    return four(cluster=ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], shared=1e12), max_stages=1, **more)


def test_it_agrees_with_the_other_formulation(plain: str) -> None:
    result = ow.solve(problem(), solver="highs", formulation=plain)
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(best_pipeline(problem())[0])


def test_side_constraints_starts_and_extensions(plain: str) -> None:
    def extend(model, _problem) -> None:
        model.add(model.on("Q", "a") <= 0)
        model.late = pyo.Constraint(expr=model.on("P", "b") <= 0)

    ruled = problem(constraints=[Unused(device="a")])
    flow = ow.solve(
        ruled, solver="highs", formulation="flow", extend=lambda model, _: model.add(model.on("P", "b") <= 0)
    )
    result = ow.solve(ruled, solver="highs", formulation=plain, extend=extend, start=flow.solution)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(flow.objective))
    assert result.solution.stages[0].device == "c"
