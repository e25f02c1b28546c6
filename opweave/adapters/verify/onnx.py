"""Verification with ONNX Runtime."""

from __future__ import annotations

import re
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
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering, given_order
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem
from opweave.solvers.engines.child import ChildLimits, run_in_child

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import SessionOptions


PLANNED = "planned.onnx"
RUNS = 7
MOST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Bench:
    """The setup of a verification: the model, how ONNX Runtime counts its memory, and its inputs.

    ``named`` is the form of the model that was planned, with constants computed: the model with fixed sizes, or what
    the runtime's optimiser makes of it. ``folded`` is its file.
    """

    folded: Path
    folder: Path
    prepared: Prepared
    named: NamedModel
    problem: MemoryOrdering
    feeds: Arrays
    threads: int

    def run(self, path: Path, make: Callable[..., SessionOptions], runs: int = 1) -> RuntimeRun:
        """Run a model under the profiler with the options that ``make`` makes."""
        return profiled_run(path, make(threads=self.threads), self.feeds, runs=runs)

    def obedient(self, proto: ModelProto, name: str, runs: int) -> RuntimeRun:
        """Run a model in the order of its nodes."""
        return self.run(save_model(self.named.file, proto, self.folder / name), onnx_session_options, runs)


def _unoptimised(*, threads: int) -> SessionOptions:
    """The runtime's own order, with optimisations off."""
    options = default_options(threads=threads)
    options.graph_optimization_level = import_runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


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
        bench = _bench(original.parent, file, found, feeds, threads)
        untouched = bench.run(original, default_options)
        about: dict[str, Any] = {"model": bench.problem.graph.name}
        if isinstance(solution, Ordering):
            ran = _run_order(bench, solution, untouched)
            about["by_default"] = _cost((original, feeds, threads, False))
            about["as_planned"] = _cost((bench.folder / PLANNED, feeds, threads, True))
        else:
            ran = _run_pieces(bench, parts_of(bench.problem.graph, solution))
        plain = bench.run(bench.folded, _unoptimised)
        close, apart = difference(ran.outputs, outputs_of(untouched.outputs))
        if not close:  # the runtime's optimiser may change sums by more than the tolerance, whatever the plan is
            close, _ = difference(ran.outputs, outputs_of(bench.run(original, _unoptimised).outputs))
        about |= {"outputs_close": close, "difference": apart, "runtime": f"onnxruntime {import_runtime().__version__}"}
        return verdict(ran, outputs_of(plain.outputs), solution, problem, **about)


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


def _bench(folder: Path, file: OnnxFile, found: Shaped, feeds: Arrays, threads: int) -> _Bench:
    prepared = measure(file, found, feeds, DEFAULT_LIMITS)
    whole = named(file, found)
    parts = without_constant_nodes(replace(whole, proto=openable(file, whole.proto, DEFAULT_LIMITS)))
    folded = save_model(file, parts.proto, folder / "folded.onnx")
    return _Bench(folded, folder, prepared, parts, runtime_problem(prepared), feeds, threads)


def _run_order(bench: _Bench, ordering: Ordering, untouched: RuntimeRun) -> Ran:
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
        left = [name for name in ordering.order if name not in set(ran)]
        kinds = ", ".join(dict.fromkeys(bench.named.nodes[name].op_type for name in left))
        what = f"{len(left):,} operators ({kinds})"
        notes.append(f"the runtime has left out or replaced {what}; memory is compared at the others")
    if obeyed and memory is None:
        notes.append("this version of ONNX Runtime has no counters of its arena, so memory was not compared")
    return Ran(outputs_of(planned.outputs), ran, planned.seconds, obeyed, memory, notes=tuple(notes))


def _run_pieces(bench: _Bench, groups: Sequence[Group]) -> Ran:
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
    return Ran(outputs, order, seconds, obeyed, pieces=len(pieces), notes=(ONE_MACHINE,))


