"""The commands that plan a model file: one for each problem, with its own options, and ``opweave plan`` for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from opweave.adapters.archives import Arrays, read_arrays, sizes_given
from opweave.adapters.cli.flags import OF_ORDERS, WORDS, fields_of, flags_of, with_flags
from opweave.adapters.cli.output import solve_and_tell
from opweave.adapters.cli.settings import Settings, dimensions, with_options, with_settings
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.error_messages import validated
from opweave.adapters.formats import family_of
from opweave.adapters.graphs.lifetimes import load_lifetimes
from opweave.adapters.load import AnyProblem, geometry, load
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.views import view_for
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.layout_of import layout_of
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering

ORDER_SHARE = 0.5
"""Share of a time limit for the order of a model whose layout is asked for."""


def _plan(
    model: Path,
    *,
    problem: str | None = None,
    dim: list[str] | None = None,
    example_inputs: Path | None = None,
    as_is: bool = False,
    flags: Mapping[str, object],
    settings: Settings,
) -> int:
    """Plan a model file in one step: load it, solve the problem, verify and show the plan.

    It takes the options of every problem; 'opweave PROBLEM --help' lists those of one, as in 'opweave pipeline --help'.
    For an order of an ONNX file, the operators are those that ONNX Runtime's optimiser leaves, if it is installed.
    """
    view = view_for(problem or ("layout" if _is_lifetimes(model) else "ordering"))
    fields = fields_of(view, flags)
    inputs = None if example_inputs is None else read_arrays(example_inputs)
    dims = {**sizes_given(model, inputs or {}), **dimensions(dim)}
    if view.word == "layout":
        return solve_and_tell(_layout(model, dims, inputs, fields, settings.time_limit), settings)
    posed = None if as_is or view.word != "ordering" else _as_run(model, dims, inputs)
    posed = _posed(view, model, dims, inputs, fields) if posed is None else posed | fields
    return solve_and_tell(validated(view.problem_type, posed, f"problem {view.word}"), settings)


plan_command = with_settings()(with_flags(_plan, chain.from_iterable(map(flags_of, WORDS)), hidden=True))


def command_of(word: str) -> Callable[..., int]:
    """Make the command of a problem: ``opweave plan`` with that problem, and with its flags alone."""
    own = with_options(with_settings()(with_flags(_plan, flags_of(word))), "problem", [], lambda _: word)
    return own if word == "ordering" else with_options(own, "as_is", [], lambda _: False)


def _is_lifetimes(path: Path) -> bool:
    return path.name.lower().endswith((".csv", ".csv.gz"))


def _posed(
    view: type[AnyView], model: Path, dims: Mapping[str, int], inputs: Arrays | None, fields: dict[str, object]
) -> dict[str, object]:
    """The fields of a problem about a model's graph; costs and geometry that are not given are worked out."""
    graph = load(model, dims=dims, inputs=inputs)
    known = view.problem_type.model_fields
    if "costs" in known:
        fields |= missing_costs(graph, fields)
    if "geometry" in known and "geometry" not in fields:
        fields["geometry"] = geometry(model, graph=graph, dims=dims)
    return {"graph": graph, **fields}


def _as_run(model: Path, dims: Mapping[str, int], inputs: Arrays | None) -> dict[str, object] | None:
    """Fields of the problem of ordering an ONNX file as ONNX Runtime will run it; None for what it cannot run."""
    if family_of(model) != "onnx":
        return None
    from opweave.adapters.onnx.optimizer import runtime_form

    found = runtime_form(model, dims, inputs)
    names = ("graph", "in_place", "inputs", "outputs")
    return None if found is None else {name: getattr(found, name) for name in names}


def _layout(
    path: Path, dims: Mapping[str, int], inputs: Arrays | None, fields: Mapping[str, Any], time_limit: float | None
) -> AnyProblem:
    """The layout of lifetimes in a CSV, or of a model's order with the least peak."""
    from opweave.solvers.solve import solve

    of_order = {name: fields[name] for name in OF_ORDERS if name in fields}
    capacity, alignment = fields.get("bytes"), fields.get("alignment", 1)
    if _is_lifetimes(path):
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
