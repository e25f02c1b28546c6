"""What tests of settled windows do in a child process, because HiGHS and CP-SAT cannot be loaded by the same one."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from opweave.solvers.engines.child import Send
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.rolling import Sweep, roll
from opweave.solvers.placement.bounds.settled import Stage, Tries, joined_bound, refutes, settle_chain


def _settled(arrays: PlacementArrays, stages: tuple[Stage, ...]) -> Tries:
    """Settle the windows of some stages."""
    tries = Tries(perf_counter() + 20.0)
    for stage in stages:
        settle_chain(stage, milestones_of(arrays, (stage.most,)), tries, tries.end, lambda _: None)
    return tries


def settle_all(work: list[tuple[PlacementArrays, tuple[Stage, ...]]], send: Send) -> None:
    """Send the best bound of every problem."""
    for arrays, stages in work:
        tries = _settled(arrays, stages)
        send(joined_bound(arrays, tries.links))


def roll_all(work: list[tuple[PlacementArrays, tuple[Stage, ...], tuple[Sweep, ...]]], send: Send) -> None:
    """Send the best bound of every problem after small windows were settled and larger ones rolled."""
    for arrays, stages, sweeps in work:
        send(max(roll(arrays, _settled(arrays, stages), sweeps)))


def refute_all(work: list[tuple[PlacementArrays, float]], send: Send) -> None:
    """Send whether each length is refuted."""
    for arrays, length in work:
        send(refutes(arrays, [], length, 1.0, 10.0))


def answer_all(work: list[tuple[str, Callable[[Any, Send], None], list[Any]]], send: Send) -> None:
    """Do pieces of work with one of the functions above each; send the name of the piece with every answer."""
    for name, function, cases in work:
        function(cases, lambda answer, name=name: send((name, answer)))
