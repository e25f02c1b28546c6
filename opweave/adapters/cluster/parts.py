"""A plan as parts for stations: which piece runs where, what it reads, and where its tensors go."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opweave.adapters.cluster.station import RESULT, Link, Part, Route
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.adapters.onnx.pieces import Piece, split_onnx
from opweave.adapters.runtimes.groups import Group, schedule_groups
from opweave.problems.cluster import Cluster
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.placement.spec import Placement, Schedule

LARGEST_PIECE = 2**31 - 2**20
"""Bytes of a piece that ONNX Runtime can open from memory."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is carried out.

    Attributes
    ----------
    parts
        In the order in which an input passes through them.
    feeds
        Inputs of the model that every part gets from outside.
    outputs
        The model's outputs.
    operators
        Operators of every part.
    one_by_one
        Whether one input follows another only when it has left the model.
    chain
        Whether every part sends to the next one only.
    """

    parts: tuple[Part, ...]
    feeds: Mapping[int, tuple[str, ...]]
    outputs: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]
    one_by_one: bool = False
    chain: bool = True

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices in use."""
        return tuple(dict.fromkeys(device for part in self.parts for device in part.devices))


def parts_of(
    model: PathLike,
    solution: Stages | Schedule,
    *,
    problem: Pipeline | Placement | None = None,
    seconds: Sequence[float] | None = None,
    dims: Mapping[str, int] | None = None,
    one_by_one: bool = False,
) -> Plan:
    """Cut a model as a plan says.

    Parameters
    ----------
    model
        The ONNX file that was planned.
    solution
        Stages of a pipeline, or a schedule, which is cut into groups of operators.
    problem
        The problem, which says where a pipeline's inputs arrive.
    seconds
        What every part takes on its device, to emulate devices.
    dims
        Sizes for open dimensions, as they were planned.
    one_by_one
        See :class:`Plan`.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the plan belongs to another model, or a piece is too large to be sent.
    """
    graph = load(model, dims=dims)
    chain = isinstance(solution, Stages)
    if isinstance(solution, Stages):
        groups = tuple(Group(stage.device, stage.operators) for stage in solution.stages)
        teams = [stage.devices for stage in solution.stages]
    else:
        groups = schedule_groups(graph, solution)
        teams = [(group.device,) for group in groups]
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        pieces = split_onnx(model, groups, folder, dims=dims)
        files = [piece.path.read_bytes() for piece in pieces]
        beside = any(path.suffix == ".data" for path in Path(folder).iterdir())
    for number, file in enumerate(files):
        if len(file) > LARGEST_PIECE or beside:
            raise LimitExceededError(
                f"part {number} of the model has more than 2 GiB of weights, which ONNX Runtime cannot open from "
                "memory; plan with more devices, or smaller stages"
            )
    everywhere = not chain or (isinstance(problem, Pipeline) and problem.inputs == "everywhere")
    made = {name: number for number, piece in enumerate(pieces) for name in piece.outputs}
    outputs = _outputs(model)
    needs = [_needs(pieces, number, made, chain, everywhere) for number in range(len(pieces))]
    parts, feeds = [], {}
    for number, (piece, file) in enumerate(zip(pieces, files, strict=True)):
        routes = _routes(pieces, number, made, needs, chain, everywhere)
        leaving = tuple(name for name in outputs if made.get(name) == number)
        if leaving:
            routes = (*routes, Route(RESULT, leaving))
        fed = tuple(name for name in needs[number] if name not in made and (everywhere or number == 0))
        feeds[number] = fed
        parts.append(
            Part(
                number,
                tuple(teams[number]),
                file,
                piece.inputs,
                piece.outputs,
                needs[number],
                routes,
                None if seconds is None else seconds[number],
            )
        )
    return Plan(tuple(parts), feeds, outputs, tuple(group.operators for group in groups), one_by_one, chain)


def whole_model(model: PathLike, dims: Mapping[str, int] | None) -> bytes:
    """The whole model as one file with fixed sizes, as its parts are written."""
    operators = tuple(op.id for op in load(model, dims=dims).operators)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        (piece,) = split_onnx(model, [Group("all", operators)], folder, dims=dims)
        return piece.path.read_bytes()


def _outputs(model: PathLike) -> tuple[str, ...]:
    import onnx

    return tuple(value.name for value in onnx.load(model, load_external_data=False).graph.output)


def _needs(
    pieces: Sequence[Piece], number: int, made: Mapping[str, int], chain: bool, everywhere: bool
) -> tuple[str, ...]:
    """What comes in to a part. In a chain, also what later parts read of earlier ones."""
    readers = pieces[number:] if chain else pieces[number : number + 1]
    own = pieces[number].inputs
    found = dict.fromkeys(
        name
        for piece in readers
        for name in piece.inputs
        if (made[name] < number if name in made else not everywhere or name in own)
    )
    return tuple(found)


def _routes(
    pieces: Sequence[Piece],
    number: int,
    made: Mapping[str, int],
    needs: Sequence[tuple[str, ...]],
    chain: bool,
    everywhere: bool,
) -> tuple[Route, ...]:
    """Where a part sends what."""
    if chain:
        if number + 1 == len(pieces):
            return ()
        carried = tuple(name for name in needs[number + 1] if name in made or not everywhere)
        return (Route(number + 1, carried),)
    routes = []
    for reader in range(number + 1, len(pieces)):
        sent = tuple(name for name in pieces[reader].inputs if made.get(name) == number)
        if sent:
            routes.append(Route(reader, sent))
    return tuple(routes)


def emulated_links(cluster: Cluster, compression: float = 1.0) -> dict[str, dict[str, Link]]:
    """The links of a cluster, [from][to]."""
    names = list(cluster.device_index)
    rates, latencies = cluster.effective_bandwidth, cluster.effective_latency
    return {
        source: {
            target: Link(float(latencies[a, b]), float(rates[a, b]) * compression)
            for b, target in enumerate(names)
            if a != b and rates[a, b] > 0 and math.isfinite(rates[a, b])
        }
        for a, source in enumerate(names)
    }


def predicted_seconds(
    plan_details: Any, problem: Pipeline | Placement | None, solution: Stages | Schedule
) -> tuple[float, ...] | None:
    """Seconds of every stage as planned; None where nothing says so."""
    if isinstance(plan_details, PipelineDetails):
        return tuple(stage.compute_seconds for stage in plan_details.stages)
    if problem is None or problem.costs is None:
        return None
    if isinstance(solution, Stages):
        groups: Sequence[Group] = [Group(stage.device, stage.operators) for stage in solution.stages]
    else:
        groups = schedule_groups(problem.graph, solution)
    try:
        return tuple(sum(problem.known_seconds[op][group.device] for op in group.operators) for group in groups)
    except KeyError as missing:
        raise InvalidInputError(f"the costs say nothing about {missing.args[0]!r}; give those of this model") from None
