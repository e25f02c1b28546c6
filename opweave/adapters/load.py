"""Model files, problems and results, in and out; the file's name tells what it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from opweave.adapters.complaints import complaint, plain
from opweave.adapters.files import PathLike, read_json, write_text
from opweave.adapters.inplace import INPLACE_KINDS
from opweave.adapters.node_edge import from_node_edge
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    import networkx as nx

AnyProblem = Problem[Any, Any]
ModelT = TypeVar("ModelT", bound=BaseModel)


def load(
    model: PathLike | nx.DiGraph[object],
    *,
    dims: Mapping[str, int] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Load a model graph.

    Parameters
    ----------
    model
        A file: ``.onnx``; ``.json`` or ``.json.gz`` with opweave's own schema or with nodes and edges (see
        :mod:`opweave.adapters.node_edge`). Or a networkx ``DiGraph`` (see :mod:`opweave.adapters.networkx_io`).
    dims
        Sizes for symbolic dimensions of an ONNX model, as in ``{"batch": 1}``.
    inplace_kinds
        Operator kinds that may overwrite an input; opweave's own schema says it for each operator instead.
    limits
        Caps on file and graph size.

    Returns
    -------
    OpGraph

    Raises
    ------
    InvalidInputError, LimitExceededError
        With one sentence that says what is wrong, where, and what to do.

    Examples
    --------
    >>> import networkx as nx
    >>> net = nx.DiGraph([("x", "y")])
    >>> net.add_node("x", op="input", bytes=4)
    >>> net.add_node("y", op="Relu", bytes=4)
    >>> load(net).outputs
    ('y',)
    """
    if not isinstance(model, str | os.PathLike):
        from opweave.adapters.networkx_io import from_networkx

        return from_networkx(model, inplace_kinds=inplace_kinds, limits=limits)
    name = plain(os.fspath(model))
    if name.lower().endswith(".onnx"):
        from opweave.adapters.onnx_in import from_onnx

        return from_onnx(model, dims=dims, inplace_kinds=inplace_kinds, limits=limits)
    if dims:
        raise InvalidInputError(f"{name}: dims are for .onnx files; this one's sizes are already fixed")
    if not name.lower().endswith((".json", ".json.gz")):
        raise InvalidInputError(f"{name}: opweave reads .onnx, .json and .json.gz; rename or export the model")
    data = _read_object(model, limits)
    if "nodes" in data:
        return from_node_edge(data, where=name, inplace_kinds=inplace_kinds, limits=limits)
    if "operators" in data:
        _check_counts(data, name, limits)
        return _validated(OpGraph, data, name)
    raise InvalidInputError(f"{name}: {_instead(data)}")


def load_problem(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> AnyProblem:
    """Load a problem from its JSON (``.json`` or ``.json.gz``), told apart by its ``kind``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        With one sentence that says what is wrong, where, and what to do.
    """
    name = plain(os.fspath(path))
    data = _read_object(path, limits)
    kind = data.get("kind")
    kinds = {word: found for word, found in Problem.kinds().items() if found.__module__ != Problem.__module__}
    found = kinds.get(kind) if isinstance(kind, str) else None
    if found is None:
        known = ", ".join(kinds)
        if kind is not None:
            raise InvalidInputError(f"{name}: kind {kind!r:.60} is no problem that opweave knows; it knows: {known}")
        raise InvalidInputError(f"{name}: a problem needs a 'kind', one of: {known}; {_instead(data)}")
    graph = data.get("graph")
    if isinstance(graph, Mapping):
        _check_counts(graph, name, limits)
    problem = _validated(found, data, name)
    assert isinstance(problem, Problem)
    return problem


def load_cluster(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Cluster:
    """Load a cluster from its JSON (``.json`` or ``.json.gz``).

    Raises
    ------
    InvalidInputError, LimitExceededError
        With one sentence that says what is wrong, where, and what to do.
    """
    return _validated(Cluster, _read_object(path, limits), plain(os.fspath(path)))


def load_costs(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Costs:
    """Load measured times from JSON (``.json`` or ``.json.gz``).

    Parameters
    ----------
    path
        Either opweave's own schema (``operators``, ``devices``, ``table``), or seconds as
        ``{operator: {device: seconds}}``, null for unknown.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        With one sentence that says what is wrong, where, and what to do.
    """
    name = plain(os.fspath(path))
    data = _read_object(path, limits)
    if isinstance(data.get("operators"), list):
        return _validated(Costs, data, name)
    try:
        return Costs.from_table(data)  # type: ignore[arg-type]  # it checks every entry
    except ValidationError as error:
        raise complaint(error, name) from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def load_result(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Result[Solution]:
    """Load a result from its JSON; it is as its writer left it, so judge it with ``problem.evaluate``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        With one sentence that says what is wrong, where, and what to do.
    """
    name = plain(os.fspath(path))
    data = _read_object(path, limits)
    if "status" not in data and ("kind" in data or "nodes" in data or "operators" in data):
        raise InvalidInputError(f"{name}: this is no result; {_instead(data)}")
    return _validated(Result[Solution], data, name)


def save(value: BaseModel, path: PathLike) -> None:
    """Write a graph, problem, solution or result as JSON, whole or not at all; packed when the name ends in ``.gz``.

    Raises
    ------
    InvalidInputError
        When the place cannot be written to; nothing has changed then.
    """
    write_text(path, value.model_dump_json() + "\n")


def _read_object(path: PathLike, limits: Limits) -> dict[str, object]:
    data = read_json(path, limits=limits)
    if not isinstance(data, dict):
        raise InvalidInputError(f"{plain(os.fspath(path))}: holds no JSON object with named fields; check what it is")
    return data


def _validated(kind: type[ModelT], data: Mapping[str, object], name: str) -> ModelT:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise complaint(error, name, data) from None


def _check_counts(graph: Mapping[str, object], name: str, limits: Limits) -> None:
    """Before anything is built from them."""
    for field, cap in (("operators", limits.operators), ("tensors", limits.tensors), ("parameters", limits.tensors)):
        rows = graph.get(field)
        if isinstance(rows, list) and len(rows) > cap:
            raise LimitExceededError(f"{name}: {field} has {len(rows):,} entries, over the limit of {cap:,}")


def _instead(data: Mapping[str, object]) -> str:
    """Say what the data seems to be, and who takes it."""
    if data.get("kind") in Problem.kinds():
        return "this is a problem; load_problem and 'opweave solve' take it"
    if "status" in data and "solver" in data:
        return "this is a result; load_result and 'opweave check' take it"
    if "nodes" in data or "operators" in data:
        return "this is a model graph; load and 'opweave plan' take it"
    return "it has neither 'operators' (opweave's own schema) nor 'nodes' and 'edges'; check which file it is"
