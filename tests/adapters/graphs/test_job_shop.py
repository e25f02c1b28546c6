"""Flexible job shops: both layouts say the same, a shop by hand, and files with gaps."""

from __future__ import annotations

import gzip
from itertools import permutations, product
from pathlib import Path

import pytest

import opweave as ow
from opweave.adapters.graphs.job_shop import read_job_shop
from opweave.problems.limits import Limits
from tests.adapters.conftest import Run, assert_polite

BY_JOB = "2 3 1.5\n2  2 1 4 3 5  1 2 6\n\n1  2 3 7 1 9\n"
MATRIX = "2\n3\n2\t1\t\n4 0 5\n0 6 0\n9 0 7\n"


def shortest(problem: ow.Placement) -> float:
    """The least makespan, by trying every choice of machines and every order of operations."""
    times = problem.known_seconds
    before = {op.id: [t.removeprefix("of ") for t in op.inputs] for op in problem.graph.operators}
    best = float("inf")
    for chosen in product(*(times[name] for name in times)):
        device = dict(zip(times, chosen, strict=True))
        for order in permutations(times):
            free, end = dict.fromkeys(device.values(), 0.0), dict[str, float]()
            for name in order:
                if any(other not in end for other in before[name]):
                    break
                begin = max([free[device[name]], *(end[other] for other in before[name])])
                free[device[name]] = end[name] = begin + times[name][device[name]]
            else:
                best = min(best, max(end.values()))
    return best


def test_both_layouts_and_both_ways_to_number_machines_say_the_same() -> None:
    first = read_job_shop(BY_JOB)
    assert read_job_shop(MATRIX) == first
    assert read_job_shop("2 3\n2  2 0 4 2 5  1 1 6\n1  2 2 7 0 9") == first
    assert first.known_seconds["job1.1"] == {"machine1": 4.0, "machine3": 5.0}
    assert first.transfers == "delay"
    assert [tensor.bytes for tensor in first.graph.tensors] == [0, 0, 0]


@pytest.mark.parametrize("text", [BY_JOB, "3 2\n2 2 1 3 2 4 1 1 2\n1 2 1 2 2 2\n2 1 2 5 2 1 1 2 1", "1 1\n1 1 1 0"])
def test_a_shop_by_hand_is_proved(text: str) -> None:
    problem = read_job_shop(text)
    result = ow.solve(problem, time_limit=10)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(shortest(problem))


def test_a_file_is_a_graph_and_a_problem(tmp_path: Path, opweave: Run) -> None:
    path = tmp_path / "shop.fjs.gz"
    path.write_bytes(gzip.compress(BY_JOB.encode()))
    problem = ow.load_problem(path)
    assert ow.load(path) == problem.graph
    assert ow.load_problem(path).graph.name == "shop"
    assert opweave("plan", path).status == 0
    assert opweave("placement", path, "--pin", "job1.1=machine3").status == 0
    assert_polite(opweave("plan", path, "-p", "pipeline", "--cluster", "home"), "a job shop is a placement")
    assert_polite(opweave("placement", path, "--cluster", "home"), "the file states cluster itself")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n \n", "nothing in the file"),
        ("2\n3", "ends before the third line"),
        ("2\n3\n1", "line 3 has 1 numbers for operations of each job, not 2"),
        ("1\n2\n1\n1 2 3", "3 times for 2 machines"),
        ("1\n2\n1\n0 0", "an operation that no machine can run"),
        ("1\n2\n2\n1 2", "2 operations were announced, but 1 lines"),
        ("1\nx\n1\n1", "'x' for machines, which is no whole number"),
        ("1\n1\n1\n-4", "'-4' for a time"),
        ("1\n1\n1\nnan", "'nan' for a time"),
        ("1\n1\n1\n1e16", "'1e16' for a time"),
        ("1\n0\n1\n", "there is no machine"),
        ("1\n20000\n1\n1", "20,000 machines are more than the limit of 10,000"),
        ("1 2 3 4", "line 1 has 4 numbers"),
        ("2 1\n1 1 1 5", "2 jobs were announced, but 1 lines"),
        ("1 1\n1 1 2 5", "names machine 2, but there are 1"),
        ("1 1\n2 1 1 5", "ends where the number of machines of an operation should follow"),
        ("1 1\n1 1 1", "'' for a time"),
        ("1 1\n1 1 1 5 6", "goes on with '6'"),
        ("1 1\n1 0", "an operation that no machine can run"),
        ("1 2\n1 2 1 5 1 6", "machine 1 twice"),
        ("2 2\n1 1 0 5\n1 1 2 5", "machines 0 and 2 both occur"),
        ("1 1\n99999999999999 1 1 5", "ends where the number of machines of an operation should follow"),
        ("1 1\n" + "1_0 1 1 5", "'1_0' for the number of operations"),
    ],
)
def test_gaps_get_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ow.OpweaveError) as refused:
        read_job_shop(text, where="shop.fjs")
    assert words in str(refused.value)
    assert str(refused.value).startswith("shop.fjs: ")


def test_limits_hold_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(ow.LimitExceededError, match="3 operations are more than the limit of 2"):
        read_job_shop(BY_JOB, limits=Limits(operators=2))
    with pytest.raises(ow.LimitExceededError, match="pairs of operation and machine"):
        read_job_shop(MATRIX, limits=Limits(edges=8))
    path = tmp_path / "shop.fjs"
    path.write_bytes(b"\xff\xfe1")
    with pytest.raises(ow.InvalidInputError, match="text in UTF-8"):
        ow.load(path)
