"""Files of models: other solvers read the same program and find the same optimum, and their answers come back."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.export.files import LONGEST_NAME, NamedProgram, file_names, write_linear
from opweave.formulations.formulation import formulation_names, load_formulations
from opweave.formulations.modeling.arrays import MatrixModel, to_arrays
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import read_arrays
from tests.tiny import NEEDS, PROBLEMS

for _kind in PROBLEMS:
    load_formulations(_kind)
CASES = [(kind, name) for kind in PROBLEMS for name in formulation_names(kind)]
WHOLE = [(kind, name) for kind in PROBLEMS for name in formulation_names(kind, IntervalModel)]
OPTIMUM = {"memory_ordering": 33, "placement": 2.04, "batched_mapping": 3.08, "pipeline": 2.0, "slicing": 3.04}
OPTIMUM |= {"memory_layout": 0.4, "assignment": 8}
OPTIMUM["serving_flow"] = 0.2  # five tokens a second: d holds one layer, e the other two


def posed(kind: str, name: str) -> ow.extend.Problem:
    return PROBLEMS[kind].model_copy(update=NEEDS.get(name, {}))


def opened(path):
    highspy = pytest.importorskip("highspy")
    solver = highspy.Highs()
    for option, value in {"output_flag": False, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}.items():
        solver.setOptionValue(option, value)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    return solver


Columns = dict[str, tuple[float, float, float, bool]]
Rows = Counter[tuple[frozenset[tuple[str, float]], float, float]]


def read_by_highs(path) -> tuple[Columns, Rows, float]:
    """Columns and rows by name, and the constant, as HiGHS reads them."""
    lp = opened(path).getLp()
    whole = [str(kind).endswith("kInteger") for kind in lp.integrality_] or [False] * lp.num_col_
    facts = zip(lp.col_cost_, lp.col_lower_, lp.col_upper_, whole, strict=True)
    columns = dict(zip(lp.col_names_, facts, strict=True))
    terms = [set() for _ in range(lp.num_row_)]
    for column, name in enumerate(lp.col_names_):
        for entry in range(lp.a_matrix_.start_[column], lp.a_matrix_.start_[column + 1]):
            terms[lp.a_matrix_.index_[entry]].add((name, lp.a_matrix_.value_[entry]))
    rows = Counter(zip(map(frozenset, terms), lp.row_lower_, lp.row_upper_, strict=True))
    return columns, rows, lp.offset_


def said_by(matrix: MatrixModel, names: list[str]) -> tuple[Columns, Rows]:
    facts = zip(matrix.cost.tolist(), matrix.lower.tolist(), matrix.upper.tolist(), matrix.whole.tolist(), strict=True)
    rows = Rows()
    block = matrix.rows
    for r in range(len(block)):
        entries = range(block.start[r], block.start[r + 1])
        terms = frozenset((names[block.index[e]], float(block.value[e])) for e in entries)
        rows[terms, float(block.lower[r]), float(block.upper[r])] += 1
    return dict(zip(names, facts, strict=True)), rows


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_file_is_the_program_of_the_pyomo_model(kind: str, name: str, suffix: str, tmp_path) -> None:
    problem = posed(kind, name)
    written = ow.write_model(problem, tmp_path / f"p{suffix}", name)
    matrix, variables = read_arrays(ow.build_model(problem, name))
    spelt = file_names([variable.name for variable in variables], {})
    columns, rows, offset = read_by_highs(written.path)
    if suffix == ".lp" and matrix.offset:
        assert columns.pop("constant.one") == (matrix.offset, 1.0, 1.0, False)
        offset = matrix.offset
    assert (written.columns, written.rows) == (len(columns), rows.total()) == (matrix.columns, len(matrix.rows))
    said, expected = said_by(matrix, spelt)
    assert columns.keys() == said.keys()
    for column, facts in columns.items():
        assert facts == pytest.approx(said[column], rel=1e-12), column
    assert rows == expected
    assert offset == pytest.approx(matrix.offset)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_file_that_another_solver_solves_has_the_optimum_in_the_problem_s_unit(kind, name, suffix, tmp_path) -> None:
    problem = posed(kind, name)
    solver = opened(ow.write_model(problem, tmp_path / f"p{suffix}", name).path)
    solver.run()
    assert solver.getObjectiveValue() == pytest.approx(OPTIMUM.get(name, OPTIMUM[kind]))
    solver.writeSolution(str(tmp_path / "p.sol"), 0)
    judged = problem.evaluate(ow.read_solution(problem, tmp_path / "p.sol", name))
    assert judged.feasible
    assert judged.objective == pytest.approx(OPTIMUM.get(name, OPTIMUM[kind]))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_user_s_own_solver_factory_solves_the_model(kind: str, name: str) -> None:
    import pyomo.environ as pyo

    problem = posed(kind, name)
    model = ow.build_model(problem, name)
    pyo.SolverFactory("appsi_highs").solve(model)
    assert pyo.value(model.objective) == pytest.approx(OPTIMUM.get(name, OPTIMUM[kind]))
    judged = problem.evaluate(ow.read_solution(model))
    assert (judged.feasible, judged.objective) == (True, pytest.approx(OPTIMUM.get(name, OPTIMUM[kind])))


def test_a_copy_of_a_model_and_an_objective_of_one_s_own_are_taken_as_they_are(tmp_path) -> None:
    import pyomo.environ as pyo

    problem = PROBLEMS["placement"]
    model = ow.build_model(problem)
    copy = model.clone()
    copy.add(copy.on("b", "d") == 1)
    pyo.SolverFactory("appsi_highs").solve(copy)
    assert ow.read_solution(copy).device["b"] == "d"
    assert model.problem is problem

    model.objective.deactivate()
    model.mine = pyo.Objective(expr=2 * model.end("b") + 5)
    file = ow.write_model(model, tmp_path / "p.mps")
    assert "objective_in_units_of_your_own" in file.path.read_text()
    solver = opened(file.path)
    solver.run()
    assert solver.getObjectiveValue() == pytest.approx(7.0)  # b runs for a second on 'e', at once


SOLVE = """
import json, sys
from google.protobuf import text_format
from ortools.sat import cp_model_pb2
from ortools.sat.python import cp_model
found = []
for path in sys.argv[1:]:
    proto = cp_model_pb2.CpModelProto()
    if path.endswith(".pb"):
        proto.ParseFromString(open(path, "rb").read())
    else:
        text_format.Parse(open(path).read(), proto)
    model, solver = cp_model.CpModel(), cp_model.CpSolver()
    assert model.proto.parse_text_format(text_format.MessageToString(proto))
    status = solver.status_name(solver.solve(model))
    values = dict(zip((each.name for each in proto.variables), solver.response_proto.solution))
    found.append([status, solver.objective_value, values])
