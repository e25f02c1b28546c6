"""Simple proofs that a pipeline problem has no solution, in the user's words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from opweave.formulations.on_cluster import asked_of, too_large
from opweave.formulations.pipeline.pieces import Stored, points_of, stages_up_to
from opweave.problems.constraints import Separate, means
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.words import counted


def shortage(problem: Pipeline) -> str | None:
    """Say why nothing can fit, if that is easy to see.

    The function looks for pieces between two cuts that no device can hold or run, contradictory side constraints, and
    models that need more stages than there can be.

    Returns
    -------
    str or None
        The reason, with operators, devices, the missing bytes and the smallest sufficient memory; None if none was
        found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> graph = OpGraph(
    ...     tensors=[], parameters=[Parameter(id="w", bytes=9)], operators=[Operator(id="p", parameters=["w"])]
    ... )
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> shortage(Pipeline(graph=graph, cluster=cluster, include_compute=False))
    "operator 'p' needs 9 bytes; 'a', the largest device that may run it, holds 5: 4 bytes short"
    """
    return next(_reasons(problem), None)


def _reasons(problem: Pipeline) -> Iterator[str]:
    if not problem.graph.operators:
        return
    look = _Look(problem)
    if not problem.usable_devices:
        yield "no device may be used: device_order and forbidden_devices leave none"
        return
    yield from look.contradictions()
    yield from look.misfits()
    yield from look.too_far_apart()
    yield from look.too_many_stages()
    if problem.min_stages > min(len(look.pieces), problem.stage_limit):
        yield (
            f"at least {problem.min_stages} stages are asked for, but the model has {len(look.pieces)} pieces and "
            f"there can be at most {counted(problem.stage_limit, 'stage')}"
        )


class _Look:
    """The pieces that cannot be cut, and the devices that may run each."""

    def __init__(self, problem: Pipeline) -> None:
        self._problem = problem
        self._limits = {name: problem.memory_limits[name] for name in problem.usable_devices}
        self._order = problem.running_order
        self._asked = asked_of(self._order, problem.constraints)
        self._position = points_of(problem)
        self.pieces = [self._order[a:b] for a, b in pairwise(self._position.tolist())]

    def _able(self, piece: tuple[str, ...]) -> list[str]:
        """Usable devices that know the times of all operators in a piece, after pins and forbids."""
        known, asked = self._problem.known_seconds, self._asked
        return [d for d in self._limits if all(d in known[name] and asked[name].allow(d) for name in piece)]

    def contradictions(self) -> Iterator[str]:
        """Pieces that no device may run, and pieces with operators that must be separated."""
        for piece in self.pieces:
            if not self._able(piece):
                yield f"{_named(piece)} may run on no usable device: times, pins and forbidden devices leave none"
            for each in self._problem.constraints:
                if means(each, Separate) and len(set(each.ops) & set(piece)) > 1:
                    yield f"{_named(piece)} cannot be cut apart, but Separate demands it"

    def misfits(self) -> Iterator[str]:
        """Pieces that are too large for every device that may run them."""
        for piece in self.pieces:
            needed = self._problem.memory_of(piece)
            verb = " needs" if len(piece) == 1 else ", which cannot be cut apart, need"
            reason = too_large(f"{_named(piece)}{verb} {needed:,} bytes", needed, self._able(piece), self._limits)
            if reason is not None:
                yield reason

    def too_far_apart(self) -> Iterator[str]:
        """Sets of operators to be separated that are larger than the number of stages."""
        most = self._problem.stage_limit
        for each in self._problem.constraints:
            if means(each, Separate) and len(each.ops) > most:
                yield (
                    f"Separate keeps {len(each.ops)} operators apart ({', '.join(map(repr, each.ops[:4]))}"
                    f"{', ...' if len(each.ops) > 4 else ''}), but there can be at most {counted(most, 'stage')}"
                )

    def too_many_stages(self) -> Iterator[str]:
        """More stages are needed than are allowed, even if every stage had the largest device."""
        if any(limit is None for limit in self._limits.values()):
            return
        most = self._problem.stage_limit
        largest = max(limit or 0 for limit in self._limits.values())
        stages = stages_up_to(self._stored.ends(self._position, largest))
        if stages is not None and stages > most:
            yield (
                f"the model needs at least {stages} stages of {largest:,} bytes (the largest device's memory), but "
                f"there can be at most {most}; {self.smallest_memory():,} bytes on every device would do, as far as "
                "memory goes"
            )

    @cached_property
    def _stored(self) -> Stored:
        return Stored(self._problem)

    def smallest_memory(self) -> int:
        """Bytes that would be enough if every device had them and links did not matter."""

        def enough(size: int) -> bool:
            stages = stages_up_to(self._stored.ends(self._position, size))
            return stages is not None and stages <= self._problem.stage_limit

        low, high = 0, self._problem.memory_of(self._order)  # sums of sizes may be too large for the bisect module
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle + 1, high)
        return high


def smallest_memory(problem: Pipeline) -> int | None:
    """Bytes that would be enough if every device had them and links and pins did not matter; None without operators.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> weights = [Parameter(id="u", bytes=9), Parameter(id="w", bytes=4)]
    >>> graph = OpGraph(tensors=[], parameters=weights, operators=[Operator(id="p", parameters=["u", "w"])])
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> smallest_memory(Pipeline(graph=graph, cluster=cluster, include_compute=False))
    13
    """
    return _Look(problem).smallest_memory() if problem.graph.operators and problem.usable_devices else None


def _named(piece: tuple[str, ...]) -> str:
    if len(piece) == 1:
        return f"operator {piece[0]!r}"
    return f"the {len(piece):,} operators from {piece[0]!r} to {piece[-1]!r}"
