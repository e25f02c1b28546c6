"""Verification with PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.torch.order import allocator_peak, run_in_order
from opweave.adapters.torch.program import prepare, read_program
from opweave.adapters.torch.read import from_torch
from opweave.adapters.torch.stages import Runnable, runnable, staged
from opweave.adapters.verify.parts import Ran, difference, outputs_of, parts_of, verdict
from opweave.adapters.verify.report import ONE_MACHINE, MemoryCheck, Verification
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering, given_order
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def verify_torch(
    model: torch.nn.Module | ExportedProgram | PathLike,
    solution: Ordering | Schedule | Stages,
    problem: Problem[Any, Any] | None,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    seed: int,
    threads: int,
) -> Verification:
    """Run a PyTorch program as planned and as it was; see :func:`opweave.adapters.verify.verify`."""
    try:
        import torch
    except ImportError:
        needed = "running PyTorch models needs a package; to get it: pip install 'opweave[torch]'"
        raise InvalidInputError(needed) from None
    with ExitStack() as after:
        after.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(threads)
        held = read_program(model) if isinstance(model, str | os.PathLike) else model
        program = prepare(held, args, kwargs) if isinstance(held, torch.nn.Module) else prepare(held)
        graph = from_torch(program)
        run = runnable(program, graph)
        flat = run.flat_inputs(args, kwargs) if args or kwargs else _made_up(run, seed)
        if isinstance(solution, Ordering):
            ran = _ordered(run, graph, solution, flat)
        else:
            ran = _split(run, graph, solution, flat)
        plain = outputs_of(_whole(run, _copies(flat)))
        _, apart = difference(ran.outputs, plain)
        runtime = f"torch {torch.__version__}"
        return verdict(ran, plain, solution, problem, model=graph.name, runtime=runtime, difference=apart)


def _ordered(run: Runnable, graph: OpGraph, ordering: Ordering, flat: Sequence[object]) -> Ran:
    run.check_covered(ordering.order, "the order")
    counted = MemoryOrdering(graph=graph)
    evaluation = counted.evaluate(ordering)
    if evaluation.violations or evaluation.details is None:
        raise InvalidInputError(f"the order cannot be run: {evaluation.violations[0].message}")
    run_in_order(run, ordering.order, _copies(flat))  # the first run of an operator takes longer
    planned = run_in_order(run, ordering.order, _copies(flat))
    given = run_in_order(run, given_order(counted).order, _copies(flat))
    memory = MemoryCheck(
        assumptions=f"{counted.assumptions()}; in-place calls of the program are aliases",
        predicted=evaluation.details.stable,
        measured=planned.live,
        given_peak=max(given.live, default=0),
        default_peak=allocator_peak(lambda: _whole(run, _copies(flat))),
        allocator_peak=allocator_peak(lambda: run_in_order(run, ordering.order, _copies(flat)).outputs),
    )
    return Ran(outputs_of(planned.outputs), ordering.order, planned.seconds, memory=memory)


def _split(run: Runnable, graph: OpGraph, plan: Schedule | Stages, flat: Sequence[object]) -> Ran:
    groups = parts_of(graph, plan)
    order = [name for group in groups for name in group.operators]
    run_in_order(run, order, _copies(flat))
    timed = run_in_order(run, order, _copies(flat))
    outputs = outputs_of(staged(run, groups).run_flat(_copies(flat)))
    return Ran(outputs, order, timed.seconds, pieces=len(groups), notes=(ONE_MACHINE,))


def _whole(run: Runnable, flat: list[object]) -> list[object]:
    """Run the program as PyTorch runs it."""
    import torch
    from torch.fx import Interpreter
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        return list(tree_leaves(Interpreter(run.module).run(*flat, enable_io_processing=False)))


def _made_up(run: Runnable, seed: int) -> list[object]:
    """Generate inputs by shape and type: normal numbers; zeros and ones for integers."""
    import torch

    random = torch.Generator().manual_seed(seed)
    made: list[object] = []
    for node in run.inputs:
        like = node.meta.get("val")
        if isinstance(like, torch.Tensor):
            size, kind = tuple(like.shape), like.dtype
            if like.is_floating_point():
                like = torch.randn(size, generator=random).to(kind)
            else:
                like = torch.randint(0, 2, size, generator=random).to(kind)
        made.append(like)
    return made


def _copies(flat: Sequence[object]) -> list[object]:
    """Copies of the inputs, which a run may change and free."""
    import torch

    return [value.clone() if isinstance(value, torch.Tensor) else value for value in flat]
