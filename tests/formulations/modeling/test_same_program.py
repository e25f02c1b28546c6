"""A model as arrays and the same model through Pyomo are one program, for every formulation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from opweave.formulations.formulation import BuildContext, find_formulation, formulation_names, load_formulations
from opweave.formulations.modeling.arrays import MatrixModel, to_arrays
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import to_pyomo
from tests.tiny import NEEDS, PROBLEMS

for _kind in PROBLEMS:
    load_formulations(_kind)
CASES = [(kind, name) for kind in PROBLEMS for name in formulation_names(kind)]


def written(kind: str, name: str, context: BuildContext) -> LinearModel:
    problem = PROBLEMS[kind].model_copy(update=NEEDS.get(name, {}))
    model = find_formulation(type(problem), name)(context).build(problem)
    if not isinstance(model, LinearModel):
        pytest.skip("writes Pyomo itself")
    return model


def columns_of(matrix: MatrixModel, unit: float = 1.0) -> dict[str, tuple[object, float, float, bool]]:
    names = [matrix.names[k] for k in range(matrix.columns)]
    costs = [pytest.approx(cost / unit, rel=1e-12) for cost in matrix.cost.tolist()]
    facts = zip(costs, matrix.lower.tolist(), matrix.upper.tolist(), matrix.whole.tolist(), strict=True)
    return dict(zip(names, facts, strict=True))


def rows_of(matrix: MatrixModel) -> Counter[tuple[frozenset[tuple[str, float]], float, float]]:
    rows = matrix.rows
    found: Counter[tuple[frozenset[tuple[str, float]], float, float]] = Counter()
    for r in range(len(rows)):
        entries = range(rows.start[r], rows.start[r + 1])
        terms = frozenset((matrix.names[rows.index[e]], float(rows.value[e])) for e in entries)
        found[terms, float(rows.lower[r]), float(rows.upper[r])] += 1
    return found


def plain_columns(matrix: MatrixModel) -> dict[str, tuple[float, float, float, bool]]:
    facts = zip(matrix.cost.tolist(), matrix.lower.tolist(), matrix.upper.tolist(), matrix.whole.tolist(), strict=True)
    return dict(zip((matrix.names[k] for k in range(matrix.columns)), facts, strict=True))


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_arrays_and_pyomo_say_the_same(kind: str, name: str, extended: bool) -> None:
    model = written(kind, name, BuildContext(extended=extended))
    direct, view = to_arrays(model), to_pyomo(model)
    through = view.program()
    assert through.own_objective
    read = through.matrix  # what Pyomo itself says, with an objective in seconds or bytes
    assert columns_of(read, model.unit) == plain_columns(direct.matrix)
    assert rows_of(read) == rows_of(direct.matrix)
    assert read.offset / model.unit == pytest.approx(direct.matrix.offset)
    values = np.arange(float(len(model)))
    assert np.array_equal(direct.model_values(direct.engine_values(values)), values)
    assert np.array_equal(through.model_values(through.engine_values(values)), values)


def test_what_a_user_changes_counts() -> None:
    import pyomo.environ as pyo

    model = LinearModel()
    x = model.wholes("x", [("a", "d"), ("a", "e"), ("b", "d")], high=9.0)
    model.rows("most").add(Linear.over(x.tolist()) >= 4)
    model.minimise(Linear.over(x.tolist()), unit=0.5)
    view = to_pyomo(model)
    concrete = view.concrete
    concrete.x["a", "d"].fix(3)
    concrete.spare = pyo.Var(bounds=(0, 1))
    concrete.row = pyo.Constraint(expr=concrete.x["a", "e"] + concrete.spare >= 2)
    concrete.add(concrete.x["b", "d"] <= 5, name="mine")
    program = view.program()
    assert (program.matrix.columns, program.matrix.offset) == (3, 1.5)
    assert program.own_objective
    assert sorted(plain_columns(program.matrix)) == ["spare", "x[a,e]", "x[b,d]"]
    assert len(program.matrix.rows) == 3
    values = program.engine_values(np.array([3.0, 1.0, 2.0]))
    assert np.isnan(values).sum() == 1
    values[np.isnan(values)] = 1.0
    assert program.broken(values) is None
    assert program.model_values(values).tolist() == [3.0, 1.0, 2.0]
    late = program.block([Linear.over(x.tolist()) >= 6])
    assert (late.lower.tolist(), len(late.index)) == ([3.0], 2)
    concrete.objective.deactivate()
    concrete.other = pyo.Objective(expr=-concrete.x["a", "e"])
    assert not view.program().own_objective
