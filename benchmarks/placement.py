"""Benchmarks of placement: real graphs, measured profiles, the paper's eleven sizes, proofs, speed of list scheduling.

Run ``python -m benchmarks.placement`` for everything, or name parts: ``real home measured sizes moirai proofs
lists``; ``--smoke`` uses only a few small graphs. Clusters are those of Table III of Zhang et al., "Moirai", and
machines at home. Times of operators are rooflines, either from the devices' data sheets in single precision ("sheet"),
or from the shares of them that are reached in practice (:data:`REACHED`), which Table IV uses; measured profiles keep
their times. Neither choice is easier throughout: the second makes convolutional networks harder to prove, and
transformers easier. Seconds are wall time of the solve with the referee's check; graphs are built and loops compiled
before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import opweave as ow
from benchmarks.generators import layered_dag, randomly_wired, scattered
from benchmarks.measured import KNOWN, measured
from benchmarks.tables import GRAPHS, milliseconds, percent, run_parts, show, timed

REAL = ("googlenet", "inception_v3", "swin_tiny_patch4_window7_224", "t5_small", "nasnetalarge")
CLUSTERS = ("moirai-inter", "moirai-intra")
LISTS = ("heft",)


SHEET = ow.Efficiency()
REACHED = ow.Efficiency(arithmetic=0.3, launch_seconds=3.8e-6)
"""Shares of a data sheet that are reached in practice. 30 % of the arithmetic: Shoeybi et al., "Megatron-LM", 2019,
arXiv:1909.08053 (one GPU, transformers of billions of parameters). 3.8 microseconds to launch: Alan Gray, "Getting
Started with CUDA Graphs", 2019 (V100, launches that overlap with kernels)."""


def known_solvers() -> frozenset[str]:
    """Names of the solvers that can run here."""
    return frozenset(row.name for row in ow.list_solvers("placement") if row.available)


def on_cluster(
    graph: ow.OpGraph, cluster: str, memory: str = "additive", *, efficiency: ow.Efficiency = SHEET
) -> ow.Placement:
    """A graph on a cluster from the literature, with roofline costs."""
    machines = ow.clusters.load(cluster)
    costs = ow.Costs.roofline(graph, machines, default_efficiency=efficiency)
    return ow.Placement(graph=graph, cluster=machines, costs=costs, memory=memory)


def warm_up() -> None:
    """Load or compile every loop, so that the tables show only solve times."""
    problem = on_cluster(ow.load(GRAPHS / "torch/googlenet.export.json.gz"), "moirai-inter")
    for name in ("one_device", "fill", *LISTS, "auto"):
        if name in known_solvers():
            ow.solve(problem, solver=name, time_limit=20)


def best_list(problem: ow.Placement) -> float | None:
    """The shortest plan of the list schedulers."""
    found = [ow.solve(problem, solver=name).objective for name in LISTS if name in known_solvers()]
    return min((length for length in found if length is not None), default=None)


def result_cells(problem: ow.Placement, seconds: float) -> tuple[object, ...]:
    """One device, best list schedule, plan, bound, gap, bound source, seconds."""
    alone = ow.solve(problem, solver="one_device").objective
    lists = best_list(problem)
    with timed() as clock:
        result = ow.solve(problem, time_limit=seconds)
    baselines = [length for length in (alone, lists) if length is not None]
    assert all(result.objective <= baseline * (1 + 1e-9) for baseline in baselines)
    return (
        milliseconds(alone),
        milliseconds(lists),
        milliseconds(result.objective),
        milliseconds(result.bound),
        percent(result.gap),
        (result.bound_source or "-")[:40],
        f"{clock.seconds:.1f}",
    )


COLUMNS = ("one device", "best list", "opweave", "bound", "gap", "proof", "seconds")


def real_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Graphs of the repository and a randomly wired network on both clusters."""
    graphs = [ow.load(GRAPHS / f"torch/{name}.export.json.gz") for name in REAL[: 1 if smoke else None]]
    for graph in [*graphs, randomly_wired(3, 32, seed=0)]:
        seconds = 1.0 if smoke else 60.0 if len(graph.operators) < 400 else 90.0
        for cluster, efficiency in product(CLUSTERS[: 1 if smoke else None], (SHEET, REACHED)):
            problem = on_cluster(graph, cluster, efficiency=efficiency)
            times = "sheet" if efficiency is SHEET else "reached"
            about = (graph.name, cluster.removeprefix("moirai-"), times, len(graph.operators))
            yield *about, *result_cells(problem, seconds)


def real(*, smoke: bool) -> None:
    """Gap and time on real graphs."""
    show(
        "Real graphs on the clusters of Table III: makespan in ms",
        ("graph", "cluster", "times", "operators", *COLUMNS),
        real_rows(smoke=smoke),
    )


HOME = ("hrnet_w18_small", "swin_tiny_patch4_window7_224", "t5_small", "densenet121", "inception_v3", "gpt2_small")
"""Networks of which hardly anything can leave the fastest machine at home."""


def home_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Graphs of the repository on four machines of a home network."""
    for name in HOME[: 1 if smoke else None]:
        graph = ow.load(GRAPHS / f"torch/{name}.export.json.gz")
        cells = result_cells(on_cluster(graph, "home"), 1.0 if smoke else 15.0)
        yield graph.name, len(graph.operators), *cells


