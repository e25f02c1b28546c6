"""Reading and writing model files, problems and results; the file name determines the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from opweave.adapters.costs.profiles import profile_costs
from opweave.adapters.error_messages import complaint, validated
from opweave.adapters.files import PathLike, check_counts, place, read_json, write_text
from opweave.adapters.formats import FRAMEWORKS, MEANT_FOR, check_content, family_of, refusal
from opweave.adapters.graphs.kinds import INPLACE_KINDS
from opweave.adapters.graphs.node_edge import from_node_edge
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.plugins import load_plugins
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.slicing.geometry import Geometry
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    import keras
    import networkx as nx
    import torch
    from onnx import ModelProto
    from torch.export import ExportedProgram

    from opweave.problems.language.workload import Phase

AnyProblem = Problem[Any, Any]


def load(
    model: PathLike | nx.DiGraph[object] | ModelProto | torch.nn.Module | ExportedProgram | keras.Model,
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, object] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    context: int | None = None,
    phase: Phase | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Load a model graph.

    A framework is imported only if the model belongs to it, or is a file that only this framework can read.

    Parameters
    ----------
    model
        A file: ``.onnx``; ``.pt2`` as ``torch.export.save`` writes it; ``.json`` or ``.json.gz`` with opweave's own
        schema or with nodes and edges (see :mod:`opweave.adapters.graphs.node_edge`); a language model as ``.gguf``,
        ``.safetensors``, ``config.json`` or the folder that holds them, which becomes tensor groups. Or a model in
        memory: an ONNX ``ModelProto``, a PyTorch module or exported program (see :mod:`opweave.adapters.torch.read`), a
        Keras model (see :mod:`opweave.adapters.keras.read`), a networkx ``DiGraph`` (see
        :mod:`opweave.adapters.graphs.networkx_io`).
    args, kwargs
        Example inputs of a PyTorch module, which fix all sizes; tensors on the meta device are enough.
    dims
        Sizes for open dimensions of an ONNX model, for example ``{"batch": 1}``, ``{"x:2": 224}`` or ``{"*": 1}`` (see
        :mod:`opweave.adapters.graphs.dims`), or of a Keras model, for example
        ``{"batch": 1, "height": 224, "width": 224}`` (see :mod:`opweave.adapters.keras.read`).
    inputs
        Example inputs of an ONNX model, by name: arrays, or lists of arrays for sequences. They fix open dimensions,
        and shapes that depend on values.
    inplace_kinds
        Operator kinds that may overwrite an input; files in opweave's own schema state this for each operator instead.
    context, phase
        For a language model: tokens that its caches hold (4096 if not given), and ``"decode"`` (the default: one token
        at the end of that context) or ``"prefill"`` (512 tokens of a prompt that fills it).
        ``opweave.llm.language_graph`` takes every detail.
    limits
        Caps on file and graph size.

    Returns
    -------
    OpGraph

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.

    Examples
    --------
    >>> import networkx as nx
    >>> net = nx.DiGraph([("x", "y")])
    >>> net.add_node("x", op="input", bytes=4)
    >>> net.add_node("y", op="Relu", bytes=4)
    >>> load(net).outputs
    ('y',)
    """
    family = family_of(model)
    name = place(model) if isinstance(model, str | os.PathLike) else type(model).__name__
    if callable(model) and not family:
        raise InvalidInputError(
            f"{name}: a function is not a model; call it in the forward of a torch.nn.Module, or use trace_step"
        )
    if dims is not None and not isinstance(dims, Mapping):
        raise InvalidInputError(f'{name}: dims is {dims!r:.80}; it must map names to sizes, for example {{"batch": 1}}')
    takes: Sequence[str] = FRAMEWORKS.get(family, {}).get("takes", ())
    given: Mapping[str, object] = {"args": args, "kwargs": kwargs, "dims": dims, "inputs": inputs}
    for argument, why in MEANT_FOR.items():
        if argument not in takes and given[argument]:
            raise InvalidInputError(f"{name}: {why}")
    if isinstance(model, str | os.PathLike):
        check_content(model, name)
    data = _read_object(model, limits) if family == "json" and isinstance(model, str | os.PathLike) else {}
    if family == "llm" or "model_type" in data:
        from opweave.adapters.llm.reading import read_graph

        return read_graph(cast("PathLike", model), context=context, phase=phase, limits=limits)
    if context is not None or phase is not None:
        raise InvalidInputError(f"{name}: context and phase are for language models; its inputs have fixed sizes")
    if family in FRAMEWORKS:
        read: Callable[..., OpGraph] = resolve_name(f"opweave.adapters.{FRAMEWORKS[family]['read']}")
        own = {argument: given[argument] for argument in takes}
        return read(model, **own, inplace_kinds=inplace_kinds, limits=limits)
    if not isinstance(model, str | os.PathLike):
        from opweave.adapters.graphs.networkx_io import from_networkx

        return from_networkx(model, inplace_kinds=inplace_kinds, limits=limits)
    if family != "json":
        raise refusal(cast("PathLike", model), name)
    if "nodes" in data:
        return from_node_edge(data, where=name, inplace_kinds=inplace_kinds, limits=limits)
    if "operators" in data:
        _check_counts(data, name, limits)
        return validated(OpGraph, data, name)
    raise InvalidInputError(f"{name}: {_instead(data)}")


