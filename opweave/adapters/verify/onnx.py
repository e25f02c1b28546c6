"""Verification with ONNX Runtime."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.onnx.measured import openable
from opweave.adapters.onnx.model import OnnxFile, Shaped, inner_graphs, read_model, save_model
from opweave.adapters.onnx.nodes import NamedModel, named, reordered, with_nodes, without_constant_nodes
from opweave.adapters.onnx.optimizer import form_of_plan
from opweave.adapters.onnx.pieces import write_pieces
from opweave.adapters.onnx.prepare import Prepared, measure, shape, with_types
from opweave.adapters.onnx.read import runtime_problem
from opweave.adapters.onnx.session import (
    Arrays,
    RuntimeRun,
    default_options,
    import_runtime,
    onnx_session_options,
    open_session,
    profiled_run,
    random_feeds,
    run_session,
)
from opweave.adapters.runtimes.groups import Group
from opweave.adapters.verify.parts import Ran, difference, outputs_of, parts_of, verdict
from opweave.adapters.verify.report import ONE_MACHINE, MemoryCheck, RunCost, Verification
from opweave.problems.errors import EngineError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem
from opweave.solvers.engines.child import ChildLimits, run_in_child

if TYPE_CHECKING:
    from onnx import ModelProto


PLANNED = "planned.onnx"
RUNS = 7
MOST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Bench:
    """The setup of a verification: the model, how ONNX Runtime counts its memory, and its inputs.

    ``original`` is the user's model with fixed sizes, and ``path`` the form of it that was planned: the same, or what
    the runtime's optimiser makes of it. ``named`` is that form with constants computed, and ``folded`` its file.
    """

    original: Path
    path: Path
    folded: Path
    folder: Path
    prepared: Prepared
    named: NamedModel
    problem: MemoryOrdering
    feeds: Arrays
    threads: int

    def plain(self, path: Path) -> RuntimeRun:
        """Run a whole model in the runtime's own order, with optimisations off."""
        options = default_options(threads=self.threads)
        options.graph_optimization_level = import_runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
        return profiled_run(path, options, self.feeds, runs=1)

    def untouched(self) -> RuntimeRun:
        """Run the whole model with all defaults of the runtime."""
        return profiled_run(self.original, default_options(threads=self.threads), self.feeds, runs=1)

    def obedient(self, proto: ModelProto, name: str, runs: int) -> RuntimeRun:
        """Run a model in the order of its nodes."""
        path = save_model(self.named.file, proto, self.folder / name)
        return profiled_run(path, onnx_session_options(threads=self.threads), self.feeds, runs=runs)


def verify_onnx(
    model: PathLike | ModelProto,
    solution: Ordering | Schedule | Stages,
    problem: Problem[Any, Any] | None,
    inputs: Arrays | None,
    dims: Mapping[str, int],
    seed: int,
    threads: int,
) -> Verification:
    """Run an ONNX model as planned and as it was; see :func:`opweave.adapters.verify.verify`."""
    import_runtime()
    file, found = shape(model, dims, inputs, DEFAULT_LIMITS)
    feeds = dict(inputs or {})
    feeds = dict(random_feeds(found.model, seed, feeds)) | feeds
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder, ExitStack() as held:
        original = _original(model, file, found, Path(folder) / "original.onnx")
        if isinstance(solution, Ordering):
            form = held.enter_context(form_of_plan(original, solution.order, {}, DEFAULT_LIMITS))
            if form is not original:
                file, found = shape(form, {}, None, DEFAULT_LIMITS)
        bench = _bench(original, file, found, feeds, threads)
        untouched = bench.untouched()
        if isinstance(solution, Ordering):
            obeyed, ran = _run_order(bench, solution, untouched)
            by_default = _cost(_Task(original, feeds, threads, planned=False))
            as_planned = _cost(_Task(bench.folder / PLANNED, feeds, threads, planned=True))
            about: dict[str, Any] = {"by_default": by_default, "as_planned": as_planned}
            plain = bench.plain(bench.folded)
        else:
            obeyed, ran = _run_pieces(bench, parts_of(bench.problem.graph, solution))
            about, plain = {}, bench.plain(bench.path)
        close, apart = difference(ran.outputs, outputs_of(untouched.outputs))
        if not close:  # the runtime's optimiser may change sums by more than the tolerance, whatever the plan is
            close, _ = difference(ran.outputs, outputs_of(bench.plain(original).outputs))
        about |= {"model": bench.problem.graph.name, "runtime": f"onnxruntime {import_runtime().__version__}"}
        about |= {"order_obeyed": obeyed, "outputs_close": close, "difference": apart}
        return verdict(ran, outputs_of(plain.outputs), solution, problem, about)


