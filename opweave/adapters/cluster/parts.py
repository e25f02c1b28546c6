"""A plan as parts for stations: which piece runs where, what it reads, and where its tensors go."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from opweave.adapters.cluster.station import RESULT, ModelPiece
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.adapters.onnx.pieces import Piece, split_onnx
from opweave.adapters.runtimes.groups import Group
from opweave.adapters.verify.parts import parts_of
from opweave.problems.cluster import Cluster
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement, Schedule

LARGEST_PIECE = 2**31 - 2**20
"""Bytes of a piece that ONNX Runtime can open from memory."""

Links = Mapping[str, Mapping[str, tuple[float, float]]]
"""Latency and bytes per second, [from][to]."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What is carried out.

    Attributes
    ----------
    parts
        In the order in which an input passes through them.
    outputs
        The model's outputs.
    whole
        The whole model, with fixed sizes.
    one_by_one
        Whether one input follows another only when it has left the model.
    links
        Emulated links; None to send as fast as the network does.
    shared, alone
        For emulated links: whether one channel carries all messages, and whether a device does one thing at a time.
    """

    parts: tuple[ModelPiece, ...]
    outputs: tuple[str, ...]
    whole: bytes = b""
    one_by_one: bool = False
    links: Links | None = None
    shared: bool = False
    alone: bool = False

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices in use."""
        return tuple(dict.fromkeys(device for part in self.parts for device in part.devices))


def plan_of(
    model: PathLike,
    problem: Pipeline | Placement,
    solution: Stages | Schedule,
    *,
    emulate: Cluster | None = None,
    dims: Mapping[str, int] | None = None,
) -> ClusterPlan:
    """Cut a model as a plan says.

    Parameters
    ----------
    model
        The ONNX file that was planned.
    problem
        What was planned; it says where a pipeline's inputs arrive, and whether they follow each other.
    solution
        Stages of a pipeline, or a schedule, which is cut into groups of operators.
    emulate
        The cluster whose devices and links are emulated.
    dims
        Sizes for open dimensions, as they were planned.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the plan belongs to another model, or a piece is too large to be sent.
    """
    graph, chain = load(model, dims=dims), isinstance(solution, Stages)
    groups = parts_of(graph, solution)
    (whole, file), *_ = cut(model, [Group("all", graph.operator_ids)], dims)
    pieces, files = zip(*cut(model, groups, dims), strict=True)
    pipeline = problem if isinstance(problem, Pipeline) else None
    chained = solution.stages if isinstance(solution, Stages) else ()
    teams = [stage.devices for stage in chained] or [(group.device,) for group in groups]
    home = {name: number for number, piece in enumerate(pieces) for name in piece.outputs}
    outside: tuple[str, ...] = ()
    if pipeline is not None and pipeline.inputs == "first":
        outside = whole.inputs
        home |= dict.fromkeys(outside, 0)  # the first part hands them on
    needs = [_needed(pieces[number:] if chain else [pieces[number]], number, home) for number in range(len(pieces))]
    parts = []
    for number, (piece, (device, operators)) in enumerate(zip(pieces, groups, strict=True)):
        later = range(number + 1, min(number + 2, len(pieces)) if chain else len(pieces))
        routes = {k: tuple(name for name in needs[k] if chain or home[name] == number) for k in later}
        routes[RESULT] = tuple(name for name in whole.outputs if home.get(name) == number)
        given = outside if number == 0 else ()
        parts.append(
            ModelPiece(
                number=number,
                devices=teams[number],
                model=files[number],
                inputs=piece.inputs,
                outputs=piece.outputs,
                given=given or tuple(name for name in piece.inputs if name not in home),
                needs=frozenset(needs[number]),
                routes={target: names for target, names in routes.items() if names},
                seconds=None if emulate is None else sum(problem.known_seconds[op][device] for op in operators),
            )
        )
    return ClusterPlan(
        tuple(parts),
        whole.outputs,
        file,
        one_by_one=pipeline is None or pipeline.objective == "latency",
        links=None if emulate is None else _links(parts, emulate, 1.0 if pipeline is None else pipeline.compression),
        shared=emulate is not None and pipeline is not None and pipeline.channel == "shared",
        alone=emulate is not None and pipeline is not None and pipeline.load == "sum",
    )


def cut(model: PathLike, groups: Sequence[Group], dims: Mapping[str, int] | None = None) -> list[tuple[Piece, bytes]]:
    """The pieces of a model, and their files.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the groups do not fit the model, or a piece is too large to be sent.
    """
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        pieces = split_onnx(model, groups, folder, dims=dims)
        sizes = [each.stat().st_size for each in Path(folder).iterdir()]
        if len(sizes) > len(pieces) or max(sizes) > LARGEST_PIECE:  # weights beside a piece
            raise LimitExceededError(
                "the model, or a part of it, has more than 2 GiB of weights, which ONNX Runtime cannot open from "
                "memory; plan a smaller model"
            )
        return [(piece, piece.path.read_bytes()) for piece in pieces]


def _needed(readers: Sequence[Piece], number: int, home: Mapping[str, int]) -> tuple[str, ...]:
    """What a part gets from earlier ones, so that it and those after it can run."""
    names = dict.fromkeys(name for piece in readers for name in piece.inputs)
    return tuple(name for name in names if home.get(name, number) < number)


def _links(parts: Sequence[ModelPiece], cluster: Cluster, compression: float) -> Links:
    """The links of a cluster, or the best chains of them.

    Raises
    ------
    InvalidInputError
        When one is missing that the parts need.
    """
    names, rates, latencies = list(cluster.device_index), cluster.effective_bandwidth, cluster.effective_latency
    links: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in names}
    for a, b in np.argwhere(rates > 0.0).tolist():
        links[names[a]][names[b]] = float(latencies[a, b]), float(rates[a, b]) * compression
    for part in parts:
        targets = {device for k in part.routes if k != RESULT for device in parts[k].devices}
        for source, target in product(part.devices, targets):
            if target != source and target not in links.get(source, {}):
                raise InvalidInputError(f"the cluster to emulate lacks a link from {source!r} to {target!r}")
    return links
