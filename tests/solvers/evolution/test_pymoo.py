"""``ow.pymoo_problem`` and ``solver="pymoo"``: pymoo's algorithms on plans, judged by brute force and the referee."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.soo.nonconvex.de import DE
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.optimize import minimize

import opweave as ow
from opweave.problems.measures import MEASURES
from opweave.solvers.evolution.solver import NAMED
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.slicing import best_slicing
from tests.tiny import PROBLEMS, under

ORACLES: dict[str, Callable[[ow.extend.Problem], float | None]] = {
    "memory_ordering": lambda problem: best_ordering_by_states(problem)[0],
    "placement": lambda problem: best_placement(problem)[0],
    "batched_mapping": lambda problem: best_batched_mapping(problem)[0],
    "pipeline": lambda problem: best_pipeline(problem)[0],
    "slicing": lambda problem: best_slicing(problem)[0],
}
SMALL = {"population": 12, "generations": 8}


class PartlyOn(ow.Constraint):
    """A rule that no solver can know: the device runs a part of the operator, which is not first in an order."""

    op: str
    device: str

    def violations(self, problem: ow.extend.Problem, solution: ow.extend.Solution) -> Iterator[ow.extend.Violation]:
        if problem.kind == "memory_ordering":
            if solution.order[0] == self.op:
                yield self.broken(f"{self.op!r} runs first")
        elif self.device not in solution.devices_by_operator()[self.op]:
            yield self.broken(f"no part of {self.op!r} is on {self.device!r}")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("kind", ORACLES)
def test_it_finds_the_optimum_from_random_rows(kind: str) -> None:
    problem = PROBLEMS[kind]
    result = ow.solve(problem, solver="pymoo", options={"population": 20, "generations": 15, "seeded": False}, seed=4)
    assert result.objective == pytest.approx(ORACLES[kind](problem))
    assert result.verified
    assert result.bound is None or result.bound <= result.objective


@pytest.mark.parametrize("name", NAMED)
def test_any_algorithm_by_name(name: str) -> None:
    problem = PROBLEMS["placement"]
    result = ow.solve(problem, solver="pymoo", options={**SMALL, "algorithm": name})
    assert result.termination is ow.results.Termination.BUDGET, result.reason
    assert result.objective == pytest.approx(ORACLES["placement"](problem))


@pytest.mark.parametrize("kind", ORACLES)
def test_an_algorithm_as_an_object_stays_as_it_is(kind: str) -> None:
    algorithm = DE(pop_size=12)
    options = {"algorithm": algorithm, "generations": 6}
    first, second = (ow.solve(PROBLEMS[kind], solver="pymoo", options=options, seed=4) for _ in range(2))
    assert algorithm.problem is None
    assert first.solution == second.solution
    assert [each.objective for each in first.incumbents] == [each.objective for each in second.incumbents]
    assert first.verified
    assert first.options == {"algorithm": "DE", "generations": 6}
    assert ow.Result.model_validate_json(first.model_dump_json()).options == first.options


@pytest.mark.parametrize("kind", ORACLES)
def test_a_rule_with_violations_alone_is_honoured(kind: str) -> None:
    rule = PartlyOn(op="b", device="d")
    free, problem = ow.solve(PROBLEMS[kind]), under(PROBLEMS[kind], rule)
    assert not problem.evaluate(free.solution).feasible  # the rule matters
    result = ow.solve(problem, solver="pymoo", options={"population": 16, "generations": 10})
    assert result.verified, result.reason
    stricter = ow.Precede(before="a", after="b") if kind == "memory_ordering" else ow.Pin(op="b", device="d")
    assert free.objective <= result.objective <= ow.solve(under(PROBLEMS[kind], stricter)).objective * (1 + 1e-9)
    assert rule.kind in ow.pymoo_problem(problem).constraint_names


def test_limits_become_violations() -> None:
    """One device holds too little for all: rows that put everything there break the memory column and nothing else."""
    rows = ow.pymoo_problem(under(PROBLEMS["placement"], ow.MemoryCap(device="e", bytes=5), ow.Pin(op="a", device="d")))
    assert rows.constraint_names == ("links", "memory of 'd'", "memory of 'e'")
    row = rows.encode(ow.solve(PROBLEMS["placement"], solver="one_device").solution)
    row[:3] = 0.99  # a stays on its device; b and c go to the last one
    worth = rows.evaluate(row[None], return_as_dictionary=True)
    assert rows.decode(row).device == {"a": "d", "b": "e", "c": "e"}
    assert worth["G"].tolist() == [[0.0, 0.0, 0.0]]  # 4 + 1 bytes fit exactly
    tight = ow.pymoo_problem(
        under(PROBLEMS["placement"], ow.MemoryCap(device="e", bytes=4), ow.Pin(op="a", device="d"))
    )
    assert tight.evaluate(row[None], return_as_dictionary=True)["G"].tolist() == [[0.0, 0.0, 0.25]]
    mended = tight.repair.do(tight, minimal_population(row))[0].X
    assert tight.evaluate(mended[None], return_as_dictionary=True)["G"].max() == 0.0


def minimal_population(row: np.ndarray) -> object:
    from pymoo.core.population import Population

    return Population.new("X", row[None])


def test_the_front_of_two_measures_is_the_one_of_brute_force() -> None:
    """Makespan against the largest memory of a device, over all eight assignments."""
    problem = PROBLEMS["placement"]
    rows = ow.pymoo_problem(problem, ("makespan", "peak"))
    assert rows.objective_names == ("makespan", "peak_bytes")
    found = minimize(rows, NSGA2(pop_size=16, sampling=rows.seeds(), repair=rows.repair), ("n_gen", 12), seed=1)
    points = {tuple(np.round(point, 9).tolist()) for point in found.F}
    everything = []
    for number in range(8):
        pins = [ow.Pin(op=op, device="de"[number >> k & 1]) for k, op in enumerate("abc")]
        best = ow.solve(under(PROBLEMS["placement"], *pins))
        peak = max(problem.memory_by_device(best.solution).values())
        everything.append((round(best.objective, 9), float(peak)))
    front = {p for p in everything if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in everything)}
    assert points == front


def test_throughput_is_maximised_and_other_measures_are_played() -> None:
    rows = ow.pymoo_problem(PROBLEMS["pipeline"], ("throughput", "latency"))
    worth = rows.evaluate(rows.seed_rows(), return_as_dictionary=True)["F"]
    for row, (throughput, latency) in zip(rows.seed_rows(), worth.tolist(), strict=True):
        timeline = PROBLEMS["pipeline"].play(rows.decode(row))
        assert (1.0 / timeline.period, latency) == (
            pytest.approx(-throughput),
            pytest.approx(MEASURES["latency"](timeline)),
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": "gaa"}, "no algorithm 'gaa' .*did you mean 'ga'"),
        ({"algorithm": 3}, "'algorithm' is 3"),
        ({"algorithm": GA}, "algorithm"),
        ({"population": 1}, "from 2 to"),
        ({"generations": -1}, "from 0"),
    ],
)
def test_refusals(options: dict[str, object], words: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=words):
        ow.solve(PROBLEMS["placement"], solver="pymoo", options=options)


@pytest.mark.parametrize(("name", "words"), [("beauty", "'beauty' is not an objective"), ("bottleneck", "no meaning")])
def test_objectives_without_a_meaning_are_refused(name: str, words: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=words):
        rows = ow.pymoo_problem(PROBLEMS["placement"], (name,))
        rows.evaluate(rows.seed_rows())


def test_an_algorithm_that_fails_leaves_what_was_found() -> None:
    class Failing(GA):
        def _advance(self, infills: object = None, **kwargs: object) -> None:
            raise RuntimeError("a mistake")

    result = ow.solve(PROBLEMS["pipeline"], solver="pymoo", options={"algorithm": Failing(pop_size=4)})
    assert result.termination is ow.results.Termination.ENGINE_ERROR
    assert "a mistake" in result.reason
    assert result.verified
