"""A small problem, and a way to have any engine solve it through ``solve``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import opweave as ow
from opweave.solvers import registry
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.known import Engine
from opweave.solvers.registry import Feature, Solver, register
from tests.formulations.memory_ordering.programs import two_branches

GREEDY = ow.Ordering(order=["big1", "big2", "small1", "small2", "join"])
"""A valid order of the two branches, with a peak of 17; the best is 10."""

HEAD_START = HeadStart(initial=lambda _: GREEDY)


@pytest.fixture
def problem() -> ow.MemoryOrdering:
    return two_branches()


@pytest.fixture
def selectable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Registers an engine as solver "fake"."""
    registry._load()
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))

    def add(engine: Engine, head_start: HeadStart = HEAD_START, kind: str = "memory_ordering") -> str:
        def run(problem: ow.extend.Problem, run: registry.Run) -> ow.extend.Outcome:
            return run_engine(problem, run, engine, head_start)

        supports = ("order_arcs", "time_indexed", "model")
        register(
            Solver("fake", kind, "engine", run, "a fake", "optimum", features=frozenset(Feature), supports=supports)
        )
        return "fake"

    return add