def home(*, smoke: bool) -> None:
    """Gap and time at home."""
    show("Four machines at home: makespan in ms, 15 s", ("graph", "operators", *COLUMNS), home_rows(smoke=smoke))


def measured_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """The two measured profiles next to the best known values."""
    for known in KNOWN[: 1 if smoke else None]:
        problem = measured(known.name)
        seconds = 1.0 if smoke else 90.0
        cells = result_cells(problem, seconds)
        yield known.name, len(problem.graph.operators), f"{known.best:g}", f"{known.bound:g}", known.others, *cells


def profiles(*, smoke: bool) -> None:
    """Plans for measured times."""
    show(
        "Measured profiles, one port for each edge: makespan in ms",
        ("profile", "operators", "best known", "its bound", "others", *COLUMNS),
        measured_rows(smoke=smoke),
        note="Transfer times are reproduced to 0.08 % (short ones to 0.6 %), so values may differ by as much.",
    )


def proof_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Random instances for the engines: tasks x 3 devices."""
    cases = (("highs", 36, 20.0), ("cp-sat", 36, 20.0), ("cp-sat", 60, 60.0))
    for engine, tasks, seconds in (("highs", 10, 2.0),) if smoke else cases:
        if engine not in known_solvers():
            continue
        for seed in range(1 if smoke else 3):
            problem = scattered(tasks, 3, seed)
            with timed() as clock:
                result = ow.solve(problem, solver=engine, time_limit=seconds)
            auto = ow.solve(problem, time_limit=seconds).objective
            lengths = (milliseconds(length) for length in (best_list(problem), auto, result.objective, result.bound))
            yield f"{tasks} tasks, seed {seed}", engine, *lengths, percent(result.gap), f"{clock.seconds:.1f}"


def proofs(*, smoke: bool) -> None:
    """The bounds that the engines prove."""
    show(
        "Engines on random instances, 3 devices, one port for each tensor: makespan in ms",
        ("instance", "engine", "best list", "auto", "engine's", "bound", "gap", "seconds"),
        proof_rows(smoke=smoke),
    )


def list_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Speed of the list schedulers, alone and within a solve."""
    for tasks in (500,) if smoke else (2_000, 20_000):
        problem = on_cluster(layered_dag(tasks, 50, seed=0), "moirai-inter")
        what = f"{tasks:,} tasks x 4"
        cores = core_seconds(problem)
        yield what, "timing of a given plan", "-", f"{1000 * cores.pop('timing'):.2f}", "-", "-"
        for name, core in cores.items():
            ow.solve(problem, solver=name)
            result = ow.solve(problem, solver=name)
            solve, verify = 1000 * result.timings.solve, 1000 * result.timings.verify
            yield what, name, milliseconds(result.objective), f"{1000 * core:.2f}", f"{solve:.0f}", f"{verify:.0f}"


def core_seconds(problem: ow.Placement) -> dict[str, float]:
    """Best of three runs on arrays alone, for each scheduler and for timing a plan with given order and devices."""
    from opweave.formulations.placement.instance import lower
    from opweave.solvers.placement.arrays import arrays_of
    from opweave.solvers.placement.baselines import RULES
    from opweave.solvers.placement.plans import plan_of

    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    seconds: dict[str, float] = {}
    for name in LISTS:
        rule = RULES[name][0]
        plan = rule(instance, arrays)
        seconds[name] = quickest(partial(rule, instance, arrays))
    seconds["timing"] = quickest(lambda: plan_of(arrays, plan.order, plan.device))
    return seconds


def quickest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of three runs."""
    found = []
    for _ in range(3):
        with timed() as clock:
            work()
        found.append(clock.seconds)
    return min(found)


def lists(*, smoke: bool) -> None:
    """Speed of list scheduling."""
    show(
        "List scheduling, random layers of 50: ms",
        ("instance", "scheduler", "makespan", "ms on arrays", "ms of solve", "ms of referee"),
        list_rows(smoke=smoke),
        note="On arrays: ranking, choosing and timing, compiled. Solve adds building the arrays and the schedule.",
    )


def main() -> None:
    """Run the parts that are named on the command line."""
    from benchmarks.placement_moirai import moirai
    from benchmarks.placement_sizes import sizes

    parts = {"real": real, "home": home, "measured": profiles, "sizes": sizes, "moirai": moirai, "proofs": proofs}
    run_parts(__doc__, parts | {"lists": lists}, warm_up)


if __name__ == "__main__":
    main()
