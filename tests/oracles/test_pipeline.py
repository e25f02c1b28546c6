"""The oracle of pipelines against values found by hand."""

from __future__ import annotations

import opweave as ow
from tests.oracles.pipeline import all_pipelines, allowed_cuts, best_pipeline
from tests.problems.pipeline.test_spec import four


def test_all_cuts_and_devices() -> None:
    # 3 devices; one stage: 3; two stages: 3 cuts x 6; three stages: 3 pairs of cuts x 6
    assert len(list(all_pipelines(four()))) == 3 + 3 * 6 + 3 * 6


def test_cuts() -> None:
    assert allowed_cuts(four()) == [1, 2, 3]
    assert allowed_cuts(four(cuts="dominators")) == [1]


def test_the_best_is_not_to_split() -> None:
    value, plan = best_pipeline(four(compression=0.1))  # the smallest transfer takes 15 s
    assert (value, [stage.device for stage in plan.stages]) == (4.0, ["a"])


def test_the_best_split() -> None:
    # b to a at 4 bytes/s: q and p (10 bytes) take 2.5 s; b computes 2 operators in 4 s, a the rest in 2 s; with one
    # operator on b (2 s, p takes 1.5 s) a takes 3 s
    value, plan = best_pipeline(four())
    assert value == 3.0
    assert [(stage.device, stage.operators) for stage in plan.stages] == [("b", ("P",)), ("a", ("Q", "R", "S"))]


def test_nothing_fits() -> None:
    assert best_pipeline(four(constraints=[ow.MemoryCap(device=name, bytes=9) for name in "abc"])) == (None, None)