def _planned(bench: _Bench, order: Sequence[str]) -> list[str]:
    """The planned operators in a run's order.

    A profile also has the nodes inside an If, Loop or Scan, and those by which the runtime replaces an operator without
    a kernel of its own. It lacks the latter operator, and conversions from a type to the same type, which are no work.
    """
    return list(dict.fromkeys(name for name in order if name in bench.named.nodes))


def _obeyed(bench: _Bench, planned: Sequence[str], order: Sequence[str]) -> bool:
    """Whether the planned operators ran in the planned order, except those that always run as early as possible."""
    late = {name for name, node in bench.named.nodes.items() if node.op_type not in ("Shape", "Size")} & set(order)
    ran = [name for name in _planned(bench, order) if name in late]
    return ran == [name for name in planned if name in late]


def _memory(bench: _Bench, planned: RuntimeRun, given: RuntimeRun, untouched: RuntimeRun) -> MemoryCheck | None:
    problem, ran = bench.problem, _planned(bench, planned.order)
    alone = _tensors_as_they_ran(problem, ran)
    order = given_order(alone)
    details = alone.evaluate(order).details
    if planned.live is None or given.live is None or details is None:
        return None
    predicted = dict(zip(order.order, details.stable, strict=True))
    measured = dict(zip(planned.order, planned.live, strict=True))
    return MemoryCheck(
        assumptions=f"{problem.assumptions()}; in place: activations, Softmax, Clip and Cast only, never an output",
        predicted=tuple(predicted[name] for name in ran),
        measured=tuple(max(measured[name], 0) for name in ran),
        given_peak=max(given.live),
        default_peak=untouched.peak_bytes,
        predicted_arena=int(problem.evaluate(order).objective or 0),
        allocator_peak=planned.peak_bytes,
        held_before=planned.session_bytes,
    )


def _tensors_as_they_ran(problem: MemoryOrdering, ran: Sequence[str]) -> MemoryOrdering:
    """The problem of the tensors alone: the runtime's counters are read when a kernel has given its scratch back.

    Its operators are listed as they ran, those that did not run as soon as their inputs are there.
    """
    graph, place = problem.graph, {name: number for number, name in enumerate(ran)}
    listed = sorted(graph.operators, key=lambda op: place.get(op.id, -1))
    operators = tuple(op.model_copy(update={"workspace_bytes": 0}) for op in listed)
    graph = OpGraph(operators=operators, tensors=graph.tensors, parameters=graph.parameters, outputs=graph.outputs)
    return MemoryOrdering(graph=graph, in_place=problem.in_place, inputs=problem.inputs, outputs=problem.outputs)


Task = tuple[Path, Arrays, int, bool]
"""A model with its inputs and threads, and whether it is run in the order of its file, or with default settings."""


def _cost(task: Task) -> RunCost | None:
    """What a run costs a user, in a process of its own; None if it takes too long."""
    limits = ChildLimits(seconds=MOST_SECONDS)
    found = run_in_child("ONNX Runtime", "opweave.adapters.verify.onnx:run_fresh", task, limits)
    return None if found is None else RunCost(seconds=found[0], process_bytes=found[1], arena_bytes=found[2])


def run_fresh(task: Task, _: Callable[[object], None]) -> tuple[float, int, int | None]:
    """In the child: processor seconds of the best run, peak of the process, peak of the runtime's arena."""
    path, feeds, threads, planned = task
    make = onnx_session_options if planned else default_options
    session = open_session(path, make(threads=threads))
    spent = []
    for _run in range(RUNS):
        began = time.process_time()
        run_session(session, feeds)
        spent.append(time.process_time() - began)
    peak = _peak_of_process()
    del session
    profile = profiled_run(path, make(threads=threads), feeds, runs=1)
    return min(spent[1:]), peak, profile.peak_bytes


def _peak_of_process() -> int:
    """Largest resident memory of this process so far; Linux's usual counter also contains that of the parent."""
    status = Path("/proc/self/status")
    kibibytes = re.search(r"^VmHWM:\s+(\d+)", status.read_text("ascii") if status.is_file() else "", re.MULTILINE)
    if kibibytes is not None:
        return int(kibibytes[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
