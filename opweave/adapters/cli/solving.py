"""The commands that solve: a model file as one problem or another, and questions about a problem written as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from opweave.adapters.archives import Arrays, read_arrays
from opweave.adapters.cli.options import OF_ORDERS, Settings, dimensions, option_value, pairs
from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, solve_and_tell, tell
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.error_messages import validated
from opweave.adapters.formats import family_of
from opweave.adapters.load import AnyProblem, geometry, load, load_problem
from opweave.adapters.onnx.dims import sizes_given
from opweave.adapters.report.views import view_for
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import OptionValue
from opweave.problems.units import exact_bytes, parse_bytes, read_rate

if TYPE_CHECKING:
    from opweave.adapters.report.questions import Answered

ORDER_SHARE = 0.5
"""Share of a time limit for the order of a model whose layout is asked for."""

AS_RUN = "These operators are what ONNX Runtime makes of the file, counted as it runs them; --as-is takes the file's."

LIFETIMES = (".csv", ".csv.gz")
"""How files of lifetimes end."""


def plan_command(context: typer.Context, *, problem: str | None = None) -> int:
    """Plan a model file in one step: load it, solve the problem, verify and show the plan.

    It takes the options of the problem's own command, such as --report or --json; 'opweave PROBLEM --help' lists them.
    """
    lifetimes = any(text.lower().endswith(LIFETIMES) for text in context.args)
    word = view_for(problem or ("layout" if lifetimes else "ordering")).word
    commands: Any = context.find_root().command
    own = commands.get_command(context, word)
    with own.make_context(f"{context.find_root().info_name} {word}", list(context.args)) as asked:
        own.invoke(asked)
    return VERIFIED


def command_of(word: str) -> Callable[..., int]:
    """Make the command of a problem."""
    kind = view_for(word).problem_type

    def command(
        model: Path,
        *,
        dim: list[str] | None = None,
        example_inputs: Path | None = None,
        flags: dict[str, Any],
        settings: Settings,
    ) -> int:
        inputs = None if example_inputs is None else read_arrays(example_inputs)
        dims = {**sizes_given(model, inputs or {}), **dimensions(dim)}
        if word == "layout":
            posed = _layout(model, dims, inputs, flags, settings.time_limit)
            return solve_and_tell(posed, settings, lambda: _beside(model))
        as_run = word == "ordering" and not flags.pop("as_is", False)
        fields = _as_run(model, dims, inputs) if as_run else None
        given = (fields or _posed(kind.model_fields, model, dims, inputs, flags)) | flags
        return solve_and_tell(validated(kind, given, f"problem {word}"), settings, lambda: [AS_RUN] if fields else [])

    return command


def _posed(
    known: Mapping[str, object], model: Path, dims: Mapping[str, int], inputs: Arrays | None, flags: Mapping[str, Any]
) -> dict[str, object]:
    """The graph of a model, with the costs and the geometry that are not given, if the problem has such fields."""
    graph = load(model, dims=dims, inputs=inputs)
    found: dict[str, object] = {"graph": graph}
    if "costs" in known:
        found |= missing_costs(graph, flags)
    if "geometry" in known and "geometry" not in flags:
        found["geometry"] = geometry(model, graph=graph, dims=dims)
    return found


def _as_run(model: Path, dims: Mapping[str, int], inputs: Arrays | None) -> dict[str, object] | None:
    """Fields of the problem of ordering an ONNX file as ONNX Runtime will run it; None for what it cannot run."""
    if family_of(model) != "onnx":
        return None
    from opweave.adapters.onnx.optimizer import runtime_form

    found = runtime_form(model, dims, inputs)
    names = ("graph", "in_place", "inputs", "outputs")
    return None if found is None else {name: getattr(found, name) for name in names}


def _layout(
    path: Path, dims: Mapping[str, int], inputs: Arrays | None, flags: Mapping[str, Any], time_limit: float | None
) -> AnyProblem:
    """The layout of lifetimes in a CSV, or of a model's order with the least peak."""
    from opweave.solvers.questions.changes import rebuilt
    from opweave.solvers.solve import solve

    of_order = {name: flags[name] for name in OF_ORDERS if name in flags}
    arena = {"name": "arena", "bytes": flags.get("bytes"), "alignment": flags.get("alignment", 1)}
    pools, goal = flags.get("pools") or [validated(Pool, arena, "pool 'arena'")], flags.get("objective", "arena")
    if path.name.lower().endswith(LIFETIMES):
        if of_order:
            flag = next(iter(of_order)).replace("_", "-")
            raise InvalidInputError(f"--{flag} is about the order of a model; a CSV says when its storages live")
        return rebuilt(MemoryLayout.from_csv(path, pools=pools), objective=goal)
    graph = load(path, dims=dims, inputs=inputs)
    ordering = validated(MemoryOrdering, {"graph": graph, **of_order}, "problem layout")
    order = solve(ordering, time_limit=None if time_limit is None else ORDER_SHARE * time_limit).solution
    assert order is not None  # without a limit of bytes, every order is one
    listed = tuple(graph.operators[graph.operator_index[name]] for name in order.order)
    in_order = ordering.model_copy(update={"graph": graph.model_copy(update={"operators": listed})})
    return rebuilt(MemoryLayout.of(in_order, order, pools=pools), objective=goal)