def geometry(
    model: PathLike | ModelProto | torch.nn.Module | ExportedProgram | keras.Model,
    *,
    graph: OpGraph | None = None,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Geometry]:
    """Read the geometry of a model's operators, for ``Slicing(geometry=...)``.

    It covers two-dimensional convolutions (also grouped and depthwise ones) and pooling, global pooling, dense layers,
    concatenation along the channels, and splits of the channels, which are cut into rows. Other operators either need
    no geometry (elementwise operators, which :class:`~opweave.problems.slicing.spec.Slicing` recognises by their kind)
    or stay whole: transposed and separable convolutions, separate padding and resizing, attention, reshaping. Dense
    layers on sequences can be cut into rows if the batch is 1.

    Parameters
    ----------
    model
        A model that :func:`~opweave.adapters.load.load` accepts. JSON contains no attributes of operators, so its
        result is empty.
    graph
        The graph that ``load`` made of the model, if available; the result uses its ids.
    args, kwargs, dims, limits
        As for ``load``.

    Returns
    -------
    dict
        Geometries by operator id, all of which fit the tensors' shapes. ONNX and PyTorch put channels first. Keras
        models put them where their layers say, mostly last; then the problem needs ``layout="channels_last"``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As ``load``.

    Examples
    --------
    >>> import onnx
    >>> net = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     net (float[1, 8, 12, 12] x) => (float[1, 8, 6, 6] y) {
    ...         y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
    ...     }''')
    >>> geometry(net)
    {'MaxPool_0': Geometry(kernel=3, stride=2, padding=1, dilation=1, groups=1, channels='own', rows='window')}
    """
    if graph is None:
        graph = load(model, args=args, kwargs=kwargs, dims=dims, limits=limits)
    family = family_of(model)
    reader = FRAMEWORKS.get(family, {}).get("geometry")
    if reader is None:
        return {}
    read: Callable[..., dict[str, Geometry]] = resolve_name(f"opweave.adapters.{reader}")
    return read(model, graph, limits, **({"args": args, "kwargs": kwargs} if family == "torch" else {"dims": dims}))


