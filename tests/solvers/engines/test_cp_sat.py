"""CP-SAT through ``solve``."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.errors import InvalidInputError
from opweave.solvers.engines.engine import run_engine
from opweave.solvers.engines.known import CpSat
from opweave.solvers.placement.engines import KNOWN_BEFORE
from opweave.solvers.run import Run
from tests.formulations.placement.instances import (
    PLAIN,
    TRANSFERS,
    agrees,
    fork,
    random_placement,
)

needs_ortools = pytest.mark.skipif(CpSat().missing() is not None, reason="ortools is not installed")


@needs_ortools
@pytest.mark.parametrize("transfers", TRANSFERS)
def test_a_fork_by_hand(transfers):
    assert agrees(ow.solve(fork(transfers=transfers), solver="cp-sat", options=PLAIN), 6.0)


@needs_ortools
def test_agrees_with_highs():
    problem = random_placement(9, 2, 4)
    first, second = ow.solve(problem, solver="highs"), ow.solve(problem, solver="cp-sat", threads=2)
    assert agrees(first, second.objective)
    assert agrees(second, first.objective)


def test_the_name_of_the_formulation():
    with pytest.raises(InvalidInputError, match=r"'moirai' is an integer program, .*these would do: 'intervals'"):
        run_engine(fork(), Run(formulation="moirai"), CpSat(), KNOWN_BEFORE)
