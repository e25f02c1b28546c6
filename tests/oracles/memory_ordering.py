"""Oracles: two ways to find the best answer that are too plain to be wrong, for instances that are tiny.

:func:`best_ordering` asks the referee about every order. :func:`best_ordering_by_states` knows the rules of memory
itself, in its own words, and serves graphs of up to a dozen operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from opweave.problems.constraints import Precede
from opweave.problems.graph import OpGraph
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

Best = tuple[int | None, tuple[str, ...] | None]
"""The optimum and an order that reaches it; None and None when no order is allowed."""


def all_orders(graph: OpGraph) -> Iterator[tuple[str, ...]]:
    """Every order in which the operators can run, by the data alone."""
    needs = _needs(graph)

    def extend(order: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(order) == len(needs):
            yield order
        for name, before in needs.items():
            if name not in order and before <= set(order):
                yield from extend((*order, name))

    return extend(())


def best_ordering(problem: MemoryOrdering) -> Best:
    """Try every order and let the referee judge it; for up to 7 operators or so."""
    best: Best = (None, None)
    for order in all_orders(problem.graph):
        judged = problem.evaluate(Ordering(order=order))
        if judged.feasible and (best[0] is None or judged.objective < best[0]):
            best = (int(judged.objective), order)
    return best


def best_ordering_by_states(problem: MemoryOrdering) -> Best:
    """Dynamic programming over the sets of operators that have run; for up to 12 operators or so.

    Takes ``Precede`` as its only side constraint.
    """
    graph = problem.graph
    needs = _needs(graph)
    for constraint in problem.constraints:
        assert isinstance(constraint, Precede)
        needs[constraint.after].add(constraint.before)
    names = frozenset(needs)
    at_rest = cache(lambda done: _bytes_at_rest(problem, done))

    @cache
    def best_from(done: frozenset[str]) -> Best:
        if done == names:
            return (at_rest(done), ()) if problem.objective == "peak" else (0, ())
        best: Best = (None, None)
        for name in sorted(names - done):
            if not needs[name] <= done:
                continue
            step = at_rest(done) + _bytes_added(problem, done, name)
            if problem.limit_bytes is not None and step > problem.limit_bytes:
                continue
            rest, order = best_from(done | {name})
            if rest is None or order is None:
                continue
            value = max(step, rest) if problem.objective == "peak" else step + rest
            if best[0] is None or value < best[0]:
                best = (value, (name, *order))
        return best

    if problem.limit_bytes is not None and at_rest(frozenset()) > problem.limit_bytes:
        return None, None
    return best_from(frozenset())


def bytes_while_running(problem: MemoryOrdering, done: frozenset[str], name: str) -> tuple[int, int]:
    """Bytes live while ``name`` runs after exactly ``done``, and right after it."""
    running = _bytes_at_rest(problem, done) + _bytes_added(problem, done, name)
    return running, _bytes_at_rest(problem, done | {name})


def _needs(graph: OpGraph) -> dict[str, set[str]]:
    writer = {tensor: op.id for op in graph.operators for tensor in op.outputs}
    return {op.id: {writer[tensor] for tensor in op.inputs if tensor in writer} for op in graph.operators}


def _owner(graph: OpGraph, tensor: str) -> str:
    alias_of = {each.id: each.alias_of for each in graph.tensors}
    while alias_of[tensor] is not None:
        tensor = alias_of[tensor]
    return tensor


def _bytes(problem: MemoryOrdering, tensor: str) -> int:
    """What a storage counts for, by the problem's reading."""
    graph = problem.graph
    if problem.inputs == "excluded" and not any(tensor in op.outputs for op in graph.operators):
        return 0
    if problem.outputs == "excluded" and tensor in {_owner(graph, name) for name in graph.outputs}:
        return 0
    return next(each.bytes for each in graph.tensors if each.id == tensor)


def _is_held(problem: MemoryOrdering, tensor: str, done: frozenset[str]) -> bool:
    """Whether a storage must be in memory when exactly ``done`` have run and nothing is running."""
    graph = problem.graph
    writers = [op.id for op in graph.operators if tensor in op.outputs]
    if any(writer not in done for writer in writers):
        return False
    if tensor in {_owner(graph, name) for name in graph.outputs} or (problem.inputs == "kept" and not writers):
        return True
    return any(op.id not in done and tensor in {_owner(graph, name) for name in op.inputs} for op in graph.operators)


def _bytes_at_rest(problem: MemoryOrdering, done: frozenset[str]) -> int:
    owners = [tensor.id for tensor in problem.graph.tensors if tensor.alias_of is None]
    return sum(_bytes(problem, tensor) for tensor in owners if _is_held(problem, tensor, done))


def _bytes_added(problem: MemoryOrdering, done: frozenset[str], name: str) -> int:
    """What running ``name`` adds to the bytes at rest: its new storages and workspace, less what it overwrites."""
    graph = problem.graph
    op = next(op for op in graph.operators if op.id == name)
    new = [_bytes(problem, tensor) for tensor in op.outputs if _owner(graph, tensor) == tensor]
    added = sum(new) + op.workspace_bytes
    if problem.in_place == "none" or not op.inplace_ok or not op.inputs:
        return added
    readable = {_owner(graph, name) for name in (op.inputs[:1] if problem.in_place == "first" else op.inputs)}
    for tensor in readable:
        dies = not _is_held(problem, tensor, done | {name})
        if dies and _bytes(problem, tensor) in new:
            new.remove(_bytes(problem, tensor))
            added -= _bytes(problem, tensor)
    return added