def _original(model: PathLike | ModelProto, file: OnnxFile, found: Shaped, path: Path) -> Path:
    """Write the original with fixed sizes; with open ones if the runtime's optimiser fails on a branch of an If."""
    save_model(file, openable(file, with_types(found), DEFAULT_LIMITS), path)
    if any(map(inner_graphs, found.model.graph.node)):
        try:
            open_session(path, default_options())
        except EngineError:
            fresh = read_model(model, DEFAULT_LIMITS)
            save_model(fresh, fresh.proto, path)
    return path


def _bench(original: Path, file: OnnxFile, found: Shaped, feeds: Arrays, threads: int) -> _Bench:
    prepared, folder = measure(file, found, feeds, DEFAULT_LIMITS), original.parent
    whole = named(file, found)
    whole = replace(whole, proto=openable(file, whole.proto, DEFAULT_LIMITS))
    path = save_model(file, whole.proto, folder / "whole.onnx")
    parts = without_constant_nodes(whole)
    folded = save_model(file, parts.proto, folder / "folded.onnx")
    return _Bench(original, path, folded, folder, prepared, parts, runtime_problem(prepared), feeds, threads)


def _run_order(bench: _Bench, ordering: Ordering, untouched: RuntimeRun) -> tuple[bool, Ran]:
    planned = bench.obedient(reordered(bench.named, ordering), PLANNED, runs=3)
    own = with_nodes(bench.named.proto, [*bench.named.constant, *bench.named.nodes.values()])
    ran = _planned(bench, planned.order)
    wanted = [name for name in ordering.order if name in set(ran)]
    obeyed = _obeyed(bench, ordering.order, planned.order)
    memory = _memory(bench, planned, bench.obedient(own, "given.onnx", 1), untouched) if obeyed else None
    notes = []
    if not obeyed:
        first = next((name for name, done in zip(wanted, ran, strict=False) if name != done), "")
        notes.append(f"the runtime left the planned order at {first}")
    elif ran != wanted:
        notes.append("Shape and Size nodes ran as early as possible, whatever the plan says; memory is that of this")
    if len(ran) < len(ordering.order):
        notes.append(_replaced(bench, ordering, ran))
    if obeyed and memory is None:
        notes.append("this version of ONNX Runtime has no counters of its arena, so memory was not compared")
    return obeyed, Ran(outputs_of(planned.outputs), ran, planned.seconds, memory=memory, notes=tuple(notes))


def _run_pieces(bench: _Bench, groups: Sequence[Group]) -> tuple[bool, Ran]:
    known, seconds, obeyed = dict(bench.feeds), dict[str, float](), True
    pieces = write_pieces(bench.prepared, groups, bench.folder / "pieces")
    for piece in pieces:
        fed = {name: known[name] for name in piece.inputs}
        run = profiled_run(piece.path, onnx_session_options(threads=bench.threads), fed)
        known |= run.outputs
        seconds |= run.seconds
        obeyed = obeyed and _obeyed(bench, piece.operators, run.order)
    outputs = outputs_of({value.name: known[value.name] for value in bench.named.proto.graph.output})
    order = [name for piece in pieces for name in piece.operators]
    return obeyed, Ran(outputs, order, seconds, pieces=len(pieces), notes=(ONE_MACHINE,))


def _planned(bench: _Bench, order: Sequence[str]) -> list[str]:
    """The planned operators in a run's order.

    A profile also has the nodes inside an If, Loop or Scan, and those by which the runtime replaces an operator without
    a kernel of its own. It lacks the latter operator, and conversions from a type to the same type, which are no work.
    """
    return list(dict.fromkeys(name for name in order if name in bench.named.nodes))


def _obeyed(bench: _Bench, planned: Sequence[str], order: Sequence[str]) -> bool:
    """Whether the planned operators ran in the planned order, as far as they ran."""
    wanted = [name for name in planned if name in set(order)]
    return _without_early(bench, _planned(bench, order)) == _without_early(bench, wanted)


def _replaced(bench: _Bench, ordering: Ordering, ran: Sequence[str]) -> str:
    kinds = dict.fromkeys(bench.named.nodes[name].op_type for name in ordering.order if name not in set(ran))
    count = len(ordering.order) - len(ran)
    what = f"{count:,} operators ({', '.join(kinds)})"
    return f"the runtime has left out or replaced {what}; memory is compared at the others"


