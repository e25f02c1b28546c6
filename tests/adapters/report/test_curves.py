"""Objective and bound of several solvers over time."""

from __future__ import annotations

from itertools import pairwise

import pytest

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.problems.result import Timings


def ended(kind: str, *points: tuple[float, float | None, float | None], total: float = 0.0) -> ow.Result:
    """A result with these incumbents (seconds, objective, bound); a solver that found no plan in the end."""
    return ow.Result(
        problem=kind,
        status="unknown",
        termination="time_limit",
        objective=points[-1][1] if points else None,
        bound=points[-1][2] if points else None,
        solver="made up",
        timings=Timings(solve=total),
        incumbents=[ow.results.Incumbent(seconds=time, objective=plan, bound=bound) for time, plan, bound in points],
    )


def lines_of(figure) -> dict[str, object]:
    """The lines that are not empty: of every solver, its bound and its plans."""
    found, drawn = {}, iter(figure.axes[0].lines)
    for text in figure.legends[0].get_texts()[: len(figure.axes[0].lines) // 2]:
        name = text.get_text().partition(":")[0]
        pair = {f"{name} bound": next(drawn), f"{name} plan": next(drawn)}
        found |= {what: line for what, line in pair.items() if len(line.get_xdata())}
    return found


@pytest.fixture(scope="module")
def batched() -> ow.BatchedMapping:
    return stacked(Stack(modules=1, nodes=4), 8)


def test_plans_and_bounds_are_drawn_as_steps(batched: ow.BatchedMapping) -> None:
    runs = {
        "auto": ended(batched.kind, (0.1, 0.5, None), (0.2, 0.4, 0.2), (0.5, 0.4, 0.32)),
        "list": ended(batched.kind, (0.01, 0.5, None)),
    }
    figure = ow.progress_figure(batched, runs)
    lines = lines_of(figure)
    assert set(lines) == {"auto plan", "auto bound", "list plan"}
    assert list(lines["auto plan"].get_ydata()) == [500.0, 400.0, 400.0]
    assert list(lines["auto bound"].get_ydata()) == [200.0, 320.0, 320.0]
    assert lines["auto bound"].is_dashed()
    assert not lines["auto plan"].is_dashed()
    assert lines["auto bound"].get_color() == lines["auto plan"].get_color() != lines["list plan"].get_color()
    assert figure.axes[0].get_ylabel() == "objective (ms)"
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[:2] == ["auto: 400 ms, at least 320 ms", "list: 500 ms"]


def test_many_solvers_can_be_told_apart(batched: ow.BatchedMapping) -> None:
    names = [f"s{k}" for k in range(14)]
    lines = lines_of(ow.progress_figure(batched, {name: ended(batched.kind, (0.1, 0.4, 0.3)) for name in names}))
    for what in ("plan", "bound"):
        drawn = [lines[f"{name} {what}"] for name in names]
        assert len({(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in drawn}) == 14
    thick = [lines[f"{name} plan"].get_linewidth() for name in names]
    assert all(one != other for one, other in pairwise(thick))
    behind = sorted(names, key=lambda name: lines[f"{name} plan"].get_zorder())
    assert [lines[f"{name} plan"].get_linewidth() for name in behind] == sorted(thick, reverse=True)


def test_what_cannot_be_drawn_is_a_sentence(batched: ow.BatchedMapping) -> None:
    one = ended(batched.kind, (0.1, 0.4, 0.3))
    for runs, seconds, words in (
        ({}, None, "no result to draw"),
        ({"a": ended(batched.kind)}, None, "no plan and no bound to draw in the results of 'a'"),
        ({"a": ended("placement", (0.1, 0.4, 0.3))}, None, "'a' is one of 'placement', not of 'batched_mapping'"),
        ({"a": one}, 0.0, "seconds is 0.0"),
        ({"a": one}, float("nan"), "seconds is nan"),
    ):
        with pytest.raises(ow.InvalidInputError, match=words):
            ow.progress_figure(batched, runs, seconds=seconds)