print(json.dumps(found))
"""


def test_cp_sat_reads_and_solves_every_constraint_program(tmp_path) -> None:
    """All in one child process: CP-SAT and HiGHS cannot be in the same one."""
    import json

    pytest.importorskip("ortools")
    files = [
        ow.write_model(PROBLEMS[kind], tmp_path / f"{name}{suffix}", name)
        for kind, name in WHOLE
        for suffix in (".pb", ".pbtxt")
    ]
    done = subprocess.run(
        [sys.executable, "-c", SOLVE, *(str(file.path) for file in files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    cases = [case for case in WHOLE for _ in range(2)]
    for (kind, name), file, (status, objective, values) in zip(cases, files, json.loads(done.stdout), strict=True):
        assert status == "OPTIMAL"
        assert objective == pytest.approx(OPTIMUM[kind], rel=1e-5)
        assert len(values) == file.columns, "names are unique"
        judged = PROBLEMS[kind].evaluate(ow.read_solution(PROBLEMS[kind], values, name))
        assert (judged.feasible, judged.objective) == (True, pytest.approx(OPTIMUM[kind]))


def test_nl_files_have_names_beside_them_and_take_rows_that_are_not_linear(tmp_path) -> None:
    problem = PROBLEMS["pipeline"]
    linear = ow.write_model(problem, tmp_path / "p.nl")
    assert (linear.columns, linear.rows) == (17, 18)
    assert "z[e,0,1]" in (tmp_path / "p.col").read_text().splitlines()

    def square(model, _problem):
        model.add(model.on("a", "d") * model.on("b", "e") <= 0)

    assert ow.write_model(problem, tmp_path / "q.nl", extend=square).rows == linear.rows + 1
    with pytest.raises(ow.UnsupportedFeatureError, match="linear models only"):
        ow.write_model(problem, tmp_path / "q.mps", extend=square)


def test_rows_and_columns_of_one_s_own_are_in_the_file(tmp_path) -> None:
    import pyomo.environ as pyo

    problem = PROBLEMS["placement"]

    def extend(model, given):
        assert given is problem
        model.spare = pyo.Var(bounds=(0, 3))
        model.add(model.on("b", "d") == 1)
        model.add(model.spare >= model.on("a", "d"), name="mine")

    file = ow.write_model(problem, tmp_path / "p.lp", extend=extend)
    columns, _, _ = read_by_highs(file.path)
    assert columns["spare"] == (0.0, 0.0, 3.0, False)
    assert "own_rows(mine)" in file.path.read_text()
    solver = opened(file.path)
    solver.run()
    solver.writeSolution(str(tmp_path / "p.sol"), 0)
    solution = ow.read_solution(problem, tmp_path / "p.sol")
    expected = ow.solve(problem, solver="highs", extend=lambda model, _: model.add(model.on("b", "d") == 1))
    assert solution.device["b"] == "d"
    assert problem.evaluate(solution).objective == pytest.approx(expected.objective)

    model = ow.build_model(problem)
    model.x["a", "e"].fix(1)
    assert "x(a,e)" not in ow.write_model(model, tmp_path / "f.mps").path.read_text()
    solver = opened(tmp_path / "f.mps")
    solver.run()
    solver.writeSolution(str(tmp_path / "f.sol"), 0)
    assert ow.read_solution(model, tmp_path / "f.sol").device["a"] == "e"


def test_rows_of_one_s_own_are_in_the_file_of_a_constraint_program(tmp_path) -> None:
    pytest.importorskip("ortools")
    problem = PROBLEMS["placement"]
    bare = ow.write_model(problem, tmp_path / "p.pb")
    more = ow.write_model(problem, tmp_path / "p.txt", extend=lambda model, _: model.add(model.on("b", "d") == 1))
    model = ow.build_model(problem, "intervals")
    model.add(model.on("b", "d") == 1)
    assert ow.write_model(model, tmp_path / "q.txt").rows == more.rows == bare.rows + 1
    assert (tmp_path / "p.txt").read_text() == (tmp_path / "q.txt").read_text()


LISTINGS = {
    "HiGHS": "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 4\n# Columns 3\n{d} 0\n{e} 1\n"
    "# Rows 1\nrow 1\n\n# Dual solution values\nFeasible\n# Columns 3\n{d} 1\n{e} 0\n",
    "CBC": "Optimal - objective value 4.00000000\n      1 {e}        1           0\n",
    "SCIP": "solution status: optimal solution found\nobjective value:   4\n{e}     1 \t(obj:4)\nspare  7\n",
    "Gurobi": "# Solution for model p\n# Objective value = 4\n{d} 0\n{e} 1\n",
}


@pytest.mark.parametrize("solver", LISTINGS)
def test_solution_files_of_other_solvers_are_read(solver: str, tmp_path) -> None:
    text = LISTINGS[solver].format(d="z(d,0,1)", e="z(e,0,1)")
    (tmp_path / "p.sol").write_text(text)
    solution = ow.read_solution(PROBLEMS["pipeline"], str(tmp_path / "p.sol"))
    assert [(stage.device, stage.operators) for stage in solution.stages] == [("e", ("a", "b", "c"))]


def test_scip_and_cbc_read_the_files_and_their_answers_come_back(tmp_path) -> None:
    problem = PROBLEMS["placement"]
    ow.write_model(problem, tmp_path / "p.lp")
    ow.write_model(problem, tmp_path / "p.mps")
    asked = 0
    try:
        import pyscipopt
    except ImportError:
        pass
    else:
        for suffix in (".lp", ".mps"):
            model = pyscipopt.Model()
            model.hideOutput()
            model.readProblem(str(tmp_path / f"p{suffix}"))
            model.optimize()
            assert model.getObjVal() == pytest.approx(2.04)
            model.writeBestSol(str(tmp_path / "scip.sol"))
            assert problem.evaluate(ow.read_solution(problem, tmp_path / "scip.sol")).objective == pytest.approx(2.04)
            asked += 1

    from opweave.solvers.engines.linear_child import program_of

    if program_of("cbc") is not None:
        for suffix in (".lp", ".mps"):
            answer = tmp_path / f"cbc{suffix}.sol"
            command = [str(program_of("cbc")), str(tmp_path / f"p{suffix}"), "-solve", "-solution", str(answer)]
            subprocess.run(command, capture_output=True, check=False, timeout=60)
            assert problem.evaluate(ow.read_solution(problem, answer)).objective == pytest.approx(2.04)
            asked += 1
    if not asked:
        pytest.skip("neither SCIP nor CBC is installed")


def test_values_by_name_take_both_spellings_and_pass_over_others() -> None:
    problem = PROBLEMS["pipeline"]
    for spelt in ("z(e,0,1)", "z[e,0,1]"):
        assert problem.evaluate(ow.read_solution(problem, {spelt: 1.0, "my own": 3})).objective == 4.0
    model = ow.build_model(problem)
    assert ow.read_solution(model, {"z[d,0,1]": 1}).stages[0].device == "d"


def test_what_cannot_be_read_or_written_is_refused_in_a_sentence(tmp_path) -> None:
    problem = PROBLEMS["pipeline"]
    refused = {
        r"hold no value for any variable of this formulation, such as 'z\(d,0,1\)'": {"z(e,1,9)": 1.0},
        r"the value of 'z\(e,0,1\)' is nan, which is not a finite number": {"z(e,0,1)": math.nan},
        "the values hold no value": {},
        "missing.sol: there is no such file": tmp_path / "missing.sol",
        "binary.sol: cannot be read": tmp_path / "binary.sol",
        "infeasible.sol holds no value": tmp_path / "infeasible.sol",
    }
    (tmp_path / "binary.sol").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "infeasible.sol").write_text("Infeasible - objective value 0.0\n")
    for sentence, values in refused.items():
        with pytest.raises(ow.InvalidInputError, match=sentence):
            ow.read_solution(problem, values)
    model, intervals = ow.build_model(problem), ow.build_model(PROBLEMS["placement"], "intervals")
    for sentence, call in {
        "solve it first": lambda: ow.read_solution(model),
        "only a Pyomo model holds values": lambda: ow.read_solution(intervals),
        "not written by build_model": lambda: ow.read_solution(LinearModel(), {"x": 1}),
        "p.xls: models are written as .mps, .lp, .nl, .pb": lambda: ow.write_model(problem, tmp_path / "p.xls"),
        "'intervals' is a constraint program, .* would do: 'disjunctive'": lambda: ow.write_model(
            PROBLEMS["placement"], tmp_path / "p.lp", "intervals"
        ),
        "'intervals' is a constraint program, which is written as .pb": lambda: ow.write_model(
            intervals, tmp_path / "p.lp"
        ),
        "'flow' is an integer program, which is written as .mps": lambda: ow.write_model(model, tmp_path / "p.pb"),
        "cannot be written": lambda: ow.write_model(problem, tmp_path / "no folder" / "p.lp"),
    }.items():
        with pytest.raises(ow.InvalidInputError, match=sentence):
            call()
    tight = ow.MemoryOrdering(graph=PROBLEMS["memory_ordering"].graph, limit_bytes=1)
    with pytest.raises(ow.OpweaveError, match="limit"):
        ow.write_model(tight, tmp_path / "p.lp")


def test_plans_of_microseconds_are_not_lost_in_an_engine_s_tolerances(tmp_path) -> None:
    """With an objective in seconds, HiGHS calls a plan of four times the optimum optimal."""
    import pyomo.environ as pyo

    seconds = {"a": (1.0, 2.0), "b": (3.0, 1.0), "c": (1.0, 1.0)}
    problem = ow.Placement(
        graph=PROBLEMS["placement"].graph,
        cluster=ow.Cluster(devices=[ow.Device(name="d"), ow.Device(name="e")], shared=100e6),
        costs=ow.Costs.from_table({name: {"d": d * 1e-6, "e": e * 1e-6} for name, (d, e) in seconds.items()}),
    )
    for name in ("disjunctive", "moirai"):
        short = problem.model_copy(update=NEEDS.get(name, {}))
        file = ow.write_model(short, tmp_path / "p.mps", name)
        assert "objective_in_microseconds" in file.path.read_text()
        solver = opened(file.path)
        solver.run()
        assert solver.getObjectiveValue() == pytest.approx(2.04)
        model = ow.build_model(short, name)
        assert model.objective_unit == "microseconds"
        pyo.SolverFactory("appsi_highs").solve(model)
        assert short.evaluate(ow.read_solution(model)).objective == pytest.approx(2.04e-6)
        assert ow.write_model(model, tmp_path / "q.mps").columns == file.columns
        assert (tmp_path / "q.mps").read_text().count("objective_in_microseconds") > 1


HOSTILE = ["a b", "a\tb", "é", "x[1]", "", "end", "e12", "free", "9", "a:b", "a\nb", "<=", "+3", "x(1)"]
HOSTILE += ["n" * 200, "n" * 201]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=4)), max_size=12), st.integers(0, 12))
def test_names_in_files_are_plain_unique_and_depend_on_those_before_alone(names: list[str], first: int) -> None:
    taken: dict[str, int] = {}
    together = file_names(names[:first], taken) + file_names(names[first:], taken)
    assert together == file_names(names, {})
    assert len(set(together)) == len(names)
    assert all(name.isascii() and " " not in name and name[0].isalpha() | (name[0] == "_") for name in together)
    assert all(len(name) <= LONGEST_NAME + 10 for name in together)


@st.composite
def programs(draw: st.DrawFn) -> LinearModel:
    count = draw(st.integers(1, 12))
    number = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
    model = LinearModel()
    for key in range(count):
        low, high = sorted([draw(number), draw(number)])
        low, high = draw(st.sampled_from([(low, high), (-np.inf, np.inf), (low, np.inf), (-np.inf, high), (0.0, 1.0)]))
        whole = draw(st.booleans()) and np.floor(high) >= np.ceil(low)
        model.columns("x", [(draw(st.sampled_from(HOSTILE)), key)], low, high, bool(whole))
    for _ in range(draw(st.integers(1, 8))):
        terms = draw(st.dictionaries(st.integers(0, count - 1), number.filter(bool), min_size=1))
        side = draw(number)
        body = Linear(0.0, terms)
        model.rows("row s").add(draw(st.sampled_from([body <= side, body >= side, body == side])))
    model.minimise(Linear(draw(number), draw(st.dictionaries(st.integers(0, count - 1), number.filter(bool)))))
    return model


@settings(max_examples=60, deadline=None)
@given(model=programs(), suffix=st.sampled_from([".mps", ".lp"]))
def test_every_program_is_read_back_as_it_was(tmp_path_factory, model: LinearModel, suffix: str) -> None:
    matrix = to_arrays(model).matrix
    taken: dict[str, int] = {}
    names = file_names(model.names(), taken)
    path = tmp_path_factory.mktemp("file") / f"p{suffix}"
    write_linear(NamedProgram(matrix, names, file_names(matrix.rows.names, taken), remarks=("of a test",)), path)
    columns, rows, offset = read_by_highs(path)
    if suffix == ".lp" and matrix.offset:
        assert columns.pop("constant.one") == (matrix.offset, 1.0, 1.0, False)
    else:
        assert offset == pytest.approx(matrix.offset)
    assert (columns, rows) == said_by(matrix, names)