def _whole_order(bench: _Bench, ran: Sequence[str]) -> list[str]:
    """The order of a run with the operators that did not run, each as soon as its inputs are there."""
    graph = bench.problem.graph
    left = {name: index for name, index in graph.operator_index.items() if name not in set(ran)}
    waiting = {index: len(graph.arrays.predecessors[index]) for index in range(len(graph.operators))}
    order: list[str] = []

    def done(index: int) -> None:
        order.append(graph.operators[index].id)
        for reader in graph.arrays.successors[index].tolist():
            waiting[reader] -= 1
            if not waiting[reader] and graph.operators[reader].id in left:
                done(reader)

    for name, index in left.items():
        if not waiting[index] and name not in order:
            done(index)
    for name in ran:
        done(graph.operator_index[name])
    return order


def _without_early(bench: _Bench, order: Sequence[str]) -> list[str]:
    """An order without the nodes that ONNX Runtime always runs as early as possible."""
    nodes = bench.named.nodes
    return [name for name in order if name not in nodes or nodes[name].op_type not in ("Shape", "Size")]


def _memory(bench: _Bench, planned: RuntimeRun, given: RuntimeRun, untouched: RuntimeRun) -> MemoryCheck | None:
    problem, ran = bench.problem, _planned(bench, planned.order)
    order = _whole_order(bench, ran)
    details = _without_scratch(problem).evaluate(Ordering(order=tuple(order))).details
    if planned.live is None or given.live is None or details is None:
        return None
    predicted = dict(zip(order, details.stable, strict=True))
    measured = dict(zip(planned.order, planned.live, strict=True))
    return MemoryCheck(
        assumptions=f"{problem.assumptions()}; in place: activations, Softmax, Clip and Cast only, never an output",
        predicted=tuple(predicted[name] for name in ran),
        measured=tuple(max(measured[name], 0) for name in ran),
        given_peak=max(given.live),
        default_peak=untouched.peak_bytes,
        predicted_arena=int(problem.evaluate(Ordering(order=tuple(order))).objective or 0),
        allocator_peak=planned.peak_bytes,
        held_before=planned.session_bytes,
    )


def _without_scratch(problem: MemoryOrdering) -> MemoryOrdering:
    """The problem of the tensors alone: the runtime's counters are read when a kernel has given its scratch back."""
    graph = problem.graph
    operators = tuple(op.model_copy(update={"workspace_bytes": 0}) for op in graph.operators)
    graph = OpGraph(operators=operators, tensors=graph.tensors, parameters=graph.parameters, outputs=graph.outputs)
    return MemoryOrdering(graph=graph, in_place=problem.in_place, inputs=problem.inputs, outputs=problem.outputs)


@dataclass(frozen=True, slots=True)
class _Task:
    """A model that is run with the runtime's default settings, or in the order of its file."""

    path: Path
    feeds: Arrays
    threads: int
    planned: bool


def _cost(task: _Task) -> RunCost | None:
    """What a run costs a user, in a process of its own; None if it takes too long."""
    limits = ChildLimits(seconds=MOST_SECONDS)
    found = run_in_child("ONNX Runtime", "opweave.adapters.verify.onnx:run_fresh", task, limits)
    return None if found is None else RunCost(seconds=found[0], process_bytes=found[1], arena_bytes=found[2])


def run_fresh(task: _Task, _: Callable[[object], None]) -> tuple[float, int, int | None]:
    """In the child: processor seconds of the best run, peak of the process, peak of the runtime's arena."""
    make = onnx_session_options if task.planned else default_options
    session = open_session(task.path, make(threads=task.threads))
    spent = []
    for _run in range(RUNS):
        began = time.process_time()
        run_session(session, task.feeds)
        spent.append(time.process_time() - began)
    peak = _peak_of_process()
    del session
    profile = profiled_run(task.path, make(threads=task.threads), task.feeds, runs=1)
    return min(spent[1:]), peak, profile.peak_bytes


def _peak_of_process() -> int:
    """Largest resident memory of this process so far; Linux's usual counter also contains that of the parent."""
    status = Path("/proc/self/status")
    if status.is_file():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        words = next((line.split() for line in lines if line.startswith("VmHWM:")), None)
        if words is not None:
            return int(words[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