def load_problem(path: PathLike, *, kind: str | None = None, limits: Limits = DEFAULT_LIMITS) -> AnyProblem:
    """Load a problem from its JSON (``.json`` or ``.json.gz``); its ``kind`` determines the type.

    Parameters
    ----------
    kind
        The kind of problem that is wanted; None for that of the file.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = place(path)
    data = _read_object(path, limits)
    stated = data.get("kind")
    if kind is not None and kind != stated:
        raise InvalidInputError(f"{name}: its kind is {stated!r:.60}, and {kind!r:.60} is wanted")
    load_plugins()
    kinds = {word: found for word, found in Problem.kinds().items() if found.__module__ != Problem.__module__}
    found = kinds.get(stated) if isinstance(stated, str) else None
    if found is None:
        known = ", ".join(kinds)
        if stated is not None:
            raise InvalidInputError(
                f"{name}: kind {stated!r:.60} is not a problem of opweave; the problems are: {known}; the module of a "
                "problem of your own must be imported first ('opweave --import FILE solve ...')"
            )
        raise InvalidInputError(f"{name}: a problem needs a 'kind', one of: {known}; {_instead(data)}")
    if isinstance(graph := data.get("graph"), Mapping):
        _check_counts(graph, name, limits)
    return cast("AnyProblem", validated(found, data, name))


def load_cluster(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Cluster:
    """Load a cluster from its JSON (``.json`` or ``.json.gz``).

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    return validated(Cluster, _read_object(path, limits), place(path))


def load_costs(
    path: PathLike, *, graph: OpGraph | None = None, device: str = "cpu", limits: Limits = DEFAULT_LIMITS
) -> Costs:
    """Load measured times from JSON (``.json`` or ``.json.gz``).

    Parameters
    ----------
    path
        Opweave's own schema (``operators``, ``devices``, ``table``); seconds as ``{operator: {device: seconds}}`` with
        null for unknown times; or a profile that ONNX Runtime wrote (``SessionOptions.enable_profiling``), of which the
        median over its runs is used.
    graph
        For a profile: the model. Each of its operators must have a time; other entries are ignored.
    device
        For a profile: the name of the device in the cluster.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = place(path)
    data = read_json(path, limits=limits)
    if isinstance(data, list):
        return profile_costs(data, name, graph=graph, device=device)
    data = _object(data, name)
    # An operator may have any name, so only the values under these words distinguish another file from a table.
    if any(isinstance(data.get(word), str | list) for word in ("kind", "nodes", "tensors", "status")):
        raise InvalidInputError(f"{name}: these are not costs; {_instead(data)}")
    if isinstance(data.get("operators"), list):
        return validated(Costs, data, name)
    try:
        return Costs.from_table(data)  # type: ignore[arg-type]  # it checks every entry
    except ValidationError as error:
        raise complaint(error, name) from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def load_result(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Result[Solution]:
    """Load a result from its JSON. It is returned as it was written; check it with ``problem.evaluate``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = place(path)
    data = _read_object(path, limits)
    if "status" not in data:
        raise InvalidInputError(f"{name}: this is not a result; {_instead(data)}")
    return validated(Result[Solution], data, name)


def save(value: BaseModel, path: PathLike) -> None:
    """Write a graph, problem, solution or result as JSON, atomically; packed when the name ends in ``.gz``.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to; then nothing has changed.
    """
    write_text(path, value.model_dump_json() + "\n")


def _read_object(path: PathLike, limits: Limits) -> dict[str, object]:
    return _object(read_json(path, limits=limits), place(path))


def _object(data: object, name: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise InvalidInputError(f"{name}: is not a JSON object with named fields; check which file it is")
    return data


def _check_counts(graph: Mapping[str, object], name: str, limits: Limits) -> None:
    check_counts(graph, {"operators": limits.operators, "tensors": limits.tensors, "parameters": limits.tensors}, name)


def _instead(data: Mapping[str, object]) -> str:
    """Say what the data seems to be, and which function and command accept it."""
    kind = data.get("kind")
    if isinstance(kind, str) and kind in Problem.kinds():
        return "this is a problem; use load_problem or 'opweave solve'"
    if "status" in data and "solver" in data:
        return "this is a result; use load_result or 'opweave check'"
    if "nodes" in data or "operators" in data:
        return "this is a model graph; use load or 'opweave plan'"
    return "it has neither 'operators' (opweave's own schema) nor 'nodes' and 'edges'; check which file it is"
