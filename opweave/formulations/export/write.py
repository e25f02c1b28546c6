"""Problems and models as files that other solvers read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opweave.formulations.build import (
    build_model,
    coefficient_of,
    column_names,
    described,
    objective_unit,
    written_model,
)
from opweave.formulations.export.files import LINEAR, NamedProgram, file_names, write_linear
from opweave.formulations.expressions import extended
from opweave.formulations.formulation import formulation_for, load_formulations
from opweave.formulations.modeling.arrays import Program, TriviallyInfeasibleError, to_arrays
from opweave.formulations.modeling.intervals import Interval, IntervalModel, WholeProgram
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import PyomoFormulation
from opweave.problems.errors import InfeasibleError, InvalidInputError, SolverNotAvailableError
from opweave.problems.problem import Problem
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from ortools.sat.cp_model_pb2 import CpModelProto
    from pyomo.environ import ConcreteModel

LEAST, MOST = -(2**63), 2**63 - 1
"""The sides of rows that have none."""


def to_proto(program: WholeProgram, names: Sequence[str], unit: float) -> CpModelProto:
    """The program as a message. This loads no solver, so HiGHS may be in the same process.

    Parameters
    ----------
    names
        Names of the columns.
    unit
        Seconds or bytes in one unit of the program's objective; CP-SAT reports the objective times this.

    Raises
    ------
    SolverNotAvailableError
        If ortools, which defines the format, is not installed.
    """
    try:
        from ortools.sat.cp_model_pb2 import CpModelProto
    except ImportError as error:
        raise SolverNotAvailableError("CP-SAT's format needs ortools; to get it: pip install ortools") from error
    proto = CpModelProto(name="opweave")
    for name, low, high in zip(names, program.low, program.high, strict=True):
        proto.variables.add(name=name, domain=(low, high))
    for row in program.rows:
        sides = (LEAST if row.low is None else row.low, MOST if row.high is None else row.high)
        written = proto.constraints.add(enforcement_literal=row.only_if)
        written.linear.vars.extend(row.columns)
        written.linear.coeffs.extend(row.coefficients)
        written.linear.domain.extend(sides)
    seen: dict[int, int] = {}
    for group in program.apart:
        members = [_interval(proto, seen, each) for each in group]
        proto.constraints.add().no_overlap.intervals.extend(members)
    proto.objective.vars.append(program.goal)
    proto.objective.coeffs.append(1)
    proto.objective.scaling_factor = unit
    return proto


def _interval(proto: CpModelProto, seen: dict[int, int], each: Interval) -> int:
    """The number of an interval's constraint. It is written once, even if several groups hold it."""
    if id(each) not in seen:
        seen[id(each)] = len(proto.constraints)
        there = () if each.present is None else (each.present,)
        interval = proto.constraints.add(enforcement_literal=there).interval
        for end in (interval.start, interval.end):
            end.vars.append(each.start)
            end.coeffs.append(1)
        interval.size.offset = interval.end.offset = each.size
    return seen[id(each)]


