"""Plans as plain data for other tools: device maps, pieces of ONNX models, torch pipelining, vLLM, llama.cpp."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from opweave.adapters.runtimes.groups import Group, layer_counts, possible, split_points, tensor_split, vllm_partition
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.solution import HasSolution, solution_of

LAYER = re.compile(r"(?:^|[./])(?:layers?|blocks?|h|stages?)[./](\d+)(?=[./]|$)")
"""A numbered layer in a module path: "model.layers.3.mlp", "transformer.h.11"."""


def stage_exports(problem: Pipeline, stages: Stages, details: PipelineDetails) -> Mapping[str, object]:
    """Write stages as files of plain data.

    Returns
    -------
    mapping
        ``onnx_pieces.json``: inputs and outputs of each piece. ``runtimes.json``: ``split_points`` for
        ``torch.distributed.pipelining``, ``VLLM_PP_LAYER_PARTITION`` and ``--tensor-split``, with their devices. If a
        format cannot express the stages, a sentence says why.
    """
    groups = stage_groups(stages)
    return {
        "onnx_pieces.json": piece_boundaries(problem.graph, groups, details),
        "runtimes.json": runtime_settings(problem.graph, groups),
    }


def stage_groups(stages: Stages) -> tuple[Group, ...]:
    """Convert stages to the groups that the functions for splitting models take."""
    return tuple(Group(stage.device, stage.operators) for stage in stages.stages)


def piece_boundaries(graph: OpGraph, groups: Sequence[Group], details: PipelineDetails) -> list[dict[str, object]]:
    """Name the input and output tensors of each piece; tensors that it only passes on are not listed.

    The model's own inputs and outputs are listed where they are read and made.
    """
    results = set(graph.outputs)
    pieces: list[dict[str, object]] = []
    for number, group in enumerate(groups):
        here = [graph.operators[graph.operator_index[name]] for name in group.operators]
        made = {tensor: None for op in here for tensor in op.outputs}
        read = {tensor: None for op in here for tensor in op.inputs}
        crossing = details.stages[number].sent_tensors
        outputs = [name for name in made if name in crossing or name in results]
        pieces.append(
            {
                "device": group.device,
                "inputs": [name for name in read if name not in made],
                "outputs": outputs,
                "passed_on": [name for name in crossing if name not in made],
            }
        )
    return pieces


def runtime_settings(graph: OpGraph, groups: Sequence[Group]) -> dict[str, object]:
    """Write the settings of runtimes; a sentence in place of those that cannot express the stages."""
    layer_of = {op.id: layer_number(op.module) for op in graph.operators}

    def counts() -> tuple[int, ...]:
        numbers = [number for number in layer_of.values() if number is not None]
        if not numbers:
            raise InvalidInputError("the model's modules have no numbered layers")
        return layer_counts(groups, layer_of, max(numbers) + 1)

    writers: dict[str, Callable[[], object]] = {
        "split_points": lambda: list(split_points(graph, groups)),
        "VLLM_PP_LAYER_PARTITION": lambda: vllm_partition(counts()),
        "--tensor-split": lambda: tensor_split(counts()),
    }
    return {"devices": [group.device for group in groups], **possible(writers)}


def layer_number(module: str) -> int | None:
    """The layer number in a module path; None if there is none.

    Examples
    --------
    >>> layer_number("model.layers.12.mlp.up"), layer_number("lm_head")
    (12, None)
    """
    match = LAYER.search(module)
    return None if match is None else int(match[1])


def device_map(graph: OpGraph, schedule: Schedule | HasSolution[Schedule]) -> dict[str, str]:
    """Write a placement as the shortest list of module prefixes.

    A module whose operators share one device represents all of them. If they do not, its parts are listed, down to
    single operators by their ids. Operators whose module is unknown are also listed by id. A whole model on one device
    is the prefix ``""``.

    Parameters
    ----------
    graph
        The model; module names are those of its operators, with dots between the levels.
    schedule
        Any schedule that gives every operator a device, or a result with one.

    Examples
    --------
    >>> from opweave.problems.graph import Operator
    >>> operators = [Operator(id="q", module="h.0.attn"), Operator(id="k", module="h.0.attn"),
    ...              Operator(id="up", module="h.0.mlp"), Operator(id="out", module="head")]
    >>> graph = OpGraph(tensors=[], operators=operators)
    >>> where = {"q": "a", "k": "a", "up": "b", "out": "b"}
    >>> device_map(graph, Schedule(device=where, start=dict.fromkeys(where, 0.0)))
    {'h.0.attn': 'a', 'h.0.mlp': 'b', 'head': 'b'}
    """
    schedule = solution_of(schedule, Schedule)
    ids = graph.operator_index
    rows = [(op.id, op.module.split(".") if op.module else [], schedule.device[op.id]) for op in graph.operators]
    found: dict[str, str] = {}
    waiting = [("", rows)]  # modules with their operators: id, path below the module, and device
    while waiting:
        prefix, inside = waiting.pop()
        own = {name: device for name, path, device in inside if not path}
        devices = {device for _, _, device in inside}
        if len(devices) == 1 and (prefix not in ids or prefix in own):  # else the prefix would be ambiguous
            found[prefix] = devices.pop()
            continue
        found |= own
        below: dict[str, list[tuple[str, list[str], str]]] = {}
        for name, path, device in inside:
            if path:
                below.setdefault(path[0], []).append((name, path[1:], device))
        waiting += [(f"{prefix}.{name}" if prefix else name, part) for name, part in reversed(below.items())]
    return found
