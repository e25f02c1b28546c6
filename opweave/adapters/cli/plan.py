"""The commands that plan a model file: one for each problem, with its own options, and ``opweave plan`` for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from opweave.adapters.archives import Arrays, read_arrays, sizes_given
from opweave.adapters.cli.flags import OF_ORDERS
from opweave.adapters.cli.output import VERIFIED, solve_and_tell
from opweave.adapters.cli.settings import Settings, dimensions
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.error_messages import validated
from opweave.adapters.formats import family_of
from opweave.adapters.graphs.lifetimes import load_lifetimes
from opweave.adapters.load import AnyProblem, geometry, load
from opweave.adapters.report.views import view_for
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.layout_of import layout_of
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering

ORDER_SHARE = 0.5
"""Share of a time limit for the order of a model whose layout is asked for."""

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
            return solve_and_tell(_layout(model, dims, inputs, flags, settings.time_limit), settings)
        posed = None
        if word == "ordering" and not flags.pop("as_is", False):
            posed = _as_run(model, dims, inputs)
        posed = (posed or _posed(kind.model_fields, model, dims, inputs, flags)) | flags
        return solve_and_tell(validated(kind, posed, f"problem {word}"), settings)

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
    from opweave.solvers.solve import solve

    of_order = {name: flags[name] for name in OF_ORDERS if name in flags}
    capacity, alignment = flags.get("bytes"), flags.get("alignment", 1)
    if path.name.lower().endswith(LIFETIMES):
        if of_order:
            flag = next(iter(of_order)).replace("_", "-")
            raise InvalidInputError(f"--{flag} is about the order of a model; a CSV says when its storages live")
        return load_lifetimes(path, capacity=capacity, alignment=alignment)
    pool = validated(Pool, {"name": "arena", "bytes": capacity, "alignment": alignment}, "pool 'arena'")
    graph = load(path, dims=dims, inputs=inputs)
    ordering = validated(MemoryOrdering, {"graph": graph, **of_order}, "problem layout")
    order = solve(ordering, time_limit=None if time_limit is None else ORDER_SHARE * time_limit).solution
    assert order is not None  # without a limit of bytes, every order is one
    listed = {name: getattr(graph, name) for name in OpGraph.model_fields}
    listed["operators"] = [graph.operators[graph.operator_index[name]] for name in order.order]
    known = {name: getattr(ordering, name) for name in MemoryOrdering.model_fields}
    layout: MemoryLayout = layout_of(MemoryOrdering(**{**known, "graph": OpGraph(**listed)}), order, pools=[pool])
    return layout
