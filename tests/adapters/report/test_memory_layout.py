"""What reports and notebooks show of layouts."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.report.views import show
from tests.tiny import PROBLEMS

LIFETIMES = [
    ow.Lifetime(id=name, begin=begin, end=end, bytes=size)
    for name, begin, end, size in (("a", 0, 3, 8), ("b", 1, 3, 4), ("c", 2, 4, 2))
]


def test_one_arena() -> None:
    problem = ow.MemoryLayout(lifetimes=LIFETIMES)
    view = show(problem, ow.solve(problem))
    assert view.explain().startswith("The layout needs 14 B, as much as its live peak.")
    assert ("live peak", "14 B") in view.rows()
    assert view.headline() == "14 B, as good as the baseline first_fit"
    assert view.sections() == []
    wasteful = ow.solve(problem, solver="first_fit")
    assert "The baseline first_fit needs" in show(problem, wasteful).explain()


def test_pools_and_traffic() -> None:
    problem = PROBLEMS["memory_layout"]
    view = show(problem, ow.solve(problem))
    assert view.explain().startswith("The traffic takes 400 ms.")
    assert [row[0] for row in view.sections()[0].rows] == ["d", "e"]
    assert view.headline().startswith("graph: 400 ms")
    steps = view.plan()["storages"]
    assert (len(steps), steps[0]["storage"], steps[0]["device"]) == (3, "a", "d")


@pytest.mark.parametrize("problem", [ow.MemoryLayout(lifetimes=LIFETIMES), PROBLEMS["memory_layout"]])
def test_the_picture_shows_every_storage(problem: ow.MemoryLayout) -> None:
    pytest.importorskip("matplotlib")
    figure = ow.solve(problem).plot()
    drawn = sum(len(collection.get_paths()) for axes in figure.axes for collection in axes.collections)
    assert drawn == 3
    assert all(any("live peak" in text.get_text() for text in axes.texts) for axes in figure.axes)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("reserved" if len(figure.axes) > 1 else "arena: 14 B") in words