def _beside(model: Path) -> list[str]:
    """What the runtimes of a .tflite file need for it, and which operators of an ONNX file count, as a sentence."""
    if family_of(model) == "onnx":
        return ["This is for the file's own operators. 'opweave ordering' plans those of ONNX Runtime's optimiser."]
    if family_of(model) != "tflite":
        return []
    from opweave.adapters.runtimes.tflite_micro import planned_by_runtimes

    needed = (f"{name} {exact_bytes(size)}" for name, size in planned_by_runtimes(model).items())
    return [f"In the order of the file, without scratch memory: {', '.join(needed)}."]


def solve_command(spec: Path, *, settings: Settings) -> int:
    """Solve a problem written as JSON."""
    return solve_and_tell(load_problem(spec), settings)


def compare_command(spec: Path, *, solvers: str | None = None, settings: Settings) -> int:
    """Solve one problem with several solvers, side by side."""
    from opweave.solvers.questions.compare import compare

    names = None if solvers is None else _split(solvers)
    shared = {name: getattr(settings, name) for name in ("time_limit", "gap", "seed", "threads")}
    return _answered(lambda **more: compare(load_problem(spec), names, **shared, **more), "solvers", settings)


def sweep_command(spec: Path, *, flags: Mapping[str, str], vary: list[str] | None = None, settings: Settings) -> int:
    """Solve a problem at every point of a grid, such as --memory 1GiB,2GiB --bandwidth 0.5x,1x,2x."""
    from opweave.solvers.questions.sweep import sweep

    texts = {**flags, **pairs(vary, "--vary")}
    axes = {axis: [axis_value(axis, each) for each in _split(text)] for axis, text in texts.items()}
    if not axes:
        raise InvalidInputError("name at least one axis, such as --memory 1GiB,2GiB or --vary compression=1,2")
    return _answered(lambda **more: sweep(load_problem(spec), axes, **settings.of_solve, **more), "points", settings)


def pareto_command(
    spec: Path,
    measures: list[str],
    *,
    points: int = 10,
    settings: Settings,
) -> int:
    """Find plans that trade one metric against others, each with its bound; the time limit is for all together."""
    from opweave.solvers.questions.pareto import pareto

    front: dict[str, Any] = {"points": points, **settings.of_solve}
    return _answered(lambda **more: pareto(load_problem(spec), measures, **front, **more), "points", settings)


def conflict_command(spec: Path, *, settings: Settings) -> int:
    """Find an irreducible infeasible set (IIS) of requirements, and the smallest changes that would help.

    Exit status 0: there is a plan. 1: there is none, and the requirements in conflict are listed, or neither was
    proved in time. 2: bad input.
    """
    from opweave.adapters.report.progress_line import live_progress
    from opweave.solvers.questions.conflict import conflict

    problem = load_problem(spec)
    with live_progress(Console(stderr=True), problem.unit, "conflict") as observer:
        asked = {name: getattr(settings, name) for name in ("time_limit", "solver", "seed")}
        found = conflict(problem, **asked, progress=observer)
    tell(found, settings, lambda: (found.explain(),))
    return VERIFIED if found.status == "feasible" else NOTHING_FOUND


def axis_value(axis: str, text: str) -> OptionValue:
    """Read a value of an axis.

    Examples
    --------
    >>> axis_value("memory", "1GiB"), axis_value("memory", "0.5x"), axis_value("limit", "none")
    (1073741824, '0.5x', None)
    """
    if text.lower() == "none":
        return None
    if re.fullmatch(r"[0-9.]+x", text):
        return text
    name = axis.partition(":")[0]
    if name in ("memory", "limit") or name.endswith("_bytes"):
        return parse_bytes(text)
    plain_value = option_value(text)
    return read_rate(text) if name == "bandwidth" and isinstance(plain_value, str) else plain_value


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _answered(ask: Callable[..., Answered], steps: str, settings: Settings) -> int:
    """Ask, and show the table; the exit status says whether any solution was found."""
    from opweave.adapters.report.progress_line import counted
    from opweave.adapters.report.questions import explain, table_of

    with counted(Console(stderr=True), steps) as observer:
        found = ask(progress=observer)

    tell(found, settings, lambda: (table_of(found), explain(found)))
    return VERIFIED if any(row.solution is not None for row in found.rows) else NOTHING_FOUND