NL = ".nl"
WHOLE = (".pb", ".pbtxt", ".txt")
FORMATS = (*LINEAR, NL, *WHOLE)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that :func:`write_model` wrote.

    Attributes
    ----------
    path
        Where it is.
    formulation
        The formulation that it states; :func:`read_solution` needs its name, unless it is the default.
    columns, rows
        How many the file has; for a constraint program, the rows are all its constraints.
    renamed
        Columns whose names had to be changed for the file: {name in the file: name in the model}. Brackets that became
        parentheses do not count.
    """

    path: Path
    formulation: str
    columns: int
    rows: int
    renamed: Mapping[str, str]


def write_model(
    of: Problem[Any, Any] | ConcreteModel | IntervalModel,
    path: str | Path,
    formulation: str | None = None,
    extend: Callable[[Any, Any], object] | None = None,
) -> ModelFile:
    """Write a problem, or a model of :func:`build_model`, to a file for any solver.

    The objective is in the problem's own unit (seconds, bytes), and its name says so; see :func:`build_model` for plans
    of microseconds. Columns and rows are named after operators and devices. A solution of the file is read back with
    :func:`read_solution` and judged with ``problem.evaluate``.

    Parameters
    ----------
    of
        A problem; or a model, with everything that you added to it.
    path
        The file; its suffix names the format:

        * ``.mps`` (free format) and ``.lp`` for integer programs,
        * ``.nl`` (with the names in ``.col`` and ``.row``), also for nonlinear constraints of your own,
        * ``.pb`` and, as text, ``.pbtxt`` or ``.txt`` for constraint programs: CP-SAT's ``CpModelProto``.
    formulation
        The name of the formulation; None for the problem's default in that format.
    extend
        Called with the model and the problem before the model is written, as in ``solve(..., extend=...)``.

    Returns
    -------
    ModelFile
        What was written, and the names that had to be changed.

    Raises
    ------
    InvalidInputError
        If the format is unknown, or does not fit this formulation.
    InfeasibleError
        If writing the problem already shows that it has no solution.
    SolverNotAvailableError
        If a format of CP-SAT's is asked for, and ortools is not installed.
    UnsupportedConstraintError, LimitExceededError
        If the problem cannot be written as this model.

    Notes
    -----
    Engines stop at gaps of their own, such as 1e-4 of the objective; set ``mip_rel_gap`` and ``mip_abs_gap`` of HiGHS,
    or the like, to 0 for an optimum that is exactly that of ``solve``.

    Examples
    --------
    >>> import tempfile
    >>> import opweave as ow
    >>> graph = ow.OpGraph(tensors=[], operators=[ow.Operator(id="conv 1")])
    >>> cluster = ow.Cluster(devices=[ow.Device(name="gpu")], bandwidth=[[0]])
    >>> problem = ow.Placement(
    ...     graph=graph, cluster=cluster, costs=ow.Costs.from_table({"conv 1": {"gpu": 2.0}})
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_model(problem, folder + "/p.lp")
    >>> file.formulation, file.renamed["x(conv_1,gpu)"]
    ('disjunctive', 'x[conv 1,gpu]')
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InvalidInputError(f"{path}: models are written as {', '.join(FORMATS)}, not as {path.suffix or 'that'!r}")
    try:
        model = _model(of, path.suffix, formulation, extend) if isinstance(of, Problem) else of
        return _write(model, path)
    except TriviallyInfeasibleError as error:
        raise InfeasibleError(str(error)) from error
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _model(
    problem: Problem[Any, Any], suffix: str, formulation: str | None, extend: Callable[[Any, Any], object] | None
) -> Any:
    """The model to write; it passes through Pyomo only if something needs Pyomo."""
    load_formulations(problem.kind)
    takes = IntervalModel if suffix in WHOLE else LinearModel
    found = formulation_for(problem, formulation, takes)
    if takes is IntervalModel or (suffix in LINEAR and extend is None and not issubclass(found, PyomoFormulation)):
        model = written_model(problem, found)
    else:
        model = build_model(problem, found.name)
    extended(model, problem, extend)
    return model


def _write(model: Any, path: Path) -> ModelFile:
    formulation, whole = described(model), isinstance(model, IntervalModel)
    if whole != (path.suffix in WHOLE):
        kind, others = ("a constraint", WHOLE) if whole else ("an integer", (*LINEAR, NL))
        known = f"formulation {formulation.name!r} is {kind} program, which is written as {', '.join(others)}"
        raise InvalidInputError(f"{known}, not as {path.suffix!r}")
    natural = column_names(model)
    if isinstance(model, IntervalModel):
        program = model.program()
        proto = to_proto(program, natural, model.unit)
        if path.suffix == ".pb":
            path.write_bytes(proto.SerializeToString(deterministic=True))
        else:
            path.write_text(str(proto), encoding="utf-8")
        constraints = len(program.rows) + len(program.apart)
        return ModelFile(path, formulation.name, len(natural), constraints, FrozenDict())
    if path.suffix == NL:
        model.write(str(path), format="nl", io_options={"symbolic_solver_labels": True})
        return ModelFile(path, formulation.name, model.nvariables(), model.nconstraints(), FrozenDict())
    named, renamed = _named(model, natural)
    write_linear(named, path)
    return ModelFile(path, formulation.name, named.matrix.columns, len(named.rows), FrozenDict(renamed))


def _named(model: Any, natural: list[str]) -> tuple[NamedProgram, dict[str, str]]:
    """The program with names for the file, and the names that are not those of the model."""
    program, source, unit = _natural(model)
    taken: dict[str, int] = {}
    in_file = file_names(natural, taken)
    columns = [""] * program.matrix.columns
    for column, place in enumerate(program.column.tolist()):
        if place >= 0:
            columns[place] = in_file[column]
    own = [place for place, name in enumerate(columns) if not name]
    for place, name in zip(own, file_names([program.matrix.names[k] for k in own], taken), strict=True):
        columns[place] = name
    rows = file_names(program.matrix.rows.names, taken)
    remarks = [
        f"opweave, problem {source.problem.kind}, formulation {described(model).name}",
        f"objective in {unit}" + (f"; columns of times in units of {source.tick!r} seconds" if source.timed else ""),
    ]
    (objective,) = file_names([f"objective_in_{unit}"], taken)
    changed = {
        new: old
        for new, old in zip(in_file, natural, strict=True)
        if new != old and new != old.replace("[", "(").replace("]", ")")
    }
    return NamedProgram(program.matrix, columns, rows, objective, remarks), changed


def _natural(model: Any) -> tuple[Program, LinearModel, str]:
    """The program with its objective in the problem's unit, the linear model with its columns, and the unit."""
    if not isinstance(model, LinearModel):
        program = model.opweave.program()
        return program, model.opweave.source, model.objective_unit if program.own_objective else "units of your own"
    program = to_arrays(model)
    factor, unit = objective_unit(model.problem.unit, coefficient_of(model))
    scale, matrix = model.unit / factor, program.matrix
    matrix = replace(matrix, cost=matrix.cost * scale, offset=matrix.offset * scale)
    return replace(program, matrix=matrix), model, unit
