"""Pipeline as a mixed-integer program: one unit flows from the first point to the last, through stages and links.

Stage z[v, a, b] carries the unit from point a to point b on device v; link l[b, v, w] from v to w at point b. Points
only grow, so no cycles can arise; each device carries at most one stage. Neither the paper's split into two steps nor
its classes appear here: cuts and devices are chosen together.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use two handles of the model that take names:
``model.on(op, device)`` is a 0/1 expression, ``model.stages()`` counts the stages.

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> class AtLeast(Constraint):
...     count: int
...     def violations(self, problem, solution):
...         if len(solution.stages) < self.count:
...             yield self.broken("there are too few stages")
>>> @express(AtLeast, "flow")
... def _at_least(formulation, model, constraint):
...     formulation.add_row(model, model.stages() >= constraint.count)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.bulk import Rows, Terms, check_rows, linear_expression, linear_objective
from opweave.formulations.formulation import TOLERANCE, Formulation, InfeasibleError, register_formulation
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import SLACK, TAKEN_IN, PipelineInstance, lower_unless_short
from opweave.formulations.shortage import rules_in_the_way
from opweave.problems.constraints import Constraint
from opweave.problems.pipeline.spec import Pipeline, Stages

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.core.expr.relational_expr import RelationalExpression
    from pyomo.environ import ConcreteModel

UNITS = 1000.0
"""The largest sum of times in the model's units: engines' tolerances are absolute."""

NEGLIGIBLE = 1e-8
"""In units: what takes less counts as taking no time; engines refuse such coefficients, and bounds stay bounds."""


@dataclass(eq=False)
class PipelineModel:
    """What a model was written from, kept with it as ``model.pipeline``.

    Attributes
    ----------
    unit
        Seconds of one unit of the model.
    stage
        Column of every stage (v, a, b).
    link
        Column of every link (b, v, w).
    total
        Column of the bottleneck, or None where the objective is a sum.
    variables
        Pyomo variables of all columns.
    """

    model: ConcreteModel
    instance: PipelineInstance
    unit: float
    stage: dict[tuple[int, int, int], int] = field(default_factory=dict)
    link: dict[tuple[int, int, int], int] = field(default_factory=dict)
    total: int | None = None
    variables: list[Any] = field(default_factory=list)

    def seconds(self, v: int, a: int, b: int) -> float:
        """Of a stage, in units."""
        elapsed = self.instance.elapsed
        return float(elapsed[v, b] - elapsed[v, a]) / self.unit

    def sending(self, b: int, v: int, w: int) -> float:
        """Of a transfer, in units."""
        return self.instance.send_seconds(b, v, w) / self.unit

    def handle_on(self, op: str, device: str) -> LinearExpression:
        """1 when operator ``op`` runs on ``device``, else 0: a linear expression."""
        place, position = self.instance.names.index(op), self.instance.position
        terms = {
            column: 1.0
            for (v, a, b), column in self.stage.items()
            if self.instance.devices[v] == device and position[a] <= place < position[b]
        }
        return linear_expression(0.0, terms, self.variables)

    def handle_stages(self) -> LinearExpression:
        """How many stages there are: a linear expression."""
        return linear_expression(0.0, dict.fromkeys(self.stage.values(), 1.0), self.variables)

    def columns(self, name: str, count: int, *, whole: bool) -> list[int]:
        """Add a family of columns from 0 to 1, or without an upper bound when ``count`` is that of the bottleneck."""
        from pyomo.environ import Binary, NonNegativeReals, Var

        variable = Var(range(count), domain=Binary if whole else NonNegativeReals)
        first = len(self.variables)
        self.model.add_component(name, variable)
        self.variables.extend(variable.values())
        return list(range(first, first + count))


@register_formulation
class Flow(Formulation[Pipeline, Stages]):
    """A pipeline as one unit of flow."""

    name: ClassVar[str] = "flow"
    problem_type: ClassVar[type[Pipeline]] = Pipeline
    supports: ClassVar[tuple[str, ...]] = ("stages", "flow")
    built_in: ClassVar[tuple[type[Constraint], ...]] = TAKEN_IN

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._unit = 1.0

    def build(self, problem: Pipeline) -> ConcreteModel:
        """Write the model."""
        from pyomo.environ import ConcreteModel

        try:
            instance = lower_unless_short(problem, self.context.ceiling)
        except ContradictionError as error:
            raise InfeasibleError(str(error)) from error
        model = ConcreteModel()
        written = PipelineModel(model, instance, self._unit_of(instance))
        model.pipeline, model.on, model.stages = written, written.handle_on, written.handle_stages
        self._columns(written)
        if instance.last:
            self._flow(written)
        self._devices(written)
        self._count(written)
        self._objective(written)
        self.add_constraints(model, problem)
        return model

    def _unit_of(self, instance: PipelineInstance) -> float:
        ceiling = self.context.ceiling
        if ceiling is None or ceiling <= 0.0:
            slowest = [float(instance.elapsed.max(initial=0.0))]
            linked = instance.rate > 0
            if linked.any():
                most = float(instance.sent.max(initial=0.0)) / float(instance.rate[linked].min())
                slowest.append((most + float(instance.latency.max())) * instance.most)
            ceiling = max(slowest)
        self._unit = float(ceiling) / UNITS if ceiling > 0 else 1.0
        return self._unit

    def _columns(self, written: PipelineModel) -> None:
        """z[v, a, b] where device v holds the stage, l[b, v, w] where a link leads; none slower than a known plan."""
        instance, most = written.instance, math.inf
        if self.context.ceiling is not None:
            most = float(self.context.ceiling) * (1 + SLACK) / written.unit
        longest = math.inf if instance.goal == "transfers" else most
        rows = 2 * instance.last * len(instance.devices) + 3 * len(instance.devices)
        points = np.arange(instance.last + 1)
        stages: list[tuple[int, int, int]] = []
        for v, elapsed in enumerate(instance.elapsed):
            within = (points > points[:, None]) & (points <= instance.reach[v][:, None])
            within &= (elapsed - elapsed[:, None]) / written.unit <= longest
            check_rows(rows + len(stages) + int(within.sum()), self.name, self.context.limits)
            stages += [(v, a, b) for a, b in np.argwhere(within).tolist()]
            self.check_time()
        linked = instance.rate > 0
        links: list[tuple[int, int, int]] = []
        for b in range(1, instance.last):
            seconds = np.divide(instance.sent[b], instance.rate, out=np.full(linked.shape, np.inf), where=linked)
            near = linked & ((instance.latency + seconds) / written.unit <= most)
            check_rows(rows + len(stages) + len(links) + int(near.sum()), self.name, self.context.limits)
            links += [(b, v, w) for v, w in np.argwhere(near).tolist()]
            self.check_time()
        written.stage = dict(zip(stages, written.columns("z", len(stages), whole=True), strict=True))
        written.link = dict(zip(links, written.columns("l", len(links), whole=False), strict=True))
        self.check_time()

    def _flow(self, written: PipelineModel) -> None:
        """One unit leaves point 0 and reaches the last; what a stage brings to a point a link takes on to the next."""
        rows, last = Rows(), written.instance.last
        arrives: dict[tuple[int, int], Terms] = {}
        leaves: dict[tuple[int, int], Terms] = {}
        for (v, a, b), column in written.stage.items():
            leaves.setdefault((a, v), {})[column] = 1.0
            arrives.setdefault((b, v), {})[column] = 1.0
        for (b, v, w), column in written.link.items():
            arrives.setdefault((b, v), {})[column] = -1.0
            leaves.setdefault((b, w), {})[column] = -1.0
        rows.equal(_joined(leaves, 0), 1.0)
        rows.equal(_joined(arrives, last), 1.0)
        for (b, _), terms in [*arrives.items(), *leaves.items()]:
            if 0 < b < last:
                rows.equal(terms, 0.0)
        rows.add_to(written.model, "flow", written.variables, self.check_time)

    def _devices(self, written: PipelineModel) -> None:
        """Each device has at most one stage."""
        rows = Rows()
        for terms in self._by_device(written).values():
            rows.at_most(terms, 1.0)
        rows.add_to(written.model, "one_stage", written.variables, self.check_time)

    def _count(self, written: PipelineModel) -> None:
        """The number of stages is within its limits."""
        rows, instance = Rows(), written.instance
        if instance.last:
            rows.at_most(dict.fromkeys(written.stage.values(), 1.0), float(instance.most))
            rows.at_most(dict.fromkeys(written.stage.values(), -1.0), -float(instance.least))
        rows.add_to(written.model, "stage_count", written.variables, self.check_time)

    def _objective(self, written: PipelineModel) -> None:
        """Equation (1): no stage and no transfer takes longer than beta; or a sum of seconds."""
        instance, model = written.instance, written.model
        sending = _felt({column: written.sending(*key) for key, column in written.link.items()})
        computing = _felt({column: written.seconds(*key) for key, column in written.stage.items()})
        if instance.goal != "bottleneck":
            terms = {**sending, **(computing if instance.goal == "latency" else {})}
            model.objective = linear_objective(terms, 0.0, written.variables)
            return
        (written.total,) = written.columns("beta", 1, whole=False)
        rows = Rows()
        beta: Terms = {written.total: -1.0}
        for columns in self._by_device(written).values():
            rows.at_most({**{column: computing[column] for column in columns if column in computing}, **beta}, 0.0)
        if instance.shared_channel:
            rows.at_most({**sending, **beta}, 0.0)
        else:
            sent: dict[int, Terms] = {}
            for (_, v, _), column in written.link.items():
                if column in sending:
                    sent.setdefault(v, {})[column] = sending[column]
            for terms in sent.values():
                rows.at_most({**terms, **beta}, 0.0)
        rows.add_to(model, "bottleneck", written.variables, self.check_time)
        model.objective = linear_objective({written.total: 1.0}, 0.0, written.variables)

    @staticmethod
    def _by_device(written: PipelineModel) -> dict[int, Terms]:
        stages: dict[int, Terms] = {}
        for (v, _, _), column in written.stage.items():
            stages.setdefault(v, {})[column] = 1.0
        return stages

    def extract(self, model: ConcreteModel) -> Stages:
        """Follow the unit."""
        written: PipelineModel = model.pipeline
        taken = sorted(
            (a, b, v) for (v, a, b), column in written.stage.items() if (written.variables[column].value or 0.0) > 0.5
        )
        return written.instance.stages([b for _, b, _ in taken[:-1]], [v for _, _, v in taken])

    def start(self, model: ConcreteModel, solution: Stages) -> None:
        """Set every column."""
        written: PipelineModel = model.pipeline
        instance = written.instance
        place = {position: point for point, position in enumerate(instance.position.tolist())}
        devices = [instance.devices.index(stage.device) for stage in solution.stages]
        ends = [place[int(p)] for p in np.cumsum([len(stage.operators) for stage in solution.stages])]
        begins = [0, *ends[:-1]]
        chosen = set(zip(devices, begins, ends, strict=True)) if devices else set()
        crossed = set(zip(ends[:-1], devices[:-1], devices[1:], strict=True))
        for stage, column in written.stage.items():
            written.variables[column].set_value(float(stage in chosen), skip_validation=True)
        for link, column in written.link.items():
            written.variables[column].set_value(float(link in crossed), skip_validation=True)
        if written.total is not None:
            computing = [written.seconds(*stage) for stage in chosen]
            sending = [written.sending(*link) for link in crossed]
            together = [sum(sending)] if instance.shared_channel else sending
            value = max([*computing, *together, 0.0])
            written.variables[written.total].set_value(value, skip_validation=True)

    def resolution(self) -> float:
        """Engines' tolerances, in seconds."""
        return TOLERANCE * self._unit

    def objective_bound(self, problem: Pipeline, value: float) -> float:
        """Units of the model as seconds."""
        return max(0.0, value * self._unit)

    def why_infeasible(self, problem: Pipeline) -> str:
        """Say what stands in the way."""
        return f"no pipeline respects {rules_in_the_way(problem, rows_added=self.context.extended)}"

    def add_row(self, model: ConcreteModel, row: RelationalExpression) -> None:
        """Add one row of a side constraint, such as ``model.on("a", "gpu") <= model.on("b", "gpu")``."""
        from pyomo.environ import ConstraintList

        if not hasattr(model, "side_constraints"):
            model.side_constraints = ConstraintList()
        model.side_constraints.add(row)


def _felt(terms: Terms) -> Terms:
    """Without what takes no time."""
    return {column: value for column, value in terms.items() if value > NEGLIGIBLE}


def _joined(by_place: dict[tuple[int, int], Terms], point: int) -> Terms:
    """All terms at one point."""
    return {column: 1.0 for (b, _), terms in by_place.items() if b == point for column in terms}
