"""A plan as parts for stations: which piece runs where, what it reads, and where its tensors go."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opweave.adapters.cluster.station import RESULT, Part
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.adapters.onnx.pieces import Piece, split_onnx
from opweave.adapters.runtimes.groups import Group
from opweave.adapters.verify.parts import parts_of
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
    outputs
        The model's outputs.
    operators
        Operators of every part.
    whole
        The whole model, with fixed sizes.
    one_by_one
        Whether one input follows another only when it has left the model.
    chain
        Whether every part sends to the next one only.
    """

    parts: tuple[Part, ...]
    outputs: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]
    whole: bytes
    one_by_one: bool
    chain: bool

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices in use."""
        return tuple(dict.fromkeys(device for part in self.parts for device in part.devices))


def plan_of(
    model: PathLike,
    solution: Stages | Schedule,
    *,
    problem: Pipeline | Placement | None = None,
    seconds: Sequence[float] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Plan:
    """Cut a model as a plan says.

    Parameters
    ----------
    model
        The ONNX file that was planned.
    solution
        Stages of a pipeline, or a schedule, which is cut into groups of operators.
    problem
        The problem, which says where a pipeline's inputs arrive, and whether they follow each other.
    seconds
        What every part takes on its device, to emulate devices.
    dims
        Sizes for open dimensions, as they were planned.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the plan belongs to another model, or a piece is too large to be sent.
    """
    graph = load(model, dims=dims)
    groups = parts_of(graph, solution)
    (whole, whole_file), *_ = cut(model, [Group("all", graph.operator_ids)], dims)
    pieces, files = zip(*cut(model, groups, dims), strict=True)
    pipeline = problem if isinstance(problem, Pipeline) else None
    chain = isinstance(solution, Stages)
    teams: Sequence[tuple[str, ...]] = [(group.device,) for group in groups]
    if isinstance(solution, Stages):
        teams = [stage.devices for stage in solution.stages]
    everywhere = not chain or (pipeline is not None and pipeline.inputs == "everywhere")
    home = {name: number for number, piece in enumerate(pieces) for name in piece.outputs}
    handed = [_handed(pieces, number, home, chain, everywhere) for number in range(len(pieces))]
    parts = []
    for number, (piece, file) in enumerate(zip(pieces, files, strict=True)):
        given = handed[0] if number == 0 else ()
        if everywhere:
            given = tuple(name for name in piece.inputs if name not in home)
        later = range(number + 1, min(number + 2, len(pieces)) if chain else len(pieces))
        routes = {k: tuple(name for name in handed[k] if chain or home[name] == number) for k in later}
        routes[RESULT] = tuple(name for name in whole.outputs if home.get(name) == number)
        parts.append(
            Part(
                number=number,
                devices=teams[number],
                model=file,
                inputs=piece.inputs,
                outputs=piece.outputs,
                given=given,
                needs=frozenset((*given, *handed[number])),
                routes={target: names for target, names in routes.items() if names},
                seconds=None if seconds is None else seconds[number],
            )
        )
    return Plan(
        parts=tuple(parts),
        outputs=whole.outputs,
        operators=tuple(group.operators for group in groups),
        whole=whole_file,
        one_by_one=not chain or (pipeline is not None and pipeline.objective == "latency"),
        chain=chain,
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


def _handed(
    pieces: Sequence[Piece], number: int, home: Mapping[str, int], chain: bool, everywhere: bool
) -> tuple[str, ...]:
    """What a part gets from others. In a chain, also what later parts read of earlier ones.

    The model's inputs are handed on like tensors that are made before the first part, unless they are everywhere.
    """
    readers = pieces[number:] if chain else pieces[number : number + 1]
    outside = len(pieces) if everywhere else -1
    names = dict.fromkeys(name for piece in readers for name in piece.inputs)
    return tuple(name for name in names if home.get(name, outside) < number)


def predicted_seconds(
    details: object, problem: Pipeline | Placement | None, solution: Stages | Schedule
) -> tuple[float, ...] | None:
    """Seconds of every part as planned; None where nothing says so."""
    if isinstance(details, PipelineDetails):
        return tuple(stage.compute_seconds for stage in details.stages)
    if problem is None or problem.costs is None:
        return None
    groups = parts_of(problem.graph, solution)
    try:
        return tuple(sum(problem.known_seconds[op][group.device] for op in group.operators) for group in groups)
    except KeyError as missing:
        raise InvalidInputError(f"the costs say nothing about {missing.args[0]!r}; give those of this model") from None
