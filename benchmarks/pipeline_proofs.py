"""Proofs of the joint optimum: their share and their speed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import opweave as ow
from benchmarks.edge_networks import MEGABYTE, MODELS, as_in_the_paper, heterogeneous, keras, random_chain
from benchmarks.tables import table, timed
from opweave.formulations.pipeline.instance import lower, stages_up_to


@dataclass(frozen=True, slots=True)
class Proof:
    """One run."""

    stages: int
    gap: float
    seconds: float
    search: float


def needs_split(problem: ow.Pipeline) -> int | None:
    """Smallest possible number of stages; None if some piece fits on no device."""
    return stages_up_to(lower(problem).reach.max(axis=0))


def prove(problem: ow.Pipeline, limit: float) -> Proof | None:
    """Solve; None when it is proved that there is no plan."""
    with timed() as clock:
        result = ow.solve(problem, time_limit=limit)
    if result.status is ow.Status.INFEASIBLE:
        return None
    if result.solution is None:
        return Proof(0, 1.0, clock.seconds, result.timings.solve)
    gap = 0.0 if result.status is ow.Status.OPTIMAL or not result.gap else result.gap
    return Proof(len(result.solution.stages), gap, clock.seconds, result.timings.solve)


def summary(name: str, found: Sequence[Proof | None]) -> tuple[object, ...]:
    """A row of the table."""
    runs = [proof for proof in found if proof is not None]
    if not runs:
        return name, len(found), len(found), *["-"] * 8
    seconds = np.asarray([proof.seconds for proof in runs])
    gaps = np.asarray([proof.gap for proof in runs])
    median, tail = (float(np.quantile(seconds, share)) for share in (0.5, 0.99))
    return (
        name,
        len(found),
        len(found) - len(runs),
        f"{min(proof.stages for proof in runs)}-{max(proof.stages for proof in runs)}",
        f"{100 * float((gaps == 0).mean()):.1f} %",
        f"{100 * float((gaps <= 0.05).mean()):.1f} %",
        f"{100 * float(gaps.max()):.1f} %",
        f"{1000 * median:.1f}",
        f"{1000 * tail:.0f}",
        f"{1000 * float(seconds.max()):.0f}",
        f"{1000 * float(np.median([proof.search for proof in runs])):.1f}",
    )


def homogeneous(runs: int, limit: float) -> Iterator[Proof | None]:
    """The paper's setting: 50 devices of 64 MB, and all models that fit and must be split."""
    for model in MODELS:
        for seed in range(runs):
            problem = as_in_the_paper(model, 50, 64, seed)
            if seed == 0 and (needs_split(problem) or 0) < 2:
                break
            yield prove(problem, limit)


def mixed(runs: int, limit: float, *, computing: bool) -> Iterator[Proof | None]:
    """50 devices of 32 to 96 MB; a third of the networks have random links."""
    for model in MODELS:
        for seed in range(runs):
            problem = heterogeneous(keras(model), 50, 64 * MEGABYTE, seed, computing=computing, matrix=seed % 3 == 2)
            if seed == 0 and needs_split(problem) is None:
                break
            yield prove(problem, limit)


def long(devices: int, runs: int, limit: float) -> Iterator[Proof | None]:
    """Chains of 80 to 300 layers cut into 15 to 60 stages, of all kinds in turn."""
    for seed in range(runs):
        graph = random_chain((80, 120, 200, 300)[seed % 4], seed)
        wanted = 15 + seed * 7 % (min(46, int(0.8 * devices) - 15 + 1))
        total = sum(parameter.bytes for parameter in graph.parameters) + sum(tensor.bytes for tensor in graph.tensors)
        memory = max(1.15 * total / wanted, 1.05e7)
        problem = heterogeneous(graph, devices, memory, seed, computing=seed % 3 == 1, matrix=seed % 3 == 2)
        if needs_split(problem) is not None:
            yield prove(problem, limit)


@table(
    "Cuts and devices together: proofs within 10 s",
    "devices | runs | infeasible | stages | proved | gap <= 5 % | largest gap | median ms | 99 % ms | max ms | "
    "search ms",
    note="Wall time of solve with arrays and referee; search: median without the referee. Times include solutions.",
)
def proofs(*, smoke: bool) -> Iterable[tuple[object, ...]]:
    """All sets."""
    few = 1 if smoke else 60
    yield summary("50 identical, 64 MB", list(homogeneous(few, 10.0)))
    yield summary("50 different", list(mixed(few, 10.0, computing=False)))
    yield summary("50 different, computing", list(mixed(few, 10.0, computing=True)))
    for devices in (50,) if smoke else (50, 100, 200):
        yield summary(f"{devices}, long chains", list(long(devices, 2 if smoke else 24, 10.0)))
