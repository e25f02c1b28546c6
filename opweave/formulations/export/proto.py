"""A constraint program in CP-SAT's format, ``CpModelProto``: ``.pb`` in binary, ``.pbtxt`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.formulations.modeling.intervals import Interval, WholeProgram
from opweave.problems.errors import SolverNotAvailableError

if TYPE_CHECKING:
    from ortools.sat.cp_model_pb2 import CpModelProto

LEAST, MOST = -(2**63), 2**63 - 1
"""The sides of rows that have none."""


def write_proto(program: WholeProgram, names: Sequence[str], unit: float, path: Path) -> None:
    """Write the file.

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
    proto = to_proto(program, names, unit)
    if path.suffix == ".pb":
        path.write_bytes(proto.SerializeToString(deterministic=True))
        return
    from google.protobuf import text_format

    path.write_text(text_format.MessageToString(proto), encoding="utf-8")


def to_proto(program: WholeProgram, names: Sequence[str], unit: float) -> CpModelProto:
    """The program as a message. This loads no solver, so HiGHS may be in the same process."""
    try:
        from ortools.sat.cp_model_pb2 import CpModelProto
    except ImportError as error:
        raise SolverNotAvailableError(
            "CP-SAT's format comes with ortools; to get it: pip install 'opweave[cp]'"
        ) from error
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
