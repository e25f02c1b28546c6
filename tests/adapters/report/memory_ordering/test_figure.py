"""What the picture shows can be read from its parts."""

from __future__ import annotations

import numpy as np

from opweave.adapters.report.views import show
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Result


def _texts(problem: MemoryOrdering, result: Result[Ordering]) -> list[str]:
    figure = show(problem, result).figure()
    axes = figure.axes[0]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    return [axes.get_title(loc="left"), *(text.get_text() for text in axes.texts), *legend]


def test_both_orders_the_bound_and_the_peaks_are_named(problem: MemoryOrdering, result: Result[Ordering]) -> None:
    texts = " | ".join(_texts(problem, result))
    assert "two branches: 14 B, 39.1 % below the given order" in texts
    assert "given: 23 B at grow b (Conv)" in texts
    assert "best: 14 B at grow b (Conv)" in texts
    assert "lower bound: no order needs less than 14 B" in texts


def test_the_curves_are_the_profiles(problem: MemoryOrdering, result: Result[Ordering]) -> None:
    curves = [patch.get_data().values for patch in show(problem, result).figure().axes[0].patches]
    assert any(np.array_equal(values, [11, 12, 14, 14, 4]) for values in curves)
